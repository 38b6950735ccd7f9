"""A norm like another one, for another width: the same class, ε and options, with scale 1 and shift 0.

Enters: a norm, and the map through which it is moved. Leaves: the norm itself where what it normalizes keeps its width,
else a fresh one.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from firstlight.errors import ModelError

__all__ = ["before_map", "behind_map", "normalized_width"]

_BATCH = nn.modules.batchnorm._NormBase


def normalized_width(norm: nn.Module) -> int | None:
    """How many numbers share a scale in turn: channels, or the length of the last axis.

    >>> normalized_width(nn.LayerNorm(8)), normalized_width(nn.BatchNorm2d(3)), normalized_width(nn.LayerNorm((3, 8)))
    (8, 3, None)
    """
    if isinstance(norm, _BATCH):
        return int(norm.num_features)
    if isinstance(norm, nn.GroupNorm):
        return norm.num_channels
    if isinstance(norm, nn.LayerNorm | nn.RMSNorm) and len(norm.normalized_shape) == 1:
        return int(norm.normalized_shape[0])
    return None


def behind_map(norm: nn.Module, dense: nn.Module) -> nn.Module:
    """The norm for the values that ``dense`` gives."""
    return _for_side(norm, dense, outgoing=True)


def before_map(norm: nn.Module, dense: nn.Module) -> nn.Module:
    """The norm for the values that ``dense`` takes."""
    return _for_side(norm, dense, outgoing=False)


def _for_side(norm: nn.Module, dense: nn.Module, *, outgoing: bool) -> nn.Module:
    width = normalized_width(norm)
    if width is None:
        raise ModelError(f"{type(norm).__name__}: expected a norm of one axis, got {norm}")
    target = _width_of(norm, dense, outgoing, width)
    return norm if target == width else _resized(norm, target)


def _width_of(norm: nn.Module, dense: nn.Module, outgoing: bool, width: int) -> int:
    """What the norm's axis is long on that side of the map."""
    over_channels = isinstance(norm, _BATCH | nn.GroupNorm)
    if isinstance(dense, nn.Linear) and not over_channels:
        return dense.out_features if outgoing else dense.in_features
    if isinstance(dense, nn.Conv1d | nn.Conv2d | nn.Conv3d) and over_channels:
        return dense.out_channels if outgoing else dense.in_channels
    if isinstance(dense, nn.Conv1d | nn.Conv2d | nn.Conv3d) and set(dense.kernel_size) == {1} == set(
        dense.stride
    ):
        return width  # channels are another axis, and this one is not touched
    if isinstance(dense, nn.Linear) and isinstance(norm, nn.BatchNorm1d):
        return dense.out_features if outgoing else dense.in_features
    raise ModelError(
        f"the width behind {type(dense).__name__} that {type(norm).__name__} would normalize is not known"
    )


def _resized(norm: nn.Module, width: int) -> nn.Module:
    if nn.utils.parametrize.is_parametrized(norm) or hasattr(norm, "weight_g"):
        raise ModelError(f"{type(norm).__name__} is parametrized: a norm of another width would lose that")
    if norm._forward_hooks or norm._forward_pre_hooks or norm._backward_hooks:
        raise ModelError(f"{type(norm).__name__} carries hooks: a norm of another width would lose them")
    tensors = [*norm.parameters(), *norm.buffers()]
    first = next((item for item in tensors if item.is_floating_point()), None)
    place: dict[str, Any] = {} if first is None else {"device": first.device, "dtype": first.dtype}
    made: nn.Module
    if type(norm) is nn.LayerNorm:
        has_bias = norm.bias is not None
        made = nn.LayerNorm(
            width, norm.eps, norm.elementwise_affine, bias=has_bias or not norm.elementwise_affine, **place
        )
    elif type(norm) is nn.RMSNorm:
        made = nn.RMSNorm(width, norm.eps, norm.elementwise_affine, **place)
    elif type(norm) is nn.GroupNorm:
        if width % norm.num_groups:
            raise ModelError(f"{norm.num_groups} groups do not divide the new width {width}")
        made = nn.GroupNorm(norm.num_groups, width, norm.eps, norm.affine, **place)
    elif isinstance(norm, _BATCH) and type(norm).__module__.startswith("torch.nn."):
        made = type(norm)(width, norm.eps, norm.momentum, norm.affine, norm.track_running_stats, **place)
    else:
        raise ModelError(
            f"no rule makes a {type(norm).__name__} of another width; known are torch's own norms"
        )
    for parameter in made.parameters():
        parameter.requires_grad_(any(item.requires_grad for item in norm.parameters()))
    return made.train(norm.training)
