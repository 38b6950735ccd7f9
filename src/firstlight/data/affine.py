"""The affine map between stored values and inputs, one factor and one constant for each coordinate.

Enters: stored values, (sample, …). Leaves: ``float32`` inputs::

    inputs = scale · stored + offset

Standardizing and shifting change the map only, so pixels can stay a byte each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

__all__ = ["AffineMap"]


@dataclass(frozen=True, eq=False)
class AffineMap:
    """scale · stored + offset, in float64 and broadcast over a sample.

    Attributes:
        scale: Factor.
        offset: Constant.
        unit: ``scale`` of the data as they come (1/255 for pixels), so that scale/unit is 1/std after standardization.

    >>> AffineMap.starting_at(1 / 255).standardized(0.5, 0.25)(torch.tensor([0, 255], dtype=torch.uint8))
    tensor([-2.,  2.])
    """

    scale: Tensor
    offset: Tensor
    unit: float

    @classmethod
    def starting_at(cls, unit: float) -> Self:
        """Multiply by ``unit``."""
        return cls(torch.tensor(unit, dtype=torch.float64), torch.zeros((), dtype=torch.float64), unit)

    def __call__(self, stored: Tensor) -> Tensor:
        """Inputs of these stored values; a new tensor unless nothing is to be done."""
        values = stored.to(torch.float32)
        if self.scale.ndim == 0 and self.scale == 1 and not bool(self.offset.any()):
            return values
        scale, offset = self.scale.to(torch.float32), self.offset.to(torch.float32)
        scaled = values * scale if values is stored else values.mul_(scale)
        return scaled.add_(offset)

    def standardized(self, mean: Tensor | float, deviation: Tensor | float) -> Self:
        """(inputs − mean) / deviation."""
        return replace(self, scale=self.scale / deviation, offset=(self.offset - mean) / deviation)

    def lowered(self, amount: float) -> Self:
        """Inputs of data that were ``amount`` lower before they were standardized."""
        return replace(self, offset=self.offset - amount * self.scale / self.unit)

    def raised(self, amount: float) -> Self:
        """Inputs + amount."""
        return replace(self, offset=self.offset + amount)

    def flattened(self, shape: tuple[int, ...]) -> Self:
        """The map of samples of this shape after they were made vectors."""
        scale, offset = (
            item if item.ndim == 0 else item.expand(shape).flatten() for item in (self.scale, self.offset)
        )
        return replace(self, scale=scale, offset=offset)

    def only(self, coordinates: Tensor) -> Self:
        """The map of the coordinates that this mask keeps."""
        scale, offset = (item if item.ndim == 0 else item[coordinates] for item in (self.scale, self.offset))
        return replace(self, scale=scale, offset=offset)
