"""A function of the angle between two data points: a cubic spline on an even grid, cheap enough for every pair.

Enters: a function of the correlation, smooth in θ = arccos c (every Gaussian average E φ(u_a) φ(u_b) is). Leaves:
its values at any angles, and its weighted sum over all pairs from a histogram that is made once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import CouldNotError

__all__ = ["AngleTable", "PairHistogram", "angles_of_grid"]

Array = NDArray[np.float64]

_WANTED = 1e-11
_REQUIRED = 1e-6


@dataclass(frozen=True)
class AngleTable:
    """Cubic spline on θ_k = kπ/N.

    Attributes:
        coefficients: Of 1, t, t², t³ on each interval, t in [0, 1], ``(4, N)``.
    """

    coefficients: Array

    @classmethod
    def through(cls, values: Array) -> AngleTable:
        """The spline through values on the grid.

        >>> table = AngleTable.through(np.cos(angles_of_grid(512)))
        >>> bool(abs(table(np.array([1.0]))[0] - math.cos(1.0)) < 1e-10)
        True
        """
        from scipy.interpolate import CubicSpline

        spline = CubicSpline(np.arange(len(values)), values)
        return cls(np.ascontiguousarray(spline.c[::-1]))

    @classmethod
    def of(cls, function: Callable[[Array], Array], *, size: float | None = None) -> AngleTable:
        """The spline of a function of the correlation, refined until both agree between its nodes.

        Errors count relative to ``size``, by default the greatest value.
        """
        intervals = 256
        values = function(np.cos(angles_of_grid(intervals)))
        while True:
            table = cls.through(values)
            between = np.asarray((np.arange(intervals) + 0.5) * (math.pi / intervals), dtype=np.float64)
            exact = function(np.cos(between))
            error = float(np.abs(table(between) - exact).max() / (size or np.abs(values).max()))
            merged = np.empty(2 * intervals + 1)
            merged[0::2], merged[1::2] = values, exact
            if error <= _WANTED or intervals >= 2048:
                if not error <= _REQUIRED:
                    raise CouldNotError(
                        f"table of a Gaussian average over {intervals} angles: "
                        f"expected an error below {_REQUIRED:.0e}, got {error:.1e}"
                    )
                return cls.through(merged)
            values, intervals = merged, 2 * intervals

    @property
    def intervals(self) -> int:
        """N."""
        return int(self.coefficients.shape[1])

    def __call__(self, theta: Array) -> Array:
        """Values at angles in [0, π]."""
        position = theta * (self.intervals / math.pi)
        where = position.astype(np.intp)
        np.minimum(where, self.intervals - 1, out=where)
        position -= where
        values = self.coefficients[3].take(where)
        for coefficients in self.coefficients[2::-1]:
            values *= position
            values += coefficients.take(where)
        return np.asarray(values)


@dataclass(frozen=True)
class PairHistogram:
    """Σ over pairs of w_ab t^j by interval of the angle: all that the sum of a spline over the pairs needs.

    Attributes:
        moments: ``(4, N)``.
    """

    moments: Array

    @classmethod
    def empty(cls, intervals: int) -> PairHistogram:
        """No pairs yet."""
        return cls(np.zeros((4, intervals)))

    def add(self, theta: Array, weights: Array | None) -> None:
        """Count pairs in; of one thread at a time."""
        intervals = self.moments.shape[1]
        position = theta.ravel() * (intervals / math.pi)
        where = np.minimum(position.astype(np.intp), intervals - 1)
        position -= where
        power = np.ones_like(position) if weights is None else weights.ravel().copy()
        for j in range(4):
            self.moments[j] += np.bincount(where, power, intervals)
            power *= position

    def total(self, table: AngleTable) -> float:
        """Σ w_ab f(θ_ab)."""
        return float(np.sum(self.moments * table.coefficients))


def angles_of_grid(intervals: int) -> Array:
    """θ_k = kπ/N."""
    return np.linspace(0.0, math.pi, intervals + 1)
