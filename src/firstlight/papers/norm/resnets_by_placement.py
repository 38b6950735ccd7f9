"""Hugging Face's ResNets with batch norm in three places (figures G.9 and G.10).

Enters: the name of a ResNet and how it departs from its usual size. Leaves: an untrained module::

    before        conv → BN → ReLU; a block ends in conv → BN → (+) → ReLU                the usual ResNet
    after         conv → ReLU → BN within blocks; a block ends as before                  ``norm_after_activation``
    behind-sums   the same, and a block ends in conv → (+) → ReLU → BN                every ReLU is followed by a norm

The papers do not say which of the last two they mean; what a ResNet guesses is read from the end of its last block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from firstlight.errors import one_of
from firstlight.remedies.norm_placement import norm_after_activation

__all__ = ["TITLES", "resnet"]

TITLES: Mapping[str, str] = {
    "before": "BN + ReLU",
    "after": "ReLU + BN",
    "behind-sums": "ReLU + BN, also behind the sums",
}
"""Placements in the order in which they are drawn."""

_DEPTHS = {34: ("basic", [3, 4, 6, 3]), 101: ("bottleneck", [3, 4, 23, 3])}


def resnet(depth: int, placement: str, *, classes: int, width: int = 64) -> nn.Module:
    """ResNet-34 or -101; its weights follow Hugging Face's law for ResNets.

    Args:
        depth: 34 or 101.
        placement: A key of ``TITLES``.
        classes: Outputs.
        width: Channels behind the stem; 64 in the real ones.
    """
    from transformers import ResNetConfig, ResNetForImageClassification

    if placement not in TITLES:
        raise one_of("resnet(placement)", placement, TITLES)
    kind, depths = _DEPTHS[depth]
    wide = 4 if kind == "bottleneck" else 1
    sizes: dict[str, Any] = {
        "embedding_size": width,
        "hidden_sizes": [wide * width * 2**stage for stage in range(4)],
        "depths": depths,
        "layer_type": kind,
        "num_labels": classes,
    }
    model: nn.Module = ResNetForImageClassification(ResNetConfig(**sizes))
    if placement == "before":
        return model
    model, _ = norm_after_activation(model, in_place=True)
    return model if placement == "after" else _behind_sums(model)


def _behind_sums(model: Any) -> nn.Module:
    """The last norm of each block goes behind the activation that follows the sum."""
    for stage in model.resnet.encoder.stages:
        for block in stage.layers:
            last = block.layer[-1]
            norm, last.normalization = last.normalization, nn.Identity()
            block.activation = nn.Sequential(block.activation, norm)
    return model  # type: ignore[no-any-return]
