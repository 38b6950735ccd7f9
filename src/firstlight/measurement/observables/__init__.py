"""Streaming statistics of one layer: pure states with ``init → update(batch) → merge → finalize``.

Enters: blocks of values. Leaves: float64 numbers, the same whatever the batching, to rounding. Nothing here
knows of modules.
"""
