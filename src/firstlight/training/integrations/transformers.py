"""``GuessCallback`` for Hugging Face's ``Trainer``.

Enters: ``Trainer(callbacks=[GuessCallback()])``. Leaves: ``callback.tracker``. The trainer shows a callback the model
but not the batch, so the callback looks at samples: yours, or the first ones of the training set, at the steps of the
schedule and before the update; nothing of the model is changed.
"""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader, Subset
from transformers import TrainerCallback

from firstlight.errors import UsageError
from firstlight.training.tracking import track

__all__ = ["GuessCallback"]


class GuessCallback(TrainerCallback):
    """Follow the guesses.

    Args:
        data: What to look at: samples with labels in any form that ``measure`` takes; by default the first
            ``max_samples`` of the training set, put into batches as the trainer does.
        test: Further samples to look at, in eval mode.
        max_samples: Look at no more samples than that.
        **options: Passed on to ``firstlight.track``: ``schedule``, ``label_names``, ``log`` …
    """

    def __init__(self, data: Any = None, *, test: Any = None, max_samples: int = 512, **options: Any) -> None:
        self.data, self.test, self.max_samples = data, test, max_samples
        self.tracker = track(**options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Choose the samples, if none were given."""
        if self.data is None:
            self.data = _beginning(given.get("train_dataloader"), self.max_samples)

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look before the update."""
        step, model = state.global_step, given["model"]
        self.tracker.evaluate(step, model, self.data, max_samples=self.max_samples)
        if self.test is not None:
            self.tracker.evaluate(step, model, self.test, split="test", max_samples=self.max_samples)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Hand the last record to the logger."""
        self.tracker.flush()


def _beginning(loader: Any, samples: int) -> Any:
    """The first samples of a loader's data set, in batches that its own function collates."""
    dataset = getattr(loader, "dataset", None)
    if dataset is None or not hasattr(dataset, "__len__"):
        raise UsageError(
            "GuessCallback(data): the training set has no length, so its first samples cannot be taken; pass data="
        )
    chosen = Subset(dataset, range(min(samples, len(dataset))))
    size = getattr(loader, "batch_size", None) or 64
    return DataLoader(chosen, batch_size=min(size, len(chosen)), collate_fn=loader.collate_fn)
