"""The words of a Blueprint: frozen descriptions of layers, each with its ``named_modules()`` address.

Enters: numbers that a person or a module gave. Leaves: a small tree that theory folds over and ``building`` turns into
modules.
Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from firstlight.architecture.activations import ActivationFunction

__all__ = [
    "Activation",
    "Convolution",
    "Dense",
    "Layer",
    "Norm",
    "Pass",
    "Pool",
    "Residual",
    "Unmodelled",
    "walk",
]


@dataclass(frozen=True)
class Dense:
    """Linear layer with weights N(0, weight_variance/fan_in) and biases N(0, bias_variance)."""

    address: str
    fan_in: int
    fan_out: int
    weight_variance: float = 2.0
    bias_variance: float = 0.0
    has_bias: bool = True


@dataclass(frozen=True)
class Convolution:
    """Convolution with weights N(0, weight_variance/fan_in), fan_in = in_channels · Π kernel / groups."""

    address: str
    in_channels: int
    out_channels: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    padding_mode: str = "zeros"
    groups: int = 1
    weight_variance: float = 2.0
    bias_variance: float = 0.0
    has_bias: bool = True


@dataclass(frozen=True)
class Norm:
    """Normalization with scale 1 and shift 0; ``kind`` is ``"batch"``, ``"layer"`` or ``"rms"``."""

    address: str
    kind: str
    width: int
    epsilon: float = 1e-5


@dataclass(frozen=True)
class Activation:
    """Elementwise function."""

    address: str
    function: ActivationFunction


@dataclass(frozen=True)
class Pool:
    """Pooling over groups of ``size`` neighbouring units; ``kind`` is ``"max"`` or ``"avg"``."""

    address: str
    kind: str
    size: int


@dataclass(frozen=True)
class Pass:
    """A layer that changes no number at this time (Flatten, Identity, Dropout that is off)."""

    address: str
    kind: str


@dataclass(frozen=True)
class Residual:
    """``shortcut(x) + scale · body(x)``; an empty shortcut is the identity."""

    address: str
    body: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()
    scale: float = 1.0


@dataclass(frozen=True)
class Unmodelled:
    """A layer that the Blueprint names but cannot describe, with the reason."""

    address: str
    kind: str
    reason: str


Layer = Dense | Convolution | Norm | Activation | Pool | Pass | Residual | Unmodelled


def walk(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    """All layers in running order, residual bodies and shortcuts entered after their unit is named."""
    for layer in layers:
        yield layer
        if isinstance(layer, Residual):
            yield from walk(layer.body)
            yield from walk(layer.shortcut)
