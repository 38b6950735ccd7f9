"""Remedies: change the network, its initialization or its data, and prove that it helped.

Enters: a model (or a factory) and data. Leaves: a new model (or factory), and a Change that
holds the Profile before and after.
Every remedy is one entry of ``registry.REMEDIES`` and one public function, ``(model, …) → (new model, Edits)``.
To add one: write the function in a file of its own, add its entry, and the contract tests pick it up.
Read ``repairing.py`` first, then ``registry.py``.
"""
