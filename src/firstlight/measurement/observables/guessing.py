"""Guess fractions: how often each label wins the argmax, streaming, with ties counted.

Enters: logits of shape (row, label). Leaves: counts by label, the number of rows, and the number of rows
whose largest logit is not unique. A tie is guessed as its first label, and reported: where a signal has
collapsed, rounding decides the guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["GuessCounts", "init", "merge", "update"]


@dataclass(frozen=True)
class GuessCounts:
    """What one initialization guessed.

    Attributes:
        counts: Rows guessed as each label; int64, shape (label,).
        ties: Rows with more than one largest logit.
        rows: All rows.
    """

    counts: Tensor
    ties: int
    rows: int


def init(labels: int) -> GuessCounts:
    """Nothing seen yet."""
    return GuessCounts(torch.zeros(labels, dtype=torch.int64), 0, 0)


def update(state: GuessCounts, logits: Tensor) -> GuessCounts:
    """Take in logits of shape (row, label).

    >>> update(init(3), torch.tensor([[0.0, 1.0, 0.5], [2.0, 2.0, 0.0]]))
    GuessCounts(counts=tensor([1, 1, 0]), ties=1, rows=2)
    """
    labels = logits.shape[1]
    if labels == 2:
        first, second = logits[:, 0], logits[:, 1]
        ties = int((first == second).sum())
        zeros = int((first >= second).sum())
        counts = torch.tensor([zeros, len(logits) - zeros])
        return merge(state, GuessCounts(counts, ties, len(logits)))
    guess = logits.argmax(1)  # the first of equal ones
    winners = logits == logits.gather(1, guess[:, None])
    surplus = int(torch.count_nonzero(winners)) - len(logits)
    ties = int((winners.sum(1) > 1).sum()) if surplus else 0
    return merge(state, GuessCounts(torch.bincount(guess, minlength=labels).cpu(), ties, len(logits)))


def merge(first: GuessCounts, second: GuessCounts) -> GuessCounts:
    """The state after seeing what both have seen."""
    return GuessCounts(first.counts + second.counts, first.ties + second.ties, first.rows + second.rows)
