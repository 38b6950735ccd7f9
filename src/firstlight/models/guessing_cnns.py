"""CNN-A and CNN-B of "Initial Guessing Bias" (Francazi et al. 2024, appendix I.4).

Enters: the variant. Leaves: a plain ``nn.Sequential``: blocks of convolution → activation → pool, then one linear
layer. "With bias" is ReLU with max-pooling, "without" is tanh with average-pooling. Weights N(0, 2/fan_in), biases 0.
Batch norm goes before the activation, or after the pool.
"""

from __future__ import annotations

from torch import nn

from firstlight.models.choices import (
    activation_named,
    checked_counts,
    checked_placement,
    norm2d_named,
    pool_named,
)
from firstlight.models.kaiming import KaimingConv2d, KaimingLinear

__all__ = ["cnn_a", "cnn_b"]

# (channels, padding of the 5 × 5 convolution, kernel of the pool, stride of the pool)
_Block = tuple[int, int, int, int]

_CNN_A: tuple[_Block, ...] = ((16, 2, 2, 2), (64, 2, 4, 4))
_CNN_B: tuple[_Block, ...] = (
    *((channels, 4, 5, 1) for channels in (16, 32, 32, 64, 32)),  # 5 × 5 all: the size stays
    (16, 2, 2, 2),
    (16, 2, 4, 2),
)


def cnn_a(
    *,
    classes: int = 2,
    activation: str = "relu",
    pool: str = "max",
    norm: str | None = None,
    placement: str = "before",
    channels: int = 3,
    side: int = 32,
) -> nn.Sequential:
    """CNN-A: two blocks of 16 and 64 channels (figure 1 of the paper).

    The text has lost the kernels of its pools; they are taken equal to the strides, 2 and 4.

    Args:
        classes: Outputs.
        activation: ``"relu"`` or ``"tanh"``.
        pool: ``"max"`` or ``"avg"``.
        norm: ``None`` or ``"batch"``.
        placement: ``"before"`` the activation or ``"after"`` the pool.
        channels: Of the pictures.
        side: Of the square pictures.
    """
    return _network("cnn_a", _CNN_A, classes, activation, pool, norm, placement, channels, side)


def cnn_b(
    *,
    classes: int = 10,
    activation: str = "relu",
    pool: str = "max",
    norm: str | None = None,
    placement: str = "before",
    channels: int = 3,
    side: int = 32,
) -> nn.Sequential:
    """CNN-B: seven blocks (figures 10 to 12 of the paper); arguments as for ``cnn_a``.

    Five blocks of 16, 32, 32, 64, 32 channels with pools of 5 × 5 and stride 1, then two of 16 channels with pools of
    2 × 2 and 4 × 4 and stride 2.
    """
    return _network("cnn_b", _CNN_B, classes, activation, pool, norm, placement, channels, side)


def _network(
    where: str,
    blocks: tuple[_Block, ...],
    classes: int,
    activation: str,
    pool: str,
    norm: str | None,
    placement: str,
    channels: int,
    side: int,
) -> nn.Sequential:
    checked_counts(where, classes=classes, channels=channels, side=side)
    checked_placement(where, placement)
    layers = nn.Sequential()
    for number, (width, padding, kernel, stride) in enumerate(blocks, start=1):
        layers.add_module(f"conv{number}", KaimingConv2d(channels, width, 5, padding=padding))
        if norm is not None and placement == "before":
            layers.add_module(f"norm{number}", norm2d_named(where, norm, width))
        layers.add_module(f"activation{number}", activation_named(where, activation))
        layers.add_module(f"pool{number}", pool_named(where, pool, kernel, stride))
        if norm is not None and placement == "after":
            layers.add_module(f"norm{number}", norm2d_named(where, norm, width))
        channels = width
        side = (side + 2 * padding - 4 - kernel) // stride + 1
        checked_counts(f"{where}: pictures are too small at block {number}", side=side)
    layers.add_module("flatten", nn.Flatten())
    layers.add_module("output", KaimingLinear(channels * side * side, classes))
    return layers
