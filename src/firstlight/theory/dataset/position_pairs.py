r"""A symmetric matrix over (position, point), stored by pairs of positions p ≤ q as blocks over the points.

Enters: blocks K_pq (n, n), all of them or those with p = q only. Leaves: sums over windows, weighted sums, row sums
and products with vectors. Rows are in the order of positions, then points: row p·n + a.

Blocks (q, p) are the transposed blocks (p, q), so half of the matrix is stored and it is symmetric by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from firstlight.theory.dataset.pairs import cores
from firstlight.theory.dataset.positions import NOTHING

__all__ = ["PairMatrix", "PositionPairs", "in_parallel", "weighted", "windowed"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_TOGETHER = 1 << 16
"""Numbers that are worked on at once: a few such arrays fit in a second-level cache."""


_WORTH_THREADS = 16
"""Tasks from which on starting threads pays."""


@dataclass(frozen=True)
class PositionPairs:
    """Which pairs of P positions are stored, and where.

    >>> pairs = PositionPairs(3, True)
    >>> list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))[:4]
    [(0, 0), (0, 1), (0, 2), (1, 1)]
    """

    positions: int
    everything: bool

    def __len__(self) -> int:
        return self.positions * (self.positions + 1) // 2 if self.everything else self.positions

    @cached_property
    def first(self) -> Index:
        """P of each pair."""
        return self._ends[0]

    @cached_property
    def second(self) -> Index:
        """Q of each pair, q ≥ p."""
        return self._ends[1]

    @cached_property
    def _ends(self) -> tuple[Index, Index]:
        if not self.everything:
            return np.arange(self.positions), np.arange(self.positions)
        first, second = np.triu_indices(self.positions)
        return np.asarray(first, dtype=np.intp), np.asarray(second, dtype=np.intp)

    def index(self, p: Index, q: Index) -> Index:
        """Where the pairs p ≤ q are stored."""
        return p * self.positions - p * (p - 1) // 2 + q - p if self.everything else p

    def row(self, p: int) -> slice:
        """Where the pairs (p, q ≥ p) are stored, one behind the other."""
        if not self.everything:
            return slice(p, p + 1)
        start = p * self.positions - p * (p - 1) // 2
        return slice(start, start + self.positions - p)

    def pieces(self, points: int) -> list[tuple[int, slice]]:
        """Runs of stored pairs (p, q … q + m) that are worked on at once."""
        step = max(1, _TOGETHER // points**2)
        found = []
        for p in range(self.positions):
            row = self.row(p)
            found += [
                (p, slice(start, min(start + step, row.stop))) for start in range(row.start, row.stop, step)
            ]
        return found


@dataclass(frozen=True, eq=False)
class PairMatrix:
    """The stored matrix as a linear map, for eigenvalues; centred over all rows where ``leading_eigenvalue`` asks."""

    pairs: PositionPairs
    entries: Array

    def __len__(self) -> int:
        return self.pairs.positions * int(self.entries.shape[1])

    def __matmul__(self, vector: Array) -> Array:
        """Product with ``(row,)`` or ``(row, column)``."""
        points = self.entries.shape[1]
        columns = vector.reshape(self.pairs.positions, points, -1)
        out = np.zeros_like(columns)
        for p in range(self.pairs.positions):
            row = self.pairs.row(p)
            blocks, q = self.entries[row], slice(p, p + row.stop - row.start)
            out[p] += np.matmul(blocks, columns[q]).sum(axis=0)
            out[q][1:] += np.matmul(blocks[1:].transpose(0, 2, 1), columns[p])
        return np.asarray(out.reshape(vector.shape))

    def row_sums(self, columns: Array) -> Array:
        """Σ_{q, b} K_pa,qb w_bj for weights of points ``(point, column)``: ``(position, point, column)``."""
        points = self.entries.shape[1]
        out = np.zeros((self.pairs.positions, points, columns.shape[1]))
        for p in range(self.pairs.positions):
            blocks = self.entries[self.pairs.row(p)]
            out[p] += blocks.sum(axis=0) @ columns
            out[p + 1 : p + len(blocks)] += np.matmul(blocks[1:].transpose(0, 2, 1), columns)
        return out

    def diagonal(self) -> Array:
        """K_pa,pa, ``(row,)``."""
        own = np.arange(self.pairs.positions)
        return np.asarray(np.einsum("paa->pa", self.entries[self.pairs.index(own, own)]).ravel())

    def squares(self) -> float:
        """Sum of the squares of all numbers of the matrix."""
        own = np.arange(self.pairs.positions)
        diagonal = self.entries[self.pairs.index(own, own)]
        return 2 * float(np.vdot(self.entries, self.entries)) - float(np.vdot(diagonal, diagonal))

    def among(self, rows: Index) -> Array:
        """The matrix between some rows."""
        points = self.entries.shape[1]
        p, a = np.divmod(rows, points)
        turned = p[:, None] > p
        index = self.pairs.index(np.where(turned, p, p[:, None]), np.where(turned, p[:, None], p))
        return np.asarray(
            self.entries[index, np.where(turned, a, a[:, None]), np.where(turned, a[:, None], a)]
        )


def windowed(entries: Array, before: PositionPairs, after: PositionPairs, reads: Index) -> Array:
    """Mean over offsets o of K[reads(o, p), reads(o, q)] for the pairs ``after``; where -1 is read, it is 0.

    >>> K = np.array([1.0, 2.0, 4.0]).reshape(3, 1, 1)  # K_00, K_01, K_11
    >>> two = PositionPairs(2, True)
    >>> windowed(K, two, two, np.array([[0, 1], [1, -1]])).ravel()  # reads itself and the right neighbour
    array([2.5, 1. , 2. ])
    """
    points = entries.shape[1]
    out = np.zeros((len(after), points, points))
    step = max(1, _TOGETHER // points**2)

    def fill(start: int) -> None:
        place = slice(start, start + step)
        part = out[place]
        for read in reads:
            p, q = read[after.first[place]], read[after.second[place]]
            known = (p != NOTHING) & (q != NOTHING)
            for chosen, turned in ((known & (p <= q), False), (known & (p > q), True)):
                if not chosen.any():
                    continue
                found = before.index(np.minimum(p, q)[chosen], np.maximum(p, q)[chosen])
                if len(found) == 1:  # without a copy: the usual case with many points
                    values = entries[found[0]]
                    part[int(np.argmax(chosen))] += values.T if turned else values
                    continue
                gathered = entries[found]
                part[chosen] += gathered.transpose(0, 2, 1) if turned else gathered
        part /= len(reads)

    in_parallel(fill, range(0, len(after), step))
    return out


def weighted(entries: Array, before: PositionPairs, after: PositionPairs, weights: Array) -> Array:
    """A K Aᵀ over positions, for weights A (output position, input position)."""
    points = entries.shape[1]
    out = np.zeros((len(after), points, points))

    def fill(position: int) -> None:
        gathered = np.zeros((before.positions, points, points))  # Σ_p A[p′, p] K_pq for every q
        for p in np.flatnonzero(weights[position]).tolist():
            weight = weights[position, p]
            gathered[p:] += weight * entries[before.row(p)]
            above = np.arange(p)
            gathered[:p] += weight * entries[before.index(above, np.full_like(above, p))].transpose(0, 2, 1)
        for index, other in enumerate(range(position, after.positions), start=after.row(position).start):
            for q in np.flatnonzero(weights[other]).tolist():
                out[index] += weights[other, q] * gathered[q]
        own = out[after.row(position).start]
        own += own.T.copy()  # (p, p) is symmetric, but for the order in which it was summed
        own *= 0.5

    in_parallel(fill, range(after.positions))
    return out


def in_parallel(work: Callable[..., None], tasks: Sequence[object]) -> None:
    """Call ``work`` for every task, on all cores; numpy lets go of the interpreter lock."""
    workers = cores() if len(tasks) >= _WORTH_THREADS else 1
    if workers == 1:
        for task in tasks:
            work(task)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, tasks):
            pass
