"""Elementwise work on a symmetric matrix: the upper triangle in blocks that stay in cache, on all cores.

Enters: a function of (rows, columns) that returns that block of a symmetric matrix. Leaves: the matrix, each pair
computed once and mirrored, hence symmetric to the last bit. numpy's elementwise functions release the interpreter
lock, so threads suffice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "blocks", "cores", "each_block", "symmetric"]

Array = NDArray[np.float64]
Block = tuple[slice, slice]

SIDE = 192
"""Side of a block: a handful of such blocks of float64 fits in a second-level cache."""

_WORTH_THREADS = 400


def symmetric(size: int, block: Callable[[slice, slice], Array], *, out: Array | None = None) -> Array:
    """Fill a symmetric matrix from its upper blocks.

    >>> symmetric(2, lambda rows, columns: np.add.outer(np.arange(2.0)[rows], np.arange(2.0)[columns]))
    array([[0., 1.],
           [1., 2.]])
    """
    matrix = np.empty((size, size)) if out is None else out

    def fill(rows: slice, columns: slice) -> None:
        values = block(rows, columns)
        if rows == columns:  # σ_a σ_b and σ_b σ_a differ in the last bit, depending on the order
            values = np.triu(values)
            values += np.triu(values, 1).T
        else:
            matrix[columns, rows] = values.T
        matrix[rows, columns] = values

    each_block(size, fill)
    return matrix


def each_block(size: int, work: Callable[[slice, slice], None]) -> None:
    """Call ``work`` on every block of the upper triangle, in parallel where that pays."""
    workers = cores() if size >= _WORTH_THREADS else 1
    if workers == 1:
        for rows, columns in blocks(size):
            work(rows, columns)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(lambda pair: work(*pair), blocks(size)):
            pass


def blocks(size: int) -> Iterator[Block]:
    """The blocks on and above the diagonal; those on it are square."""
    for start in range(0, size, SIDE):
        rows = slice(start, min(start + SIDE, size))
        for other in range(start, size, SIDE):
            yield rows, slice(other, min(other + SIDE, size))


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
