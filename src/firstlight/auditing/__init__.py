"""Model and data → Diagnosis: measure, predict, compare and diagnose in one go.

Enters: any model and data that ``measure`` takes. Leaves: a ``Diagnosis``; or an ``AssertionError`` that tells what a
test suite should see. Read ``auditing.py``, then ``asserting.py``.
"""
