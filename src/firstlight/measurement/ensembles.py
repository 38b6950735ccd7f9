"""Initializations in order: several at once where one is too small to fill a call, else one after the other.

Enters: a way to draw modules, and the ``Setting``. Leaves: ``Seen`` for each initialization.

Small networks spend their time in the calls, not in the arithmetic; so members of one architecture run as
one, with their weights stacked (``torch.func``), and are reduced as one. Of larger ones that begin with a narrow
dense layer a few run side by side and share its multiplication. All others are as fast alone, and a dual pass or a
backward pass runs alone always. The choice follows from sizes, never from clocks, and
changes no number beyond rounding.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.parameter import UninitializedParameter

from firstlight.errors import DataError
from firstlight.measurement.batches import Batch
from firstlight.measurement.initialization import Draw
from firstlight.measurement.kinds import batch_norms
from firstlight.measurement.layouts import arranged
from firstlight.measurement.observables import guessing, moments
from firstlight.measurement.observing import OUTPUT, Seen, Setting, check_inputs, guessed, observe, packed
from firstlight.measurement.outputs import answer
from firstlight.measurement.side_by_side import MEMBERS, first_layer, observe_side_by_side
from firstlight.measurement.taps import Tap, tapped
from firstlight.measurement.unregistered import unregistered

__all__ = ["members_at_once", "observations"]

_SMALL_WORK = 1 << 24
"""Multiplications of one member and batch below which the calls cost more than the arithmetic (measured on CPUs)."""
_LARGEST = 1 << 22
"""Elements of the largest stacked activation."""
_MOST = 32


def observations(
    draw: Draw, prepare: Callable[[nn.Module], nn.Module], setting: Setting, inits: int
) -> Iterator[Seen]:
    """Measure initializations 0 … ``inits`` − 1, in order."""
    ways = [(_observe_together, members_at_once(setting)), (_observe_side_by_side, _members_beside(setting))]
    index = 0
    while index < inits:
        for observe_some, most in list(ways):
            members = min(most, inits - index)
            found = (
                observe_some(draw, prepare, setting, range(index, index + members)) if members > 1 else None
            )
            if found is not None:
                yield from found
                index += members
                break
            ways.remove((observe_some, most))
        else:
            yield observe(prepare(draw.module_of(index)), setting, index)
            index += 1


def members_at_once(setting: Setting) -> int:
    """How many members share a call: 1 for the loop."""
    asked, batches = setting.asked, setting.batches
    alone = {"effective_rank", "gradient_scale", "dead_units", "logits"}
    if asked.noise or asked.names & alone or batches.largest is None:
        return 1
    if setting.work * batches.largest > _SMALL_WORK or any(
        tap.kind == "container" for tap in setting.plan.taps
    ):
        return 1
    return max(1, min(_MOST, _LARGEST // max(setting.largest * batches.largest, 1)))


def _members_beside(setting: Setting) -> int:
    """How many members share the multiplication of their first layer: 1 where multiplying is not what costs."""
    largest, plan = setting.batches.largest, setting.plan
    if setting.asked.noise or "gradient_scale" in setting.asked or largest is None:
        return 1
    first = next((tap for tap in plan.ran if tap.kind != "pass"), None)
    if first is None or first.kind != "dense" or first.name not in plan.joints:
        return 1
    return MEMBERS if setting.work * largest > _SMALL_WORK else 1


def _observe_side_by_side(
    draw: Draw, prepare: Callable[[nn.Module], nn.Module], setting: Setting, indices: range
) -> list[Seen] | None:
    """The members of ``indices`` beside one another; nothing where this architecture does not begin as it takes."""
    module = prepare(draw.module_of(indices[0]))
    if first_layer(module, setting.work) is None:
        return None
    modules = [copy.deepcopy(module)]  # the next draw may be made on the same one
    modules += [copy.deepcopy(prepare(draw.module_of(index))) for index in indices[1:]]
    return observe_side_by_side(modules, setting, indices)


def _observe_together(
    draw: Draw, prepare: Callable[[nn.Module], nn.Module], setting: Setting, indices: range
) -> list[Seen] | None:
    """The members of ``indices`` as one; nothing where this architecture cannot run so."""
    lent: list[tuple[nn.Module, bool, dict[str, Tensor | None]]] = []
    try:
        return _seen_together(draw, prepare, setting, indices, lent)
    finally:
        _give_back(lent)


def _give_back(lent: list[tuple[nn.Module, bool, dict[str, Tensor | None]]]) -> None:
    """Norms get their running statistics again: a module that exists is re-drawn as it stands, statistics and all."""
    for norm, tracks, buffers in lent:
        norm.track_running_stats = tracks  # type: ignore[assignment]
        norm._buffers.update(buffers)
    lent.clear()


def _seen_together(
    draw: Draw,
    prepare: Callable[[nn.Module], nn.Module],
    setting: Setting,
    indices: range,
    lent: list[tuple[nn.Module, bool, dict[str, Tensor | None]]],
) -> list[Seen] | None:
    states: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []
    module, beside = None, None
    for index in indices:
        _give_back(lent)
        module = prepare(draw.module_of(index))
        held = unregistered(module)
        if held != (held if beside is None else beside):
            return None
        beside = held
        if any(isinstance(value, UninitializedParameter) for value in module.parameters()):
            return None
        for norm in batch_norms(module):
            if norm.training:  # it reads its batch alone; running statistics would be written under vmap
                lent.append((norm, bool(norm.track_running_stats), dict(norm._buffers)))
                norm.track_running_stats = False  # type: ignore[assignment]
                norm.running_mean = norm.running_var = norm.num_batches_tracked = None  # type: ignore[assignment]
        states.append(
            (
                {name: value.detach().clone() for name, value in module.named_parameters()},
                {name: value.detach().clone() for name, value in module.named_buffers()},
            )
        )
    assert module is not None
    try:
        stacked = tuple(
            {name: torch.stack([state[part][name] for state in states]) for name in states[0][part]}
            for part in (0, 1)
        )
        watch = _Together(setting, len(indices))
        with torch.no_grad(), _one_by_one_refused():
            for number, batch in enumerate(setting.batches):
                if indices.start == 0:
                    check_inputs(batch, number)
                watch.take(module, stacked, batch.converted(setting.dtype, setting.device))
    except DataError:
        raise
    except (RuntimeError, KeyError, ValueError, TypeError, IndexError, _OneByOne):
        return None  # the loop will say what is wrong, if something is, and at which layer
    return watch.finalized()


class _OneByOne(UserWarning):
    """An operation has no rule for several members at once."""


@contextmanager
def _one_by_one_refused() -> Iterator[None]:
    """Torch only warns where it runs an operation for each member in turn; the loop does that better."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="There is a performance drop")
        try:
            yield
        except UserWarning as warning:
            if "performance drop" not in str(warning):
                raise
            raise _OneByOne(str(warning)) from warning


