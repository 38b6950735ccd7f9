"""``GuessFractions``: the guesses as a torchmetrics ``Metric``, summed over processes.

Enters: logits and targets, batch by batch, on any number of processes. Leaves: the fractions G_c, their maximum,
recalls, accuracy and ties over all that any process has seen.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from firstlight.errors import UsageError
from firstlight.measurement.layouts import rows_of
from firstlight.measurement.outputs import label_axis
from firstlight.training.counting import tally

__all__ = ["GuessFractions"]


class GuessFractions(Metric):
    """How often each label is guessed.

    ``compute`` returns a dictionary: ``fractions`` (label,), ``max_fraction``, ``recall`` (label,; NaN where a class is
    absent), ``accuracy`` and ``tie_fraction``.

    >>> metric = GuessFractions(num_classes=2)
    >>> metric.update(torch.tensor([[2.0, 1.0], [3.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()["max_fraction"]
    tensor(0.6667)
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    guesses: Tensor
    right: Tensor
    totals: Tensor
    ties: Tensor

    def __init__(self, num_classes: int, **settings: Any) -> None:
        super().__init__(**settings)
        if num_classes < 2:
            raise UsageError(f"GuessFractions(num_classes): expected at least 2, got {num_classes!r}")
        self.num_classes = num_classes
        for name in ("guesses", "right", "totals"):
            self.add_state(name, torch.zeros(num_classes, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("ties", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Count a batch.

        Args:
            logits: (sample, label), (sample, position, label) or (sample, label, height, width).
            targets: Labels of the same samples and positions; −100 is left out.
        """
        rows = rows_of(logits.detach(), label_axis(logits, len(targets)))
        if rows.shape[1] != self.num_classes:
            raise UsageError(
                f"GuessFractions.update(logits): expected {self.num_classes} labels, got {rows.shape[1]}"
            )
        found = tally(rows[None], targets.flatten())
        self.guesses += found.guesses[0]
        self.right += found.right[0]
        self.totals += found.totals[0]
        self.ties += found.ties[0]

    def compute(self) -> dict[str, Tensor]:
        """Fractions over everything seen."""
        seen = self.guesses.sum()
        fractions = self.guesses / seen
        return {
            "fractions": fractions,
            "max_fraction": fractions.max(),
            "recall": self.right / self.totals,
            "accuracy": self.right.sum() / seen,
            "tie_fraction": self.ties / seen,
        }
