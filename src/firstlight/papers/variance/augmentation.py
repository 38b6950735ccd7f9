"""Pictures moved about at random, as Luther & Seung train on them (section 5.2).

Enters: ``Samples`` and a way to move a picture (with its label map, where every pixel has a label). Leaves: a data set
of ``copies`` times as many items; item i is sample i mod n, moved by a draw that follows from (seed, i) alone, so that
what a run sees depends on no global state.

CIFAR-10: zeros around the picture, then a crop of its own size at a random place. ISBI 2012: quarter turns,
reflections, and the elastic warp of Ronneberger et al. (2015), displacements N(0, s²) on a 3 × 3 grid, interpolated.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from firstlight.data.samples import Samples
from firstlight.measurement.seeding import initialization_seed, torch_seed

__all__ = ["Moved", "cropped", "warped"]

_MOVES = 4
"""What is drawn by the seed for an item: 1 to 3 name what ``measure`` and ``train`` draw."""

Move = Callable[[Tensor, Tensor, Generator], tuple[Tensor, Tensor]]


class Moved(Dataset[tuple[Tensor, Tensor]]):
    """Samples under random moves; see the module's docstring."""

    def __init__(self, samples: Samples, move: Move, *, copies: int, seed: int) -> None:
        self.samples, self.move, self.copies, self.seed = samples, move, copies, seed
        self.classes = list(samples.label_names)

    def __len__(self) -> int:
        return self.copies * len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        picture, label = self.samples[index % len(self.samples)]
        drawn = torch_seed(initialization_seed(self.seed, index, _MOVES))
        return self.move(picture, label, torch.Generator().manual_seed(drawn))


def cropped(
    picture: Tensor, label: Tensor, generator: Generator, *, margin: int = 4
) -> tuple[Tensor, Tensor]:
    """A crop of the picture's size at a random place of the picture with ``margin`` zeros on each side."""
    height, width = picture.shape[-2:]
    top, left = torch.randint(0, 2 * margin + 1, (2,), generator=generator).tolist()
    around = functional.pad(picture, (margin,) * 4)
    return around[..., top : top + height, left : left + width], label


def warped(
    picture: Tensor, label: Tensor, generator: Generator, *, deviation: float = 10 / 512
) -> tuple[Tensor, Tensor]:
    """A quarter turn, a reflection and an elastic warp of a square picture and its label map.

    Args:
        picture: (channel, side, side).
        label: (side, side).
        generator: Draws.
        deviation: Of the displacements, as a share of the side (10 of 512 pixels in the paper of U-Net).
    """
    turns, mirrored = torch.randint(0, 4, (), generator=generator), torch.rand((), generator=generator) < 0.5
    both = torch.cat([picture, label[None].to(picture.dtype)]).rot90(int(turns), (1, 2))
    both = both.flip(2) if mirrored else both
    coarse = torch.randn(1, 2, 3, 3, generator=generator) * 2 * deviation  # the picture's sides are 2 long
    side = picture.shape[-1]
    moves = functional.interpolate(coarse, size=(side, side), mode="bicubic", align_corners=True)
    still = functional.affine_grid(torch.eye(2, 3)[None], [1, 1, side, side], align_corners=False)
    places = still + moves.permute(0, 2, 3, 1)  # (1, row, column, 2)

    def sampled(values: Tensor, mode: str) -> Tensor:
        found: Tensor = functional.grid_sample(
            values[None], places, mode=mode, padding_mode="reflection", align_corners=False
        )
        return found[0]

    return sampled(both[:-1], "bilinear"), sampled(both[-1:], "nearest")[0].to(label.dtype)
