"""nn.Module + batches → Profile: what an ensemble of initializations does to signal, noise and gradients.

Enters: any module, factory or ``Blueprint``, and any data. Leaves: a ``Profile`` with the names that theory
uses. Read ``measuring.py`` (the verb), ``taps.py`` (the only hooks) and ``observables/`` (one streaming
statistic each). A new statistic is one file in ``observables/`` and one line in ``asking.py``.
"""
