"""Averages over one Gaussian number, for n variances at the price of a few.

Enters: a function of a variance that is costly (a quadrature) and smooth in log q. Leaves: its values at all n
variances of a data set, by Chebyshev interpolation in log q whose order is doubled until the two finest agree at every
point, relative to its own values: Gaussian averages of anything are analytic in log q, but what a kink at k adds
goes like e^{−k²/2q}, and over decades of q only a high order follows that. Where an order would cost more than the
points themselves, these are asked one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["along_variances"]

Array = NDArray[np.float64]

_ORDERS = (6, 11, 21, 41, 81, 161, 321)
_AGREEMENT = 1e-12
_ROUNDING = 1e-15
"""Of the greatest value anywhere: what a value near 0 cannot be better than."""


def along_variances(function: Callable[[float], Array], q: Array) -> Array:
    """Values ``(n, …)`` of an array-valued function at the variances ``q`` (n,), all above 0.

    >>> q = np.geomspace(0.5, 5.0, 100)
    >>> bool(np.abs(along_variances(lambda v: np.array([v**0.5]), q)[:, 0] - q**0.5).max() < 1e-11)
    True
    """
    if not q.size:
        return np.empty((0, *np.shape(function(1.0))))
    log_q = np.log(q)
    low, high = float(log_q.min()), float(log_q.max())
    if high - low < 1e-13:
        value = np.asarray(function(float(np.exp(0.5 * (low + high)))))
        return np.broadcast_to(value, (len(q), *value.shape)).copy()
    distinct, where = np.unique(q, return_inverse=True)
    former: Array | None = None
    position = (2 * log_q - low - high) / (high - low)
    for order in _ORDERS:
        if len(distinct) <= order:
            return np.stack([np.asarray(function(float(value))) for value in distinct])[where]
        nodes = np.cos(np.pi * np.arange(order) / (order - 1))
        at_nodes = np.stack(
            [np.asarray(function(float(np.exp(0.5 * (low + high) + 0.5 * (high - low) * x)))) for x in nodes]
        )
        values = np.tensordot(_lagrange(nodes, position), at_nodes, axes=1)
        if former is not None:
            size = np.abs(values).max(axis=tuple(range(1, values.ndim)), keepdims=True)
            wanted = _AGREEMENT * size + _ROUNDING * max(float(size.max()), 1e-285)
            if np.all(np.abs(values - former) <= wanted):
                break
        former = values
    return np.asarray(values)


def _lagrange(nodes: Array, x: Array) -> Array:
    """Barycentric interpolation matrix from Chebyshev points to ``x``."""
    weights = (-1.0) ** np.arange(len(nodes))
    weights[[0, -1]] *= 0.5
    difference = x[:, None] - nodes
    exact = difference == 0
    difference[exact] = 1.0
    matrix = weights / difference
    hit = exact.any(axis=1)
    matrix[hit] = exact[hit]
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))
