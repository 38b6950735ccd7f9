"""``GuessCallback`` for Lightning: follow the guesses of a ``LightningModule`` while a ``Trainer`` fits it.

Enters: ``Trainer(callbacks=[GuessCallback()])``. Leaves: ``callback.tracker``, records in the trainer's loggers, and
a state in its checkpoints. At the steps of the schedule the logits of the training step are overheard, where it calls
``self(inputs)``, or taken from what it returns, ``{"loss": …, "logits": …}``; nothing runs twice. Data of yours are
looked at before the update instead; nothing of the module is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from firstlight.errors import UsageError
from firstlight.measurement.batches import as_batches
from firstlight.training.integrations.overhearing import Ear
from firstlight.training.tracking import track

__all__ = ["GuessCallback"]


class GuessCallback(Callback):
    """Follow the guesses.

    Args:
        data: Samples with labels to look at, in any form that ``measure`` takes; by default the batches that are
            trained on are overheard.
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
        self._ear = Ear(self.tracker, lambda args, kwargs: self._labels if self._ear.heard == 0 else None)
        self._labels: Any = None
        self._step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remember whose loggers to write to."""
        self._trainer = trainer

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Look, or begin to listen."""
        step = trainer.global_step
        if not self.tracker.due(step):
            return
        if self.data is not None:
            self.tracker.evaluate(step, pl_module, self.data, max_samples=self.max_samples)
        if self.test is not None:
            self.tracker.evaluate(step, pl_module, self.test, split="test", max_samples=self.max_samples)
        if self.data is None:
            self._step, self._labels = step, as_batches([batch], seed=0).first().target
            self._ear.open(pl_module, step)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stop listening."""
        if not self._ear.close() or self._ear.heard:
            return
        if not isinstance(outputs, Mapping) or "logits" not in outputs or self._labels is None:
            raise UsageError(
                f"GuessCallback: the training step of {type(pl_module).__name__} neither calls self(inputs) nor "
                "returns 'logits' beside 'loss', or its batches have no labels; pass data= to have it looked at"
            )
        self.tracker.update(self._step, outputs["logits"], self._labels)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave no hook behind."""
        self._ear.close()

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

    def _hand_on(self, values: dict[str, float], step: int) -> None:
        for logger in [] if self._trainer is None else self._trainer.loggers:
            logger.log_metrics(values, step=step)
