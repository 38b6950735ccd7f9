"""Chebyshev polynomials on an interval: nodes, coefficients, and their sums in one and two variables.

Enters: values at the nodes, or coefficients and points. Leaves: coefficients, or values at the points.
"""

from __future__ import annotations

import math

import numpy as np

from firstlight.theory.kernels.kernel import Array

__all__ = ["NODES", "TO_COEFFICIENTS", "basis", "nodes", "scaled", "surface", "surface_at", "trimmed"]

NODES = 16

_UNIT_NODES: Array = np.cos((2 * np.arange(NODES)[::-1] + 1) * math.pi / (2 * NODES))
_DEGREES = np.arange(NODES)
_BLOCK = 4096

TO_COEFFICIENTS: Array = np.asarray(
    np.linalg.inv(np.polynomial.chebyshev.chebvander(_UNIT_NODES, NODES - 1)), dtype=np.float64
)
"""Matrix (degree, node) from the values at the nodes to the coefficients."""


def nodes(low: float, high: float) -> Array:
    """Return the Chebyshev nodes of an interval, ascending, its ends not among them."""
    return np.asarray(low + (high - low) * (1 + _UNIT_NODES) / 2)


def scaled(x: Array, low: float, high: float) -> Array:
    """Map an interval onto [−1, 1]."""
    return np.clip((2 * x - (low + high)) / (high - low), -1.0, 1.0)


def basis(x: Array, count: int = NODES) -> Array:
    """Return the first polynomials at points of [−1, 1]: (degree, point)."""
    rows = np.empty((count, x.size))
    rows[0] = 1.0
    if count > 1:
        rows[1] = x
    for k in range(2, count):
        np.multiply(2 * x, rows[k - 1], out=rows[k])
        rows[k] -= rows[k - 2]
    return rows


def surface(coefficients: Array, x: Array, y: Array) -> Array:
    """Evaluate polynomials (surface, x degree, y degree) at points of the square: (surface, point)."""
    result = np.empty((len(coefficients), x.size))
    for start in range(0, x.size, _BLOCK):  # blocks that stay in the cache
        part = slice(start, start + _BLOCK)
        over_x = basis(x[part], coefficients.shape[1])
        over_y = basis(y[part], coefficients.shape[2])
        for row, layer in zip(result, coefficients, strict=True):
            row[part] = ((layer @ over_y) * over_x).sum(axis=0)
    return result


def surface_at(coefficients: Array, x: float, y: float) -> Array:
    """Evaluate polynomials (surface, x degree, y degree) at one point of the square.

    >>> round(float(surface_at(np.ones((1, 2, 2)), 0.5, 0.2)[0]), 12)  # (1 + x)(1 + y)
    1.8
    """
    over_x = np.cos(_DEGREES[: coefficients.shape[1]] * math.acos(x))
    over_y = np.cos(_DEGREES[: coefficients.shape[2]] * math.acos(y))
    return np.asarray((coefficients @ over_y) @ over_x)


def trimmed(coefficients: Array, negligible: float) -> Array:
    """Drop the highest degrees of both variables that together are below ``negligible``."""
    sizes = np.abs(coefficients).max(axis=0)  # (x degree, y degree)
    counts = [
        1 + int(np.flatnonzero(np.cumsum(sizes.max(axis=axis)[::-1])[::-1] > negligible).max(initial=0))
        for axis in (1, 0)
    ]
    return np.ascontiguousarray(coefficients[:, : counts[0], : counts[1]])
