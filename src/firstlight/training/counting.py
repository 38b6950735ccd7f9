"""What one look at some networks counts: guesses, right guesses, ties and losses, by network and label.

Enters: logits ``(init, sample, label)`` and targets. Leaves: a ``Tally``; tallies of further batches add up. Everything
stays on the device of the logits until a record is read.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

from firstlight.errors import DataError

__all__ = ["Tally", "joined", "tally"]

_IGNORED = -100
"""The target that torch's losses leave out."""


@dataclass(frozen=True)
class Tally:
    """Counts over the samples seen.

    Attributes:
        guesses: Samples guessed as each label; int64, (init, label).
        right: Samples of each label guessed right; int64, (init, label).
        totals: Samples of each label; int64, (init, label).
        ties: Samples with more than one largest logit; int64, (init,).
        losses: Sum of the losses; float64, (init,).
        samples: Samples behind the losses; int64, (init,).
    """

    guesses: Tensor
    right: Tensor
    totals: Tensor
    ties: Tensor
    losses: Tensor
    samples: Tensor

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))

    def mean_losses(self) -> Tensor:
        """Mean loss of each network."""
        return self.losses / self.samples

    def to_cpu(self) -> Tally:
        """The same numbers in main memory."""
        return Tally(*(getattr(self, item.name).cpu() for item in fields(self)))


def tally(logits: Tensor, targets: Tensor, losses: Tensor | None = None) -> Tally:
    """Count one batch.

    Args:
        logits: (init, sample, label).
        targets: Labels, (sample,) shared by all networks or (init, sample); −100 is left out.
        losses: Mean loss of each network over the batch, (init,); by default the cross-entropy.

    >>> found = tally(torch.tensor([[[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]]), torch.tensor([1, 1, 0]))
    >>> found.guesses.tolist(), found.right.tolist(), found.totals.tolist(), found.ties.tolist()
    ([[2, 1]], [[1, 1]], [[1, 2]], [1])
    """
    logits = logits.detach()
    inits, samples, labels = logits.shape
    truth = targets.detach().reshape(-1, samples).expand(inits, samples).long()
    valid = truth != _IGNORED
    unknown = valid & ((truth < 0) | (truth >= labels))
    if bool(unknown.any()):
        raise DataError(
            f"a target is {int(truth[unknown][0])}, but the model has {labels} outputs, for labels 0 to {labels - 1}; "
            f"number the labels from 0, give the last layer more outputs, or write {_IGNORED} where there is no label"
        )
    guess = logits.argmax(2)  # the first of equal ones
    largest = logits.gather(2, guess[..., None])
    ties = (((logits == largest).sum(2) > 1) & valid).sum(1)
    weight = valid.long()
    safe = truth.clamp_min(0)

    def counted(places: Tensor, chosen: Tensor) -> Tensor:
        return torch.zeros(inits, labels, dtype=torch.int64, device=logits.device).scatter_add_(
            1, places, chosen
        )

    count = weight.sum(1)
    if losses is None:
        entropy = F.cross_entropy(
            logits.flatten(0, 1).float(), truth.flatten(), reduction="none", ignore_index=_IGNORED
        )
        total = entropy.view(inits, samples).sum(1, dtype=torch.float64)
    else:
        total = losses.detach().double() * count
    return Tally(
        guesses=counted(guess, weight),
        right=counted(safe, weight * (guess == truth)),
        totals=counted(safe, weight),
        ties=ties,
        losses=total,
        samples=count,
    )


def joined(parts: list[Tally]) -> Tally:
    """Tallies of different networks side by side."""
    return Tally(*(torch.cat([getattr(part, item.name) for part in parts]) for item in fields(Tally)))
