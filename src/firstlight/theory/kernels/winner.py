"""The unit that wins a max-pooling at one data point: where it sits and what it is worth.

Enters: an activation, K, and the deviation σ of the pre-activations. Leaves: averages over the winner, whose
``x = u/σ`` has the density ``K F(x)^{K−1} φ(x)``, ``F(x) = P(φ(v) ≤ φ(σx))`` for one other unit ``v``; and the marks,
the points at which the chance to win, or the activation, is not smooth.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import CouldNotError
from firstlight.theory.kernels.kernel import Array
from firstlight.theory.kernels.level_sets import pieces_of
from firstlight.theory.kernels.panels import Panels, legendre, on_panels

__all__ = ["Winner", "normal_density"]

_REACH = 12.0  # deviations: the corners of the plane on which two points are integrated
_SEEN = 9.5  # deviations beyond which no unit is seen in float64
_EVEN = np.linspace(-9.0, 9.0, 31)
_RESOLVED = 1e-9
_GRADED = np.ldexp(0.5, -np.arange(40))


class Winner:
    """Averages over the largest of K activations at one variance.

    Attributes:
        pieces: Monotone pieces of the activation within nine and a half deviations.
        marks: Kinks, turning points, and other points of the same level as a turning point or as a tail.
        kinks: Those marks at which the activation itself is not smooth.
        narrow: Further marks, around bends of the activation that a panel of one deviation does not resolve.
        scale: Width of the narrowest such bend, in deviations; 1 where there is none.
        gap: Half the least distance between two kinks, in deviations; infinite for fewer than two.
    """

    def __init__(self, function: ActivationFunction, panels: Panels, size: int, deviation: float) -> None:
        self.function, self.size, self.deviation = function, size, deviation
        reach = _REACH * deviation
        kinks = panels.kinks(reach)
        for kink in kinks:
            if kink.jump != 0:
                raise CouldNotError(
                    f"max-pooling of {function.name!r}: expected a continuous activation, got a jump of "
                    f"{kink.jump:.6g} at u = {kink.place:.6g}; measure this network instead"
                )
        self.pieces = pieces_of(function, panels, _SEEN * deviation)
        levels = np.array([]) if self.pieces.is_monotone else self.pieces.levels
        returns = (
            [other.place[other.exists] for other in self.pieces.crossings(levels)[0]] if levels.size else []
        )
        places = [kink.place for kink in kinks if kink.place != 0 or 0.0 in (function.kinks or ())]
        self.kinks = np.array(places)
        self.marks = np.unique(np.concatenate([places, self.pieces.turning_points, *returns]))
        ends = panels.breakpoints(reach)
        self._x, self._weight = self._rule(ends)
        self._value = function.value(deviation * self._x)
        self.narrow, self.scale, self.gap = self._bends()

    def moment(self, power: int) -> float:
        """Return ``E y^power``."""
        with np.errstate(over="ignore"):
            return float(self._weight @ self._value**power)

    def centered(self, power: int) -> float:
        """Return ``E (y − shift)^power``, for a function of two slopes."""
        return float(self._weight @ (self._value - self.function.shift) ** power)

    @property
    def variance(self) -> float:
        """``Var y``, not as a difference."""
        mean = self.moment(1)
        return float(self._weight @ (self._value - mean) ** 2)

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
        weight = weight * self.size * self._chance(x) ** (self.size - 1) * normal_density(x)
        return (x, weight) if self.pieces.is_monotone else self._with_flat_level(x, weight)

    def _with_flat_level(self, x: Array, weight: Array) -> tuple[Array, Array]:
        """Give a flat stretch, on which ties have no order, the probability that the other winners leave."""
        panels = x.reshape(-1, 16)
        slope = self.function.derivative(self.deviation * panels)
        flat = (slope == 0).all(axis=1) & (np.abs(panels) < 8.0).all(axis=1)
        if not flat.any():
            return x, weight
        level = self.function.value(self.deviation * panels[flat])
        if np.ptp(level) > 1e-13 * max(1.0, float(np.abs(level).max())):
            raise CouldNotError(
                f"max-pooling of {self.function.name!r}: expected a function that turns to be flat on one level at "
                f"most, got several, {level.min():.6g} and {level.max():.6g} among them; measure this network instead"
            )
        weight = np.where(np.repeat((slope == 0).all(axis=1), 16), 0.0, weight)
        return np.append(x, panels[flat][0, 0]), np.append(weight, max(0.0, 1.0 - math.fsum(weight)))

    def _bends(self) -> tuple[Array, float, float]:
        """Marks that resolve φ' and, where φ turns, the chance to win, which is singular at a returning level."""
        marks = self.marks / self.deviation
        marks = marks[np.abs(marks) < 9.0]
        edges = np.unique(np.concatenate([np.arange(-9.0, 10.0), marks]))
        smooth, scale = _halved(edges, self._slope_amplitude, _RESOLVED)
        singular = np.array([])
        if not self.pieces.is_monotone:
            singular = _halved(edges, self._amplitude, 10 * _RESOLVED)[0][::2]
        narrow = np.setdiff1d(np.concatenate([smooth, singular]), edges)
        kinks = marks[np.isin(marks * self.deviation, self.kinks)] if not self.pieces.is_monotone else marks
        return narrow * self.deviation, scale, float(min([np.inf, *(0.5 * np.diff(kinks))]))

    def _slope_amplitude(self, x: Array) -> Array:
        winning = special.ndtr(x) ** (self.size - 1) if self.pieces.is_monotone else 1.0
        return np.asarray(self.function.derivative(self.deviation * x) * np.sqrt(winning * normal_density(x)))

    def _amplitude(self, x: Array) -> Array:
        winning = self._chance(x.ravel()).reshape(x.shape) ** (self.size - 1)
        return np.asarray(self.function.derivative(self.deviation * x) * winning * np.sqrt(normal_density(x)))

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


def _halved(edges: Array, amplitude: Callable[[Array], Array], tolerance: float) -> tuple[Array, float]:
    """Halve panels until twelve nodes resolve the amplitude; return the edges added, ascending, and the least width."""
    waiting = np.stack([edges[:-1], edges[1:]], axis=1)
    found: list[float] = []
    scale, largest = 1.0, 0.0
    for _ in range(40):
        parent, child = (waiting[:, :1] + (waiting[:, 1:] - waiting[:, :1]) * at for at in _TEST[:2])
        value, value_child = amplitude(parent), amplitude(child)
        largest = max(largest, float(np.abs(value_child).max()))
        error = np.abs(value @ _TEST[2] - value_child).max(axis=1)
        waiting = waiting[error * (waiting[:, 1] - waiting[:, 0]) > tolerance * largest]
        if not len(waiting):
            break
        middle = waiting.mean(axis=1)
        found.extend([*waiting.ravel(), *middle])
        scale = float(np.min(waiting[:, 1] - middle))
        waiting = np.concatenate([np.stack([waiting[:, 0], middle], 1), np.stack([middle, waiting[:, 1]], 1)])
    return np.unique(found), scale


def _resolution_test(order: int) -> tuple[Array, Array, Array]:
    """Nodes of a panel, nodes of both its halves, and the matrix that interpolates from the former to the latter."""
    nodes, _ = legendre(order)
    halves = np.concatenate([nodes / 2, nodes / 2 + 0.5])
    basis, target = (np.polynomial.legendre.legvander(2 * at - 1, order - 1) for at in (nodes, halves))
    return nodes, halves, np.linalg.solve(basis.T, target.T)


_TEST = _resolution_test(12)
