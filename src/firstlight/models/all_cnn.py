"""ALL-CNN-C (Springenberg et al. 2014) as Luther & Seung (2019) run it: nine convolutions, pooling, one linear layer.

Enters: the variant. Leaves: a plain ``nn.Sequential`` for 32 × 32 pictures. Two of the 3 × 3 convolutions have stride 2
in place of pools. Reflection padding keeps the size of every 3 × 3 convolution (the seventh of the original shrinks its
map from 8 to 6; the global pooling makes that of no consequence to the sizes). Weights N(0, 2/fan_in), biases 0, no
dropout.
"""

from __future__ import annotations

from torch import nn

from firstlight.models.choices import activation_named, checked_counts, checked_placement, norm2d_named
from firstlight.models.kaiming import KaimingConv2d, KaimingLinear

__all__ = ["all_cnn_c"]

# (kernel, channels in widths, stride) of the first eight; the ninth is 1 × 1 to as many channels as there are classes.
_CONVOLUTIONS = (
    (3, 1, 1),
    (3, 1, 1),
    (3, 1, 2),
    (3, 2, 1),
    (3, 2, 1),
    (3, 2, 2),
    (3, 2, 1),
    (1, 2, 1),
)


def all_cnn_c(
    *,
    classes: int = 10,
    channels: int = 3,
    width: int = 96,
    norm: str | None = None,
    placement: str = "before",
    activation: str = "relu",
    output_layer: bool = True,
) -> nn.Sequential:
    """Build ALL-CNN-C.

    Args:
        classes: Outputs, and channels of the ninth convolution.
        channels: Of the pictures.
        width: Channels of the first three convolutions; the next five have twice as many.
        norm: ``None`` or ``"batch"``.
        placement: ``"before"`` or ``"after"`` the activation.
        activation: ``"relu"`` or another that ``choices`` names.
        output_layer: Luther & Seung name a fully connected layer after the pooling; without it this is the original
            network, whose ninth convolution gives the classes.

    >>> sum(weight.numel() for weight in all_cnn_c(output_layer=False).parameters())  # "1.37 M" in the original paper
    1369738
    """
    checked_counts("all_cnn_c", classes=classes, channels=channels, width=width)
    checked_placement("all_cnn_c", placement)
    layers = nn.Sequential()
    maps = [(kernel, widths * width, stride) for kernel, widths, stride in _CONVOLUTIONS]
    for number, (kernel, after, stride) in enumerate([*maps, (1, classes, 1)], start=1):
        layers.add_module(
            f"conv{number}",
            KaimingConv2d(
                channels, after, kernel, stride=stride, padding=kernel // 2, padding_mode="reflect"
            ),
        )
        if norm is not None and placement == "before":
            layers.add_module(f"norm{number}", norm2d_named("all_cnn_c", norm, after))
        layers.add_module(f"activation{number}", activation_named("all_cnn_c", activation))
        if norm is not None and placement == "after":
            layers.add_module(f"norm{number}", norm2d_named("all_cnn_c", norm, after))
        channels = after
    layers.add_module("pool", nn.AdaptiveAvgPool2d(1))
    layers.add_module("flatten", nn.Flatten())
    if output_layer:
        layers.add_module("output", KaimingLinear(classes, classes))
    return layers
