"""MLP-Mixer (Tolstikhin et al. 2021) with layer norm in three places (Francazi et al. 2026, figure G.11).

Enters: pictures (sample, 3, 32, 32). Leaves: class scores. Patches become tokens; each of eight layers mixes tokens,
then channels, by x + branch(x)::

    before             fc2(GELU(fc1(LN(x))))        the usual Mixer
    after-activation   fc2(LN(GELU(fc1(x))))        "after" as the paper's words have it
    after-branch       LN(fc2(GELU(fc1(x))))        "after" as the paper's program has it

The norm is always over the last axis. A last norm before the output stays in all of them. Linear layers and the patch
embedding have weights N(0, 2/fan_in) and biases 0; the token MLP keeps torch's default, as in the paper's program,
where it is a 1 × 1 convolution that takes tokens for channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from firstlight.errors import UsageError
from firstlight.models.choices import checked_counts, checked_placement
from firstlight.models.kaiming import KaimingConv2d, KaimingLinear

__all__ = ["MLPMixer", "mlp_mixer"]

_PLACEMENTS = ("before", "after-activation", "after-branch")


def mlp_mixer(
    *,
    classes: int = 10,
    placement: str = "before",
    channels: int = 3,
    side: int = 32,
    patch: int = 4,
    hidden: int = 128,
    token_hidden: int = 512,
    channel_hidden: int = 64,
    depth: int = 8,
    class_token: bool = True,
) -> MLPMixer:
    """Build an MLP-Mixer.

    Args:
        classes: Outputs.
        placement: ``"before"``, ``"after-activation"`` or ``"after-branch"``.
        channels: Of the pictures.
        side: Of the square pictures, a multiple of ``patch``.
        patch: Side of a patch.
        hidden: Width of a token.
        token_hidden: Units of the MLP that mixes tokens.
        channel_hidden: Units of the MLP that mixes channels.
        depth: Layers.
        class_token: Whether a token of its own carries the class; without it the tokens are averaged.
    """
    return MLPMixer(
        classes=classes,
        placement=placement,
        channels=channels,
        side=side,
        patch=patch,
        hidden=hidden,
        token_hidden=token_hidden,
        channel_hidden=channel_hidden,
        depth=depth,
        class_token=class_token,
    )


class MLPMixer(nn.Module):
    """MLP-Mixer; see ``mlp_mixer``."""

    def __init__(
        self,
        *,
        classes: int = 10,
        placement: str = "before",
        channels: int = 3,
        side: int = 32,
        patch: int = 4,
        hidden: int = 128,
        token_hidden: int = 512,
        channel_hidden: int = 64,
        depth: int = 8,
        class_token: bool = True,
    ) -> None:
        super().__init__()
        checked_counts("mlp_mixer", classes=classes, channels=channels, side=side, patch=patch, hidden=hidden)
        checked_counts("mlp_mixer", token_hidden=token_hidden, channel_hidden=channel_hidden, depth=depth)
        checked_placement("mlp_mixer", placement, _PLACEMENTS)
        if side % patch:
            raise UsageError(f"mlp_mixer: side: expected a multiple of the patch ({patch}), got {side}")
        tokens = (side // patch) ** 2 + class_token
        self.embedding = KaimingConv2d(channels, hidden, patch, stride=patch)
        self.class_token = _ClassToken(hidden) if class_token else None
        self.layers = nn.Sequential()
        for number in range(1, depth + 1):
            self.layers.add_module(f"tokens{number}", _TokenMixing(tokens, token_hidden, hidden, placement))
            self.layers.add_module(f"channels{number}", _ChannelMixing(hidden, channel_hidden, placement))
        self.norm = nn.LayerNorm(hidden)
        self.output = KaimingLinear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores."""
        x = self.embedding(x).flatten(2).transpose(1, 2)  # (sample, token, unit)
        if self.class_token is not None:
            x = self.class_token(x)
        x = self.norm(self.layers(x))
        scores: Tensor = self.output(x.mean(1) if self.class_token is None else x[:, 0])
        return scores


class _ClassToken(nn.Module):
    """Puts a token of N(0, 1) parameters before the others."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(1, 1, hidden))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the token anew from torch's global random state."""
        self.token.normal_()

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)


class _Mixing(nn.Module):
    """x + branch(x), the branch an MLP of one hidden layer with a norm in one of three places."""

    def __init__(
        self, first: nn.Module, second: nn.Module, placement: str, *, around: int, inside: int
    ) -> None:
        super().__init__()
        self.branch = nn.Sequential()
        if placement == "before":
            self.branch.add_module("norm", nn.LayerNorm(around))
        self.branch.add_module("fc1", first)
        self.branch.add_module("activation", nn.GELU())
        if placement == "after-activation":
            self.branch.add_module("norm", nn.LayerNorm(inside))
        self.branch.add_module("fc2", second)
        if placement == "after-branch":
            self.branch.add_module("norm", nn.LayerNorm(around))

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.branch(x)
        return x + changed


class _TokenMixing(_Mixing):
    """Mixes tokens, the same way for every unit; the last axis stays ``hidden`` throughout."""

    def __init__(self, tokens: int, token_hidden: int, hidden: int, placement: str) -> None:
        first, second = nn.Conv1d(tokens, token_hidden, 1), nn.Conv1d(token_hidden, tokens, 1)
        super().__init__(first, second, placement, around=hidden, inside=hidden)


class _ChannelMixing(_Mixing):
    """Mixes the units of each token."""

    def __init__(self, hidden: int, channel_hidden: int, placement: str) -> None:
        first, second = KaimingLinear(hidden, channel_hidden), KaimingLinear(channel_hidden, hidden)
        super().__init__(first, second, placement, around=hidden, inside=channel_hidden)
