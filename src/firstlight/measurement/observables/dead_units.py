"""Dead units: units of an activation that say the same of all data.

Enters: blocks of an activation's output. Leaves: the share of units whose smallest and greatest values agree exactly:
a ReLU that is never positive, a tanh that is saturated beyond the precision of its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Extremes", "finalize", "init", "merge", "update"]


@dataclass(frozen=True)
class Extremes:
    """Least and greatest value of each unit, shape (unit,), and how many values were seen."""

    least: Tensor
    greatest: Tensor
    count: int = 0


def init(units: int) -> Extremes:
    """Nothing seen yet."""
    return Extremes(torch.full((units,), torch.inf), torch.full((units,), -torch.inf))


def update(state: Extremes, rows: Tensor) -> Extremes:
    """Take in rows of shape (row, unit).

    >>> finalize(update(init(2), torch.tensor([[0.0, 1.0], [0.0, 2.0]])))
    0.5
    """
    if not len(rows):
        return state
    least, greatest = torch.aminmax(rows.detach(), dim=0)
    return merge(state, Extremes(least.cpu(), greatest.cpu(), len(rows)))


def merge(first: Extremes, second: Extremes) -> Extremes:
    """The state after seeing what both have seen."""
    return Extremes(
        torch.minimum(first.least, second.least),
        torch.maximum(first.greatest, second.greatest),
        first.count + second.count,
    )


def finalize(state: Extremes) -> float:
    """Share of constant units; NaN for fewer than two values, or where some are not finite."""
    finite = torch.isfinite(state.least) & torch.isfinite(state.greatest)
    if state.count < 2 or not bool(finite.all()):
        return float("nan")
    return float((state.least == state.greatest).double().mean())
