"""One module of ``torch.nn`` as layers of a blueprint.

Enters: a module without its surroundings, and its address. Leaves: the layers that say what it does at
initialization, or ``Unmodelled`` with the reason. Variances are read from the tensors: σ_w² = fan_in ·
mean(W²), σ_b² = mean(b²).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from firstlight.architecture.activation_callables import from_callable, identify
from firstlight.architecture.centering import is_centered
from firstlight.architecture.layers import (
    Activation,
    AdaptivePool,
    Convolution,
    Dense,
    Layer,
    Norm,
    Pass,
    PositionPool,
    Unmodelled,
)
from firstlight.architecture.shaped_activations import ShapedActivation
from firstlight.architecture.torch_activations import Elementwise, ShiftedReLU, recognise
from firstlight.errors import UsageError

__all__ = ["Describer", "PendingPool", "is_known", "scaling"]


@dataclass(frozen=True)
class PendingPool:
    """A pool of which only its surroundings say whether it joins units or positions.

    ``of_positions`` is what it is if it averages positions, or why that has no description.
    """

    address: str
    kind: str
    dimensions: int
    size: int
    plain: bool
    of_positions: PositionPool | AdaptivePool | str
    adaptive: bool = False


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_POOLS: dict[type[nn.Module], tuple[str, int]] = {
    nn.MaxPool1d: ("max", 1),
    nn.MaxPool2d: ("max", 2),
    nn.MaxPool3d: ("max", 3),
    nn.AvgPool1d: ("avg", 1),
    nn.AvgPool2d: ("avg", 2),
    nn.AvgPool3d: ("avg", 3),
    nn.AdaptiveMaxPool1d: ("max", 1),
    nn.AdaptiveMaxPool2d: ("max", 2),
    nn.AdaptiveMaxPool3d: ("max", 3),
    nn.AdaptiveAvgPool1d: ("avg", 1),
    nn.AdaptiveAvgPool2d: ("avg", 2),
    nn.AdaptiveAvgPool3d: ("avg", 3),
}
_REASONS: tuple[tuple[tuple[type[nn.Module], ...], str], ...] = (
    ((nn.RNNBase, nn.RNNCellBase), "a recurrent layer runs over time; no rule describes it"),
    (
        (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.Transformer),
        "attention weighs its inputs by themselves; no rule describes it",
    ),
    (
        (nn.Embedding, nn.EmbeddingBag),
        "an embedding looks rows up by token; population theory needs real inputs",
    ),
    ((nn.GLU,), "a gate multiplies two halves of the units; no rule describes the product"),
    (
        (nn.Softmax, nn.Softmax2d, nn.LogSoftmax, nn.Softmin),
        "softmax ties the units together; no rule describes it",
    ),
    ((nn.Bilinear,), "a bilinear layer multiplies two inputs; no rule describes it"),
    (
        (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
        "a transposed convolution has no fixed number of inputs for each output",
    ),
    (
        (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d, nn.LocalResponseNorm),
        "no variance rule for this normalization; known are batch, layer and RMS norm",
    ),
)


def is_known(module: nn.Module) -> bool:
    """Whether the module is described as one piece, not looked into."""
    if isinstance(module, nn.Sequential | nn.ModuleList | nn.ModuleDict):
        return False
    return type(module).__module__.startswith("torch.nn.") or isinstance(
        module,
        (
            nn.Linear,
            *_CONVOLUTIONS,
            *_BATCH_NORMS,
            nn.LayerNorm,
            nn.RMSNorm,
            nn.GroupNorm,
            Elementwise,
            ShapedActivation,
            ShiftedReLU,
        ),
    )


class Describer:
    """Describes modules one at a time and collects notes on the way.

    Args:
        weight_variance: σ_w² for every layer; ``None`` reads it from the weights.
        bias_variance: σ_b² for every layer; ``None`` reads it from the biases.
    """

    def __init__(self, weight_variance: float | None = None, bias_variance: float | None = None) -> None:
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.notes: list[str] = []

    def layers(self, module: nn.Module, address: str) -> list[Layer | PendingPool]:
        """The layers that a module is, in order."""
        kind = type(module).__name__
        if isinstance(module, nn.modules.lazy.LazyModuleMixin):
            return [Unmodelled(address, kind, "not initialized yet; run one batch through the model first")]
        for base in (nn.Linear, *_CONVOLUTIONS, *_BATCH_NORMS, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm):
            if isinstance(module, base) and type(module).forward is not base.forward:
                reason = f"a {base.__name__} with a forward of its own; what it computes is not known"
                return [Unmodelled(address, kind, reason)]
        if isinstance(module, nn.Linear):
            return [self._centered(module, self.dense(address, module.weight, module.bias))]
        if isinstance(module, _CONVOLUTIONS):
            return [self._centered(module, self._convolution(address, module))]
        if isinstance(module, _BATCH_NORMS):
            return self._norm(address, module, "batch", module.num_features, module.eps)
        if isinstance(module, nn.LayerNorm):
            return self._norm(address, module, "layer", math.prod(module.normalized_shape), module.eps)
        if isinstance(module, nn.RMSNorm):
            epsilon = torch.finfo(torch.float32).eps if module.eps is None else module.eps
            return self._norm(address, module, "rms", math.prod(module.normalized_shape), epsilon)
        if isinstance(module, nn.GroupNorm):
            return self._group_norm(address, module)
        if type(module) in _POOLS:
            return [_pool(address, module)]
        if isinstance(module, nn.Flatten):
            whole = module.start_dim == 1 and module.end_dim == -1
            return [Pass(address, kind if whole else "View")]
        if isinstance(module, nn.Identity | nn.Unflatten):
            return [Pass(address, kind)]
        if isinstance(module, _DROPOUTS):
            if module.training and module.p > 0:
                self.note("dropout is described as off")
            return [Pass(address, "Dropout")]
        return [self._function_or_reason(address, module)]

    def _centered(self, module: nn.Module, layer: Layer) -> Layer:
        """The same layer; centred on the data, where its biases were set so."""
        if isinstance(layer, Dense | Convolution) and self.bias_variance is None and is_centered(module):
            self.note(
                "biases that were set to minus the means over data are described as centring on any data"
            )
            return replace(layer, bias_variance=0.0, centered=True)
        return layer

    def note(self, sentence: str) -> None:
        """Keep a sentence once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def dense(self, address: str, weight: Tensor, bias: Tensor | None, *, transposed: bool = False) -> Layer:
        """A linear map with the variances of its tensors; ``transposed`` weights are (in, out)."""
        fan_out, fan_in = weight.shape[::-1] if transposed else weight.shape
        variances = self._variances(weight, bias, fan_in)
        if isinstance(variances, str):
            return Unmodelled(address, "Linear", variances)
        return Dense(address, fan_in, fan_out, *variances, has_bias=bias is not None)

    def _convolution(self, address: str, module: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> Layer:
        variances = self._variances(module.weight, module.bias, module.weight[0].numel())
        if isinstance(variances, str):
            return Unmodelled(address, type(module).__name__, variances)
        kernel = tuple(module.kernel_size)
        padding = module.padding
        if isinstance(padding, str):
            both = [step * (size - 1) for step, size in zip(module.dilation, kernel, strict=True)]
            if padding == "same" and any(size % 2 for size in both):
                reason = "padding 'same' of an even kernel puts one more behind than before, which is not described"
                return Unmodelled(address, type(module).__name__, reason)
            padding = tuple(size // 2 if padding == "same" else 0 for size in both)
        return Convolution(
            address,
            module.in_channels,
            module.out_channels,
            kernel,
            tuple(module.stride),
            tuple(padding),
            module.padding_mode,
            module.groups,
            *variances,
            has_bias=module.bias is not None,
            dilation=tuple(module.dilation),
        )

    def _variances(self, weight: Tensor, bias: Tensor | None, fan_in: int) -> tuple[float, float] | str:
        """(σ_w², σ_b²), or the reason why they are not known."""
        weight_variance, bias_variance = self.weight_variance, self.bias_variance
        unread = [weight] if weight_variance is None else []
        unread += [bias] if bias_variance is None and bias is not None else []
        if any(tensor.is_meta for tensor in unread):
            return "its weights are on the meta device; pass weight_variance and bias_variance"
        if weight_variance is None:
            weight_variance = fan_in * _mean_square(weight)
        if bias is None:
            bias_variance = 0.0
        elif bias_variance is None:
            bias_variance = _mean_square(bias)
        if not (math.isfinite(weight_variance) and math.isfinite(bias_variance)):
            return "its weights are not finite numbers"
        return weight_variance, bias_variance

    def _norm(
        self, address: str, module: nn.Module, kind: str, width: int, epsilon: float
    ) -> list[Layer | PendingPool]:
        if kind == "batch" and not module.training:
            self.note(
                "batch norms in eval mode are described as in train mode, normalizing by the batch: with their running "
                "statistics at (0, 1) they would do nothing"
            )
        scale, shift = getattr(module, "weight", None), getattr(module, "bias", None)
        shape = tuple(getattr(module, "normalized_shape", ()))
        whole = isinstance(module, nn.GroupNorm)
        axes = 2 if isinstance(module, nn.BatchNorm2d) else 3 if isinstance(module, nn.BatchNorm3d) else 1
        norm = Norm(address, kind, width, epsilon, shape if len(shape) > 1 else (), whole, axes)
        if isinstance(shift, Tensor) and not shift.is_meta and bool((shift != 0).any()):
            return [
                Unmodelled(
                    address, type(module).__name__, "its shift is not 0: not a norm as it is initialized"
                )
            ]
        if not isinstance(scale, Tensor) or scale.is_meta or bool((scale == 1).all()):
            return [norm]
        factor = float(scale.detach().double().reshape(-1)[0])
        if bool((scale != factor).any()):
            return [
                Unmodelled(
                    address, type(module).__name__, "its scales differ: not a norm as it is initialized"
                )
            ]
        return [norm, scaling(f"{address}#scale", factor)]

    def _group_norm(self, address: str, module: nn.GroupNorm) -> list[Layer | PendingPool]:
        if module.num_groups == 1:
            return self._norm(address, module, "layer", module.num_channels, module.eps)
        reason = (
            f"normalizes {module.num_groups} groups by themselves; known are batch, layer and RMS norm "
            "(a GroupNorm of one group is a layer norm)"
        )
        return [Unmodelled(address, "GroupNorm", reason)]

    def _function_or_reason(self, address: str, module: nn.Module) -> Layer:
        kind = type(module).__name__
        known = recognise(module)
        if known is not None:
            return Activation(address, known)
        for kinds, reason in _REASONS:
            if isinstance(module, kinds):
                return Unmodelled(address, kind, reason)
        if isinstance(module, nn.PReLU):
            return Unmodelled(
                address, kind, "its slopes differ between channels: no single function describes it"
            )
        if any(True for _ in module.parameters()):
            return Unmodelled(address, kind, "no description is known for this class with weights of its own")
        try:
            return Activation(address, identify(from_callable(module)))
        except UsageError as error:
            reason = str(error).partition(": ")[2] or str(error)
            return Unmodelled(
                address,
                kind,
                f"no description is known for this class; as a function of one number: {reason}",
            )


def scaling(address: str, factor: float) -> Activation:
    """Multiplication by a constant, as the function that it is."""

    def scaled(x: Tensor) -> Tensor:
        return factor * x

    return Activation(address, from_callable(scaled, name=f"{factor:g}·x"))


def _mean_square(tensor: Tensor) -> float:
    return float(tensor.detach().double().square().mean())


def _pool(address: str, module: nn.Module) -> PendingPool:
    kind, dimensions = _POOLS[type(module)]
    if type(module).__name__.startswith("Adaptive"):
        sizes = _numbers(module.output_size, dimensions)
        return PendingPool(
            address, kind, dimensions, math.prod(sizes), True, AdaptivePool(address, sizes), adaptive=True
        )
    kernel = _numbers(module.kernel_size, dimensions)
    stride = _numbers(module.stride if module.stride is not None else kernel, dimensions)
    plain = (
        kernel == stride
        and not any(_numbers(module.padding, dimensions))
        and set(_numbers(getattr(module, "dilation", 1), dimensions)) == {1}
        and not module.ceil_mode
    )
    averaging: PositionPool | str = "divides by a number of its own"
    if getattr(module, "divisor_override", None) is None:
        averaging = PositionPool(
            address,
            kernel,
            stride,
            _numbers(module.padding, dimensions),
            bool(getattr(module, "count_include_pad", True)),
            bool(module.ceil_mode),
        )
    return PendingPool(address, kind, dimensions, math.prod(kernel), plain, averaging)


def _numbers(value: object, count: int) -> tuple[int, ...]:
    """One number for each dimension; ``None`` (keep the size) counts as 0."""
    if isinstance(value, Sequence):
        return tuple(0 if item is None else int(item) for item in value)
    return (0 if value is None else int(value),) * count  # type: ignore[call-overload]
