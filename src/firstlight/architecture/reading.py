"""From an ``nn.Module`` to the blueprint that describes it, layer by layer.

Enters: any module. Leaves: a ``Blueprint`` whose addresses are ``named_modules()`` names (functions: see
``tracing``). Sequential and traceable residual networks are described exactly; whatever has no description is
an ``Unmodelled`` layer with its reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import fx, nn

from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import (
    AdaptivePool,
    Convolution,
    Dense,
    Layer,
    Norm,
    Pass,
    Pool,
    PositionPool,
    Residual,
    Unmodelled,
    walk,
)
from firstlight.architecture.module_descriptions import Describer, PendingPool, is_known
from firstlight.architecture.perceptron import number
from firstlight.architecture.tracing import Trace, trace
from firstlight.architecture.unfolding import Branching, Step, unfold
from firstlight.errors import ModelError

__all__ = ["read"]


def read(
    module: nn.Module,
    *,
    weight_variance: float | None = None,
    bias_variance: float | None = None,
    example: torch.Tensor | None = None,
) -> Blueprint:
    """Describe a module; see ``Blueprint.read``.

    >>> blueprint = read(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3)), weight_variance=2.0)
    >>> [layer.address for layer in blueprint.layers], blueprint.classes
    (['0', '1', '2'], 3)
    """
    if weight_variance is not None:
        weight_variance = number("weight_variance", weight_variance, above=0.0)
    if bias_variance is not None:
        bias_variance = number("bias_variance", bias_variance, least=0.0)
    describer = Describer(weight_variance, bias_variance)
    inner = _unwrapped(module, describer)
    shapes: dict[fx.Node, tuple[int, ...]] = {}
    steps: Sequence[Step]
    if is_known(inner):
        steps = describer.layers(inner, "")
        ends: tuple[int | None, int | None] = (None, None)
    else:
        traced = trace(inner)
        if isinstance(traced, str):
            steps, ends = [Unmodelled("", type(inner).__name__, traced)], (None, None)
        else:
            shapes = traced.shapes(example) if example is not None else {}
            steps, entry = unfold(traced, describer)
            ends = _ends(traced, entry, shapes)
            if traced.outputs > 1:
                describer.note(f"it returns {traced.outputs} values; the first is described")
    layers = _without_last_softmax(_settled(steps, _Surroundings()), describer)
    return Blueprint(
        layers=layers,
        inputs=ends[0] if ends[0] is not None else _inputs(layers),
        classes=ends[1] if ends[1] is not None else _classes(layers),
        name=type(inner).__name__,
        notes=tuple(describer.notes),
    )


def _unwrapped(module: object, describer: Describer) -> nn.Module:
    if isinstance(module, type) and issubclass(module, nn.Module):
        raise ModelError(
            f"Blueprint.read: expected a module, got the class {module.__name__}; call it to make one"
        )
    while isinstance(module, nn.Module):
        kind = type(module).__name__
        if isinstance(module, torch.jit.ScriptModule):
            raise ModelError(
                f"Blueprint.read: expected a module whose calls can be followed, got the ScriptModule {kind}; "
                "pass the module that it was compiled from"
            )
        for name, part in module.named_modules():
            if "FullyShardedDataParallel" in type(part).__name__ or type(part).__name__.startswith("FSDP"):
                raise ModelError(
                    f"Blueprint.read: expected a module that holds all its weights, got {type(part).__name__} "
                    f"at {name or 'its root'}, which shards them; pass the module before it is sharded"
                )
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            describer.note(f"the wrapper {kind} was taken off; addresses are those of the module inside")
            module = module.module
        elif hasattr(module, "_orig_mod"):
            describer.note(
                "the wrapper of torch.compile was taken off; addresses are those of the module inside"
            )
            module = module._orig_mod
        else:
            return module
    raise ModelError(f"Blueprint.read: expected an nn.Module, got {type(module).__name__}")


def _without_last_softmax(layers: tuple[Layer, ...], describer: Describer) -> tuple[Layer, ...]:
    """A softmax at the very end keeps the order of the outputs, so the guesses are those of the layer before."""
    last = layers[-1] if layers else None
    if isinstance(last, Unmodelled) and last.kind in ("Softmax", "LogSoftmax", "softmax", "log_softmax"):
        describer.note(
            f"{last.address}: the softmax at the end keeps the order of the outputs and is passed over"
        )
        return (*layers[:-1], Pass(last.address, last.kind))
    return layers


@dataclass
class _Surroundings:
    """What is known of the signal where the forward pass stands."""

    width: int | None = None
    positions: bool | None = None


def _settled(steps: Sequence[Step], around: _Surroundings) -> tuple[Layer, ...]:
    """Decide for each pool whether it joins units or positions, in running order."""
    layers: list[Layer] = []
    for step in steps:
        if isinstance(step, Branching):
            before = replace(around)
            shortcut = _settled(step.shortcut, before)
            layers.append(Residual(step.address, _settled(step.body, around), shortcut, step.scale))
        elif isinstance(step, PendingPool):
            layers.append(_pool(step, around))
        else:
            layers.append(step)
            if isinstance(step, Convolution):
                around.width, around.positions = step.out_channels, True
            elif isinstance(step, Dense):
                around.width = step.fan_out
                around.positions = bool(around.positions)
            elif isinstance(step, Norm):
                around.width = step.width
            elif isinstance(step, Pass) and step.kind in ("Flatten", "View"):
                around.positions = False
    return tuple(layers)


def _pool(pool: PendingPool, around: _Surroundings) -> Layer:
    what = "MaxPool" if pool.kind == "max" else "AvgPool"
    if pool.dimensions > 1 or around.positions:
        if pool.kind == "max":
            reason = (
                "takes the largest of neighbouring positions, which depend on each other: "
                "there is no closed form for it"
            )
            return Unmodelled(pool.address, what, reason)
        averaging = pool.of_positions
        return Unmodelled(pool.address, what, averaging) if isinstance(averaging, str) else averaging
    if not pool.plain:
        return Unmodelled(
            pool.address, what, "its windows overlap or are padded; known are pools side by side"
        )
    size = pool.size
    if pool.adaptive:
        if around.width is None or not size or around.width % size:
            return Unmodelled(
                pool.address, what, "its windows differ in size; known are pools of equal windows"
            )
        size = around.width // size
    elif around.width is not None and around.width < size:
        return Unmodelled(pool.address, what, f"its window of {size} is wider than its {around.width} units")
    if around.width is not None:
        around.width //= size
    return Pool(pool.address, pool.kind, size)


def _ends(
    traced: Trace, entry: fx.Node | None, shapes: dict[fx.Node, tuple[int, ...]]
) -> tuple[int | None, int | None]:
    """Numbers of inputs and classes that an example shows."""
    coming = shapes.get(entry) if entry is not None else None
    going = shapes.get(traced.output) if traced.output is not None else None
    return (math.prod(coming[1:]) if coming else None), (going[-1] if going else None)


def _inputs(layers: tuple[Layer, ...]) -> int | None:
    for layer in walk(layers):
        if isinstance(layer, Dense):
            return layer.fan_in
        if not isinstance(layer, Pass | Norm):
            return None
    return None


def _classes(layers: tuple[Layer, ...]) -> int | None:
    for layer in reversed(layers):
        if isinstance(layer, Dense):
            return layer.fan_out
        if isinstance(layer, Convolution | Pool | PositionPool | AdaptivePool | Residual | Unmodelled):
            return None
    return None
