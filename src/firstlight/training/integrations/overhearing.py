"""Overhearing: the logits that a trainer computes anyway, caught by a hook that lives for one step.

Enters: a module, and a tracker at a step that its schedule asks for. Leaves: the batches of that step in the tracker.
The trained module runs once, not twice; what is counted is what the trainer saw, dropout included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from firstlight.training.tracking import Tracker

__all__ = ["Ear"]


class Ear:
    """Listens to the forward passes of one step.

    Args:
        tracker: Where the batches go.
        targets: Labels of a forward pass by its arguments and keyword arguments; ``None`` where it has none.
    """

    def __init__(
        self, tracker: Tracker, targets: Callable[[tuple[Any, ...], Mapping[str, Any]], Tensor | None]
    ) -> None:
        self.tracker, self.targets = tracker, targets
        self.heard = 0
        self._handle: RemovableHandle | None = None

    def open(self, module: nn.Module, step: int) -> None:
        """Listen from now on."""
        self.close()
        self.heard = 0

        def hear(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            labels = self.targets(args, kwargs)
            if labels is not None:
                self.heard += 1
                self.tracker.update(step, output, labels)

        self._handle = module.register_forward_hook(hear, with_kwargs=True)

    def close(self) -> bool:
        """Take the hook away; whether it was there."""
        listened = self._handle is not None
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        return listened
