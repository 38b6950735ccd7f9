"""The cells of interpolation tables: columns of ``log q``, in them panels of ``c`` or ``θ``, and how they are filled.

Enters: a kernel and a tolerance. Leaves: ``Cells``. A column is halved until the averages over one Gaussian are
resolved; in it, panels are halved until they are resolved: they shrink towards θ = 0, where the scales of φ show. Each
panel is compared with the kernel at points of its own before it is used. A panel stays empty where the logarithms do
not exist (φ is constant for all that the Gaussian sees) or halving does not end; there the kernel itself has to answer.

What is interpolated are logarithms of the slopes, so that errors are relative; where φ is even, ``B/(c² q)`` instead of
``B/(c q)``, and where φ jumps, ``√ρ·V'/(ρ q)``, which stay finite at the ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.chebyshev import NODES, TO_COEFFICIENTS, nodes, scaled, surface, trimmed
from firstlight.theory.kernels.kernel import Array, Number

__all__ = ["Cells", "Column", "Panel"]

_ROOT_WIDTH = 4.0
_NARROWEST = 0.02
_WIDEST_ANGLE = math.pi / 3
_DEEPEST = 40
_SEED = 20190613


@dataclass
class Panel:
    """An interval of ``c`` or ``θ`` inside a column: coefficients (slope, log q, angle), or two halves, or neither."""

    low: float
    high: float
    built: bool = False
    coefficients: Array | None = None
    halves: tuple[Panel, Panel] | None = None


@dataclass
class Column:
    """An interval of ``log q`` with the polynomials of the averages that depend on ``q`` alone."""

    low: float
    high: float
    averages: (
        Array  # (average, degree) of M/√S2, log S2, log E φ'², log E φ⁴ (NaN where that exceeds float64)
    )
    even: bool
    jumps: bool
    near: Panel = field(default_factory=lambda: Panel(0.0, _WIDEST_ANGLE))  # in θ
    far: Panel = field(default_factory=lambda: Panel(0.0, 0.5))  # in c

    @property
    def covered(self) -> bool:
        """Whether the logarithms exist."""
        return bool(np.isfinite(self.averages[:3]).all())

    def slopes(self, logarithms: Array, c: Number, rho: Number) -> tuple[Number, Number]:
        """Return both slopes from what is interpolated."""
        spread, data = np.exp(logarithms)
        if self.jumps:
            with np.errstate(divide="ignore"):
                data = data / np.sqrt(rho)
        return (spread * c if self.even else spread), data


class Cells:
    """Columns and panels of one kernel, built as they are asked for."""

    def __init__(self, source: AutomaticKernel, low: float, tolerance: float) -> None:
        self.source = source
        self._low, self._tolerance = low, tolerance
        self._columns: dict[int, list[Column]] = {}
        self._random = np.random.default_rng(_SEED)

    def root_of(self, x: Array) -> Array:
        """Return the index of the root column that holds ``log q``."""
        return np.floor((x - self._low) / _ROOT_WIDTH)

    def columns(self, index: int) -> list[Column]:
        """Return the columns of one root, built when first asked for."""
        if index not in self._columns:
            low = self._low + index * _ROOT_WIDTH
            self._columns[index] = self._build_columns(low, low + _ROOT_WIDTH)
        return self._columns[index]

    def _build_columns(self, low: float, high: float) -> list[Column]:
        """Return the columns of ``[low, high]``, halved until the averages are resolved."""
        half = np.array([0.5])
        rows = np.empty((6, NODES))
        even = True
        for i, q in enumerate(np.exp(nodes(low, high)).tolist()):
            moments = self.source.moments(q)
            even = even and moments.coefficients(1)[0] == 0
            spread, data = self.source.slopes(q, half, half)
            root = math.sqrt(moments.mean_square)
            values = (moments.mean_square, moments.gain, moments.fourth, float(spread[0]), float(data[0]))
            rows[0, i] = moments.mean / root if root else 0.0
            rows[1:, i] = [math.log(value) if 0 < value < math.inf else math.nan for value in values]
        jumps = any(kink.jump for kink in self.source.panels.kinks(36 * math.exp(high / 2)))
        if jumps:  # then the derivative knows nothing of it: no gain to resolve, an unused row
            rows[2] = np.where(np.isfinite(rows[2]), rows[2], 0.0)
        coefficients = rows @ TO_COEFFICIENTS.T
        known = np.isfinite(coefficients).all(axis=1)
        tail = np.abs(coefficients[known, -3:]).sum(axis=1)
        if (
            (known | (np.arange(6) == 3)).all()
            and (tail > 0.03 * self._tolerance).any()
            and high - low > _NARROWEST
        ):
            middle = (low + high) / 2
            return [*self._build_columns(low, middle), *self._build_columns(middle, high)]
        return [Column(low, high, coefficients[:4], even, jumps)]

    def build(self, column: Column, far: bool, panel: Panel, depth: int) -> None:
        """Fill a panel, or cut it in two when it is not resolved; both ends of the column are tried first."""
        panel.built = True
        at = nodes(panel.low, panel.high)
        q = np.exp(nodes(column.low, column.high)).tolist()
        values = np.empty((2, NODES, NODES))  # (slope, log q, angle)
        for i in (0, NODES - 1, *range(1, NODES - 1)):
            values[:, i] = self._logarithms(column, far, q[i], at, check=False)
            if not np.isfinite(values[:, i]).all():
                return
            if i in (0, NODES - 1) and not self._is_resolved(values[:, i] @ TO_COEFFICIENTS.T):
                break
        else:
            coefficients = TO_COEFFICIENTS @ values @ TO_COEFFICIENTS.T
            over_q = np.abs(coefficients[:, -2:]).sum(axis=1).max()
            if self._is_resolved(coefficients) and over_q <= self._tolerance:
                panel.coefficients = trimmed(coefficients, 0.003 * self._tolerance)
                if self._agrees(column, far, panel):
                    return
                panel.coefficients = None
        if depth < _DEEPEST:
            middle = (panel.low + panel.high) / 2
            panel.halves = (Panel(panel.low, middle), Panel(middle, panel.high))

    def _is_resolved(self, coefficients: Array) -> bool:
        return bool(np.abs(coefficients[..., -2:]).sum(axis=-1).max() <= 0.1 * self._tolerance)

    def _agrees(self, column: Column, far: bool, panel: Panel) -> bool:
        """Compare a new panel with the kernel at two points of its own."""
        assert panel.coefficients is not None
        for _ in range(2):
            x = self._random.uniform(column.low, column.high, 1)
            at = self._random.uniform(panel.low, panel.high, 1)
            direct = self._logarithms(column, far, math.exp(float(x[0])), at, check=True)
            place = scaled(x, column.low, column.high), scaled(at, panel.low, panel.high)
            if not np.abs(surface(panel.coefficients, *place) - direct).max() <= self._tolerance:
                return False
        return True

    def _logarithms(self, column: Column, far: bool, q: float, at: Array, *, check: bool) -> Array:
        """Return the logarithms of both slopes at one ``q``, as they are interpolated."""
        rho = 1 - at if far else 2 * np.sin(at / 2) ** 2
        c = at if far else np.cos(at)
        spread, data = self.source.slopes(q, c, rho, check=check)
        with np.errstate(divide="ignore"):
            return np.stack(
                [
                    np.log(spread) - (np.log(c) if column.even else 0.0),
                    np.log(data) + (0.5 * np.log(rho) if column.jumps else 0.0),
                ]
            )
