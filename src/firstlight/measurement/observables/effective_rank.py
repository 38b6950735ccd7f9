r"""Effective rank tr Σ / ‖Σ‖ of the units' covariance: 1 along one line, the number of units for white noise.

Enters: rows of shape (row, unit). The rows themselves are kept while they are no more than the units, and the
answer comes from their Gram matrix, whose nonzero eigenvalues are those of Σ; beyond that the (unit, unit)
sums of products about the first rows' mean are kept. The spectral norm is exact for small matrices and from
Lanczos iterations for large ones, to 1e-6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor

__all__ = ["ROWS_LIMIT", "UNITS_LIMIT", "RankState", "finalize", "init", "merge", "spectral_norm", "update"]

UNITS_LIMIT = 1024
"""Above this many units no (unit, unit) matrix is kept: the rank is that of at most ``ROWS_LIMIT`` rows."""
ROWS_LIMIT = 1024
_DENSE = 128
_LARGE_PRODUCT = 1 << 27
"""Multiplications above which the Gram matrix is formed in the rows' own precision, and block by block."""
_BLOCKS = 4
_SMALLEST, _LARGEST = 1e-24, 1e34
"""Greatest sums of squares between which the products of all units that count are within float32."""


@dataclass(frozen=True)
class RankState:
    """Rows, or their sums of products.

    Attributes:
        units: Number of units.
        rows: Rows kept, in blocks.
        count: Rows taken in.
        shift: Point about which products are summed.
        total: Σ (x − shift).
        products: Σ (x − shift)(x − shift)ᵀ.
    """

    units: int
    rows: tuple[Tensor, ...] = ()
    count: int = 0
    shift: Tensor | None = None
    total: Tensor | None = None
    products: Tensor | None = None


def init(units: int) -> RankState:
    """Nothing seen yet."""
    return RankState(units)


def update(state: RankState, rows: Tensor) -> RankState:
    """Take in rows of shape (row, unit)."""
    rows = rows.detach().cpu()
    if rows.dtype in (torch.float16, torch.bfloat16):
        rows = rows.float()
    if state.products is not None:
        return _added(state, rows)
    if state.units > UNITS_LIMIT:
        rows = rows[: ROWS_LIMIT - state.count]
    grown = RankState(state.units, (*state.rows, rows.clone()), state.count + len(rows))
    if grown.count <= state.units or state.units > UNITS_LIMIT:
        return grown
    together = torch.cat(grown.rows)
    # Representable in the rows' precision, so that centring is exact to rounding.
    shift = together.mean(0).double()
    if not bool(torch.isfinite(shift).all()):  # their sum left that precision
        shift = together.double().mean(0).to(together.dtype).double()
    zero = torch.zeros(state.units, dtype=torch.float64)
    empty = RankState(
        state.units, (), 0, shift, zero, torch.zeros(state.units, state.units, dtype=torch.float64)
    )
    return _added(empty, together)


def merge(first: RankState, second: RankState) -> RankState:
    """The state after seeing what both have seen."""
    if second.products is None:
        for rows in second.rows:
            first = update(first, rows)
        return first
    if first.products is None:
        return merge(second, first)
    shift, total, products = _sums(first)
    other_shift, other_total, other_products = _sums(second)
    move = other_shift - shift
    crossed = torch.outer(other_total, move)
    moved = other_products + crossed + crossed.T + second.count * torch.outer(move, move)
    return RankState(
        first.units,
        (),
        first.count + second.count,
        shift,
        total + other_total + second.count * move,
        products + moved,
    )


def finalize(state: RankState) -> float:
    """Trace over spectral norm; NaN where nothing varies.

    >>> finalize(update(init(3), torch.tensor([[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0]])))
    1.0
    """
    if state.products is None:
        if state.count < 2:
            return float("nan")
        rows = torch.cat(state.rows)
        exact = rows.numel() * min(rows.shape) < _LARGE_PRODUCT
        rows = rows.double() if exact else rows
        rows = rows - rows.mean(0)
        scale = rows.abs().amax()
        rows = rows.div_(scale) if scale > 0 else rows
        matrix = _gram(rows if len(rows) <= state.units else rows.T).double()
    else:
        _, total, products = _sums(state)
        mean = total / state.count
        matrix = products / state.count - torch.outer(mean, mean)
    trace = float(matrix.trace())
    if not np.isfinite(trace) or trace <= 0:
        return float("nan")
    return trace / spectral_norm(matrix)


def spectral_norm(matrix: Tensor) -> float:
    """Largest eigenvalue of a positive semi-definite matrix."""
    matrix = matrix.cpu()
    if len(matrix) <= _DENSE:
        return float(torch.linalg.eigvalsh(matrix)[-1])
    product = LinearOperator(
        matrix.shape,
        matvec=lambda vector: (matrix @ torch.from_numpy(vector.ravel())).numpy(),
        dtype=np.float64,
    )
    start = np.random.default_rng(0).standard_normal(len(matrix))  # fixed, so that runs agree
    try:
        return float(eigsh(product, k=1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0])
    except ArpackError:  # no convergence: the exact way, slower
        return float(torch.linalg.eigvalsh(matrix)[-1])


def _added(state: RankState, rows: Tensor) -> RankState:
    shift, total, products = _sums(state)
    centred = rows - shift.to(rows.dtype)
    added = _gram(centred.T)
    if rows.dtype != torch.float64 and not _SMALLEST < float(added.diagonal().amax()) < _LARGEST:
        centred = centred.double()
        added = _gram(centred.T)
    return RankState(
        state.units,
        (),
        state.count + len(rows),
        shift,
        total + centred.sum(0).double(),
        products + added.double(),
    )


def _gram(rows: Tensor) -> Tensor:
    """Products of all rows; of large matrices only the blocks on and above the diagonal are multiplied."""
    if len(rows) * rows.numel() < _LARGE_PRODUCT:
        return rows @ rows.T
    found, step = rows.new_empty(len(rows), len(rows)), -(-len(rows) // _BLOCKS)
    for start in range(0, len(rows), step):
        block = rows[start : start + step] @ rows[start:].T
        found[start : start + step, start:] = block
        found[start + step :, start : start + step] = block[:, step:].T
    return found


def _sums(state: RankState) -> tuple[Tensor, Tensor, Tensor]:
    assert state.shift is not None
    assert state.total is not None
    assert state.products is not None
    return state.shift, state.total, state.products
