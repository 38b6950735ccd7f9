r"""Centre, variance, third and fourth central moments and mean absolute value of every unit, streaming.

Enters: blocks of values. Leaves, from counts :math:`n`, means :math:`m_u` and central sums :math:`M_{p,u} =
\sum (x - m_u)^p`,

.. math:: C = ⟨m_u^2⟩,\quad V = ⟨M_{2,u}/n⟩,\quad γ = C/V,\quad ν_2 = C + V,\quad μ_4 = ⟨n M_{4,u} /
M_{2,u}^2⟩,

with :math:`⟨·⟩` over units; variances are over the data at hand (1/n), as in the papers and in dataset
theory.

A block is reduced in cache-sized pieces about their own means in the tensor's precision, and pieces are merged
in float64 (Chan, Golub & LeVeque 1979; Pébay 2008, third and fourth moments), so V/C may be as small as the
values themselves resolve. A unit whose powers leave the range of its precision is reduced in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from firstlight.measurement.layouts import Planes, Rows

__all__ = ["Moments", "finalize", "finalize_members", "init", "mapped", "merge", "of_block", "update"]

_PIECE = 1 << 18
"""Elements that a thread reduces at a time: a float32 piece and its two buffers (3 MB) stay near a core, and the calls
(a dozen for each piece, microseconds each) stay a small part."""
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
    return merge(state, of_block(block, order=state.order))


def of_block(block: Rows | Planes, *, order: int = 4) -> Moments:
    """The state after seeing this block and nothing else."""
    values = block.values
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    return _of_rows(values, order) if isinstance(block, Rows) else _of_planes(values, order)


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
    counts = torch.tensor([[float(first.count)], [float(second.count)]], dtype=torch.float64)
    pairs = zip(_sums(first), _sums(second), strict=True)
    return _merged(counts, [torch.stack(pair) for pair in pairs], first.count + second.count, first.order)


def mapped(state: Moments, gain: Tensor, shift: Tensor, block: Rows | Planes) -> Moments:
    """The moments of ``block``, which holds gain · x + shift of each unit where ``state`` has seen the x.

    What follows from those of x is not summed again; Σ |·| does not follow.

    >>> x = torch.tensor([[1.0], [2.0], [6.0]])
    >>> seen = mapped(of_block(Rows(x)), torch.tensor([-2.0]), torch.tensor([4.0]), Rows(4 - 2 * x))
    >>> seen.mean.item(), seen.m2.item(), seen.m3.item(), seen.m4.item(), seen.absolute.item()
    (-2.0, 56.0, -144.0, 1568.0, 10.0)
    """
    gain, shift = gain.double().cpu(), shift.double().cpu()
    square = gain * gain
    absolute = _absolute_sums(block) if state.order >= 4 else torch.zeros_like(gain)
    return Moments(
        state.count,
        gain * state.mean + shift,
        square * state.m2,
        square * gain * state.m3,
        square * square * state.m4,
        absolute,
        state.order,
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
    return (state.mean, torch.zeros_like(state.mean), state.m2, state.m3, state.m4, state.absolute)


def _merged(counts: Tensor, sums: Sequence[Tensor], count: int, order: int) -> Moments:
    """Parts as one.

    ``sums`` are those of ``_power_sums``, each (part, unit) in float64: a point a of the part's own and Σ (x − a)^p,
    which about another point c are sums over powers of a − c. ``counts`` broadcasts over (part, unit).
    """
    about, first, second = sums[:3]
    center = (counts * about + first).sum(0) / count
    shift = about - center
    moved = counts * shift
    m2 = torch.add(moved, first, alpha=2).mul_(shift).add_(second).sum(0).clamp_(min=0)
    if order < 4:
        zeros = torch.zeros_like(center)
        return Moments(count, center, m2, zeros, zeros, zeros, order)
    third, fourth, absolute = sums[3:]
    m3 = torch.add(moved, first, alpha=3).mul_(shift).add_(second, alpha=3).mul_(shift).add_(third)
    m4 = torch.add(moved, first, alpha=4).mul_(shift).add_(second, alpha=6).mul_(shift)
    m4 = m4.add_(third, alpha=4).mul_(shift).add_(fourth)
    return Moments(count, center, m2, m3.sum(0), m4.sum(0).clamp_(min=0), absolute.sum(0), order)


def _of_rows(values: Tensor, order: int) -> Moments:
    rows, units = values.shape
    if not rows:
        return init(units, order=order)
    pieces = torch.split(values, max(_PIECE * torch.get_num_threads() // max(units, 1), _FEWEST))
    found = values.new_empty(_how_many(order), len(pieces), units)
    scratch = torch.empty_like(pieces[0]), torch.empty_like(pieces[0])
    for number, piece in enumerate(pieces):
        _power_sums(piece, 0, found[:, number], scratch)
    sums = found.double().cpu()
    for number, piece in enumerate(pieces):
        _mend(sums[:, number], piece, 0)
    counts = torch.tensor([[float(len(piece))] for piece in pieces], dtype=torch.float64)
    return _merged(counts, list(sums), rows, order)


def _of_planes(values: Tensor, order: int) -> Moments:
    samples, units, positions = values.shape
    flat = values.reshape(samples * units, positions)
    pieces = torch.split(flat, max(_PIECE * torch.get_num_threads() // positions, 1))
    found = values.new_empty(_how_many(order), len(flat))
    scratch = torch.empty_like(pieces[0]), torch.empty_like(pieces[0])
    for piece, part in zip(pieces, torch.split(found, len(pieces[0]), 1), strict=True):
        _power_sums(piece, 1, part, scratch)
    sums = found.double().cpu()
    _mend(sums, flat, 1)
    counts = torch.full((1, 1), float(positions), dtype=torch.float64)
    return _merged(counts, list(sums.reshape(-1, samples, units)), samples * positions, order)


def _absolute_sums(block: Rows | Planes) -> Tensor:
    values, axis = block.values, 0
    if isinstance(block, Planes):
        values, axis = values.flatten(0, 1), 1
    pieces = torch.split(values, max(_PIECE * torch.get_num_threads() // max(values.shape[1], 1), _FEWEST))
    scratch = torch.empty_like(pieces[0])
    sums = [torch.sum(torch.abs(piece, out=scratch[: len(piece)]), axis).double().cpu() for piece in pieces]
    if isinstance(block, Planes):
        return torch.cat(sums).reshape(block.values.shape[:2]).sum(0)
    return torch.stack(sums).sum(0)


def _how_many(order: int) -> int:
    """Sums that ``_power_sums`` takes."""
    return 3 if order < 4 else 6


def _power_sums(piece: Tensor, axis: int, found: Tensor, scratch: tuple[Tensor, Tensor]) -> None:
    """Into ``found``: the mean a, as it is rounded, and Σ (x − a)^p for p = 1, 2; if there is room p = 3, 4 and Σ |x|.

    Two buffers are written again and again: memory traffic and calls are what this costs.
    """
    power, square = (buffer[: len(piece)] for buffer in scratch)
    mean = torch.mean(piece, axis, keepdim=True, out=found[0].unsqueeze(axis))
    torch.sub(piece, mean, out=power)
    torch.sum(power, axis, out=found[1])
    torch.mul(power, power, out=square)
    torch.sum(square, axis, out=found[2])
    if len(found) > 3:
        torch.sum(power.mul_(square), axis, out=found[3])
        torch.sum(square.mul_(square), axis, out=found[4])
        torch.sum(torch.abs(piece, out=power), axis, out=found[5])


def _mend(sums: Tensor, values: Tensor, axis: int) -> None:
    """Take anew, in float64, the sums of units whose powers left the range of single precision."""
    if values.dtype == torch.float64:
        return
    lost = _out_of_range(sums[2] / values.shape[axis], values.movedim(axis, 1))
    if len(lost):
        again = values.index_select(1 - axis, lost.to(values.device)).double().cpu()
        exact = sums.new_empty(len(sums), len(lost))
        _power_sums(again, axis, exact, (torch.empty_like(again), torch.empty_like(again)))
        sums[:, lost] = exact


def _out_of_range(variance: Tensor, values: Tensor) -> Tensor:
    """Units of ``(unit, value)`` whose fourth powers may have left float32; NaN is out, one that never varies is in."""
    smallest, largest = variance.aminmax()
    if smallest >= _SMALLEST and largest < _LARGEST:
        return torch.empty(0, dtype=torch.int64)
    out = ~(variance < _LARGEST) | ((variance < _SMALLEST) & (variance > 0))
    still = torch.nonzero(variance == 0).flatten()  # or squares that were rounded to zero
    if len(still):
        rows = values[still.to(values.device)]
        out[still] = (rows != rows[:, :1]).any(1).cpu()
    return torch.nonzero(out).flatten()
