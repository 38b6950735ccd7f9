r"""First-order noise through any network: a forward-mode tangent beside the signal, seen by the same taps.

Enters: a batch and i.i.d. N(0, 1) noise on it (for tokens: on the embedding). Leaves: at each tap the tangent
:math:`dx^l`, so that

.. math:: χ^l = \sqrt{\frac{μ_2(dx^l)/μ_2(x^l)}{μ_2(dx^0)/μ_2(x^0)}}.

- Batch norm divides the noise by √(σ² + ε) with its statistics held fixed; layer norms are differentiated in
  full.
- Fused attention has no forward-mode rule, so the plain one runs.
- Where the whole signal passes through one module (a Sequential's children), a tangent that leaves [2⁻²⁰,
  2²⁰] is rescaled by a power of two, which is exact; the exponents are chosen on the first batch of an
  initialization and kept.

Reference: Labatie, *Characterizing well-behaved vs. pathological deep neural networks*, ICML 2019.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from firstlight.errors import CouldNotError
from firstlight.measurement.batches import Batch
from firstlight.measurement.taps import Plan

__all__ = ["Rescaling", "band", "dual_batch", "own_arithmetic", "split", "tangent_mode"]

_BAND = 20
"""A tangent is rescaled when its largest entry leaves [2^-20, 2^20]."""


@contextmanager
def tangent_mode(module: nn.Module) -> Iterator[None]:
    """Forward-mode differentiation with plain attention and recurrence, and fixed batch statistics."""
    _load_rules()
    with ExitStack() as stack:
        if any(isinstance(item, nn.RNNBase) for item in module.modules()):
            stack.enter_context(_plain_recurrence())
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(forward_ad.dual_level())
        stack.enter_context(_OwnRules())
        yield


@contextmanager
def _plain_recurrence() -> Iterator[None]:
    """The fused recurrence of oneDNN has no forward-mode rule."""
    enabled, *_ = torch.backends.mkldnn.set_flags(_enabled=False)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=enabled)  # type: ignore[no-untyped-call]


@cache
def _load_rules() -> None:
    """Torch compiles its derivative rules at the first dual tensor, and warns of its own scripting while it does."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        _dual(torch.zeros(1), torch.zeros(1))


def own_arithmetic() -> AbstractContextManager[Any]:
    """What is computed of a signal that was split needs no rule for noise, nor the time to look for one."""
    context: AbstractContextManager[Any] = torch._C.DisableTorchFunction()
    return context


def split(tensor: Tensor) -> tuple[Tensor, Tensor | None]:
    """Signal and noise."""
    primal, tangent = forward_ad.unpack_dual(tensor)  # type: ignore[no-untyped-call]
    return primal, tangent


def _dual(primal: Tensor, tangent: Tensor) -> Tensor:
    made: Tensor = forward_ad.make_dual(primal, tangent)  # type: ignore[no-untyped-call]
    return made


@contextmanager
def dual_batch(
    batch: Batch,
    noise: np.random.Generator,
    module: nn.Module,
    plan: Plan,
    entering: Callable[[Tensor, Tensor], None],
) -> Iterator[Batch]:
    """The batch with noise on its floating inputs, or on the embedding's output.

    ``entering`` is shown signal and noise where they enter first, before the model may write into them.
    """
    entered: list[bool] = []

    def noisy(tensor: Tensor) -> Tensor:
        drawn = noise.standard_normal(tuple(tensor.shape), dtype=np.float32)
        tangent = torch.from_numpy(drawn).to(tensor.device, tensor.dtype)
        if not entered:
            entering(tensor, tangent)
        entered.append(True)
        return _dual(tensor, tangent)

    floating = [tensor for tensor in batch.tensors if tensor.is_floating_point()]
    if floating and plan.embedding is None:

        def dual(value: Any) -> Any:
            return noisy(value) if isinstance(value, Tensor) and value.is_floating_point() else value

        yield Batch(
            tuple(dual(value) for value in batch.args),
            {name: dual(value) for name, value in batch.kwargs.items()},
            batch.target,
        )
        return
    if plan.embedding is None:
        raise CouldNotError(
            "measure(quantities): noise needs inputs of floating point or an nn.Embedding to enter at; "
            "this model has integer inputs and no embedding"
        )

    def enter(_: nn.Module, args: Any, output: Tensor) -> Tensor | None:
        return None if entered else noisy(output)

    handle = dict(module.named_modules())[plan.embedding].register_forward_hook(enter, prepend=True)
    try:
        yield batch
    finally:
        handle.remove()


