"""Many small runs at once: parameters stacked along a first axis, one call for all members (``torch.func``).

Enters: modules of one architecture, a ``Recipe`` and ``Examples``. Leaves: what ``loops.Alone`` leaves, for all
members. The sum of the members' mean losses has the members' own gradients, and ``torch.optim`` is elementwise, so
each member takes the updates that it would take alone, to rounding: its own weights, its own order of the data, its
own running statistics of batch norm.

Matrices of dense layers are kept as (member, in, out): their gradients then leave the matrix product as they are
stored, where (member, out, in) would cost a transposed copy at every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.func import functional_call, vmap

from firstlight.measurement.batches import Batch
from firstlight.measurement.kinds import batch_norms
from firstlight.measurement.outputs import answer
from firstlight.training.counting import Tally, tally
from firstlight.training.examples import Examples, order_of
from firstlight.training.looking import Probe, targets_of
from firstlight.training.recipes import Recipe

__all__ = ["Together", "members_at_once"]

_SMALL_WORK = 1 << 24
"""Multiplications of one member and batch below which the calls cost more than the arithmetic (bench_training.py)."""
_MOST = 20
"""Members of one call: more save no more time, and their weights leave the cache."""
_LARGEST = 1 << 24
"""Elements of the largest stacked activation when looking."""
# fmt: off
_TOGETHER = (
    nn.Sequential, nn.Flatten, nn.Identity, nn.Linear, nn.BatchNorm1d, nn.LayerNorm, nn.RMSNorm,
    nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.ELU, nn.Sigmoid, nn.Softplus,
)
# fmt: on
"""Modules that run the same under ``vmap``, deterministically and fast; others go through the loop."""


def members_at_once(module: nn.Module, work: int, recipe: Recipe, data: Examples) -> int:
    """How many runs share a call; 1 for the loop. Follows from sizes, never from clocks.

    Args:
        module: One of them.
        work: Multiplications of one sample.
        recipe: Says how large the batches are.
        data: Must be in memory.
    """
    if not data.held or work * recipe.batch_size > _SMALL_WORK:
        return 1
    for item in module.modules():
        known = isinstance(item, _TOGETHER) and type(item).forward in {kind.forward for kind in _TOGETHER}
        if not known or item._forward_hooks or item._forward_pre_hooks:
            return 1
        if isinstance(item, nn.BatchNorm1d) and item.momentum is None:
            return 1  # a cumulative average reads its count as a number, which vmap has not
    if not all(item.requires_grad for item in module.parameters()):
        return 1
    return _MOST


class Together:
    """Several runs."""

    def __init__(
        self, modules: Sequence[nn.Module], runs: Sequence[int], *, recipe: Recipe, data: Examples, seed: int
    ) -> None:
        self.runs = tuple(runs)
        self.recipe, self.data, self.seed = recipe, data, seed
        self.total = recipe.total(data.count)
        self._module = modules[0].train()
        self._dense = {
            f"{name}.weight" if name else "weight"
            for name, item in self._module.named_modules()
            if isinstance(item, nn.Linear)
        }
        stacked = _stacked([dict(module.named_parameters()) for module in modules])
        self._leaves = {
            name: (value.transpose(1, 2).contiguous() if name in self._dense else value).requires_grad_()
            for name, value in stacked.items()
        }
        self._buffers = _stacked([dict(module.named_buffers()) for module in modules])
        self._optimizer = recipe.optimizer_of(self._leaves.values())

    def step(self, number: int) -> None:
        """Update ``number``, counted from 0."""
        chosen = torch.stack(
            [order_of(self.seed, run, number, self.data.count, self.recipe.batch_size) for run in self.runs]
        )  # (member, sample)
        inputs, targets = self.data.fetch(chosen.flatten())
        inputs = inputs.view(*chosen.shape, *inputs.shape[1:])
        self._module.train()
        logits = vmap(self._member)(self._parameters(), self._buffers, inputs)
        losses = F.cross_entropy(logits.flatten(0, 1), targets, reduction="none")
        total = losses.view(chosen.shape).mean(1).sum()
        gradients = torch.autograd.grad(total, list(self._leaves.values()))
        self.recipe.update(self._optimizer, gradients, number, self.total)

    def look(self, seen: Probe) -> Tally:
        """Guesses of every member on the probe, on copies of their buffers."""
        found: Tally | None = None
        with torch.no_grad():
            for logits, targets in self._answers(seen):
                part = tally(logits, targets)
                found = part if found is None else found + part
        assert found is not None
        return found

    def class_gradient_norms(self, seen: Probe) -> Tensor:
        """Norm of the gradient of each class, (member, label)."""
        sums: dict[int, list[Tensor]] = {}
        counts: dict[int, int] = {}
        labels = 0
        for logits, targets in self._answers(seen):
            labels = logits.shape[2]
            for label in range(labels):
                chosen = targets == label
                count = int(chosen.sum())
                if not count:
                    continue
                picked, truth = logits[:, chosen], targets[chosen].repeat(len(self.runs))
                total = F.cross_entropy(picked.flatten(0, 1), truth, reduction="sum")
                gradients = torch.autograd.grad(total, list(self._leaves.values()), retain_graph=True)
                before = sums.get(label)
                sums[label] = (
                    list(gradients)
                    if before is None
                    else [old + new for old, new in zip(before, gradients, strict=True)]
                )
                counts[label] = counts.get(label, 0) + count
        norms = torch.full((len(self.runs), labels), torch.nan, dtype=torch.float64)
        for label, parts in sums.items():
            squares = torch.stack([part.double().flatten(1).square().sum(1) for part in parts]).sum(0)
            norms[:, label] = squares.sqrt() / counts[label]
        return norms

    def modules(self) -> Iterator[nn.Module]:
        """Every member as a module; the same object, with the weights of one after the other."""
        parameters = {name: value.detach() for name, value in self._parameters().items()}
        for member in range(len(self.runs)):
            with torch.no_grad():
                for name, parameter in self._module.named_parameters():
                    parameter.copy_(parameters[name][member])
                for name, buffer in self._module.named_buffers():
                    buffer.copy_(self._buffers[name][member])
            yield self._module

    def state_dict(self) -> dict[str, Any]:
        """Weights, buffers and the optimizer's memory."""
        return {
            "leaves": {name: value.detach() for name, value in self._leaves.items()},
            "buffers": self._buffers,
            "optimizer": self._optimizer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` gave."""
        with torch.no_grad():
            for name, value in state["leaves"].items():
                self._leaves[name].copy_(value)
            for name, value in state["buffers"].items():
                self._buffers[name].copy_(value)
        self._optimizer.load_state_dict(state["optimizer"])

    def _parameters(self) -> dict[str, Tensor]:
        """(member, …), as the modules have them."""
        return {
            name: value.transpose(1, 2) if name in self._dense else value
            for name, value in self._leaves.items()
        }

    def _member(self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor) -> Tensor:
        return answer(functional_call(self._module, (parameters, buffers), (inputs,)))[0]

    def _answers(self, seen: Probe) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits (member, sample, label) and targets (sample,) of each batch."""
        self._module.eval()
        if seen.mode == "train":
            for norm in batch_norms(self._module):
                norm.train()
        parameters = self._parameters()
        dtype = next(iter(parameters.values())).dtype
        for batch in seen.batches:
            batch = batch.converted(dtype, torch.device("cpu"))
            yield self._logits(parameters, batch, seen), targets_of(batch, torch.device("cpu"))

    def _logits(self, parameters: dict[str, Tensor], batch: Batch, seen: Probe) -> Tensor:
        """As many members at a time as memory bears."""
        share = max(1, _LARGEST // max(1, seen.largest * batch.size))
        members = len(self.runs)
        parts = []
        for start in range(0, members, share):
            some = slice(start, start + share)
            chosen = {name: value[some] for name, value in parameters.items()}
            copies = {name: value[some].clone() for name, value in self._buffers.items()}
            parts.append(vmap(self._member, in_dims=(0, 0, None))(chosen, copies, batch.args[0]))
        return torch.cat(parts)


def _stacked(members: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([member[name].detach() for member in members]) for name in members[0]}
