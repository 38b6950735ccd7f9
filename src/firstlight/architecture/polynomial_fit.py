"""How well a polynomial meets an unknown function on an interval, to within what the function's own rounding allows.

Enters: an elementwise function on float64 arrays. Leaves: for intervals, the error of the Chebyshev interpolant of
degree 16 and the error that rounding explains; for a place, the widest polynomial piece beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

__all__ = ["MARGIN", "Piece", "PolynomialFit"]

Array = NDArray[np.float64]

_DEGREE = 16
MARGIN = 1.2
"""Intervals are sampled 10 % wider on each side than they speak for: a kink at a seam is seen from both sides."""

# fit on the Chebyshev points, test between them
_NODES = chebyshev.chebpts1(_DEGREE + 1)
_BETWEEN = np.cos(np.pi * np.arange(1, _DEGREE + 1) / (_DEGREE + 1))
_FIT = np.linalg.inv(chebyshev.chebvander(_NODES, _DEGREE))
_TEST = chebyshev.chebvander(_BETWEEN, _DEGREE) @ _FIT
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Piece:
    """A polynomial on one interval, read slightly beyond its end."""

    center: float
    half: float
    coefficients: Array
    error: float

    def __call__(self, place: float, order: int = 0) -> float:
        """The derivative of that order."""
        series = chebyshev.chebder(self.coefficients, order) if order else self.coefficients
        return float(chebyshev.chebval((place - self.center) / self.half, series)) / self.half**order

    def noise(self, order: int) -> float:
        """Bound on what the error of the values does to the derivative of that order (0 to 3)."""
        # Markov: the derivative of a polynomial that is ≤ 1 can be as large as degree² at the end of the interval
        growth = (1.0, _DEGREE**2, _DEGREE**4 / 3, _DEGREE**6 / 15)[order]
        return self.error * growth / self.half**order


class PolynomialFit:
    """One function, compared with polynomials on many intervals.

    Args:
        value: The function.
        places: Where to look at its size first.
    """

    def __init__(self, value: Callable[[Array], Array], places: Array) -> None:
        self.value = value
        self._places = np.sort(np.abs(places))
        heights = np.abs(value(np.concatenate([self._places, -self._places]))).reshape(2, -1).max(0)
        self._heights = np.maximum.accumulate(heights)
        self.noise = self._own_noise()

    def scale(self, u: Array) -> Array:
        """Largest |φ| not farther out than u (and 1): errors far below it do not matter to any integral."""
        height = np.interp(np.maximum(np.abs(u), 1.0), self._places, self._heights)
        return np.asarray(np.maximum(height, 1e-300))

    def errors(self, center: Array, half: Array) -> tuple[Array, Array, Array]:
        """Error of the interpolant, the error that rounding explains, and the scale; one for each interval."""
        fit, test = self._samples(center, half)
        error = np.abs(fit @ _TEST.T - test).max(1)
        span = np.ptp(np.concatenate([fit, test], 1), axis=1)
        scale = np.maximum(self.scale(center), np.abs(fit).max(1))
        conditioning = 16 * _EPSILON * np.abs(center) * span / half  # the samples' places are rounded too
        return error, (256 * _EPSILON + 64 * self.noise) * scale + conditioning, scale

    def beside(self, edge: float, reach: float) -> Piece:
        """The widest piece that fits and ends at ``edge``, to its left where ``reach`` is negative."""
        for _ in range(40):
            center, half = edge + reach / 2, abs(reach) / 2
            # the samples must not cross the edge, so the margin is taken off
            error, tolerance, scale = self.errors(np.array([center]), np.array([half / MARGIN]))
            if error[0] <= tolerance[0]:
                break
            reach /= 2
        fit, _ = self._samples(np.array([center]), np.array([half / MARGIN]))
        return Piece(center, half, fit[0] @ _FIT.T, max(float(error[0]), _EPSILON * float(scale[0])))

    def _samples(self, center: Array, half: Array) -> tuple[Array, Array]:
        places = center[:, None] + MARGIN * half[:, None] * np.concatenate([_NODES, _BETWEEN])
        values = self.value(places)
        return values[:, : len(_NODES)], values[:, len(_NODES) :]

    def _own_noise(self) -> float:
        """Relative rounding noise of the function itself (about 1e-8 where it computes in single precision)."""
        center = np.linspace(-7.3, 7.9, 33)
        steps = np.linspace(-1.0, 1.0, 12) + 0.03 * np.sin(7.0 * np.arange(12))
        values = self.value(center[:, None] + 1e-4 * steps)
        basis = chebyshev.chebvander(steps, 4)
        remainder = values - values @ np.linalg.pinv(basis).T @ basis.T
        return float(np.median(np.abs(remainder).max(1) / self.scale(center)))
