"""Mini-batches and draws: which samples, in which order, named by a seed.

Enters: samples and a seed. Leaves: indices or batches, the same ones for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstlight.errors import UsageError

if TYPE_CHECKING:
    from firstlight.data.samples import Samples

__all__ = ["Batches", "chosen"]


@dataclass(frozen=True, eq=False)
class Batches:
    """Mini-batches (inputs, labels) of ``Samples``; the same ones in the same order at every pass.

    Attributes:
        samples: Where they come from.
        batch_size: Samples in a batch; the last one may be smaller.
        seed: Shuffles once; ``None`` keeps the stored order.
        drop_last: Whether a smaller last batch is left out.
    """

    samples: Samples
    batch_size: int
    seed: int | None = None
    drop_last: bool = False

    def __post_init__(self) -> None:
        name = self.samples.name
        if self.batch_size < 1:
            raise UsageError(f"{name}: batches: expected a batch_size of at least 1, got {self.batch_size}")
        if len(self) == 0:
            raise UsageError(
                f"{name}: batches: {len(self.samples)} samples make no full batch of {self.batch_size}; "
                "pass drop_last=False or a smaller batch_size"
            )

    def __len__(self) -> int:
        full, rest = divmod(len(self.samples), self.batch_size)
        return full + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        total = len(self.samples)
        order = None if self.seed is None else torch.from_numpy(_permutation(total, self.seed))
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            part = slice(start, min(start + self.batch_size, total))
            yield self.samples[part if order is None else order[part]]


def chosen(total: int, count: int, *, seed: int, where: str) -> NDArray[np.int64]:
    """Indices of ``count`` of ``total`` samples without replacement: a beginning of the seed's permutation.

    >>> chosen(5, 2, seed=0, where="doc").tolist() == chosen(5, 4, seed=0, where="doc").tolist()[:2]
    True
    """
    if not 1 <= count <= total:
        raise UsageError(f"{where}: expected between 1 and {total} samples, got {count}")
    return _permutation(total, seed)[:count]


def _permutation(total: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(np.random.SeedSequence(seed)).permutation(total)
