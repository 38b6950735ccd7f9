"""Where an activation does not exceed a level: the intervals between the points at which its monotone pieces cross it.

Enters: an ``ActivationFunction``. Leaves: ``Pieces``, its turning points within a reach, and for any ``u`` the other
points at which ``φ`` takes the value ``φ(u)``. The set ``{v : φ(v) ≤ φ(u)}`` then has the probability
``[right tail inside] + Σ_i σ_i Φ(v_i)`` over all crossings ``v_i``; ``σ_i`` is +1 where ``φ`` rises, −1 where it falls.
On a flat stretch ties are broken by ``u``: the stretch counts as rising.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import CouldNotError
from firstlight.theory.kernels.kernel import Array
from firstlight.theory.kernels.panels import Panels, on_panels

__all__ = ["Crossings", "Pieces", "pieces_of"]

_MOST_PIECES = 8
_NEGLIGIBLE = 1e-14


class Crossings(NamedTuple):
    """The crossings of the level ``φ(u)`` on one monotone piece: their places, their sign σ, and where there is one."""

    place: Array
    sign: float
    exists: NDArray[np.bool_]


@dataclass(frozen=True)
class Pieces:
    """Monotone pieces of ``function`` between ascending ``ends``, each with its direction.

    Attributes:
        function: The activation.
        ends: Turning points and the ends of flat stretches, with ∓reach outside.
        directions: +1 rising (or flat), −1 falling, one per piece.
        tables: Per piece, places and values of ``φ`` in ascending order of the values.
    """

    function: ActivationFunction
    ends: Array
    directions: tuple[float, ...]
    tables: tuple[tuple[Array, Array], ...]

    @property
    def is_monotone(self) -> bool:
        """Whether ``φ`` only rises within the reach."""
        return all(direction > 0 for direction in self.directions)

    @property
    def turning_points(self) -> Array:
        """The ends of pieces inside the reach."""
        return self.ends[1:-1]

    @property
    def levels(self) -> Array:
        """Points at whose level a crossing appears or vanishes: turning points, and an end where ``φ`` has settled."""
        value, size = self.function.value, np.abs(self.function.value(self.ends)).max()
        settled = np.abs(value(self.ends) - value(0.9 * self.ends)) < 1e-3 * size
        settled[1:-1] = True
        return np.asarray(self.ends[settled])

    def crossings(self, u: Array) -> tuple[list[Crossings], NDArray[np.bool_]]:
        """Return where the levels ``φ(u)`` are crossed except at ``u``, and whether the right tail lies below."""
        level = self.function.value(u)
        home = np.clip(np.searchsorted(self.ends, u, side="right") - 1, 0, len(self.directions) - 1)
        found = []
        for piece, (direction, (places, values)) in enumerate(zip(self.directions, self.tables, strict=True)):
            exists = (home != piece) & (level > values[0]) & (level < values[-1])
            place = np.zeros_like(u)
            if exists.any():
                place[exists] = self._invert(piece, level[exists], places, values)
                found.append(Crossings(place, direction, exists))
        last = float(self.function.value(self.ends[-1:])[0])
        return found, (last < level) & (home != len(self.directions) - 1) | (
            (home == len(self.directions) - 1) & (self.directions[-1] < 0)
        )

    def sign_at(self, u: Array) -> Array:
        """Return +1 where ``φ`` rises and −1 where it falls."""
        home = np.clip(np.searchsorted(self.ends, u, side="right") - 1, 0, len(self.directions) - 1)
        return np.asarray(self.directions)[home]

    def _invert(self, piece: int, level: Array, places: Array, values: Array) -> Array:
        """Solve ``φ(v) = level`` on one piece: bracket from the table, then Newton steps kept inside the bracket."""
        cell = np.clip(np.searchsorted(values, level) - 1, 0, len(values) - 2)
        low, high = places[cell], places[cell + 1]
        step = values[cell + 1] - values[cell]
        v = low + (high - low) * np.where(
            step > 0, (level - values[cell]) / np.where(step > 0, step, 1.0), 0.5
        )
        smallest, largest = np.minimum(low, high), np.maximum(low, high)
        for _ in range(4):
            slope = self.function.derivative(v)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                newer = v - (self.function.value(v) - level) / slope
            v = np.where(np.isfinite(newer), np.clip(newer, smallest, largest), v)
        return v


def pieces_of(function: ActivationFunction, panels: Panels, reach: float) -> Pieces:
    """Find the monotone pieces of an activation on ``[−reach, reach]``.

    Raises:
        CouldNotError: There are more than eight.
    """
    marks = np.array([-reach, *panels.breakpoints(reach), reach])
    grid = np.unique(np.concatenate([marks, on_panels(marks, 8)[0]]))
    middle = 0.5 * (grid[1:] + grid[:-1])
    directions = _directions(function, grid, middle)
    changes = np.flatnonzero(np.diff(directions))
    if len(changes) >= _MOST_PIECES:
        raise CouldNotError(
            f"max-pooling of {function.name!r}: expected at most {_MOST_PIECES} monotone pieces in |u| ≤ {reach:.3g}, "
            f"got {len(changes) + 1}; smaller weight variances, or a norm before the activation, give fewer"
        )
    turning = [_turn(function, middle[i], middle[i + 1], grid[i + 1]) for i in changes]
    ends = np.array([-reach, *turning, reach])
    ways = [float(directions[i]) for i in [*changes, -1]]
    tables = []
    for low, high, way in zip(ends[:-1], ends[1:], ways, strict=True):
        places = _graded(low, high, grid)
        values = function.value(places)
        order = slice(None) if way > 0 else slice(None, None, -1)
        tables.append((places[order], np.maximum.accumulate(values[order])))
    return Pieces(function, ends, tuple(ways), tuple(tables))


def _directions(function: ActivationFunction, grid: Array, middle: Array) -> Array:
    """The sign of φ' between grid points; where φ does not move beyond rounding, that of the left neighbour (or +1)."""
    values = function.value(grid)
    moved = np.abs(np.diff(values)) > _NEGLIGIBLE * np.abs(values).max()
    sign = np.sign(np.diff(values))
    flat = function.derivative(middle) == 0
    sign[~moved] = np.sign(function.derivative(middle))[~moved]
    sign[flat & ~moved] = 1.0
    return np.asarray(sign)


def _turn(function: ActivationFunction, low: float, high: float, mark: float) -> float:
    """The point between ``low`` and ``high`` at which φ' changes sign: a root, or a kink."""
    sign = math.copysign(1.0, float(function.derivative(np.array(low))))
    for kink in function.kinks or ():
        if low < kink < high:
            return kink
    while high - low > 1e-15 * max(abs(low), abs(high), 1e-3):
        at = 0.5 * (low + high)
        slope = float(function.derivative(np.array(at)))
        low, high = (at, high) if slope * sign > 0 else (low, at)
        if at in (low, high) and slope == 0:
            return mark
    return 0.5 * (low + high)


def _graded(low: float, high: float, grid: Array) -> Array:
    """Places of one piece, ever denser towards both ends, where a turning point makes the inverse steep."""
    width = high - low
    fraction = np.ldexp(1.0, -np.arange(1, 40))
    fraction = np.unique(np.concatenate([fraction * (1 + k / 4) for k in range(4)]))
    inside = grid[(grid > low) & (grid < high)]
    even = np.linspace(low, high, 129)
    return np.unique(
        np.concatenate([[low, high], low + width * fraction, high - width * fraction, inside, even])
    )
