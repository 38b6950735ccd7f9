"""From a blueprint to the plain module that it describes, with drawn weights.

Enters: a ``Blueprint`` and a seed. Leaves: an ``nn.Sequential`` of named children (float32) whose ``named_modules()``
names are the addresses of the layers. Weights are N(0, σ_w²/fan_in), biases N(0, σ_b²), norms have scale 1 and shift 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, SupportsIndex

import torch
from torch import Tensor, nn

from firstlight.architecture import layers as words
from firstlight.architecture.torch_activations import as_module
from firstlight.errors import ModelError, UsageError

if TYPE_CHECKING:
    from firstlight.architecture.blueprint import Blueprint

__all__ = ["Residual", "build", "initialize"]


class Residual(nn.Module):
    """``shortcut(x) + scale · body(x)``; without a shortcut the input itself is added."""

    def __init__(self, body: nn.Module, *, shortcut: nn.Module | None = None, scale: float = 1.0) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Add the scaled body to the shortcut."""
        around: Tensor = x if self.shortcut is None else self.shortcut(x)
        inside: Tensor = self.body(x)
        return around + (inside if self.scale == 1.0 else self.scale * inside)

    def extra_repr(self) -> str:
        """The scale, where it is not 1."""
        return "" if self.scale == 1.0 else f"scale={self.scale}"


def build(blueprint: Blueprint, seed: int | None = None) -> nn.Module:
    """Build the module and draw its weights.

    Args:
        blueprint: Any blueprint without unmodelled layers whose addresses nest without gaps.
        seed: Names the weights; torch's global random state is then untouched. ``None`` draws from that state.

    Raises:
        ModelError: A layer that no module can be made of, with its address.
        UsageError: A seed that is no whole number from 0 to 2⁶⁴ − 1.
    """
    generator = None if seed is None else torch.Generator().manual_seed(_seed(seed))
    with torch.random.fork_rng(devices=[]):  # the classes' own draws, replaced below, must not be felt
        module = _sequence(blueprint.layers, within="")
    initialize(blueprint, module, generator)
    return module


def _seed(given: object) -> int:
    seed = -1
    if isinstance(given, SupportsIndex) and not isinstance(given, bool):
        seed = operator.index(given)
    if not 0 <= seed < 2**64:
        raise UsageError(
            f"build(seed): expected a whole number from 0 to 2^64 - 1, or None for torch's own state, got {given!r}"
        )
    return seed


