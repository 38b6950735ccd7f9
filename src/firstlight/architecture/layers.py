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
    "AdaptivePool",
    "Convolution",
    "Dense",
    "Layer",
    "Norm",
    "Pass",
    "Pool",
    "PositionPool",
    "Residual",
    "Unmodelled",
    "walk",
]


@dataclass(frozen=True)
class Dense:
    """Linear layer with weights N(0, weight_variance/fan_in) and biases N(0, bias_variance).

    Of a ``centered`` layer each bias is minus the mean of its unit over the data.
    """

    address: str
    fan_in: int
    fan_out: int
    weight_variance: float = 2.0
    bias_variance: float = 0.0
    has_bias: bool = True
    centered: bool = False


@dataclass(frozen=True)
class Convolution:
    """Convolution with weights N(0, weight_variance/fan_in), fan_in = in_channels · Π kernel / groups.

    ``padding`` is what is put before and behind along each axis, by ``padding_mode`` as torch names it. ``centered``:
    see ``Dense``.
    """

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
    dilation: tuple[int, ...] = (1,)
    centered: bool = False


@dataclass(frozen=True)
class Norm:
    """Normalization with scale 1 and shift 0; ``kind`` is ``"batch"``, ``"layer"`` or ``"rms"``.

    A layer or RMS norm takes the last axis together; ``shape`` names the last axes where they are several, and
    ``whole`` says that it takes all of a sample (a group norm of one group). ``axes`` is how many axes of positions
    the class of a batch norm takes with the samples (``BatchNorm1d`` one or none).
    """

    address: str
    kind: str
    width: int
    epsilon: float = 1e-5
    shape: tuple[int, ...] = ()
    whole: bool = False
    axes: int = 1


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
class PositionPool:
    """Average over windows of neighbouring positions, each channel by itself.

    ``padding_counts``: padded zeros count in the average. ``partial``: a last window that begins inside and ends
    outside is taken (``ceil_mode``).
    """

    address: str
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    padding_counts: bool = True
    partial: bool = False
    kind: str = "avg"


@dataclass(frozen=True)
class AdaptivePool:
    """Average over as many even windows along each axis as ``output`` says; 0 keeps an axis as it is."""

    address: str
    output: tuple[int, ...]
    kind: str = "avg"


@dataclass(frozen=True)
class Pass:
    """A layer that changes no number at this time.

    ``kind`` is ``"Flatten"`` where all axes but the first become one, ``"View"`` for another change of shape (or
    one that is not known), else the name of a layer that is off (Identity, Dropout).
    """

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


Layer = (
    Dense
    | Convolution
    | Norm
    | Activation
    | Pool
    | PositionPool
    | AdaptivePool
    | Pass
    | Residual
    | Unmodelled
)


def walk(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    """All layers in running order, residual bodies and shortcuts entered after their unit is named."""
    for layer in layers:
        yield layer
        if isinstance(layer, Residual):
            yield from walk(layer.body)
            yield from walk(layer.shortcut)