def band(dtype: torch.dtype) -> int:
    """Powers of two either way that a tensor may be left at: float16 ends at 2¹⁶, the others far beyond 2²⁰."""
    return min(_BAND, int(np.log2(torch.finfo(dtype).max)) // 2)


class Rescaling:
    """Powers of two taken off the tangent at a Sequential's joints; the same for all batches of one initialization."""

    def __init__(self, plan: Plan) -> None:
        self.joints = plan.joints
        self.chosen: dict[str, int] = {}
        self.exponent = 0

    @contextmanager
    def hooked(self, module: nn.Module) -> Iterator[None]:
        """Rescale while ``module`` runs once; entered after the taps, so that they see a tangent first."""
        self.exponent = 0
        handles = []
        try:
            for name, item in module.named_modules():
                if name in self.joints:
                    handles.append(item.register_forward_hook(self._hook(name)))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, name: str) -> Any:
        def rescale(_: nn.Module, args: Any, output: Any) -> Any:
            if not isinstance(output, Tensor):
                return None
            primal, tangent = split(output)
            if tangent is None:
                return None
            if name not in self.chosen:
                self.chosen[name] = self._exponent_of(tangent)
            exponent = self.chosen[name]
            if not exponent:
                return None
            self.exponent += exponent
            return _dual(primal, tangent * 2.0**-exponent)

        return rescale

    def _exponent_of(self, tangent: Tensor) -> int:
        largest = float(tangent.abs().amax())
        if largest == 0 or not np.isfinite(largest):
            return 0
        exponent = int(np.frexp(largest)[1])
        return exponent if abs(exponent) > band(tangent.dtype) else 0


_LINEAR = {
    *(functional.linear, torch.conv1d, torch.conv2d, torch.conv3d),
    *(torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d),
}
"""Functions of (input, weight, bias, …) that are linear in the input."""


class _OwnRules(TorchFunctionMode):
    """Rules of our own for dual tensors, where torch has another one in mind or takes longer.

    - Batch norm: the signal normalized as ever, the noise only scaled. Modules arrive as ``functional.batch_norm``,
      which is handled whole because nothing inside it would be shown to this mode, and other callers as
      ``torch.batch_norm``.
    - Dense and convolutional layers: the same layer without its bias. Torch adds what a noise on the weights would
      do, and computes it from zeros: a pass of its own.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is functional.batch_norm:
            return _scaled_noise(*args, **kwargs)
        if function is torch.batch_norm:
            values, weight, bias, mean, variance, training, momentum, epsilon, *_ = args
            return _scaled_noise(values, mean, variance, weight, bias, training, momentum, epsilon)
        if function in _LINEAR:
            return _linear_noise(function, *args, **kwargs)
        return function(*args, **kwargs)


def _linear_noise(
    function: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> Tensor:
    """A function of ``_LINEAR``, with its parameter names, for dual inputs and plain weights."""
    signal, tangent = split(input)
    if tangent is None or split(weight)[1] is not None or (bias is not None and split(bias)[1] is not None):
        return function(input, weight, bias, *args, **kwargs)
    output = function(signal, weight, bias, *args, **kwargs)
    return _dual(output, function(tangent, weight, None, *args, **kwargs))


def _scaled_noise(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``functional.batch_norm``, with its parameter names, for dual tensors."""
    signal, tangent = split(input)
    if training:
        if (
            signal.numel() == signal.shape[1]
        ):  # as functional.batch_norm, which this stands in for, refuses it
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {signal.shape}"
            )
        output, _, inverse = torch.native_batch_norm(
            signal, weight, bias, running_mean, running_var, True, momentum, eps
        )
    else:
        output = functional.batch_norm(signal, running_mean, running_var, weight, bias, False, momentum, eps)
        assert running_var is not None
        inverse = (running_var + eps).rsqrt()
    if tangent is None:
        return output
    gain = inverse if weight is None else inverse * weight
    return _dual(output, tangent * gain.reshape(1, -1, *[1] * (signal.ndim - 2)))
