"""Interpolation tables of a kernel, for the millions of triples of a phase diagram.

Enters: a kernel without closed form. Leaves: a ``Kernel`` that answers from piecewise Chebyshev polynomials in two variables,
``log q`` and, because both slopes are smooth in them, ``c`` where ``c ≤ ½`` and ``θ`` (``c = cos θ``) where ``c > ½``.
What is interpolated are logarithms of the slopes, so that errors are relative; where φ is even, ``B/(c² q)`` instead of
``B/(c q)``, and where φ jumps, ``sin(θ/2)·V'/(ρ q)``, which stay finite at the ends.

Tables grow as points fall into new cells. A column (an interval of ``log q``) is halved until the one-dimensional averages are
resolved; in it, the interval ``0 < θ < π/3`` is cut at its half until each panel is resolved: cells shrink towards θ = 0, where
the scales of φ show. Each panel is compared with the kernel at points of its own before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import CouldNotError, UsageError
from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.kernel import Array, Kernel, Number, Transfer

__all__ = ["TabulatedKernel", "tabulate"]

_NODES = 16
_ROOT_WIDTH = 4.0
_NARROWEST = 0.02
_WIDEST_ANGLE = math.pi / 3
_DEEPEST = 48
_BLOCK = 4096


def tabulate(
    kernel: Kernel, *, log_q: tuple[float, float] = (-640.0, 640.0), tolerance: float = 1e-8
) -> Kernel:
    """Return a kernel that interpolates; one with a closed form comes back as it is.

    Args:
        kernel: The kernel to tabulate.
        log_q: Natural logarithms of the smallest and largest variance to be asked for; outside, the kernel itself answers.
        tolerance: Largest relative error of a slope, checked at points of every panel when it is built.

    Raises:
        UsageError: An empty range, or a tolerance below what the kernel itself promises.
    """
    low, high = log_q
    if not low < high:
        raise UsageError(f"log_q: expected (low, high) with low < high, got {log_q!r}")
    if not 1e-9 <= tolerance < 1:
        raise UsageError(f"tolerance: expected a number from 1e-9 to 1, got {tolerance!r}")
    if kernel.method == "closed_form":
        return kernel
    source = kernel if isinstance(kernel, AutomaticKernel) else AutomaticKernel(kernel.function)
    return TabulatedKernel(source, low, high, tolerance)


@dataclass
class _Panel:
    """An interval of ``c`` or ``θ`` inside a column: coefficients by (slope, log q, angle), or two halves."""

    low: float
    high: float
    coefficients: Array | None = None
    halves: tuple[_Panel, _Panel] | None = None


@dataclass
class _Column:
    """An interval of ``log q`` with the polynomials of the averages that depend on ``q`` alone."""

    low: float
    high: float
    averages: Array  # (average, coefficient) of M/√S2, log S2, log E φ'²
    even: bool
    near: _Panel = field(default_factory=lambda: _Panel(0.0, _WIDEST_ANGLE))  # in θ
    far: _Panel = field(default_factory=lambda: _Panel(0.0, 0.5))  # in c


class TabulatedKernel(Kernel):
    """Gaussian averages by interpolation in tables that are built as they are needed."""

    method = "table"

    def __init__(self, source: AutomaticKernel, low: float, high: float, tolerance: float) -> None:
        self.function = source.function
        self.source = source
        self._low, self._high, self._tolerance = low, high, tolerance
        self._columns: dict[int, list[_Column]] = {}
        self._random = np.random.default_rng(20190613)

    def mean(self, q: Number) -> Number:
        """Return ``E φ(u)``."""
        return self._average(q, self.source.mean, lambda rows: rows[0] * np.exp(0.5 * rows[1]))

    def mean_square(self, q: Number) -> Number:
        """Return ``E φ(u)²``."""
        return self._average(q, self.source.mean_square, lambda rows: np.exp(rows[1]))

    def gain(self, q: Number) -> Number:
        """Return ``E φ'(u)²``."""
        return self._average(q, self.source.gain, lambda rows: np.exp(rows[2]))

    def fourth_moment(self, q: Number) -> Number:
        """Return ``E φ(u)⁴``, from the kernel itself."""
        return self.source.fourth_moment(q)

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``E φ(u_a) φ(u_b)``, from the kernel itself."""
        return self.source.product(q_a, q_b, correlation)

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return mean and slopes, interpolated."""
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (q, c, rho)))
        shape = arrays[0].shape
        flat_q, flat_c, flat_rho = (np.ascontiguousarray(x).ravel() for x in arrays)
        mean, spread, data = (np.empty_like(flat_q) for _ in range(3))
        with np.errstate(divide="ignore"):
            x = np.log(flat_q)
        theta = 2 * np.arcsin(np.sqrt(0.5 * flat_rho))
        for column, members in self._by_column(x):
            if column is None:
                mean[members], spread[members], data[members] = self.source.transfer(
                    flat_q[members], flat_c[members], flat_rho[members]
                )
                continue
            place = _scaled(x[members], column.low, column.high)
            rows = _chebyshev_sum(column.averages, place)
            mean[members] = rows[0] * np.exp(0.5 * rows[1])
            is_far = flat_c[members] <= 0.5
            for far in (False, True):
                chosen = members[is_far == far]
                if not chosen.size:
                    continue
                at = (flat_c if far else theta)[chosen]
                for panel, inside in self._by_panel(column, far, at):
                    part = chosen[inside]
                    spread[part], data[part] = self._evaluate(
                        column, far, panel, x[part], at[inside], flat_rho[part]
                    )
        if not shape:
            return Transfer(float(mean[0]), float(spread[0]), float(data[0]))
        return Transfer(mean.reshape(shape), spread.reshape(shape), data.reshape(shape))

    def _average(self, q: Number, direct: Callable[[Number], Number], of: Callable[[Array], Array]) -> Number:
        array = np.asarray(q, dtype=np.float64)
        flat = array.ravel()
        result = np.empty_like(flat)
        with np.errstate(divide="ignore"):
            x = np.log(flat)
        for column, members in self._by_column(x):
            if column is None:
                result[members] = direct(flat[members])
            else:
                result[members] = of(
                    _chebyshev_sum(column.averages, _scaled(x[members], column.low, column.high))
                )
        return result.reshape(array.shape) if array.shape else float(result[0])

    def _by_column(self, x: Array) -> Iterator[tuple[_Column | None, NDArray[np.intp]]]:
        """Yield the columns that hold points, with the points; ``None`` for those the tables do not cover."""
        covered = (x >= self._low) & (x <= self._high)
        if not covered.all():
            yield None, np.flatnonzero(~covered)
        root = np.where(covered, np.floor((x - self._low) / _ROOT_WIDTH), -1).astype(np.int64)
        for index, members in _grouped(root):
            if index < 0:
                continue
            if index not in self._columns:
                low = self._low + index * _ROOT_WIDTH
                self._columns[index] = self._build_columns(low, low + _ROOT_WIDTH)
            columns = self._columns[index]
            ends = np.array([column.high for column in columns[:-1]])
            for which, inside in _grouped(np.searchsorted(ends, x[members])):
                column = columns[which]
                yield (column if np.isfinite(column.averages).all() else None), members[inside]

    def _build_columns(self, low: float, high: float) -> list[_Column]:
        """Return the columns of ``[low, high]``, halved until the averages are resolved."""
        x = _nodes(low, high)
        half = np.array([0.5])
        rows = np.empty((5, _NODES))
        even = True
        for i, q in enumerate(np.exp(x)):
            moments = self.source.moments(float(q))
            first = moments.coefficients(2)
            even = even and first[0] == 0
            spread, data = self.source.slopes(float(q), half, half)
            root = math.sqrt(moments.mean_square)
            values = (moments.mean_square, moments.gain, float(spread[0]), float(data[0]))
            rows[0, i] = moments.mean / root if root else 0.0
            rows[1:, i] = [math.log(value) if 0 < value < math.inf else math.nan for value in values]
        coefficients = rows @ _TO_COEFFICIENTS.T
        tail = np.abs(coefficients[:, -3:]).sum(axis=1)
        if (
            np.isfinite(coefficients).all()
            and (tail > 0.03 * self._tolerance).any()
            and high - low > _NARROWEST
        ):
            middle = (low + high) / 2
            return [*self._build_columns(low, middle), *self._build_columns(middle, high)]
        averages = coefficients[:3]
        return [_Column(low, high, averages, even)]

    def _by_panel(self, column: _Column, far: bool, at: Array) -> Iterator[tuple[_Panel, NDArray[np.intp]]]:
        """Yield the resolved panels that hold points, with the points; build them where they are not yet built."""
        waiting = [(column.far if far else column.near, np.arange(at.size), 0)]
        while waiting:
            panel, members, depth = waiting.pop()
            if panel.coefficients is None and panel.halves is None:
                self._build_panel(column, far, panel, depth)
            if panel.halves is None:
                yield panel, members
                continue
            low = at[members] < panel.halves[0].high
            for half, inside in zip(panel.halves, (members[low], members[~low]), strict=True):
                if inside.size:
                    waiting.append((half, inside, depth + 1))

    def _build_panel(self, column: _Column, far: bool, panel: _Panel, depth: int) -> None:
        """Fill a panel, or cut it in two when it is not resolved; both ends of the column are tried first."""
        at = _nodes(panel.low, panel.high)
        q = np.exp(_nodes(column.low, column.high))
        values = np.full((2, _NODES, _NODES), np.nan)  # (slope, log q, angle)
        for i in (0, _NODES - 1, *range(1, _NODES - 1)):
            values[:, i] = self._logarithms(column, far, float(q[i]), at, check=False)
            if i in (0, _NODES - 1) and not self._is_resolved(values[:, i] @ _TO_COEFFICIENTS.T):
                break
        else:
            coefficients = _TO_COEFFICIENTS @ values @ _TO_COEFFICIENTS.T
            over_q = np.abs(coefficients[:, -2:]).sum(axis=1).max()
            if (
                self._is_resolved(coefficients)
                and over_q <= self._tolerance
                and self._agrees(column, far, panel, coefficients)
            ):
                panel.coefficients = _trimmed(coefficients, 0.003 * self._tolerance)
                return
        if depth >= _DEEPEST:
            raise CouldNotError(
                f"table of {self.function.name!r} near variance {q[0]:.6g}, {'correlation' if far else 'angle'} "
                f"{panel.low:.6g} to {panel.high:.6g}: expected panels that {_DEEPEST} halvings resolve to "
                f"{self._tolerance:.0e}, got none; use the kernel itself, or allow a larger tolerance"
            )
        middle = (panel.low + panel.high) / 2
        panel.halves = (_Panel(panel.low, middle), _Panel(middle, panel.high))

    def _is_resolved(self, coefficients: Array) -> bool:
        return bool(np.abs(coefficients[..., -2:]).sum(axis=-1).max() <= 0.1 * self._tolerance)

    def _agrees(self, column: _Column, far: bool, panel: _Panel, coefficients: Array) -> bool:
        """Compare a new panel with the kernel at two points of its own."""
        for _ in range(2):
            x = float(self._random.uniform(column.low, column.high))
            at = self._random.uniform(panel.low, panel.high, 1)
            direct = self._logarithms(column, far, math.exp(x), at, check=True)[:, 0]
            place = _scaled(np.array([x]), column.low, column.high), _scaled(at, panel.low, panel.high)
            if not np.abs(_surface(coefficients, *place)[:, 0] - direct).max() <= self._tolerance:
                return False
        return True

    def _logarithms(self, column: _Column, far: bool, q: float, at: Array, *, check: bool) -> Array:
        """Return the logarithms of both slopes, as they are interpolated, at one ``q``."""
        rho = 1 - at if far else 2 * np.sin(at / 2) ** 2
        c = at if far else np.cos(at)
        slopes = self.source.slopes(q, c, rho, check=check)
        with np.errstate(divide="ignore"):
            spread, data = (np.log(slope) for slope in slopes)
        if column.even:
            spread = spread - np.log(c)
        if self._jumps(q):
            data = data + 0.5 * np.log(rho)
        return np.stack([spread, data])

    def _evaluate(
        self, column: _Column, far: bool, panel: _Panel, x: Array, at: Array, rho: Array
    ) -> tuple[Array, Array]:
        assert panel.coefficients is not None
        result = np.empty((2, x.size))
        for start in range(0, x.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            place = _scaled(x[part], column.low, column.high), _scaled(at[part], panel.low, panel.high)
            result[:, part] = _surface(panel.coefficients, *place)
        spread, data = np.exp(result)
        if column.even:
            spread = spread * (at if far else np.cos(at))
        if self._jumps(math.exp(column.low)):
            with np.errstate(divide="ignore"):
                data = data / np.sqrt(rho)
        return spread, data

    def _jumps(self, q: float) -> bool:
        return any(kink.jump for kink in self.source.panels.kinks(36 * math.sqrt(q)))


def _nodes(low: float, high: float) -> Array:
    """Return the Chebyshev nodes of an interval."""
    return low + (high - low) * (1 + _UNIT_NODES) / 2


def _scaled(x: Array, low: float, high: float) -> Array:
    return np.clip((2 * x - (low + high)) / (high - low), -1.0, 1.0)


def _trimmed(coefficients: Array, negligible: float) -> Array:
    """Drop the highest degrees that are negligible together; the last axis, and the one before if it is a degree too."""
    kept = coefficients
    sizes = np.abs(kept).max(axis=0)  # (degree, degree)
    y = 1 + np.flatnonzero(np.cumsum(sizes.max(axis=0)[::-1])[::-1] > negligible).max(initial=0)
    x = 1 + np.flatnonzero(np.cumsum(sizes.max(axis=1)[::-1])[::-1] > negligible).max(initial=0)
    return np.ascontiguousarray(kept[:, :x, :y])


def _surface(coefficients: Array, x: Array, y: Array) -> Array:
    """Evaluate polynomials in two variables, by (slope, x degree, y degree), at points: (slope, point)."""
    over_x = _basis(x, coefficients.shape[1])  # (degree, point)
    over_y = _basis(y, coefficients.shape[2])
    return np.stack([((layer @ over_y) * over_x).sum(axis=0) for layer in coefficients])


def _chebyshev_sum(coefficients: Array, x: Array) -> Array:
    """Evaluate polynomials by (row, degree) at points: (row, point)."""
    return np.asarray(coefficients @ _basis(x, coefficients.shape[1]))


def _basis(x: Array, count: int) -> Array:
    basis = np.empty((count, x.size))
    basis[0] = 1.0
    if count > 1:
        basis[1] = x
    for k in range(2, count):
        np.multiply(2 * x, basis[k - 1], out=basis[k])
        basis[k] -= basis[k - 2]
    return basis


def _grouped(labels: NDArray[np.integer]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each label with the places where it stands."""
    if labels.size and (labels == labels.flat[0]).all():
        yield int(labels.flat[0]), np.arange(labels.size)
        return
    order = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    for part in np.split(order, cuts):
        if part.size:
            yield int(labels[part[0]]), part


_UNIT_NODES = np.cos((2 * np.arange(_NODES)[::-1] + 1) * math.pi / (2 * _NODES))
_TO_COEFFICIENTS: Array = np.linalg.inv(np.polynomial.chebyshev.chebvander(_UNIT_NODES, _NODES - 1))
