"""The fold: a covariance goes through the layers of a Blueprint, one rule a layer, and leaves a trace.

Enters: layers and the covariance of the inputs. Leaves: ``Step`` after ``Step`` with the covariance behind
each layer, from which ``predicting.py`` reads the quantities. A layer without a rule makes everything behind
it unknown (NaN), with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.layers import (
    Activation,
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
)
from firstlight.theory.covariance import Covariance, NoRuleError, Spread
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.logarithms import ZERO, Number, log_add
from firstlight.theory.minibatch import MinibatchLaw
from firstlight.theory.rules.activation import activate
from firstlight.theory.rules.convolution import convolve
from firstlight.theory.rules.dense import dense
from firstlight.theory.rules.normalization import normalize
from firstlight.theory.rules.pooling import average_pool

__all__ = ["Kernels", "NoRuleError", "Step", "backward", "propagate", "steps_in_order"]

State = TypeVar("State", bound=Covariance)
Kernels = Callable[[ActivationFunction | None, int], Kernel]
"""(activation or None for linear, number of units pooled by maximum) → kernel."""


@dataclass(frozen=True)
class Step(Generic[State]):
    """What one layer did.

    Attributes:
        layer: The layer.
        before: The covariance that entered.
        state: The covariance behind it.
        log_gain: Logarithm of its gain for squared gradients.
        reason: Why it is not modelled, else empty.
        body: The steps of a residual branch.
        shortcut: The steps of a residual shortcut.
        spread: How squared gradients pass back besides, where positions mix.
    """

    layer: Layer
    before: State
    state: State
    log_gain: Number = 0.0
    reason: str = ""
    body: tuple[Step[State], ...] = ()
    shortcut: tuple[Step[State], ...] = ()
    spread: Spread | None = None


def propagate(
    layers: Sequence[Layer], state: State, kernels: Kernels, law: MinibatchLaw | None = None, lost: str = ""
) -> tuple[Step[State], ...]:
    """Fold the covariance over the layers.

    Args:
        layers: In running order.
        state: Covariance of what enters the first.
        kernels: Gaussian averages by activation and pooling.
        law: Law of batch norm on mini-batches; over all the data without it.
        lost: Address of an unmodelled layer upstream, if any.
    """
    steps: list[Step[State]] = []
    position = 0
    while position < len(layers):
        layer = layers[position]
        pooled = _max_pool_behind(layers, position) if isinstance(layer, Activation) else None
        if lost:
            step = Step(layer, state, state, math.nan, f"behind {lost}, which is not modelled")
        else:
            try:
                step = _step(layer, state, kernels, law, pooled)
            except NoRuleError as error:
                step = Step(layer, state, state.scale(math.nan), math.nan, str(error))
            lost = layer.address if step.reason else _first_lost(step)
        steps.append(step)
        state = step.state
        position += 1
        if pooled is not None:
            passed = layers[position : layers.index(pooled, position) + 1]
            reason = step.reason and f"pools {layer.address}, which is not modelled"
            steps.extend(Step(other, state, state, math.nan if reason else 0.0, reason) for other in passed)
            position += len(passed)
    return tuple(steps)


def steps_in_order(steps: Sequence[Step[State]]) -> Iterator[Step[State]]:
    """Every step in the order in which the layers run: a branch before the sum that it enters."""
    for step in steps:
        yield from steps_in_order(step.body)
        yield from steps_in_order(step.shortcut)
        yield step


def backward(steps: Sequence[Step[State]], log_gradient: Number = 0.0) -> dict[int, Number]:
    """Log of the mean square gradient with respect to each step's output, by ``id(step)``.

    Enters the mean square gradient at the last output. Weights of the backward pass are taken as independent
    of the forward pass (exact as width grows); at a residual sum the gradients of branch and shortcut add.
    """
    gradients: dict[int, Number] = {}
    _backward(steps, log_gradient, gradients)
    return gradients


def _backward(steps: Sequence[Step[State]], log_gradient: Number, gradients: dict[int, Number]) -> Number:
    for step in reversed(steps):
        gradients[id(step)] = log_gradient
        if isinstance(step.layer, Residual):
            into_branch = _backward(step.body, log_gradient + _log_weight(step.layer), gradients)
            into_stream = _backward(step.shortcut, log_gradient, gradients)
            log_gradient = log_add(into_stream, into_branch)
        else:
            if step.spread is not None:
                log_gradient = step.spread(log_gradient)
            log_gradient = log_gradient + step.log_gain
    return log_gradient


def _step(
    layer: Layer, state: State, kernels: Kernels, law: MinibatchLaw | None, pooled: Pool | None
) -> Step[State]:
    if isinstance(layer, Pass):
        return Step(layer, state, state)
    if isinstance(layer, Dense):
        read, spread = state.flatten(layer.fan_in)
        return Step(layer, state, *dense(read, layer), spread=spread)
    if isinstance(layer, Convolution):
        after, gain, spread = convolve(state, layer)
        return Step(layer, state, after, gain, spread=spread)
    if isinstance(layer, PositionPool | AdaptivePool):
        pooled_state, spread = state.pool_positions(layer)
        return Step(layer, state, pooled_state, spread=spread)
    if isinstance(layer, Norm):
        return Step(layer, state, *normalize(state, layer, law))
    if isinstance(layer, Activation):
        return Step(layer, state, *_activate(state, layer.function, pooled, kernels))
    if isinstance(layer, Pool):
        if layer.kind == "avg":
            return Step(layer, state, *average_pool(state, layer))
        return Step(layer, state, *_activate(state, None, layer, kernels))
    if isinstance(layer, Residual):
        return _residual(layer, state, kernels, law)
    assert isinstance(layer, Unmodelled)
    raise NoRuleError(layer.reason)


def _activate(
    state: State, function: ActivationFunction | None, pooled: Pool | None, kernels: Kernels
) -> tuple[State, Number]:
    size = pooled.size if pooled is not None else 1
    normalized = getattr(state, "law", None) is not None
    if not state.gaussian and not normalized:
        name = function.name if function is not None else "max-pool"
        raise NoRuleError(
            f"{name} of units that are not Gaussian (no dense layer directly or through norms before it)"
        )
    if normalized and size > 1:
        raise NoRuleError(
            "max-pooling of units normalized over mini-batches has no rule; predict with the full batch"
        )
    return activate(state, kernels(function, size), size)


def _residual(layer: Residual, state: State, kernels: Kernels, law: MinibatchLaw | None) -> Step[State]:
    body = propagate(layer.body, state, kernels, law)
    shortcut = propagate(layer.shortcut, state, kernels, law)
    broken = next((step for step in (*body, *shortcut) if step.reason), None)
    if broken is not None:
        unknown = state.scale(math.nan)
        reason = f"its part {broken.layer.address} is not modelled"
        return Step(layer, state, unknown, math.nan, reason, body, shortcut)
    stream = shortcut[-1].state if shortcut else state
    branch = body[-1].state if body else state
    if not (body and branch.gaussian):
        raise NoRuleError(
            "a residual branch that does not end in a dense layer is correlated with its stream"
        )
    return Step(layer, state, stream.add(branch, _log_weight(layer)), 0.0, "", body, shortcut)


def _log_weight(layer: Residual) -> float:
    return 2 * math.log(abs(layer.scale)) if layer.scale else ZERO


def _max_pool_behind(layers: Sequence[Layer], position: int) -> Pool | None:
    """The max-pool that reads this activation directly, if there is one."""
    for following in range(position + 1, len(layers)):  # no slice: it would copy the rest at every layer
        layer = layers[following]
        if isinstance(layer, Pass):
            continue
        return layer if isinstance(layer, Pool) and layer.kind == "max" else None
    return None


def _first_lost(step: Step[State]) -> str:
    return next((inner.layer.address for inner in (*step.body, *step.shortcut) if inner.reason), "")
