"""Interpolation tables of a kernel, for the millions of triples of a phase diagram.

Enters: a kernel without closed form. Leaves: a ``Kernel`` that answers from piecewise Chebyshev polynomials in two
variables: ``log q`` and, because both slopes are smooth in them, ``c`` where ``c ≤ ½``, ``θ = arccos c`` elsewhere.
Tables grow as points fall into new cells (see ``cells``); a cell without a polynomial leaves the answer to the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import UsageError
from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.cells import Cells, Column, Panel
from firstlight.theory.kernels.chebyshev import basis, scaled, surface, surface_at
from firstlight.theory.kernels.kernel import Array, Kernel, Number, Transfer

__all__ = ["TabulatedKernel", "tabulate"]


def tabulate(
    kernel: Kernel, *, log_q: tuple[float, float] = (-640.0, 640.0), tolerance: float = 1e-8
) -> Kernel:
    """Return a kernel that interpolates; one with a closed form comes back as it is.

    Args:
        kernel: The kernel to tabulate.
        log_q: Natural logarithms of the smallest and largest tabulated variance; outside, the kernel itself answers.
        tolerance: Largest relative error of a slope, checked at points of every panel when it is built.

    Raises:
        UsageError: An empty range, or a tolerance below what the kernel itself promises.
    """
    low, high = log_q
    if not low < high:
        raise UsageError(f"log_q: expected (low, high) with low < high, got {log_q!r}")
    if not 1e-9 <= tolerance < 1:
        raise UsageError(f"tolerance: expected a number from 1e-9 to 1, got {tolerance!r}")
    if kernel.method in ("closed_form", TabulatedKernel.method):
        return kernel
    source = kernel if isinstance(kernel, AutomaticKernel) else AutomaticKernel(kernel.function)
    return TabulatedKernel(source, low, high, tolerance)


class TabulatedKernel(Kernel):
    """Gaussian averages by interpolation in tables that are built as they are needed."""

    method = "table"

    def __init__(self, source: AutomaticKernel, low: float, high: float, tolerance: float) -> None:
        self.function = source.function
        self.source = source
        self._low, self._high = low, high
        self._cells = Cells(source, low, tolerance)

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
        """Return ``E φ(u)⁴``, from the kernel itself where it comes close to the end of float64."""
        found = np.asarray(self._average(q, self.source.fourth_moment, lambda rows: np.exp(rows[3])))
        lost = np.isnan(found)
        if lost.any():
            found = np.where(lost, self.source.fourth_moment(np.where(lost, q, 1.0)), found)
        return found if found.shape else float(found)

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``E φ(u_a) φ(u_b)``, from the kernel itself."""
        return self.source.product(q_a, q_b, correlation)

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return mean and slopes, interpolated."""
        if isinstance(q, float) and isinstance(c, float) and isinstance(rho, float):
            return self._transfer_one(q, c, rho)
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (q, c, rho)))
        flat_q, flat_c, flat_rho = (np.ascontiguousarray(x).ravel() for x in arrays)
        mean, spread, data = (np.empty_like(flat_q) for _ in range(3))
        with np.errstate(divide="ignore"):
            x = np.log(flat_q)
        theta = 2 * np.arcsin(np.sqrt(0.5 * flat_rho))
        for column, members in self._by_column(x):
            if column is None:
                direct = self.source.transfer(flat_q[members], flat_c[members], flat_rho[members])
                mean[members], spread[members], data[members] = direct
                continue
            rows = column.averages @ basis(scaled(x[members], column.low, column.high))
            mean[members] = rows[0] * np.exp(0.5 * rows[1])
            is_far = flat_c[members] <= 0.5
            for far in (False, True):
                chosen = members[is_far == far]
                at = (flat_c if far else theta)[chosen]
                for panel, inside in self._by_panel(column, far, at):
                    part = chosen[inside]
                    if panel.coefficients is None:
                        _, spread[part], data[part] = self.source.transfer(
                            flat_q[part], flat_c[part], flat_rho[part]
                        )
                        continue
                    place = (
                        scaled(x[part], column.low, column.high),
                        scaled(at[inside], panel.low, panel.high),
                    )
                    logarithms = surface(panel.coefficients, *place)
                    spread[part], data[part] = column.slopes(logarithms, flat_c[part], flat_rho[part])
        shape = arrays[0].shape
        return Transfer(mean.reshape(shape)[()], spread.reshape(shape)[()], data.reshape(shape)[()])

    def _transfer_one(self, q: float, c: float, rho: float) -> Transfer:
        x = math.log(q) if q > 0 else -math.inf
        column = self._column_of(x)
        if column is None:
            return self.source.transfer(q, c, rho)
        far = c <= 0.5
        at = c if far else 2 * math.asin(math.sqrt(0.5 * rho))
        panel, depth = (column.far if far else column.near), 0
        while True:
            if not panel.built:
                self._cells.build(column, far, panel, depth)
            if panel.halves is None:
                break
            panel, depth = panel.halves[at >= panel.halves[0].high], depth + 1
        if panel.coefficients is None:
            return self.source.transfer(q, c, rho)
        place = min(max((2 * x - (column.low + column.high)) / (column.high - column.low), -1.0), 1.0)
        angle = min(max((2 * at - (panel.low + panel.high)) / (panel.high - panel.low), -1.0), 1.0)
        ratio, log_square, *_ = surface_at(column.averages[:, None], 1.0, place)
        logarithms = surface_at(panel.coefficients, place, angle)
        spread, data = column.slopes(logarithms, c, rho)
        return Transfer(float(ratio) * math.exp(0.5 * float(log_square)), float(spread), float(data))

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
                result[members] = of(column.averages @ basis(scaled(x[members], column.low, column.high)))
        return result.reshape(array.shape) if array.shape else float(result[0])

    def _column_of(self, x: float) -> Column | None:
        """Return the column that holds one ``log q``, or ``None`` where the tables do not reach."""
        if not self._low <= x <= self._high:
            return None
        columns = self._cells.columns(int(self._cells.root_of(np.asarray(x))))
        found = next((column for column in columns if x <= column.high), columns[-1])
        return found if found.covered else None

    def _by_column(self, x: Array) -> Iterator[tuple[Column | None, NDArray[np.intp]]]:
        """Yield the columns that hold points, with the points; ``None`` for those the tables do not cover."""
        covered = (x >= self._low) & (x <= self._high)
        if not covered.all():
            yield None, np.flatnonzero(~covered)
        root = np.where(covered, self._cells.root_of(np.where(covered, x, self._low)), -1)
        for index, members in _grouped(root.astype(np.int64)):
            if index < 0:
                continue
            columns = self._cells.columns(index)
            ends = np.array([column.high for column in columns[:-1]])
            for which, inside in _grouped(np.searchsorted(ends, x[members])):
                column = columns[which]
                yield (column if column.covered else None), members[inside]

    def _by_panel(self, column: Column, far: bool, at: Array) -> Iterator[tuple[Panel, NDArray[np.intp]]]:
        """Yield the undivided panels that hold points, with the points; build them where they are not yet built."""
        waiting = [(column.far if far else column.near, np.arange(at.size), 0)]
        while waiting:
            panel, members, depth = waiting.pop()
            if not members.size:
                continue
            if not panel.built:
                self._cells.build(column, far, panel, depth)
            if panel.halves is None:
                yield panel, members
                continue
            low = at[members] < panel.halves[0].high
            waiting += [
                (panel.halves[0], members[low], depth + 1),
                (panel.halves[1], members[~low], depth + 1),
            ]


def _grouped(labels: NDArray[np.integer]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each label with the places where it stands."""
    if labels.size and (labels == labels[0]).all():
        yield int(labels[0]), np.arange(labels.size)
        return
    order: NDArray[np.intp] = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    for part in np.split(order, cuts):
        if part.size:
            yield int(labels[part[0]]), part
