"""U-Net (Ronneberger et al. 2015) as Luther & Seung (2019) run it: 23 convolutions, 4 max-pools, reflection padding.

Enters: pictures (sample, 1, side, side), side a multiple of 16 and at least 32. Leaves: class scores for every pixel,
(sample, 2, side, side)::

    down1 ─────────────────────────────→ up1 → output        2 × (3×3 convolution → ReLU) in each down and up,
      ↓ pool                            ↑ 2×2 up-convolution → ReLU        (4 + 1 + 4) · 2 + 4 + 1 = 23
    down2 … down4 ─────────────→ up4 … up2
      ↓ pool                   ↑
    bottom ────────────────────┘

Weights N(0, 2/fan_in), biases 0.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from firstlight.models.choices import checked_counts, checked_placement, norm2d_named
from firstlight.models.kaiming import KaimingConv2d, KaimingConvTranspose2d

__all__ = ["UNet", "u_net"]


def u_net(
    *,
    classes: int = 2,
    channels: int = 1,
    width: int = 64,
    norm: str | None = None,
    placement: str = "before",
) -> UNet:
    """Build a U-Net.

    Args:
        classes: Scores for each pixel.
        channels: Of the pictures.
        width: Channels at full size; they double at each of the four pools (64 … 1024).
        norm: ``None`` or ``"batch"``.
        placement: ``"before"`` or ``"after"`` the activation.
    """
    return UNet(classes=classes, channels=channels, width=width, norm=norm, placement=placement)


class UNet(nn.Module):
    """U-Net; see ``u_net``."""

    def __init__(
        self,
        *,
        classes: int = 2,
        channels: int = 1,
        width: int = 64,
        norm: str | None = None,
        placement: str = "before",
    ) -> None:
        super().__init__()
        checked_counts("u_net", classes=classes, channels=channels, width=width)
        checked_placement("u_net", placement)
        widths = [width * 2**level for level in range(5)]
        self.down1, self.down2, self.down3, self.down4, self.bottom = (
            _pair(before, after, norm, placement)
            for before, after in zip([channels, *widths[:4]], widths, strict=True)
        )
        self.pool1, self.pool2, self.pool3, self.pool4 = (nn.MaxPool2d(2) for _ in range(4))
        self.raise4, self.raise3, self.raise2, self.raise1 = (
            _raise(widths[level], widths[level - 1], norm, placement) for level in (4, 3, 2, 1)
        )
        # Twice as many channels come in: the map from below and the one kept on the way down.
        self.up4, self.up3, self.up2, self.up1 = (
            _pair(2 * widths[level], widths[level], norm, placement) for level in (3, 2, 1, 0)
        )
        self.output = KaimingConv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores for every pixel."""
        kept1 = self.down1(x)
        kept2 = self.down2(self.pool1(kept1))
        kept3 = self.down3(self.pool2(kept2))
        kept4 = self.down4(self.pool3(kept3))
        x = self.bottom(self.pool4(kept4))
        x = self.up4(torch.cat([kept4, self.raise4(x)], dim=1))
        x = self.up3(torch.cat([kept3, self.raise3(x)], dim=1))
        x = self.up2(torch.cat([kept2, self.raise2(x)], dim=1))
        x = self.up1(torch.cat([kept1, self.raise1(x)], dim=1))
        scores: Tensor = self.output(x)
        return scores


def _pair(before: int, after: int, norm: str | None, placement: str) -> nn.Sequential:
    """Two 3 × 3 convolutions."""
    layers = nn.Sequential()
    for number, incoming in ((1, before), (2, after)):
        convolution = KaimingConv2d(incoming, after, 3, padding=1, padding_mode="reflect")
        layers.add_module(f"conv{number}", convolution)
        _activate(layers, str(number), after, norm, placement)
    return layers


def _raise(before: int, after: int, norm: str | None, placement: str) -> nn.Sequential:
    """The up-convolution: twice the size, half the channels."""
    layers = nn.Sequential()
    layers.add_module("conv", KaimingConvTranspose2d(before, after, 2))
    _activate(layers, "", after, norm, placement)
    return layers


def _activate(layers: nn.Sequential, number: str, width: int, norm: str | None, placement: str) -> None:
    if norm is not None and placement == "before":
        layers.add_module(f"norm{number}", norm2d_named("u_net", norm, width))
    layers.add_module(f"activation{number}", nn.ReLU())
    if norm is not None and placement == "after":
        layers.add_module(f"norm{number}", norm2d_named("u_net", norm, width))
