"""The unit that wins a max-pooling at one data point: where it sits and what it is worth.

Enters: an activation, K, and the deviation σ of the pre-activations. Leaves: averages over the winner, whose ``x = u/σ`` has the
density ``K F(x)^{K−1} φ(x)``, ``F(x) = P(φ(v) ≤ φ(σx))`` for one other unit ``v``; and the marks, the points at
which the chance to win, or the activation, is not smooth.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import CouldNotError
from firstlight.theory.kernels.kernel import Array
from firstlight.theory.kernels.level_sets import pieces_of
from firstlight.theory.kernels.panels import Panels, on_panels

__all__ = ["Winner", "normal_density"]

_REACH = 12.0
_EVEN = np.linspace(-9.0, 9.0, 31)
_GRADED = np.ldexp(0.5, -np.arange(40))


class Winner:
    """Averages over the largest of K activations at one variance.

    Attributes:
        pieces: Monotone pieces of the activation within twelve deviations.
        marks: Kinks, turning points, and other points of the same level as a turning point or as a tail.
        narrow: Marks in between, where the activation bends within less than a deviation.
    """

    def __init__(self, function: ActivationFunction, panels: Panels, size: int, deviation: float) -> None:
        self.function, self.size, self.deviation = function, size, deviation
        reach = _REACH * deviation
        kinks = panels.kinks(reach)
        for kink in kinks:
            if kink.jump != 0:
                raise CouldNotError(
                    f"max-pooling of {function.name!r}: expected a continuous activation, got a jump of {kink.jump:.6g} at "
                    f"u = {kink.place:.6g}; measure this network instead"
                )
        self.pieces = pieces_of(function, panels, reach)
        levels = np.array([]) if self.pieces.is_monotone else self.pieces.ends
        returns = (
            [other.place[other.exists] for other in self.pieces.crossings(levels)[0]] if levels.size else []
        )
        places = [kink.place for kink in kinks if kink.place != 0 or 0.0 in (function.kinks or ())]
        self.marks = np.unique(np.concatenate([places, self.pieces.turning_points, *returns]))
        ends = np.concatenate([panels.breakpoints(reach)])
        steps = np.diff(ends, prepend=-np.inf), np.diff(ends, append=np.inf)
        self.narrow = ends[(np.minimum(*steps) < 0.8 * deviation)]
        self._x, self._weight = self._rule(ends)
        self._value = function.value(deviation * self._x)

    def moment(self, power: int) -> float:
        """Return ``E y^power``."""
        with np.errstate(over="ignore"):
            return float(self._weight @ self._value**power)

    def centered(self, power: int) -> float:
        """Return ``E (y − shift)^power``, for a function of two slopes."""
        return float(self._weight @ (self._value - self.function.shift) ** power)

    @property
    def scale(self) -> float:
        """Width of the narrowest bend of the activation in units of the deviation, at most 1."""
        return min(1.0, *np.diff(self.narrow / self.deviation)) if len(self.narrow) > 1 else 1.0

    @property
    def gain(self) -> float:
        """``E φ'(u*)²``."""
        return float(self._weight @ self.function.derivative(self.deviation * self._x) ** 2)

    def _rule(self, ends: Array) -> tuple[Array, Array]:
        marks = self.marks / self.deviation
        graded = (
            []
            if self.pieces.is_monotone
            else [np.add.outer(marks, sign * _GRADED).ravel() for sign in (-1, 1)]
        )
        edges = np.unique(np.clip(np.concatenate([_EVEN, marks, ends / self.deviation, *graded]), -9.0, 9.0))
        x, weight = on_panels(edges, 16)
        return x, weight * self.size * self._chance(x) ** (self.size - 1) * normal_density(x)

    def _chance(self, x: Array) -> Array:
        """``F(x)``, the chance that another unit does not exceed this one."""
        if self.pieces.is_monotone:
            return np.asarray(special.ndtr(x))
        u = self.deviation * x
        others, right = self.pieces.crossings(u)
        chance = self.pieces.sign_at(u) * special.ndtr(x) + right
        for other in others:
            chance += np.where(other.exists, other.sign * special.ndtr(other.place / self.deviation), 0.0)
        return np.asarray(np.clip(chance, 0.0, 1.0))


def normal_density(x: Array) -> Array:
    """Return exp(−x²/2)/√(2π)."""
    return np.asarray(np.exp(-0.5 * x * x) * (1.0 / math.sqrt(2.0 * math.pi)))
