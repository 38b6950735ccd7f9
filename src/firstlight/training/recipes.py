"""How a run is trained: optimizer, learning rate by step, batches and length.

Enters: a few numbers; the defaults are those of the papers' shallow perceptrons (Adam, 1e-5, batches of 512, 80
epochs). Leaves: a frozen ``Recipe``, and the ``torch.optim`` optimizer it describes. The rate at step t of T is

    rate · (t + 1)/warmup                                            t < warmup
    floor + ½(rate − floor)(1 + cos(π (t − warmup)/(T − warmup)))    else, where decay is "cosine"
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from firstlight.errors import UsageError, one_of

__all__ = ["OPTIMIZERS", "Recipe"]

OPTIMIZERS = ("adam", "sgd")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Optimizer, learning rate, batches and length of a run.

    Attributes:
        optimizer: ``"adam"`` or ``"sgd"``.
        rate: Learning rate.
        momentum: Of SGD.
        betas: Of Adam.
        weight_decay: Added to the gradient, times the weight, as ``torch.optim`` does.
        clip: Gradients are clamped to ±``clip`` by value.
        batch_size: Samples in a batch; the last batch of an epoch may be smaller.
        epochs: Passes over the training data.
        steps: Updates instead of epochs.
        warmup: Updates over which the rate grows from 0.
        decay: ``"constant"`` or ``"cosine"``, down to ``floor`` at the last update.
        floor: Where the cosine ends.

    >>> recipe = Recipe(rate=1e-3, warmup=2, decay="cosine", steps=4)
    >>> [round(recipe.rate_at(step, 4), 6) for step in range(4)]
    [0.0005, 0.001, 0.001, 0.0005]
    """

    optimizer: str = "adam"
    rate: float = 1e-5
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    clip: float | None = None
    batch_size: int = 512
    epochs: int = 80
    steps: int | None = None
    warmup: int = 0
    decay: str = "constant"
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise one_of("Recipe(optimizer)", self.optimizer, OPTIMIZERS)
        if self.decay not in ("constant", "cosine"):
            raise one_of("Recipe(decay)", self.decay, ["constant", "cosine"])
        for name, least in (("batch_size", 1), ("epochs", 0), ("steps", 0), ("warmup", 0)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise UsageError(
                    f"Recipe({name}): expected a whole number of at least {least}, got {value!r}"
                )
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise UsageError(f"Recipe(rate): expected a positive number, got {self.rate!r}")
        for name in ("momentum", "weight_decay", "floor"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"Recipe({name}): expected 0 or more, got {getattr(self, name)!r}")
        if self.clip is not None and not self.clip > 0:
            raise UsageError(f"Recipe(clip): expected a positive number, got {self.clip!r}")
        if self.momentum and self.optimizer != "sgd":
            raise UsageError("Recipe(momentum): is of SGD; Adam takes betas=(momentum, 0.999)")

    def batches(self, samples: int) -> int:
        """Batches in an epoch."""
        return -(-samples // self.batch_size)

    def total(self, samples: int) -> int:
        """Updates of a run on so many samples."""
        return self.epochs * self.batches(samples) if self.steps is None else self.steps

    def rate_at(self, step: int, total: int) -> float:
        """Learning rate of update ``step``, counted from 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        if self.decay == "constant":
            return self.rate
        share = (step - self.warmup) / max(1, total - self.warmup)
        return self.floor + 0.5 * (self.rate - self.floor) * (1 + math.cos(math.pi * share))

    def optimizer_of(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """The optimizer; elementwise, so that stacked parameters of many runs take the same updates as alone."""
        chosen = list(parameters)
        # one pass over memory instead of one for every operation; the same numbers to rounding
        fused = all(item.is_floating_point() and item.device.type in ("cpu", "cuda") for item in chosen)
        common: dict[str, Any] = {"lr": self.rate, "weight_decay": self.weight_decay, "fused": fused}
        if self.optimizer == "adam":
            return torch.optim.Adam(chosen, betas=self.betas, **common)
        return torch.optim.SGD(chosen, momentum=self.momentum, **common)

    def update(
        self, optimizer: torch.optim.Optimizer, gradients: Iterable[Tensor], step: int, total: int
    ) -> None:
        """One update with these gradients, in the order of the optimizer's parameters."""
        [group] = optimizer.param_groups
        group["lr"] = self.rate_at(step, total)
        for parameter, gradient in zip(group["params"], gradients, strict=True):
            parameter.grad = gradient if self.clip is None else gradient.clamp_(-self.clip, self.clip)
        optimizer.step()
        optimizer.zero_grad()

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, for provenance."""
        return {**asdict(self), "betas": list(self.betas)}
