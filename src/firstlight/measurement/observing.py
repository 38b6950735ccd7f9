"""One initialization: run the data through it and reduce what the taps show.

Enters: a module in its mode, and the ``Setting`` that all initializations share. Leaves: ``Seen``, the
float64 numbers of each layer and the guess counts. Signal and noise share one pass (a dual one, where noise
is asked for); the gradient has a pass of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from firstlight.errors import CouldNotError, DataError, FirstlightError, ModelError
from firstlight.measurement.asking import Asked
from firstlight.measurement.batches import Batch, Batches
from firstlight.measurement.gradients import gradient_scales
from firstlight.measurement.increments import increments, route
from firstlight.measurement.layouts import arranged, rows_of
from firstlight.measurement.observables import (
    dead_units,
    effective_rank,
    guessing,
    logits,
    moments,
    noise,
)
from firstlight.measurement.outputs import answer
from firstlight.measurement.reading_activations import speakers
from firstlight.measurement.seeding import initialization_seed, seeded, stream
from firstlight.measurement.tangents import Rescaling, dual_batch, own_arithmetic, split, tangent_mode
from firstlight.measurement.taps import Plan, Tap, tapped
from firstlight.measurement.through_batch_norm import Reduced, line, lines

__all__ = [
    "INPUT",
    "OUTPUT",
    "Seen",
    "Setting",
    "Watch",
    "check_inputs",
    "guessed",
    "layer_keys",
    "observe",
    "packed",
    "run",
]

INPUT = "input"
"""Where signal and noise enter."""
OUTPUT = "output"
"""The last layer, where no module's output is the model's."""
_UNDIFFERENTIABLE = re.compile(
    r"forward(-| )(mode )?(AD|automatic differentiation)|derivative for .* not implemented"
)
_SPEAKING = (RuntimeError, ValueError, TypeError, IndexError)
"""Errors whose text says enough without their name."""


@dataclass(frozen=True)
class Setting:
    """What all initializations share.

    Attributes:
        plan: What runs and what is tapped.
        asked: Quantities.
        seed: Names the initializations.
        batches: The data.
        label_axis: Axis of labels of the output, or ``None`` where it is not one of logits.
        output_axis: Axis of units of the output.
        positions: Which positions the effective rank of each layer keeps; absent for all.
        loss: The user's loss of (output, target) for the gradient, instead of a random linear read-out.
        work: Multiplications of one sample in dense and convolutional layers.
        largest: Elements of the largest activation of one sample.
        dtype: Precision of the model.
        device: Where it is.
    """

    plan: Plan
    asked: Asked
    seed: int
    batches: Batches
    label_axis: int | None
    output_axis: int
    positions: dict[str, Tensor]
    loss: Callable[[Any, Any], Tensor] | None
    work: int
    largest: int
    dtype: torch.dtype
    device: torch.device


@dataclass
class Seen:
    """One initialization.

    Attributes:
        values: Arrays (layer,) by quantity; NaN where a layer has none.
        guesses: Guess counts, where they were asked for.
        samples: Samples run.
        batch_sizes: Sizes of the batches.
        whole: Numbers of the whole network.
    """

    values: dict[str, NDArray[np.float64]]
    guesses: guessing.GuessCounts | None
    samples: int = 0
    batch_sizes: set[int] = field(default_factory=set)
    whole: dict[str, float] = field(default_factory=dict)


def layer_keys(plan: Plan) -> list[str]:
    """Layers of the profile in running order, the output last."""
    keys = [tap.key for tap in plan.taps]
    return keys if plan.output is not None else [*keys, OUTPUT]


def packed(values: Mapping[str, Mapping[str, float]], plan: Plan) -> dict[str, NDArray[np.float64]]:
    """Quantity → layer → number, as arrays: thousands of initializations are kept."""
    keys = layer_keys(plan)
    return {name: np.array([column.get(key, np.nan) for key in keys]) for name, column in values.items()}


def observe(module: nn.Module, setting: Setting, index: int) -> Seen:
    """Measure initialization ``index``, whose weights ``module`` holds."""
    with seeded(initialization_seed(setting.seed, index, 3)):  # for what the model itself draws on its way
        watch = Watch(setting, stream(initialization_seed(setting.seed, index, 1)))
        with torch.no_grad():
            for number, batch in enumerate(setting.batches):
                if index == 0:
                    check_inputs(batch, number)
                watch.take(module, batch.converted(setting.dtype, setting.device))
        seen = watch.finalized()
        if "gradient_scale" in setting.asked:
            scales = gradient_scales(
                module,
                setting.plan,
                (batch.converted(setting.dtype, setting.device) for batch in setting.batches),
                stream(initialization_seed(setting.seed, index, 2)),
                output=OUTPUT,
                loss=setting.loss,
            )
            seen.values.update(packed({"log_gradient_scale": scales}, setting.plan))
    return seen


def run(module: nn.Module, batch: Batch) -> Any:
    """Call the model; what it refuses becomes one sentence."""
    try:
        return module(*batch.args, **batch.kwargs)
    except FirstlightError:
        raise
    except Exception as error:  # whatever a model may raise
        if _UNDIFFERENTIABLE.search(str(error)):
            raise CouldNotError(
                f"measure(quantities): an operation of this model has no derivative of the kind needed: "
                f"{_first_line(error)}; "
                "leave out the noise, sensitivity and gradient quantities"
            ) from error
        if "Expected more than 1 value per channel" in str(error):
            raise DataError(
                "measure(batch_size): a batch of 1 sample has no batch statistics; "
                "expected at least 2 samples in each batch where "
                "batch norm runs in train mode; choose another batch_size, drop the last batch, or pass mode='eval'"
            ) from error
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in batch.tensors)
        raise ModelError(
            f"measure(model): {type(module).__name__} failed on a batch of shape {shapes}: {_first_line(error)}"
        ) from error


class Watch:
    """The states of all taps during the passes of one initialization."""

    def __init__(self, setting: Setting, generator: np.random.Generator) -> None:
        asked, plan = setting.asked, setting.plan
        self.setting, self.asked, self.plan, self.generator = setting, asked, plan, generator
        self.moments: dict[str, moments.Moments] = {}
        self.noise: dict[str, noise.NoiseState] = {}
        self.ranks: dict[str, effective_rank.RankState] = {}
        self.noise_ranks: dict[str, effective_rank.RankState] = {}
        self.guesses: guessing.GuessCounts | None = None
        self.logits: logits.LogitState | None = None
        self.extremes: dict[str, dead_units.Extremes] = {}
        self.samples, self.sizes = 0, set[int]()
        self.rescaling = Rescaling(plan)
        self.reduces = bool(asked.order or asked.noise or "effective_rank" in asked)
        self.route = route(plan) if asked.increments else None
        self.layers = {*layer_keys(plan)}
        self.taps = plan.taps if self.reduces else ()
        if self.route is not None:
            self.taps = (*self.taps, *self.route.auxiliary)
        self.speakers = speakers(plan) if "dead_units" in asked else {}
        self.lines: dict[str, _BatchNorm] = {}
        self.reduced: Reduced | None = None
        known = {tap.key for tap in self.taps}
        self.watched = tuple(tap for tap in plan.ran if tap.key in self.speakers and tap.key not in known)

    def take(self, module: nn.Module, batch: Batch) -> None:
        """Run one batch."""
        self.samples += batch.size
        self.sizes.add(batch.size)
        self.lines = lines(module)
        with ExitStack() as stack:
            begin = stack.enter_context(tapped(module, (*self.taps, *self.watched), self._listen))
            begin()
            if self.asked.noise:
                stack.enter_context(tangent_mode(module))
                batch = stack.enter_context(dual_batch(batch, self.generator, module, self.plan, self._enter))
                stack.enter_context(self.rescaling.hooked(module))
            tensor, _ = answer(run(module, batch))
            if self.asked.noise and tensor.is_inference():
                raise CouldNotError(
                    "measure(quantities): the model computes in torch.inference_mode, where nothing can be "
                    "differentiated; leave out the noise and sensitivity quantities, or call it without"
                )
            signal, tangent = split(tensor) if self.asked.noise else (tensor, None)
            self._guess(signal, batch.target)
            self.reduced = None
            if self.plan.output is None and self.reduces:
                self._reduce(OUTPUT, signal, tangent, self.setting.output_axis, self.rescaling.exponent)
            self.reduced = None

    def finalized(self) -> Seen:
        """Numbers of every layer."""
        values: dict[str, dict[str, float]] = {}
        for key, state in self.moments.items():
            for name, value in moments.finalize(state).items():
                values.setdefault(name, {})[key] = value
        for name, ranks in (("effective_rank", self.ranks), ("noise_effective_rank", self.noise_ranks)):
            if ranks:
                values[name] = {key: effective_rank.finalize(state) for key, state in ranks.items()}
        if self.extremes:
            values["dead_units"] = self._dead_units()
        if self.asked.noise:
            logs = {key: noise.finalize(state) for key, state in self.noise.items()}
            values["log_noise_variance"] = logs
            if self.asked.order:
                values["log_sensitivity"] = self._log_sensitivity(logs, values["data_variance"])
            if self.route is not None:
                values.update(increments(self.route, values["log_sensitivity"]))
        whole = {} if self.logits is None else logits.finalize(self.logits)
        return Seen(packed(values, self.plan), self.guesses, self.samples, self.sizes, whole)

    def _dead_units(self) -> dict[str, float]:
        """By layer the share of the activation that it speaks for; the greatest, where it speaks for several."""
        shares: dict[str, float] = {}
        for key, state in self.extremes.items():
            layer = self.speakers[key]
            shares[layer] = max(shares.get(layer, 0.0), dead_units.finalize(state))
        return shares

    def _log_sensitivity(self, noises: dict[str, float], variances: dict[str, float]) -> dict[str, float]:
        """Logarithm of χ at each point; the input's is 0."""
        with np.errstate(divide="ignore"):
            ratio = {key: value - float(np.log(variances.get(key, np.nan))) for key, value in noises.items()}
        return {key: 0.5 * (value - ratio[INPUT]) for key, value in ratio.items()}

    def _enter(self, signal: Tensor, tangent: Tensor) -> None:
        self._reduce(INPUT, signal, tangent, 1 if signal.ndim >= 4 else -1, 0)

    def _listen(self, tap: Tap, tensor: Tensor, args: Any) -> None:
        with own_arithmetic():
            self._take(tap, tensor, args)

    def _take(self, tap: Tap, tensor: Tensor, args: Any) -> None:
        signal, tangent = split(tensor) if self.asked.noise else (tensor, None)
        if tap.key in self.speakers:
            rows = rows_of(signal, tap.axis)
            state = self.extremes.get(tap.key) or dead_units.init(rows.shape[1])
            self.extremes[tap.key] = dead_units.update(state, rows)
        if tap not in self.watched:
            known = None
            if self.asked.order and tap.name in self.lines and self.reduced is not None:
                read = split(args[0])[0] if args and isinstance(args[0], Tensor) else None
                known = line(self.lines[tap.name], self.reduced, read, signal)
            self._reduce(tap.key, signal, tangent, tap.axis, self.rescaling.exponent, known)

    def _reduce(
        self,
        key: str,
        signal: Tensor,
        tangent: Tensor | None,
        axis: int,
        exponent: int,
        known: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Take one output into the states of its layer; ``known`` is the line that made it of what was reduced last."""
        units = signal.shape[axis] if signal.ndim > 1 else 1
        chosen = key in self.layers
        if self.asked.order:
            order, block = self.asked.order if chosen else 2, arranged(signal, axis)
            if known is None or self.reduced is None or self.reduced.moments.order < order:
                found = moments.of_block(block, order=order)
            else:
                found = moments.mapped(self.reduced.moments, *known, block)
            self.moments[key] = moments.merge(self.moments[key], found) if key in self.moments else found
            self.reduced = Reduced.of(signal, axis, found)
        if chosen and "effective_rank" in self.asked:
            rank = self.ranks.get(key) or effective_rank.init(units)
            self.ranks[key] = effective_rank.update(
                rank, rows_of(signal, axis, self.setting.positions.get(key))
            )
        if not self.asked.noise:
            return
        self.noise[key] = noise.update(
            self.noise.get(key, noise.init()), tangent, exponent, count=signal.numel()
        )
        if chosen and "noise_effective_rank" in self.asked:
            rank = self.noise_ranks.get(key) or effective_rank.init(units)
            part = torch.zeros_like(signal) if tangent is None else tangent
            rows = rows_of(part, axis, self.setting.positions.get(key))
            self.noise_ranks[key] = effective_rank.update(rank, rows)

    def _guess(self, output: Tensor, target: Any) -> None:
        axis = self.setting.label_axis
        if axis is None:
            return
        if "logits" in self.asked:
            rows = rows_of(output, axis)  # (sample · position, label)
            state = self.logits or logits.init(rows.shape[1])
            self.logits = logits.update(state, rows, logits.targets_of(target, *rows.shape))
            # What is not finite is told by its share; for the guesses it is a tie of all labels.
            output = torch.where(torch.isfinite(output).all(axis, keepdim=True), output, 0.0)
        self.guesses = guessed(self.guesses, output, axis, self.moments)


def guessed(
    state: guessing.GuessCounts | None, logits: Tensor, axis: int, seen: Mapping[str, moments.Moments]
) -> guessing.GuessCounts:
    """Count guesses; ``seen`` tells the layers apart that are not finite, where the output is not."""
    rows = rows_of(logits, axis)  # (sample · position, label)
    largest = rows.amax(1)
    if not bool(torch.isfinite(largest).all()):
        count = int((~torch.isfinite(largest)).sum())
        broken = [key for key, item in seen.items() if not bool(torch.isfinite(item.m2).all())]
        where = f"; the first layer that is not finite is {broken[0]}" if broken else ""
        raise ModelError(
            f"measure(model): the output is NaN or infinite for {count} of {len(largest)} samples{where}; "
            "expected finite logits; check the scale of inputs and weights, or run in float64"
        )
    return guessing.update(state or guessing.init(rows.shape[1]), rows)


def check_inputs(batch: Batch, number: int) -> None:
    """Refuse NaN and infinite inputs."""
    for tensor in batch.tensors:
        if not tensor.is_floating_point() or bool(torch.isfinite(tensor.sum())):
            continue
        finite = torch.isfinite(tensor.flatten(1)).all(1) if tensor.ndim > 1 else torch.isfinite(tensor)
        bad = torch.nonzero(~finite).flatten().tolist()
        if bad:
            kind = "NaN" if bool(torch.isnan(tensor).any()) else "infinite"
            raise DataError(
                f"measure(data): {kind} inputs in {len(bad)} of {len(tensor)} samples of batch {number} "
                f"(first: sample {bad[0]}); "
                "expected finite numbers; drop or fill those samples first"
            )


def _first_line(error: Exception) -> str:
    name, text = type(error).__name__, str(error).strip()
    if not text:
        return name
    line = text.splitlines()[0]
    return line if isinstance(error, _SPEAKING) else f"{name}: {line}"
