"""Averages over one Gaussian number, for n variances at the price of a few.

Enters: a function of a variance that is costly (a quadrature) and smooth in log q. Leaves: its values at all n
variances of a data set, by Chebyshev interpolation in log q whose order is doubled until the two finest agree;
the variances of one layer lie within a decade or two, where Gaussian averages of anything are analytic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["along_variances"]

Array = NDArray[np.float64]

_ORDERS = (6, 11, 21, 41)
_AGREEMENT = 1e-12


def along_variances(function: Callable[[float], Array], q: Array) -> Array:
    """Values ``(n, …)`` of an array-valued function at the variances ``q`` (n,), all above 0.

    >>> q = np.geomspace(0.5, 5.0, 100)
    >>> bool(np.abs(along_variances(lambda v: np.array([v**0.5]), q)[:, 0] - q**0.5).max() < 1e-11)
    True
    """
    log_q = np.log(q)
    low, high = float(log_q.min()), float(log_q.max())
    if high - low < 1e-13:
        value = np.asarray(function(float(np.exp(0.5 * (low + high)))))
        return np.broadcast_to(value, (len(q), *value.shape)).copy()
    distinct, where = np.unique(q, return_inverse=True)
    if len(distinct) <= _ORDERS[0]:
        return np.stack([np.asarray(function(float(value))) for value in distinct])[where]
    former: Array | None = None
    position = (2 * log_q - low - high) / (high - low)
    for order in _ORDERS:
        nodes = np.cos(np.pi * np.arange(order) / (order - 1))
        at_nodes = np.stack(
            [np.asarray(function(float(np.exp(0.5 * (low + high) + 0.5 * (high - low) * x)))) for x in nodes]
        )
        values = np.tensordot(_lagrange(nodes, position), at_nodes, axes=1)
        if former is not None:
            size = np.abs(values).max()
            if np.abs(values - former).max() <= _AGREEMENT * max(size, 1e-300):
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