class _Together:
    """The states of all taps for several members."""

    def __init__(self, setting: Setting, members: int) -> None:
        self.setting, self.members = setting, members
        self.moments: dict[str, moments.Moments] = {}
        self.guesses: list[guessing.GuessCounts | None] = [None] * members
        self.samples, self.sizes = 0, set[int]()

    def take(self, module: nn.Module, stacked: tuple[dict[str, Tensor], ...], batch: Batch) -> None:
        """Run one batch through all members."""
        self.samples += batch.size
        self.sizes.add(batch.size)
        plan, reduces = self.setting.plan, bool(self.setting.asked.order)

        def member(
            parameters: dict[str, Tensor], buffers: dict[str, Tensor]
        ) -> tuple[Tensor, dict[str, Tensor]]:
            shown: dict[str, Tensor] = {}

            def keep(tap: Tap, tensor: Tensor, args: Any) -> None:
                shown[tap.key] = tensor.clone()  # later layers may write in place

            with tapped(module, plan.taps if reduces else (), keep) as begin:
                begin()
                output = functional_call(module, (parameters, buffers), batch.args, dict(batch.kwargs))
            return answer(output)[0], shown

        output, shown = vmap(member, randomness="error")(*stacked)
        for tap in plan.taps if reduces else ():
            self._reduce(tap.key, shown[tap.key], tap.axis)
        if reduces and plan.output is None:
            self._reduce(OUTPUT, output, self.setting.output_axis)
        if self.setting.label_axis is not None:
            for index, logits in enumerate(output):
                self.guesses[index] = guessed(self.guesses[index], logits, self.setting.label_axis, {})

    def finalized(self) -> list[Seen]:
        """Numbers of every member."""
        values: list[dict[str, dict[str, float]]] = [{} for _ in range(self.members)]
        for key, state in self.moments.items():
            for member, numbers in zip(values, moments.finalize_members(state, self.members), strict=True):
                for name, number in numbers.items():
                    member.setdefault(name, {})[key] = number
        return [
            Seen(packed(member, self.setting.plan), guesses, self.samples, set(self.sizes))
            for member, guesses in zip(values, self.guesses, strict=True)
        ]

    def _reduce(self, key: str, values: Tensor, axis: int) -> None:
        """Take (member, sample, …) in with the members side by side along the axis of units."""
        inner = values.ndim - 1 + axis if axis < 0 else axis  # axis of units within a member
        joined = values.movedim(0, inner).flatten(inner, inner + 1)
        state = self.moments.get(key) or moments.init(joined.shape[inner], order=self.setting.asked.order)
        self.moments[key] = moments.update(state, arranged(joined, inner))
