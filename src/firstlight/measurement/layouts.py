"""Which axis of a tensor counts units: everything else, samples and positions alike, counts samples.

Convolutions and their norms put units (channels) on axis 1, everything else on the last axis; an elementwise
layer keeps the axis of the tensor that it was given. A block of values leaves as ``Rows`` (row, unit) or as
``Planes`` (sample, unit, position).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Planes", "Rows", "arranged", "rows_of", "unit_axis"]

_SHORT = 16
"""Planes of fewer positions than this are copied into rows: reductions over a short last axis do not vectorize."""


@dataclass(frozen=True)
class Rows:
    """Values of shape (row, unit), units contiguous."""

    values: Tensor


@dataclass(frozen=True)
class Planes:
    """Values of shape (sample, unit, position), positions contiguous."""

    values: Tensor


def unit_axis(kind: str, dimensions: int) -> int:
    """Axis of units of the output of a layer of that kind: 1 for what convolves, the last one otherwise.

    >>> unit_axis("convolution", 4), unit_axis("dense", 3), unit_axis("pool", 4)
    (1, -1, 1)
    """
    if kind in ("convolution", "channel norm"):
        return 1
    if kind in ("dense", "norm", "embedding"):
        return -1
    return 1 if dimensions >= 4 else -1


def arranged(values: Tensor, axis: int) -> Rows | Planes:
    """View (or copy, where strides force it) as rows or planes."""
    if values.ndim == 1:
        return Rows(values[:, None])
    axis = axis % values.ndim
    if axis == values.ndim - 1:
        return Rows(values.reshape(-1, values.shape[-1]))
    if values.stride(axis) == 1 and values.shape[axis] > 1:  # channels_last
        return Rows(values.movedim(axis, -1).reshape(-1, values.shape[axis]))
    leading, trailing = math.prod(values.shape[:axis]), math.prod(values.shape[axis + 1 :])
    if trailing < _SHORT:
        return Rows(values.movedim(axis, -1).reshape(-1, values.shape[axis]))
    return Planes(values.reshape(leading, values.shape[axis], trailing))


def rows_of(values: Tensor, axis: int, positions: Tensor | None = None) -> Tensor:
    """(row, unit); of each sample only the given positions, where there are positions."""
    if values.ndim <= 2:
        return values if values.ndim == 2 else values[:, None]
    axis = axis % values.ndim
    if axis == 1:
        flat = values.flatten(2)  # (sample, unit, position)
        if positions is not None and len(positions) < flat.shape[2]:
            flat = torch.index_select(flat, 2, positions.to(values.device))
        # copied with positions contiguous, as they lie, not units
        return flat.transpose(0, 1).reshape(values.shape[1], -1).T
    flat = values.movedim(axis, -1).reshape(len(values), -1, values.shape[axis])  # (sample, position, unit)
    if positions is not None and len(positions) < flat.shape[1]:
        flat = torch.index_select(flat, 1, positions.to(values.device))
    return flat.reshape(-1, flat.shape[-1])
