"""Looking at a network in training without a trace: mode, buffers, gradients and random generators stay as they are.

Enters: a model and a ``Probe``, the data to look at. Leaves: a ``Tally``, or the norms of the classes' gradients. The
model runs on copies of its buffers, so that batch norm in train mode moves no running statistics, and in the mode of
the probe: ``"train"`` means that batch norms use the statistics of their batch; everything else (dropout) is as in
evaluation in both, as in ``measure``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.func import functional_call

from firstlight.errors import DataError, one_of
from firstlight.measurement.asking import asked_for
from firstlight.measurement.batches import Batch, Batches, as_batches
from firstlight.measurement.kinds import batch_norms, unwrapped
from firstlight.measurement.layouts import rows_of
from firstlight.measurement.outputs import answer
from firstlight.measurement.scouting import settle
from firstlight.measurement.seeding import random_state_preserved
from firstlight.training.counting import Tally, tally

__all__ = [
    "Loss",
    "Probe",
    "class_gradient_norms",
    "look",
    "mode_of_split",
    "probe",
    "targets_of",
    "undisturbed",
]

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Probe:
    """Data to look at, cut into batches that a model's memory bears.

    Attributes:
        batches: The same batches at every look.
        mode: ``"train"`` or ``"eval"``.
        label_axis: Axis of labels of the model's output.
        work: Multiplications of one sample in the model.
        largest: Elements of the largest activation of one sample.
        notes: Sentences for provenance.
    """

    batches: Batches
    mode: str
    label_axis: int
    work: int
    largest: int
    notes: tuple[str, ...] = ()


def mode_of_split(split: str) -> str:
    """Training data are looked at in train mode, all others in eval mode, as in the papers' programs."""
    return "train" if split == "train" else "eval"


def probe(
    model: nn.Module,
    data: Any,
    *,
    mode: str,
    seed: int = 0,
    batch_size: int | None = None,
    max_samples: int | None = None,
) -> Probe:
    """Read data for looking at this model.

    Args:
        model: Tells how large its activations are, hence how many samples go into a batch.
        data: As for ``measure``, with targets.
        mode: ``"train"`` or ``"eval"``.
        seed: Draws ``max_samples`` and the order where batches are shuffled.
        batch_size: Samples in a batch; by default all where memory bears it.
        max_samples: At most so many samples.
    """
    if mode not in ("train", "eval"):
        raise one_of("evaluate(mode)", mode, ["train", "eval"])
    inner, _ = unwrapped(model)
    batches = as_batches(data, seed=seed, batch_size=batch_size, max_samples=max_samples)
    with undisturbed(inner, mode) as run:
        setting, notes = settle(
            type(type(inner).__name__, (_Scouted,), {})(inner, run),  # errors name the user's class
            batches,
            asked_for(["guesses"]),
            layers="output",
            seed=seed,
            batch_size=batch_size,
            loss=None,
        )
        if setting.label_axis is None:
            raise DataError("evaluate(model): the model returns hidden states, expected logits")
        if setting.batches.first().target is None:
            raise DataError("evaluate(data): expected samples with targets, such as (x, y), got inputs alone")
        batches.close()
    return Probe(setting.batches, mode, setting.label_axis, setting.work, setting.largest, tuple(notes))


class _Scouted(nn.Module):
    """The model as ``settle`` runs it: on copies of its buffers."""

    def __init__(self, inner: nn.Module, run: Callable[..., Any]) -> None:
        super().__init__()
        self.inner = inner
        self.run = run

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


@contextmanager
def undisturbed(model: nn.Module, mode: str) -> Iterator[Callable[..., Any]]:
    """A function that calls the model on copies of its buffers; modes and random generators come back as they were."""
    modes = [(item, item.training) for item in model.modules()]
    with random_state_preserved():
        try:
            model.eval()
            if mode == "train":
                for norm in batch_norms(model):
                    norm.train()
            buffers = {name: value.detach().clone() for name, value in model.named_buffers()}

            def run(*args: Any, **kwargs: Any) -> Any:
                return functional_call(model, buffers, args, kwargs)

            yield run
        finally:
            for item, training in modes:
                item.training = training


def look(model: nn.Module, seen: Probe, *, loss: Loss | None = None) -> Tally:
    """Count the guesses of a model on the probe; (1, label) counts."""
    inner, _ = unwrapped(model)
    found: Tally | None = None
    with undisturbed(inner, seen.mode) as run, torch.no_grad():
        for batch in seen.batches:
            logits, targets = _answered(inner, run, batch, seen.label_axis)
            losses = None if loss is None else loss(logits, targets)[None]
            part = tally(logits[None], targets, losses)
            found = part if found is None else found + part
    assert found is not None  # a probe has at least one batch
    return found


def class_gradient_norms(model: nn.Module, seen: Probe, *, loss: Loss | None = None) -> Tensor:
    """Norm of the gradient of the mean loss over the samples of each class, (1, label); NaN where a class is absent."""
    inner, _ = unwrapped(model)
    parameters = [item for item in inner.parameters() if item.requires_grad]
    sums: list[list[Tensor]] = []
    counts: list[int] = []
    with undisturbed(inner, seen.mode) as run, torch.enable_grad():
        for batch in seen.batches:
            logits, targets = _answered(inner, run, batch, seen.label_axis)
            for label in range(logits.shape[1]):
                if len(sums) <= label:
                    sums.append([torch.zeros_like(item) for item in parameters])
                    counts.append(0)
                chosen = targets == label
                count = int(chosen.sum())
                if not count:
                    continue
                counts[label] += count
                total = (loss or F.cross_entropy)(logits[chosen], targets[chosen]) * count
                gradients = torch.autograd.grad(total, parameters, retain_graph=True, allow_unused=True)
                for place, gradient in zip(sums[label], gradients, strict=True):
                    if gradient is not None:
                        place += gradient
    norms = [
        torch.stack([part.double().square().sum() for part in gradients]).sum().sqrt() / count
        if count
        else torch.tensor(torch.nan, dtype=torch.float64)
        for gradients, count in zip(sums, counts, strict=True)
    ]
    return torch.stack([norm.cpu() for norm in norms])[None]


def targets_of(batch: Batch, device: torch.device) -> Tensor:
    """The labels of a batch as one flat tensor."""
    target = batch.target
    if not isinstance(target, Tensor):
        target = torch.as_tensor(target)
    if target.is_floating_point():
        raise DataError(
            f"evaluate(data): expected whole-number labels as targets, got {target.dtype} of shape "
            f"{tuple(target.shape)}; guesses are counted by label"
        )
    return target.flatten().to(device)


def _answered(model: nn.Module, run: Callable[..., Any], batch: Batch, axis: int) -> tuple[Tensor, Tensor]:
    """Logits (row, label) and targets (row,)."""
    first = next((item for item in model.parameters() if item.is_floating_point()), torch.zeros(()))
    batch = batch.converted(first.dtype, first.device)
    rows = rows_of(answer(run(*batch.args, **batch.kwargs))[0], axis)
    targets = targets_of(batch, rows.device)
    if len(targets) != len(rows):
        raise DataError(
            f"evaluate(data): expected a target for each of the {len(rows)} rows of logits, got {len(targets)}"
        )
    return rows, targets
