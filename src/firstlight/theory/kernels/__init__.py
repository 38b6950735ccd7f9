"""Gaussian averages of an activation, free of cancellation.

Enters: an ``ActivationFunction``. Leaves: a ``Kernel`` that maps the variance and the correlation of two Gaussian
pre-activations to the mean, the spread of centres and the spread over data of the activations.
Read ``kernel.py`` first. To add a closed form, write a ``Kernel`` in its own file and list it in
``kernel.closed_form_of``; the tests then compare it with quadrature and with the stored reference values.
"""
