r"""Gradient of a random linear read-out, or of the user's loss, with respect to the output of each layer.

Enters: a module and batches. Leaves: at each tap :math:`\log ⟨(∂L/∂u)^2⟩` over samples, positions and units,
for
:math:`L = \sum_n w_n · o_n` with :math:`w_n \sim N(0, 1)` drawn for every output of every sample, or for a
loss of (output, target) as it is.

Gradients flow through batch statistics, as in training. Parameters need no gradient here, so none is computed
for them. Between the children of a Sequential the gradient is rescaled by powers of two, which is exact, so
depth does not overflow it.

Reference: Luther & Seung, *Sample variance decay in randomly initialized ReLU networks*, 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from firstlight.errors import CouldNotError, UsageError
from firstlight.measurement.batches import Batch
from firstlight.measurement.observables import noise
from firstlight.measurement.outputs import answer
from firstlight.measurement.tangents import band
from firstlight.measurement.taps import Plan, Tap, tapped

__all__ = ["gradient_scales"]


def gradient_scales(
    module: nn.Module,
    plan: Plan,
    batches: Iterable[Batch],
    generator: np.random.Generator,
    *,
    output: str,
    loss: Callable[[Any, Any], Tensor] | None = None,
) -> dict[str, float]:
    """Logarithm of the mean square gradient by layer; ``output`` names the last layer where it is no module's."""
    states: dict[str, noise.NoiseState] = {}
    chosen: dict[str, int] = {}
    taken = {"exponent": 0}

    def collect(key: str) -> Callable[[Tensor], None]:
        def see(gradient: Tensor) -> None:
            states[key] = noise.update(states.get(key, noise.init()), gradient, taken["exponent"])

        return see

    def listen(tap: Tap, tensor: Tensor, args: Any) -> None:
        if tensor.requires_grad:
            _watch(tensor, collect(tap.key))

    def rescale(name: str) -> Callable[[Tensor], Tensor | None]:
        def scaled(gradient: Tensor) -> Tensor | None:
            if name not in chosen:
                largest = float(gradient.abs().amax())
                exponent = int(np.frexp(largest)[1]) if largest and np.isfinite(largest) else 0
                chosen[name] = exponent if abs(exponent) > band(gradient.dtype) else 0
            if not chosen[name]:
                return None
            taken["exponent"] += chosen[name]
            return gradient * 2.0 ** -chosen[name]

        return scaled

    with _parameters_frozen(module), torch.enable_grad():
        for batch in batches:
            taken["exponent"] = 0
            with (
                _entered(module, plan, batch) as entering,
                _joints(module, plan, rescale),
                tapped(module, plan.taps, listen) as begin,
            ):
                begin()
                result = module(*entering.args, **entering.kwargs)
                tensor, _ = answer(result)
                if plan.output is None and tensor.requires_grad:
                    _watch(tensor, collect(output))
                value = _read_out(tensor, generator) if loss is None else _loss(loss, result, batch.target)
                if not value.requires_grad:
                    raise CouldNotError(
                        "measure(quantities): the output does not depend on the input by a gradient; "
                        "leave out gradient_scale"
                    )
                _backward(value)
    return {key: noise.finalize(state) for key, state in states.items()}


def _watch(tensor: Tensor, see: Callable[[Tensor], Tensor | None]) -> None:
    tensor.register_hook(see)  # type: ignore[no-untyped-call]


def _read_out(output: Tensor, generator: np.random.Generator) -> Tensor:
    drawn = torch.from_numpy(generator.standard_normal(tuple(output.shape), dtype=np.float32))
    return (output * drawn.to(output.device, output.dtype)).sum()


def _backward(value: Tensor) -> None:
    try:
        value.backward()  # type: ignore[no-untyped-call]
    except (RuntimeError, NotImplementedError) as error:
        raise CouldNotError(
            f"measure(quantities): this model cannot be differentiated: {str(error).splitlines()[0]}; "
            "leave out gradient_scale"
        ) from error


def _loss(loss: Callable[[Any, Any], Tensor], result: Any, target: Any) -> Tensor:
    try:
        value = loss(result, target)
    except Exception as error:
        without = "; the data come without targets: pass (x, y)" if target is None else ""
        raise UsageError(
            f"measure(loss): it failed on the model's output and the target: {type(error).__name__}: {error}{without}"
        ) from error
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise UsageError(
            "measure(loss): expected a function of (output, target) that returns one number, "
            f"got {type(value).__name__}"
        )
    return value


@contextmanager
def _parameters_frozen(module: nn.Module) -> Iterator[None]:
    """No parameter of our copy asks for a gradient inside."""
    asked = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in asked:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asked:
            parameter.requires_grad_(True)


@contextmanager
def _entered(module: nn.Module, plan: Plan, batch: Batch) -> Iterator[Batch]:
    """The batch with gradients asked of its floating inputs, or of the embedding's output."""

    def leaf(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.detach().requires_grad_()
        return value

    if plan.embedding is None:
        # A view of the leaf, so that a first layer that writes in place may.
        entered = Batch(
            tuple(leaf(value) for value in batch.args),
            {k: leaf(v) for k, v in batch.kwargs.items()},
            batch.target,
        )
        yield Batch(
            tuple(_view(value) for value in entered.args),
            {k: _view(v) for k, v in entered.kwargs.items()},
            batch.target,
        )
        return

    def enter(_: nn.Module, args: Any, output: Tensor) -> Tensor:
        return output if output.requires_grad else _view(output.detach().requires_grad_())

    handle = dict(module.named_modules())[plan.embedding].register_forward_hook(enter, prepend=True)
    try:
        yield batch
    finally:
        handle.remove()


def _view(value: Any) -> Any:
    return value * 1 if isinstance(value, Tensor) and value.requires_grad else value


@contextmanager
def _joints(
    module: nn.Module, plan: Plan, rescale: Callable[[str], Callable[[Tensor], Tensor | None]]
) -> Iterator[None]:
    """Watch the gradient where the whole signal passes; registered first, so that taps see it rescaled."""

    def hook(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def watch(_: nn.Module, args: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.requires_grad:
                _watch(output, rescale(name))

        return watch

    handles = []
    try:
        for name, item in module.named_modules():
            if name in plan.joints:
                handles.append(item.register_forward_hook(hook(name)))
        yield
    finally:
        for handle in handles:
            handle.remove()
