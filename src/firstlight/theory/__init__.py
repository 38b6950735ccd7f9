"""Blueprint → Profile: what infinitely wide networks do, without drawing one.

Enters: a ``Blueprint``. Leaves: a ``Profile`` with the names that measurement uses.
Read ``population.py`` (the state), ``rules/`` (one layer each), ``propagation.py`` (the fold) and
``predicting.py`` (the verb). ``kernels/`` holds the Gaussian averages that the rules need; an activation
joins there, a layer in ``rules/``.
"""
