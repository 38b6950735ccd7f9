r"""Centre, variance, third and fourth central moments and mean absolute value of every unit, streaming.

Enters: blocks of values. Leaves, from counts :math:`n`, means :math:`m_u` and central sums :math:`M_{p,u} =
\sum (x - m_u)^p`,

.. math:: C = ⟨m_u^2⟩,\quad V = ⟨M_{2,u}/n⟩,\quad γ = C/V,\quad ν_2 = C + V,\quad μ_4 = ⟨n M_{4,u} /
M_{2,u}^2⟩,

with :math:`⟨·⟩` over units; variances are over the data at hand (1/n), as in the papers and in dataset
theory.

A block is reduced in cache-sized pieces about its own mean in the tensor's precision, and pieces are merged
in float64 (Chan, Golub & LeVeque 1979; Pébay 2008, third and fourth moments), so V/C may be as small as the
values themselves resolve. A piece whose powers leave the range of its precision is reduced in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from firstlight.measurement.layouts import Planes, Rows

__all__ = ["Moments", "finalize", "finalize_members", "init", "merge", "merge_many", "update"]

_PIECE = 1 << 17
"""Elements that a thread reduces at a time: a float32 piece and its two temporaries (1½ MB) stay near a core."""
_FEWEST = 128
"""Rows of a piece at least: each costs a merge of its units in float64."""
_LARGEST, _SMALLEST = 1e17, 1e-15
"""Squares within these bounds have fourth powers and their sums within float32."""


@dataclass(frozen=True)
class Moments:
    """Sums of each unit over what was seen; float64, shape (unit,). Orders above the one asked for stay zero.

    Attributes:
        count: Values seen of each unit.
        mean: Their mean.
        m2: Σ (x − mean)².
        m3: Σ (x − mean)³.
        m4: Σ (x − mean)⁴.
        absolute: Σ |x|.
        order: 2, or 4 with the mean absolute value.
    """

    count: int
    mean: Tensor
    m2: Tensor
    m3: Tensor
    m4: Tensor
    absolute: Tensor
    order: int


def init(units: int, *, order: int = 4) -> Moments:
    """Nothing seen yet."""
    zeros = torch.zeros(units, dtype=torch.float64)
    return Moments(0, zeros, zeros, zeros, zeros, zeros, order)


def update(state: Moments, block: Rows | Planes) -> Moments:
    """Take in one block."""
    return merge(state, _of_block(block, state.order))


def merge(first: Moments, second: Moments) -> Moments:
    """The state after seeing what both have seen.

    >>> a = update(init(1), Rows(torch.tensor([[1.0], [2.0]])))
    >>> b = update(init(1), Rows(torch.tensor([[3.0], [6.0]])))
    >>> both = merge(a, b)
    >>> both.mean.item(), both.m2.item(), both.m4.item(), both.absolute.item()
    (3.0, 14.0, 98.0, 12.0)
    """
    if not first.count or not second.count:
        return first if first.count else second
    return merge_many(
        torch.tensor([[float(first.count)], [float(second.count)]], dtype=torch.float64),
        *(torch.stack(pair) for pair in zip(_sums(first), _sums(second), strict=True)),
        count=first.count + second.count,
        order=first.order,
    )


def merge_many(
    counts: Tensor,
    mean: Tensor,
    m2: Tensor,
    m3: Tensor,
    m4: Tensor,
    absolute: Tensor,
    *,
    count: int,
    order: int,
) -> Moments:
    """Merge along the first axis: ``counts`` broadcasts over (part, unit), the others have that shape."""
    center = (counts * mean).sum(0) / count
    shift = mean - center
    between = counts * shift
    if order == 2:
        zeros = torch.zeros_like(center)
        return Moments(count, center, (m2 + between * shift).sum(0), zeros, zeros, zeros, order)
    square = shift * shift
    return Moments(
        count,
        center,
        (m2 + between * shift).sum(0),
        (m3 + 3 * shift * m2 + between * square).sum(0),
        (m4 + 4 * shift * m3 + 6 * square * m2 + between * square * shift).sum(0),
        absolute.sum(0),
        order,
    )


def finalize(state: Moments) -> dict[str, float]:
    """C, V, γ, ν2, and where asked for μ4 and ν1(|·|), averaged over units; units that never vary have no μ4."""
    return finalize_members(state, 1)[0]


def finalize_members(state: Moments, members: int) -> list[dict[str, float]]:
    """The same for several networks whose units stand one network after the other."""
    if not state.count:
        return [dict.fromkeys(("center_variance", "data_variance", "gamma", "mean_square"), np.nan)] * members
    mean, m2, m4, absolute = (
        part.numpy().reshape(members, -1) for part in (state.mean, state.m2, state.m4, state.absolute)
    )
    variance = m2 / state.count
    center, data = (mean**2).mean(1), variance.mean(1)
    with np.errstate(all="ignore"):
        columns = {
            "center_variance": center,
            "data_variance": data,
            "gamma": center / data,
            "mean_square": center + data,
        }
        if state.order >= 4:
            kurtosis = np.where(m2 > 0, m4 / state.count / variance**2, 0.0)
            columns["kurtosis"] = kurtosis.sum(1) / (m2 > 0).sum(1)
            columns["mean_absolute"] = absolute.mean(1) / state.count
    return [{name: float(values[member]) for name, values in columns.items()} for member in range(members)]


def _sums(state: Moments) -> tuple[Tensor, ...]:
    return (state.mean, state.m2, state.m3, state.m4, state.absolute)


def _of_block(block: Rows | Planes, order: int) -> Moments:
    values = block.values
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    if isinstance(block, Rows):
        return _of_rows(values, order)
    return _of_planes(values, order)


def _of_rows(values: Tensor, order: int) -> Moments:
    rows, units = values.shape
    if not rows:
        return init(units, order=order)
    step = max(_PIECE * torch.get_num_threads() // max(units, 1), _FEWEST)
    pieces = [values[start : start + step] for start in range(0, rows, step)]
    parts = [_reduced(piece, 0, order) for piece in pieces]
    if len(parts) == 1:
        mean, m2, m3, m4, absolute = parts[0]
        return Moments(rows, mean, m2, m3, m4, absolute, order)
    counts = torch.tensor([[float(len(piece))] for piece in pieces], dtype=torch.float64)
    joined = [torch.stack(column) for column in zip(*parts, strict=True)]  # (piece, unit) each
    return merge_many(counts, *joined, count=rows, order=order)


def _of_planes(values: Tensor, order: int) -> Moments:
    samples, units, positions = values.shape
    flat = values.reshape(samples * units, positions)
    step = max(_PIECE * torch.get_num_threads() // positions, 1)
    sums = [_power_sums(flat[start : start + step], 1, order) for start in range(0, len(flat), step)]
    parts = _put_right([torch.cat(column) for column in zip(*sums, strict=True)], positions, order)
    if flat.dtype != torch.float64:
        lost = _out_of_range(parts[1] / positions, flat)
        if len(lost):
            exact = _reduced(flat[lost.to(flat.device)].double(), 1, order)
            for part, again in zip(parts, exact, strict=True):
                part[lost] = again
    counts = torch.full((1, 1), float(positions), dtype=torch.float64)
    planes = (part.reshape(samples, units) for part in parts)
    return merge_many(counts, *planes, count=samples * positions, order=order)


def _reduced(piece: Tensor, axis: int, order: int) -> list[Tensor]:
    """Mean, central sums and absolute sum along ``axis``, in float64."""
    count = piece.shape[axis]
    parts = _put_right(_power_sums(piece, axis, order), count, order)
    if piece.dtype != torch.float64 and len(_out_of_range(parts[1] / count, piece.movedim(axis, 1))):
        return _reduced(piece.double(), axis, order)
    return parts


def _power_sums(piece: Tensor, axis: int, order: int) -> list[Tensor]:
    """Mean, Σ (x − mean)^p for p = 1 … 4 and Σ |x|, in the piece's precision; orders not asked for are left out."""
    mean = piece.mean(axis, keepdim=True)
    power = piece - mean  # one buffer, written again and again: memory traffic is what this costs
    first = power.sum(axis)
    square = power * power
    sums = [mean.squeeze(axis), first, square.sum(axis)]
    if order >= 4:
        third = power.mul_(square).sum(axis)
        fourth = square.mul_(square).sum(axis)
        sums += [third, fourth, torch.abs(piece, out=power).sum(axis)]
    return sums


def _put_right(sums: list[Tensor], count: int, order: int) -> list[Tensor]:
    """Exact mean and central sums in float64: the mean of a piece is rounded, and its error is its first sum."""
    mean, first, second, *higher = (part.double().cpu() for part in sums)
    error = first / count
    m2 = second - count * error**2
    if order < 4:
        return [mean + error, m2.clamp_(min=0), m2.clone(), m2.clone(), m2.clone()]
    third, fourth, absolute = higher
    m3 = third - 3 * error * second + 2 * count * error**3
    m4 = fourth - 4 * error * third + 6 * error**2 * second - 3 * count * error**4
    return [mean + error, m2.clamp_(min=0), m3, m4.clamp_(min=0), absolute]


def _out_of_range(variance: Tensor, values: Tensor) -> Tensor:
    """Units of ``(unit, value)`` whose fourth powers may have left float32; NaN is out, one that never varies is in."""
    out = ~(variance < _LARGEST) | ((variance < _SMALLEST) & (variance > 0))
    still = torch.nonzero(variance == 0).flatten()  # or squares that were rounded to zero
    if len(still):
        rows = values[still.to(values.device)]
        out[still] = (rows != rows[:, :1]).any(1).cpu()
    return torch.nonzero(out).flatten()
