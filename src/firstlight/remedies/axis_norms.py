r"""Two norms that torch lacks: RMS norm of channels, batch norm of the last axis.

.. math:: \text{channels: } \frac{x}{\sqrt{\langle x^2\rangle_{c, positions} + ε}}, \qquad
          \text{last axis: batch norm of each unit over samples and positions.}

They stand where ``convert_norm`` puts the one type of norm into a network that was written for another.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["ChannelRMSNorm", "LastAxisBatchNorm"]


class ChannelRMSNorm(nn.Module):
    """RMS norm of each sample over channels and positions, with a scale for each channel.

    Args:
        channels: Channels, the second axis.
        eps: ε.
        device: As for all of torch's layers.
        dtype: As for all of torch's layers.
    """

    def __init__(self, channels: int, eps: float = 1e-5, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.channels, self.eps = channels, eps
        self.weight = nn.Parameter(torch.ones(channels, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set all scales to 1."""
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Values of the same shape."""
        square = x.square().flatten(1).mean(1).reshape(-1, *[1] * (x.dim() - 1))  # (sample, 1, …)
        return x * torch.rsqrt(square + self.eps) * self.weight.reshape(1, -1, *[1] * (x.dim() - 2))

    def extra_repr(self) -> str:
        """What torch's own norms print."""
        return f"{self.channels}, eps={self.eps}"


class LastAxisBatchNorm(nn.BatchNorm1d):
    """Batch norm of the units on the last axis; whatever axes lie between count as samples."""

    def forward(self, x: Tensor) -> Tensor:
        """Values of the same shape."""
        normalized: Tensor = super().forward(x.reshape(-1, x.shape[-1]))
        return normalized.reshape(x.shape)
