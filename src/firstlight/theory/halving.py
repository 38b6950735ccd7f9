"""Adaptive integration of piecewise smooth functions: panels are halved until they agree with their halves.

Enters: an elementwise integrand and the edges of the first panels (kinks among them). Leaves: its integral.
Every panel gets a 16-point Gauss–Legendre rule, and all unsettled panels are evaluated in one call. A kink that
nobody listed costs time (about forty halvings of one panel), not accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import CouldNotError

__all__ = ["integrate_by_halving"]

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MOST_PANELS = 100_000


def integrate_by_halving(
    integrand: Callable[[Array], Array], edges: Array, *, tolerance: float = 1e-13, where: str = "integral"
) -> float:
    """Integrate from the first edge to the last.

    Args:
        integrand: Called with arrays of shape (panel, node); returns the same shape.
        edges: Ascending; put every known kink among them.
        tolerance: A panel is settled when it differs from its halves by less than this share of ∫|integrand|.
        where: Named in the error when the integral does not settle.

    >>> integral = integrate_by_halving(lambda x: np.abs(x - 1 / 3), np.array([0.0, 1.0]))
    >>> print(f"{integral:.12f}")  # 5/18
    0.277777777778
    """
    left, right = edges[:-1], edges[1:]
    whole, _ = _by_panel(integrand, left, right)
    settled, settled_magnitude = 0.0, 0.0
    while left.size <= _MOST_PANELS:
        middle = 0.5 * (left + right)
        left = np.stack([left, middle], axis=1).ravel()
        right = np.stack([middle, right], axis=1).ravel()
        halves, magnitudes = _by_panel(integrand, left, right)
        magnitude = settled_magnitude + float(magnitudes.sum())
        agree = np.abs(halves.reshape(-1, 2).sum(axis=1) - whole) <= tolerance * magnitude
        agree = np.repeat(agree | (middle == left[::2]), 2)
        settled += math.fsum(halves[agree])
        settled_magnitude += float(magnitudes[agree].sum())
        left, right, whole = left[~agree], right[~agree], halves[~agree]
        if not left.size:
            return settled
    raise CouldNotError(
        f"{where}: did not settle to {tolerance:g} of its size with {_MOST_PANELS} panels; expected a "
        "piecewise smooth function that is finite where it is integrated, average it by sampling instead"
    )


def _by_panel(integrand: Callable[[Array], Array], left: Array, right: Array) -> tuple[Array, Array]:
    half = 0.5 * (right - left)
    values = integrand(0.5 * (left + right)[:, None] + half[:, None] * _NODES)  # (panel, node)
    return half * (values @ _WEIGHTS), half * (np.abs(values) @ _WEIGHTS)
