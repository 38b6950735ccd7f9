"""Before the ensemble: run two samples once and settle what all initializations share.

Enters: initialization 0, the data and what is asked. Leaves: a ``Setting`` and the sentences that provenance
should carry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from firstlight.errors import DataError, ModelError
from firstlight.measurement.asking import Asked
from firstlight.measurement.batches import Batches
from firstlight.measurement.kinds import batch_norms
from firstlight.measurement.layouts import unit_axis
from firstlight.measurement.observables.effective_rank import ROWS_LIMIT, UNITS_LIMIT
from firstlight.measurement.observing import Setting, run
from firstlight.measurement.outputs import answer, label_axis, passed_over
from firstlight.measurement.seeding import initialization_seed, seeded
from firstlight.measurement.taps import Layers, Plan, choose, scout

__all__ = ["settle"]

_BLOCK = 1 << 20
"""Elements of the largest activation in one batch, where batches are ours to cut: few enough to stay in cache."""
_WHOLE = 1 << 27
"""Largest activation for which batch norm gets the whole data as one batch."""
_MINIBATCH = 128
_RANK_SHARE = 0.14
"""Multiplications spent on covariances, as a share of the forward pass."""
_WIDE_SHARE = 0.07
"""The same for layers whose rows are multiplied instead."""
_FEWEST_ROWS = 256
"""Rows of such a layer that are kept in any case."""
_RANK_FREE = 20_000_000
"""Multiplications for each sample that are spent on covariances in any case."""


def settle(
    module: nn.Module,
    batches: Batches,
    asked: Asked,
    *,
    layers: Layers,
    seed: int,
    batch_size: int | None,
    loss: Callable[[Any, Any], Tensor] | None,
) -> tuple[Setting, list[str]]:
    """Scout and decide."""
    notes: list[str] = []
    first = next((item for item in module.parameters() if item.is_floating_point()), torch.zeros(()))
    if first.is_meta:
        raise ModelError(
            f"measure(model): {type(module).__name__} is on the meta device, where weights hold no numbers; "
            "build it on a device that computes, such as 'cpu'"
        )
    batch = batches.first().converted(first.dtype, first.device)
    sample = batch.head(2).copied()
    _check_type(sample.tensors, module)
    unwritten = [tensor._version for tensor in sample.tensors]
    with torch.no_grad(), seeded(initialization_seed(seed, 0, 3)):
        plan, output = scout(module, lambda: run(module, sample), sample.tensors)
    if any(tensor.is_floating_point() for tensor in sample.tensors):
        plan = replace(plan, embedding=None)
    plan = choose(plan, module, layers, with_activations=asked.increments)
    tensor, logits = answer(output)
    if not tensor.is_floating_point():
        raise ModelError(
            f"measure(model): the output is {tensor.dtype}; expected floating-point logits of shape (sample, label), "
            "as they are before argmax, rounding or a comparison"
        )
    if (told := passed_over(output)) is not None:
        notes.append(told)
    axis = label_axis(tensor, sample.size, plan.output_axis) if logits and "guesses" in asked else None
    if not logits and "guesses" in asked:
        notes.append("the model returns hidden states, no logits: there are no guesses")
    if plan.embedding is not None and (asked.noise or "gradient_scale" in asked):
        notes.append(f"noise and gradients enter at {plan.embedding}: the inputs are tokens")
    coupled = "the loss" if loss is not None and "gradient_scale" in asked else None
    if any(item.training or item.running_mean is None for item in batch_norms(module)):
        coupled = "batch norm"
    batches = _cut(batches, plan, coupled, tensor, sample.size, batch_size, notes)
    if [tensor._version for tensor in sample.tensors] != unwritten:  # it writes into the data
        batches = batches.copied()
    return (
        Setting(
            plan=plan,
            asked=asked,
            seed=seed,
            batches=batches,
            label_axis=axis,
            output_axis=_output_axis(plan, tensor) if axis is None else axis,
            positions=_positions(plan, asked, sample.size, batches.samples, notes),
            loss=loss,
            work=sum(tap.weight * _numel(tap.shape) // max(tap.units, 1) for tap in plan.ran) // sample.size,
            largest=max(_numel(tap.shape) for tap in plan.ran) // sample.size,
            dtype=first.dtype,
            device=first.device,
        ),
        notes,
    )


def _output_axis(plan: Plan, output: Tensor) -> int:
    return unit_axis("other", output.ndim) if plan.output_axis is None else plan.output_axis


def _check_type(tensors: list[Tensor], module: nn.Module) -> None:
    if any(tensor.is_complex() for tensor in tensors):
        raise DataError(
            "measure(data): the inputs are complex; expected floating point; "
            "pass real and imaginary parts side by side (torch.view_as_real(x).flatten(1))"
        )
    embeds = any(isinstance(item, nn.Embedding | nn.EmbeddingBag) for item in module.modules())
    if not embeds and not any(tensor.is_floating_point() for tensor in tensors):
        raise DataError(
            f"measure(data): the inputs are {tensors[0].dtype}, and the model has no embedding to read whole numbers; "
            "expected floating point; convert them (x.float() / 255 for images)"
        )


def _cut(
    batches: Batches,
    plan: Plan,
    coupled: str | None,
    output: Tensor,
    scouted: int,
    batch_size: int | None,
    notes: list[str],
) -> Batches:
    """Batches of a size that memory bears; where something is ``coupled`` by them, of a size that is stated."""
    notes.extend(batches.notes)
    if batches.cut is None:
        return batches
    total = batches.samples or 1
    made = [_numel(tap.shape) for tap in plan.ran if tap.kind != "pass"]  # a flattened input is the input
    largest = max([output.numel(), *made]) // scouted
    if batch_size is None:
        if coupled is None:
            batch_size = min(max(_BLOCK // max(largest, 1), 8), total)
        elif total * largest <= _WHOLE:
            batch_size = total
            notes.append(f"{coupled} saw all {total} samples as one batch")
        else:
            batch_size = min(_MINIBATCH, total)
            notes.append(
                f"{coupled} saw shuffled batches of {batch_size}, the same for every initialization; "
                "choose others by batch_size="
            )
    if coupled == "batch norm" and total > batch_size and total % batch_size == 1:
        raise DataError(
            f"measure(batch_size): {total} samples in batches of {batch_size} leave a last batch of 1 sample, "
            "which has no batch statistics; "
            "choose another batch_size, max_samples, or mode='eval'"
        )
    return batches.cut(batch_size, coupled is not None)


def _positions(
    plan: Plan, asked: Asked, scouted: int, samples: int | None, notes: list[str]
) -> dict[str, Tensor]:
    """Evenly spaced positions of each layer whose covariances cost at most a share of one forward pass."""
    ranks = ("effective_rank" in asked) + ("noise_effective_rank" in asked)
    if not ranks:
        return {}
    forward = sum(tap.weight * _numel(tap.shape) // max(tap.units, 1) for tap in plan.ran)
    cost = ranks * sum(
        _numel(tap.shape) // max(tap.units, 1) * tap.units**2
        for tap in plan.taps
        if tap.units <= UNITS_LIMIT and tap.positions > 1
    )
    allowed = max(_RANK_SHARE * forward, _RANK_FREE * scouted)
    share = min(1.0, allowed / cost) if cost else 1.0
    rows = _rows_of_wide(plan, ranks, forward, scouted, samples)
    chosen: dict[str, Tensor] = {}
    for tap in plan.taps:
        total = tap.positions
        kept = max(1, int(total * share))
        if tap.units > UNITS_LIMIT:
            kept = max(1, min(total, rows // (samples or rows)))
        if kept < total:
            chosen[tap.key] = (
                torch.linspace(0, total - 1, kept).round().long() if kept > 1 else torch.tensor([total // 2])
            )
    if chosen:
        notes.append(
            f"effective ranks of {len(chosen)} layers are over evenly spaced positions "
            f"({share:.0%} where units ≤ {UNITS_LIMIT})"
        )
    wide = [tap.key for tap in plan.taps if tap.units > UNITS_LIMIT]
    if wide:
        notes.append(
            f"effective ranks of {len(wide)} layers with more than {UNITS_LIMIT} units "
            f"are over at most {ROWS_LIMIT if rows < (samples or 0) else rows} rows"
        )
    return chosen


def _rows_of_wide(plan: Plan, ranks: int, forward: int, scouted: int, samples: int | None) -> int:
    """Rows of layers with too many units for a covariance: their products cost a share of the forward pass."""
    wide = [tap for tap in plan.taps if tap.units > UNITS_LIMIT and tap.positions > 1]
    if samples is None or not wide:
        return ROWS_LIMIT
    most = {tap.key: min(samples * tap.positions, ROWS_LIMIT) for tap in wide}
    cost = ranks * sum(most[tap.key] ** 2 * tap.units for tap in wide)
    factor = math.sqrt(_WIDE_SHARE * forward / scouted * samples / cost)
    return max(_FEWEST_ROWS, min(ROWS_LIMIT, int(factor * max(most.values()))))


def _numel(shape: tuple[int, ...]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total
