"""ResNet-9, the small residual network on which "norm placement" trains CIFAR-10 (Francazi et al. 2026, figure 5).

Enters: pictures (sample, 3, 32, 32). Leaves: class scores::

    conv 64 · conv 128, pool · residual(128, 128)
            · conv 256, pool · conv 512, pool · residual(512, 512) · max-pool 4 · linear

    before:  conv 3×3 → BN → ReLU → [max-pool 2]         after:  conv 3×3 → ReLU → [max-pool 2] → BN

A residual stage adds its input to two such blocks; the sum is not normalized. Weights N(0, 2/fan_in), biases 0.
"""

from __future__ import annotations

from torch import Tensor, nn

from firstlight.models.choices import checked_counts, checked_placement, norm2d_named
from firstlight.models.kaiming import KaimingConv2d, KaimingLinear

__all__ = ["ResNet9", "resnet9"]


def resnet9(
    *,
    classes: int = 10,
    channels: int = 3,
    width: int = 64,
    norm: str | None = "batch",
    placement: str = "before",
) -> ResNet9:
    """Build a ResNet-9.

    Args:
        classes: Outputs.
        channels: Of the pictures.
        width: Channels of the first block; the others have 2, 4 and 8 times as many.
        norm: ``"batch"`` or ``None``.
        placement: ``"before"`` or ``"after"`` the activation (after the pool, where there is one).

    >>> sum(weight.numel() for weight in resnet9().parameters())
    6575370
    """
    return ResNet9(classes=classes, channels=channels, width=width, norm=norm, placement=placement)


class ResNet9(nn.Module):
    """ResNet-9; see ``resnet9``."""

    def __init__(
        self,
        *,
        classes: int = 10,
        channels: int = 3,
        width: int = 64,
        norm: str | None = "batch",
        placement: str = "before",
    ) -> None:
        super().__init__()
        checked_counts("resnet9", classes=classes, channels=channels, width=width)
        checked_placement("resnet9", placement)
        self.block1 = _block(channels, width, norm, placement)
        self.block2 = _block(width, 2 * width, norm, placement, pool=True)
        self.residual1 = _Shortcut(2 * width, norm, placement)
        self.block3 = _block(2 * width, 4 * width, norm, placement, pool=True)
        self.block4 = _block(4 * width, 8 * width, norm, placement, pool=True)
        self.residual2 = _Shortcut(8 * width, norm, placement)
        self.pool = nn.MaxPool2d(4)
        self.flatten = nn.Flatten()
        self.output = KaimingLinear(8 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores."""
        x = self.residual1(self.block2(self.block1(x)))
        x = self.residual2(self.block4(self.block3(x)))
        scores: Tensor = self.output(self.flatten(self.pool(x)))
        return scores


class _Shortcut(nn.Module):
    """x + two blocks of x."""

    def __init__(self, width: int, norm: str | None, placement: str) -> None:
        super().__init__()
        self.block1 = _block(width, width, norm, placement)
        self.block2 = _block(width, width, norm, placement)

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.block2(self.block1(x))
        return x + changed


def _block(before: int, after: int, norm: str | None, placement: str, *, pool: bool = False) -> nn.Sequential:
    layers = nn.Sequential()
    layers.add_module("conv", KaimingConv2d(before, after, 3, padding=1))
    if norm is not None and placement == "before":
        layers.add_module("norm", norm2d_named("resnet9", norm, after))
    layers.add_module("activation", nn.ReLU())
    if pool:
        layers.add_module("pool", nn.MaxPool2d(2))
    if norm is not None and placement == "after":
        layers.add_module("norm", norm2d_named("resnet9", norm, after))
    return layers
