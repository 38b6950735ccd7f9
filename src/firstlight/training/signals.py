"""γ of one network in training, layer by layer.

Enters: a model as it is and data. Leaves: C, V and γ = C/V of its own weights by layer, as ``measure`` takes them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from firstlight.measurement.kinds import unwrapped
from firstlight.measurement.measuring import measure

__all__ = ["layer_variances"]

_NAMES = ("center_variance", "data_variance", "gamma")


def layer_variances(
    model: nn.Module, data: Any, layers: Any, mode: str, batch_size: int | None = None
) -> tuple[list[str], dict[str, Tensor]]:
    """Names of the layers, and C, V and γ at each, (layer,).

    Args:
        model: Measured with its weights as they are, on a copy.
        data: As for ``measure``.
        layers: As for ``measure``.
        mode: ``"train"`` or ``"eval"``.
        batch_size: Samples in a batch.
    """
    profile = measure(
        unwrapped(model)[0],
        data,
        inits=1,
        redraw="keep",
        quantities=_NAMES,
        layers=layers,
        mode=mode,
        batch_size=batch_size,
        progress=False,
    )
    return profile.layers, {name: torch.tensor(profile.variables[name].values) for name in _NAMES}
