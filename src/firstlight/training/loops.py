"""One run after the other, by ``torch.optim``: for any module.

Enters: a module, a ``Recipe`` and ``Examples``. Leaves: updates, looks, and a state that can be saved. Before each
update the global random generators start from (seed, run, step), so that dropout and augmentation are the same in a
run that was interrupted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from firstlight.errors import FirstlightError, ModelError
from firstlight.measurement.layouts import rows_of
from firstlight.measurement.outputs import answer
from firstlight.measurement.seeding import initialization_seed, torch_seed
from firstlight.training.counting import Tally
from firstlight.training.examples import Examples, order_of
from firstlight.training.looking import Loss, Probe, class_gradient_norms, look
from firstlight.training.recipes import Recipe

__all__ = ["Alone"]

_DROPOUT = 4


class Alone:
    """One run."""

    def __init__(
        self,
        module: nn.Module,
        run: int,
        *,
        recipe: Recipe,
        data: Examples,
        seed: int,
        label_axis: int,
        loss: Loss | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.module = (module if device is None else module.to(device)).train()
        self.runs = (run,)
        self.recipe, self.data, self.seed = recipe, data, seed
        self.total = recipe.total(data.count)
        self._label_axis, self._loss = label_axis, loss
        self._parameters = [item for item in module.parameters() if item.requires_grad]
        self._optimizer = recipe.optimizer_of(self._parameters)
        self._device = self._parameters[0].device

    def step(self, number: int) -> None:
        """Update ``number``, counted from 0."""
        self._seed(number)
        [run] = self.runs
        chosen = order_of(self.seed, run, number, self.data.count, self.recipe.batch_size)
        inputs, targets = self.data.fetch(chosen)
        try:
            output = self.module(inputs.to(self._device))
        except FirstlightError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ModelError(
                f"train(model): {type(self.module).__name__} failed on a batch of shape {tuple(inputs.shape)}: {first}"
            ) from error
        rows = rows_of(answer(output)[0], self._label_axis)
        loss = (self._loss or F.cross_entropy)(rows, targets.flatten().to(self._device))
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        filled = (
            torch.zeros_like(item) if gradient is None else gradient
            for item, gradient in zip(self._parameters, gradients, strict=True)
        )
        self.recipe.update(self._optimizer, filled, number, self.total)

    def look(self, seen: Probe) -> Tally:
        """Guesses on the probe."""
        return look(self.module, seen, loss=self._loss)

    def class_gradient_norms(self, seen: Probe) -> Tensor:
        """(1, label)."""
        return class_gradient_norms(self.module, seen, loss=self._loss)

    def modules(self) -> Iterator[nn.Module]:
        """The module as it is."""
        yield self.module

    def state_dict(self) -> dict[str, Any]:
        """Weights, buffers and the optimizer's memory."""
        return {"module": self.module.state_dict(), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` gave."""
        self.module.load_state_dict(state["module"])
        self._optimizer.load_state_dict(state["optimizer"])

    def _seed(self, number: int) -> None:
        [run] = self.runs
        drawn = torch_seed(initialization_seed(self.seed, run, _DROPOUT, number))
        random.seed(drawn)
        np.random.seed(drawn % 2**32)  # noqa: NPY002 - augmentation draws from the global state
        if torch.cuda.is_available():
            torch.manual_seed(drawn)
        else:
            torch.default_generator.manual_seed(drawn)
