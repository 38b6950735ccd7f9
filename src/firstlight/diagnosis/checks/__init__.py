"""Evidence → findings, one file a family of faults: pure functions, listed in ``every.py``.

To add one: a file with its ``Subject``s, a function ``judge(evidence) -> list[Finding]`` and a ``CHECK``, a line in
``every.py``, a threshold with its derivation in ``thresholds.toml``, and a network in the zoo that has the fault.
"""
