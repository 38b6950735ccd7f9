"""One animal of the zoo: a network, data, and what an audit has to say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["Case", "pictures", "points", "tokens"]


@dataclass(frozen=True)
class Case:
    """A network with a fault that was put there, or a healthy one.

    Attributes:
        name: In words.
        make: Builds it.
        data: Draws data by a seed.
        has: Findings that it must have: the fault, and what follows from it by theory.
        may: Findings that it may have: near a threshold, or a consequence that no one has worked out.
        healthy: Whether nothing was broken on purpose; then nothing may fail, and only ``has`` and ``may`` be found.
        options: For ``audit``.
    """

    name: str
    make: Callable[[], nn.Module]
    data: Callable[[int], Any]
    has: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    healthy: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def points(
    count: int = 200, dimensions: int = 64, labels: int = 10, *, scale: float = 1.0, shift: float = 0.0
) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Gaussian points with labels that mean nothing, as before learning."""

    def draw(seed: int) -> tuple[Tensor, Tensor]:
        generator = np.random.default_rng([seed, count, dimensions])
        values = shift + scale * generator.standard_normal((count, dimensions), dtype=np.float32)
        return torch.from_numpy(values), torch.from_numpy(generator.integers(0, labels, count))

    return draw


def pictures(
    count: int = 64, channels: int = 3, side: int = 16, labels: int = 10, *, pixels: bool = False
) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Smooth random pictures: waves of random direction; standardized, or as pixels between 0 and 1."""

    def draw(seed: int) -> tuple[Tensor, Tensor]:
        generator = np.random.default_rng([seed, count, channels, side])
        grid = np.arange(side) / side
        values = np.zeros((count, channels, side, side))
        for _ in range(8):
            wave = generator.uniform(-2, 2, (count, 1, 2, 1, 1))
            phase = generator.uniform(0, 2 * np.pi, (count, channels, 1, 1))
            angle = wave[:, :, 0] * grid[:, None] + wave[:, :, 1] * grid
            values += generator.standard_normal((count, channels, 1, 1)) * np.cos(2 * np.pi * angle + phase)
        values /= values.std()
        if pixels:
            values = 0.5 + 0.2 * np.clip(values, -2.5, 2.5)
        return torch.from_numpy(values).float(), torch.from_numpy(generator.integers(0, labels, count))

    return draw


def tokens(count: int = 64, length: int = 12, words: int = 60) -> Callable[[int], Tensor]:
    """Sentences of random words."""

    def draw(seed: int) -> Tensor:
        return torch.from_numpy(
            np.random.default_rng([seed, count, length]).integers(0, words, (count, length))
        )

    return draw
