"""Profile → judgement. Enters: one Profile or two. Leaves: values that say what agrees, what does not, and by how much.

Read ``diagnosing.py``, ``evidence.py`` and one file of ``checks/``; every number that a verdict hangs on stands in
``thresholds.toml`` with its derivation. ``comparing.py`` sets theory beside measurement. How verdicts are shown is the
business of ``reporting``.
"""
