"""The intervals between which an activation is smooth enough for Gauss–Legendre, found by halving.

Enters: an ``ActivationFunction``. Leaves: ``Panels``, the ascending breakpoints of ``φ`` over any interval ``(−u, u)``,
such that a polynomial through sixteen Gauss–Legendre nodes of a panel reproduces ``φ`` and ``φ'`` on both halves of it;
and the kinks: the known ones, and any other at which halving did not end (a jump of ``φ`` or ``φ'`` never ends it).

Away from zero the panels grow geometrically, as long as they stay resolved: a function that is straight from 20 to
10¹⁴⁰ costs a dozen panels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import CouldNotError
from firstlight.theory.kernels.kernel import Array

__all__ = ["Kink", "Panels", "legendre", "on_panels"]

_NODES = 16
_VALUE_TOLERANCE = 1e-9
_DERIVATIVE_TOLERANCE = 1e-8
_NARROWEST = 1e-13
_MOST_PANELS = 20_000
_FIRST_PANEL = 0.9731  # no round number: a kink at 1, 2, 4 shall lie inside a panel, where halving finds it


class Kink(NamedTuple):
    """A point where ``φ`` or ``φ'`` may jump, how exactly it is known, and by how much ``φ`` jumps."""

    place: float
    uncertainty: float
    jump: float


