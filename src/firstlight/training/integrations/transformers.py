"""``GuessCallback`` for Hugging Face's ``Trainer``.

Enters: ``Trainer(callbacks=[GuessCallback()])``. Leaves: ``callback.tracker``. At the steps of the schedule the
logits of the batches that are trained on are overheard; nothing runs twice. Data of yours are looked at before the
update instead; nothing of the model is changed.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from firstlight.errors import UsageError
from firstlight.training.integrations.overhearing import Ear
from firstlight.training.tracking import track

__all__ = ["GuessCallback"]


class GuessCallback(TrainerCallback):
    """Follow the guesses.

    Args:
        data: Samples with labels to look at, in any form that ``measure`` takes; by default the batches that are
            trained on are overheard, which need ``labels``.
        test: Further samples to look at, in eval mode.
        max_samples: Look at no more samples than that.
        **options: Passed on to ``firstlight.track``: ``schedule``, ``label_names``, ``log`` …
    """

    def __init__(self, data: Any = None, *, test: Any = None, max_samples: int = 512, **options: Any) -> None:
        self.data, self.test, self.max_samples = data, test, max_samples
        self.tracker = track(**options)
        self._ear = Ear(self.tracker, lambda args, kwargs: kwargs.get("labels"))

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look, or begin to listen."""
        step, model = state.global_step, given["model"]
        if not self.tracker.due(step):
            return
        if self.data is not None:
            self.tracker.evaluate(step, model, self.data, max_samples=self.max_samples)
        if self.test is not None:
            self.tracker.evaluate(step, model, self.test, split="test", max_samples=self.max_samples)
        if self.data is None:
            self._ear.open(model, step)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Stop listening."""
        if self._ear.close() and not self._ear.heard:
            raise UsageError(
                "GuessCallback: the trainer calls the model without labels, so its batches cannot be counted; "
                "pass data= to have it looked at"
            )

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Hand the last record to the logger."""
        self._ear.close()
        self.tracker.flush()
