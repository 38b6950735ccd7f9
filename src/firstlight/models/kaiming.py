"""Linear and convolutional layers whose own ``reset_parameters`` draws the papers' law (He et al. 2015).

Enters: sizes. Leaves: torch's layers with weights N(0, σ_w²/fan_in) and biases 0, where σ_w² = 2 keeps the mean square
of a ReLU network. torch's own reset draws uniform weights of variance 1/(3·fan_in) and random biases, so a model of
plain layers would change its law when it is re-drawn; these do not.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

__all__ = ["KaimingConv2d", "KaimingConvTranspose2d", "KaimingLinear"]


class KaimingLinear(nn.Linear):
    """Linear layer, fan_in = ``in_features``.

    Args:
        in_features: Inputs.
        out_features: Outputs.
        weight_variance: σ_w².
        bias: Whether there are biases (0 at first).
    """

    weight_variance: float

    def __init__(
        self, in_features: int, out_features: int, *, weight_variance: float = 2.0, bias: bool = True
    ) -> None:
        # Before the parent's constructor, which draws the weights.
        object.__setattr__(self, "weight_variance", weight_variance)
        super().__init__(in_features, out_features, bias=bias)

    def reset_parameters(self) -> None:
        """Draw the weights anew from torch's global random state; biases become 0."""
        _draw(self, fan_in=self.in_features)


class KaimingConv2d(nn.Conv2d):
    """Convolution, fan_in = input channels · kernel area / groups.

    Args:
        in_channels: Input channels.
        out_channels: Output channels.
        kernel_size: Side of the kernel.
        weight_variance: σ_w².
        **options: As for ``nn.Conv2d``.
    """

    weight_variance: float

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        weight_variance: float = 2.0,
        **options: Any,
    ) -> None:
        object.__setattr__(self, "weight_variance", weight_variance)
        super().__init__(in_channels, out_channels, kernel_size, **options)

    def reset_parameters(self) -> None:
        """Draw the weights anew from torch's global random state; biases become 0."""
        _draw(self, fan_in=self.weight[0].numel())


class KaimingConvTranspose2d(nn.ConvTranspose2d):
    """Up-convolution whose stride is its kernel, so that each output sees one position: fan_in = input channels.

    Args:
        in_channels: Input channels.
        out_channels: Output channels.
        factor: Kernel and stride.
        weight_variance: σ_w².
    """

    weight_variance: float

    def __init__(
        self, in_channels: int, out_channels: int, factor: int, *, weight_variance: float = 2.0
    ) -> None:
        object.__setattr__(self, "weight_variance", weight_variance)
        super().__init__(in_channels, out_channels, factor, stride=factor)

    def reset_parameters(self) -> None:
        """Draw the weights anew from torch's global random state; biases become 0."""
        _draw(self, fan_in=self.in_channels)


@torch.no_grad()
def _draw(layer: KaimingLinear | KaimingConv2d | KaimingConvTranspose2d, *, fan_in: int) -> None:
    layer.weight.normal_(0.0, math.sqrt(layer.weight_variance / fan_in))
    if layer.bias is not None:
        layer.bias.zero_()
