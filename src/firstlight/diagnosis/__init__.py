"""Profile → judgement. Enters: one Profile or two. Leaves: values that say what agrees, what does not, and by how much.

Read ``comparing.py``. Wording for people lives in ``reporting``; this room only computes.
"""
