"""Thin adapters: the tracker inside other people's trainers, and a metric that reduces over processes.

Enters: what those libraries call. Leaves: records in a ``Tracker``. Each file imports its library; none is imported
by the rest of the package, so that each library stays optional. To add one, write one file with one class.
"""
