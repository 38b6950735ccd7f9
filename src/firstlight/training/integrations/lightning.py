"""``GuessCallback`` for Lightning: follow the guesses of a ``LightningModule`` while a ``Trainer`` fits it.

Enters: ``Trainer(callbacks=[GuessCallback()])``. Leaves: ``callback.tracker``, records in the trainer's loggers, and a
state in its checkpoints. At the steps of the schedule, before the update, the module looks once more at the batch it is
about to learn from, in train mode without dropout, or at data of yours; nothing of it is changed.
"""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from firstlight.training.looking import answered
from firstlight.training.tracking import track

__all__ = ["GuessCallback"]


class GuessCallback(Callback):
    """Follow the guesses.

    Args:
        data: What to look at: samples with labels in any form that ``measure`` takes; by default the batches that are
            trained on.
        test: Further samples to look at, in eval mode.
        max_samples: Look at no more samples of ``data`` and ``test`` than that.
        log: Whether records go to the trainer's loggers.
        **options: Passed on to ``firstlight.track``: ``schedule``, ``label_names``, ``loss`` …
    """

    def __init__(
        self,
        data: Any = None,
        *,
        test: Any = None,
        max_samples: int | None = 1024,
        log: bool = True,
        **options: Any,
    ) -> None:
        self.data, self.test, self.max_samples, self.log = data, test, max_samples, log
        self._trainer: Trainer | None = None
        self.tracker = track(log=self._hand_on if log else None, **options)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remember whose loggers to write to."""
        self._trainer = trainer

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Look before the update."""
        self._look(trainer.global_step, pl_module, batch)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Add up what the processes have seen."""
        self.tracker.flush()
        self.tracker.synchronize()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return self.tracker.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.tracker.load_state_dict(state_dict)

    def _look(self, step: int, module: LightningModule, batch: Any) -> None:
        if not self.tracker.due(step):
            return
        if self.data is None:
            with torch.no_grad():
                logits, targets = answered(module, batch, "train")
            self.tracker.update(step, logits, targets)
        else:
            self.tracker.evaluate(step, module, self.data, max_samples=self.max_samples)
        if self.test is not None:
            self.tracker.evaluate(step, module, self.test, split="test", max_samples=self.max_samples)

    def _hand_on(self, values: dict[str, float], step: int) -> None:
        for logger in [] if self._trainer is None else self._trainer.loggers:
            logger.log_metrics(values, step=step)