class Panels:
    """Breakpoints of one activation, extended outwards on demand."""

    def __init__(self, function: ActivationFunction) -> None:
        self._function = function
        known = sorted(float(kink) for kink in function.kinks or ())
        self._places: set[float] = {
            0.0,
            *known,
        }  # zero ends two panels, so halving could not find a kink there
        self._sides: dict[int, list[float]] = {-1: [0.0], 1: [0.0]}  # breakpoints by distance from zero
        self._kinks: list[Kink] | None = None
        self._start = min([_FIRST_PANEL, *(abs(kink) for kink in known if kink != 0)])
        self._size = self._slope_size = self._largest = self._steepest = 0.0

    def breakpoints(self, reach: float) -> Array:
        """Return the breakpoints inside ``(−reach, reach)``, ascending."""
        for sign in (-1, 1):
            self._extend(sign, reach)
        left, right = (np.asarray(self._sides[sign]) for sign in (-1, 1))
        points: Array = np.concatenate([-left[:0:-1], right])
        return np.asarray(points[np.abs(points) < reach])

    def kinks(self, reach: float) -> list[Kink]:
        """Return the kinks inside ``(−reach, reach)``, known or found."""
        for sign in (-1, 1):
            self._extend(sign, reach)
        if self._kinks is None:
            self._kinks = [self._kink(place) for place in sorted(self._places)]
        return [kink for kink in self._kinks if abs(kink.place) < reach]

    def _extend(self, sign: int, reach: float) -> None:
        points = self._sides[sign]
        ratio = 2.0
        while points[-1] < reach:
            low = points[-1]
            high = self._start if low == 0 else low * ratio
            inside = [sign * place for place in self._places if low < sign * place < high]
            if inside:
                high = min(inside)
            found = len(self._places)
            added = self._resolve(sign, low, high)
            if len(self._places) > found:
                continue  # once more, now with panels that end at the kinks
            self._size, self._slope_size = self._largest, self._steepest
            points.extend(added)
            grown = len(added) == 1 and not inside
            ratio = min(ratio * ratio, 16.0 if high < 1e6 else 1e30) if grown else 2.0
            if len(points) > _MOST_PANELS:
                raise CouldNotError(
                    f"kernel of {self._function.name!r}: expected a function that is smooth between few kinks, got one "
                    f"that {_MOST_PANELS} panels up to |u| = {high:.3g} do not resolve; smooth it, or ask for smaller "
                    f"variances"
                )

    def _resolve(self, sign: int, low: float, high: float) -> list[float]:
        """Return the upper ends of the panels of ``[low, high]``, halved until each is resolved."""
        accepted: list[tuple[float, float]] = []
        waiting = np.array([[low, high]])
        while waiting.size:
            if len(waiting) > _MOST_PANELS:
                break
            bad = ~self._is_resolved(sign, waiting)
            accepted.extend((float(a), float(b)) for a, b in waiting[~bad])
            waiting = waiting[bad]
            narrow = waiting[:, 1] - waiting[:, 0] <= _NARROWEST * np.maximum(
                waiting[:, 1], 1e-3 * self._start
            )
            for a, b in waiting[narrow]:
                self._found(sign, float(a), float(b))
                accepted.append((float(a), float(b)))
            waiting = waiting[~narrow]
            middle = waiting.mean(axis=1)
            waiting = np.concatenate(
                [np.stack([waiting[:, 0], middle], axis=1), np.stack([middle, waiting[:, 1]], axis=1)]
            )
        return sorted(b for _, b in accepted) if not waiting.size else [high] * (_MOST_PANELS + 1)

    def _is_resolved(self, sign: int, panels: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        nodes, places, predict = _TEST
        start, width = panels[:, :1], panels[:, 1:] - panels[:, :1]
        parent = sign * (start + width * nodes)  # (panel, node)
        child = sign * (start + width * places)
        with np.errstate(all="ignore"):
            value, value_child = self._function.value(parent), self._function.value(child)
            slope, slope_child = self._function.derivative(parent), self._function.derivative(child)
            if not (np.isfinite(value_child).all() and np.isfinite(slope_child).all()):
                raise CouldNotError(
                    f"kernel of {self._function.name!r}: expected finite values and derivatives, got others between "
                    f"{child.min():.6g} and {child.max():.6g}; theory needs a function that is finite on the whole line"
                )
            size = np.abs(value_child).max(axis=1)
            error = np.abs(value @ predict - value_child).max(axis=1)
            slope_size = np.abs(slope_child).max(axis=1)
            slope_error = np.abs(slope @ predict - slope_child).max(axis=1)
            # what rounding leaves of a difference, and what is nothing beside the heavier panels nearer to zero
            floor = 1e-14 * panels[:, 1] * slope_size + 1e-16 * self._size + 1e-290
            slope_floor = 1e-13 * size / panels[:, 1] + 1e-14 * self._slope_size + 1e-290
        fine = (error <= _VALUE_TOLERANCE * size + floor) & (
            slope_error <= _DERIVATIVE_TOLERANCE * slope_size + slope_floor
        )
        if fine.any():
            self._largest = max(self._largest, float(size[fine].max()))
            self._steepest = max(self._steepest, float(slope_size[fine].max()))
        return np.asarray(fine)

    def _found(self, sign: int, low: float, high: float) -> None:
        """Enter a kink between two points that halving brought together, unless it is one that is known."""
        if not any(abs(sign * place - low) <= 1e-9 * max(high, 1e-3 * self._start) for place in self._places):
            self._places.add(sign * (low + high) / 2)
            self._kinks = None

    def _kink(self, place: float) -> Kink:
        """Measure ``φ(κ+) − φ(κ−)``; it is exactly 0 when it is no more than the slopes explain."""
        known = place == 0 or place in (self._function.kinks or ())
        uncertainty = 4 * math.ulp(place) if known else 1e-11 * max(abs(place), 1e-3 * self._start)
        at = np.array([place - uncertainty, place + uncertainty])
        low, high = self._function.value(at)
        rise = float(np.abs(self._function.derivative(at)).sum()) * 2 * uncertainty
        jump = float(high - low)
        noise = 1e-13 * max(abs(low), abs(high))
        return Kink(place, uncertainty, jump if abs(jump) > 4 * rise + noise else 0.0)


def legendre(order: int) -> tuple[Array, Array]:
    """Return the Gauss–Legendre nodes and weights on [0, 1]."""
    if order not in _LEGENDRE:
        nodes, weights = np.polynomial.legendre.leggauss(order)
        _LEGENDRE[order] = ((nodes + 1) / 2, weights / 2)
    return _LEGENDRE[order]


def on_panels(edges: Array, order: int) -> tuple[Array, Array]:
    """Return nodes and weights of the composite rule on ascending edges (last axis); empty panels weigh nothing.

    >>> nodes, weights = on_panels(np.array([0.0, 1.0, 3.0]), 4)
    >>> bool(np.isclose(weights @ nodes**7, 3**8 / 8))
    True
    """
    at, weight = legendre(order)
    width = np.diff(edges, axis=-1)[..., None]
    nodes = edges[..., :-1, None] + width * at  # (…, panel, node)
    weights = width * weight
    shape = (*edges.shape[:-1], -1)
    return nodes.reshape(shape), weights.reshape(shape)


_LEGENDRE: dict[int, tuple[Array, Array]] = {}


def _resolution_test() -> tuple[Array, Array, Array]:
    """Return the nodes of a panel, the places of the test, and the matrix that interpolates from those to these.

    The places are the nodes of both halves; ever closer to both ends, since what is narrow sits mostly at zero or at a
    kink; and a sequence that fills the panel evenly but in step with nothing.
    """
    nodes, _ = legendre(_NODES)
    near = 10.0 ** np.arange(-9, -1.5, 0.5)
    even = np.mod(np.arange(1, 49) * (math.sqrt(5) - 1) / 2, 1.0)
    halves = np.concatenate([nodes / 2, nodes / 2 + 0.5, near, 1 - near, even])
    basis = np.polynomial.legendre.legvander(2 * nodes - 1, _NODES - 1)
    target = np.polynomial.legendre.legvander(2 * halves - 1, _NODES - 1)
    predict: Array = np.asarray(np.linalg.solve(basis.T, target.T), dtype=np.float64)
    return nodes, np.asarray(halves, dtype=np.float64), predict


_TEST = _resolution_test()