@torch.no_grad()
def initialize(blueprint: Blueprint, module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw all weights of a module built from this blueprint anew, in place, in the order of the layers.

    Args:
        blueprint: Says which layers there are and their variances.
        module: What ``build`` returned, or any module with the same addresses and shapes.
        generator: Where the draws come from; ``None`` means torch's global random state.

    Raises:
        ModelError: A layer of the blueprint that the module does not hold, or one whose law is not known.
    """
    for layer in words.walk(blueprint.layers):
        if isinstance(layer, words.Unmodelled):
            raise ModelError(
                f"{layer.address} ({layer.kind}): expected a layer whose law of weights is known, "
                f"got one that is not modelled ({layer.reason}); draw it by its own reset_parameters"
            )
        if not isinstance(layer, words.Dense | words.Convolution | words.Norm):
            continue
        try:
            target = module.get_submodule(layer.address)
        except AttributeError:
            raise ModelError(
                f"{layer.address}: expected a module of that name, as Blueprint.build makes it, "
                f"got {type(module).__name__} without one"
            ) from None
        if isinstance(layer, words.Norm):
            _reset_norm(target)
        else:
            _draw(layer, target, generator)


def _draw(
    layer: words.Dense | words.Convolution, target: nn.Module, generator: torch.Generator | None
) -> None:
    if layer.centered:
        raise ModelError(
            f"{layer.address}: its biases are minus the means over data, which a Blueprint does not hold; build the "
            "network without them, and apply scale_bias_initialization"
        )
    weight, bias = target.weight, target.bias
    assert isinstance(weight, Tensor)
    weight.normal_(0.0, math.sqrt(layer.weight_variance / weight[0].numel()), generator=generator)
    if isinstance(bias, Tensor) and layer.bias_variance:
        bias.normal_(0.0, math.sqrt(layer.bias_variance), generator=generator)
    elif isinstance(bias, Tensor):
        bias.zero_()


def _reset_norm(target: nn.Module) -> None:
    # scale 1, shift 0, running statistics (0, 1): what the norms' own reset does, without random numbers
    reset = getattr(target, "reset_parameters", None)
    if reset is not None:
        reset()


def _sequence(layers: Sequence[words.Layer], within: str) -> nn.Sequential:
    """Nest the layers by their addresses; ``within`` is the prefix that all of them share."""
    sequence = nn.Sequential()
    position = 0
    while position < len(layers):
        name, dot, _ = layers[position].address.removeprefix(within).partition(".")
        inside = f"{within}{name}."
        end = position + 1
        if dot:
            while end < len(layers) and layers[end].address.startswith(inside):
                end += 1
        child = _sequence(layers[position:end], inside) if dot else _module(layers[position])
        _refuse_unbuildable(layers[position].address, name, within, sequence)
        sequence.add_module(name, child)
        position = end
    return sequence


def _refuse_unbuildable(address: str, name: str, within: str, sequence: nn.Sequential) -> None:
    if not address.startswith(within) or "#" in name or not name or name in sequence._modules:
        raise ModelError(
            f"{address}: expected layers that are modules and run once, in the order of their addresses, got one "
            "that is a function or runs out of order; only such stacks can be built, so keep the module that was read"
        )


def _module(layer: words.Layer) -> nn.Module:
    match layer:
        case words.Dense():
            return nn.Linear(layer.fan_in, layer.fan_out, bias=layer.has_bias)
        case words.Convolution():
            return _convolution(layer)
        case words.Norm(kind="batch"):
            kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
            return kinds[layer.axes - 1](layer.width, eps=layer.epsilon)
        case words.Norm(kind="layer", whole=True):
            return nn.GroupNorm(1, layer.width, eps=layer.epsilon)
        case words.Norm(kind="layer"):
            return nn.LayerNorm(layer.shape or layer.width, eps=layer.epsilon)
        case words.Norm(kind="rms"):
            return nn.RMSNorm(layer.shape or layer.width, eps=layer.epsilon)
        case words.Activation():
            return as_module(layer.function)
        case words.Pool(kind="max"):
            return nn.MaxPool1d(layer.size)
        case words.Pool(kind="avg"):
            return nn.AvgPool1d(layer.size)
        case words.PositionPool():
            return _position_pool(layer)
        case words.AdaptivePool():
            pools = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
            return pools[len(layer.output) - 1](tuple(size or None for size in layer.output))
        case words.Pass():
            return nn.Flatten() if layer.kind == "Flatten" else nn.Identity()
        case words.Residual():
            inside = f"{layer.address}."
            shortcut = _branch(layer.shortcut, f"{inside}shortcut") if layer.shortcut else None
            return Residual(_branch(layer.body, f"{inside}body"), shortcut=shortcut, scale=layer.scale)
    reason = layer.reason if isinstance(layer, words.Unmodelled) else "no module is known for it"
    raise ModelError(
        f"{layer.address}: expected a layer that can be built, got {type(layer).__name__} ({reason})"
    )


def _branch(layers: Sequence[words.Layer], address: str) -> nn.Module:
    """One layer that is the whole branch, or a sequence inside it."""
    if len(layers) == 1 and layers[0].address == address:
        return _module(layers[0])
    return _sequence(layers, f"{address}.")


def _convolution(layer: words.Convolution) -> nn.Module:
    kinds: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
    return kinds[len(layer.kernel)](
        layer.in_channels,
        layer.out_channels,
        layer.kernel,
        stride=layer.stride,
        padding=layer.padding,
        padding_mode=layer.padding_mode,
        dilation=layer.dilation,
        groups=layer.groups,
        bias=layer.has_bias,
    )


def _position_pool(layer: words.PositionPool) -> nn.Module:
    kinds: dict[int, Callable[..., nn.Module]] = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
    return kinds[len(layer.kernel)](
        layer.kernel,
        stride=layer.stride,
        padding=layer.padding,
        ceil_mode=layer.partial,
        count_include_pad=layer.padding_counts,
    )
