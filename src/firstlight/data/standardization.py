"""Means and deviations: those of the papers' programs, and those of the samples at hand.

Enters: stored values, (sample, …), with their affine map. Leaves: means and variances in float64, over the samples or
over samples and positions. Integers are summed exactly; floats in two passes, so that a large constant does not eat the
variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from firstlight.data.affine import AffineMap
from firstlight.errors import DataError, UsageError

__all__ = ["Constants", "by_channel", "channel_statistics", "constants_of_papers", "coordinate_statistics"]

Constants = tuple[float | Sequence[float], float | Sequence[float]]

# Mean and standard deviation by channel of pixels in [0, 1], as the programs of Francazi et al. have them. The
# Gaussian data of the papers enter as they are.
_OF_PAPERS: dict[str, Constants | None] = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "mnist": (0.1307, 0.3081),
    "gaussian": None,
    "noise": None,
}

_CHUNK = 2**22  # numbers that are widened to 8 bytes at a time


def constants_of_papers(name: str) -> Constants | None:
    """(mean, deviation) of the papers' programs for this data set; ``None`` where they do not standardize.

    >>> constants_of_papers("mnist")
    (0.1307, 0.3081)
    """
    if name not in _OF_PAPERS:
        raise UsageError(
            f"standardize('papers'): expected a data set for which the papers give constants "
            f"({', '.join(_OF_PAPERS)}), got {name!r}; use 'per-channel', 'batch' or a pair (mean, std)"
        )
    return _OF_PAPERS[name]


def by_channel(name: str, value: object, shape: tuple[int, ...]) -> Tensor:
    """One number, or one for each channel, in a form that broadcasts over a sample of this shape."""
    tensor = torch.as_tensor(value, dtype=torch.float64)
    if tensor.ndim == 0:
        return tensor
    if tensor.ndim == 1 and len(tensor) == shape[0]:
        return tensor.reshape(-1, *[1] * (len(shape) - 1))
    raise UsageError(
        f"{name}: standardize: expected one number or {shape[0]} (one a channel), got shape {tuple(tensor.shape)}"
    )


def coordinate_statistics(stored: Tensor, mapping: AffineMap) -> tuple[Tensor, Tensor]:
    """Mean and (biased) variance over the samples of each input coordinate.

    >>> pixels = torch.tensor([[0, 255], [2, 255]], dtype=torch.uint8)
    >>> mean, variance = coordinate_statistics(pixels, AffineMap.starting_at(1.0))
    >>> mean.tolist(), variance.tolist()
    ([1.0, 255.0], [1.0, 0.0])
    """
    mean, variance = _exact_statistics(stored) if stored.dtype == torch.uint8 else _two_passes(stored)
    return mapping.scale * mean + mapping.offset, mapping.scale**2 * variance


def channel_statistics(name: str, stored: Tensor, mapping: AffineMap) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each input channel over samples and positions.

    By the law of total variance: within each position over the samples, plus between the positions' means.
    """
    mean, variance = (
        item.flatten(1) if item.ndim > 1 else item[:, None] for item in coordinate_statistics(stored, mapping)
    )
    total = variance.mean(1) + mean.var(1, correction=0)
    if bool((total <= 0).any()):
        raise DataError(
            f"{name}: standardize('per-channel'): expected channels that vary, got {int((total <= 0).sum())} of "
            f"{len(total)} constant; use 'batch' on flattened samples, which drops them, or take more samples"
        )
    return mean.mean(1), total.sqrt()


def _exact_statistics(stored: Tensor) -> tuple[Tensor, Tensor]:
    count = len(stored)
    total = torch.zeros(stored.shape[1:], dtype=torch.int64)
    squares = torch.zeros_like(total)
    for part in _parts(stored):
        wide = part.to(torch.int64)
        total += wide.sum(0)
        squares += wide.square_().sum(0)
    # n Σx² − (Σx)² is an exact integer, below 2⁶³ for fewer than 10⁷ bytes a coordinate.
    return total / count, (count * squares - total**2).to(torch.float64) / count**2


def _two_passes(stored: Tensor) -> tuple[Tensor, Tensor]:
    mean = torch.zeros(stored.shape[1:], dtype=torch.float64)
    for part in _parts(stored):
        mean += part.sum(0, dtype=torch.float64) / len(stored)
    variance = torch.zeros_like(mean)
    for part in _parts(stored):
        variance += (part.to(torch.float64) - mean).square_().sum(0) / len(stored)
    return mean, variance


def _parts(stored: Tensor) -> Iterator[Tensor]:
    rows = max(1, _CHUNK // max(1, stored[0].numel()))
    return (stored[start : start + rows] for start in range(0, len(stored), rows))
