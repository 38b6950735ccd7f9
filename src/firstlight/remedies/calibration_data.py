"""A few mini-batches on which a data-dependent initialization stands.

Enters: data as for ``measure``. Leaves: mini-batches in the model's precision, the same at every call, and a sentence
that says what they are.

Data in memory is dealt out to as many mini-batches as asked for, sample by sample, so that data sorted by class is
mixed. All of it is used, up to ``_LARGEST`` samples a mini-batch and the memory that the largest activation takes; of
more, the seed draws. A loader gives its first mini-batches as they come.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import torch
from torch import Tensor

from firstlight.errors import DataError, UsageError
from firstlight.measurement.batches import Batch, Batches, as_batches
from firstlight.measurement.observing import check_inputs

__all__ = ["CalibrationData"]

_SEED = 0
"""Names the samples: every initialization is calibrated on the same."""
_LARGEST = 512
"""Samples of a mini-batch that is ours to cut, at most."""
_ELEMENTS = 1 << 24
"""Elements of the largest activation of such a mini-batch, at most."""


class CalibrationData:
    """Mini-batches to be; see the module.

    Args:
        data: Whatever ``measure`` takes.
        batches: How many.
        batch_size: Samples in each, where the data is ours to cut.
        where: Who asks, for messages.
    """

    def __init__(self, data: Any, *, batches: int, batch_size: int | None, where: str) -> None:
        if isinstance(batches, bool) or not isinstance(batches, int) or batches < 1:
            raise UsageError(f"{where}(batches): expected a whole number of at least 1, got {batches!r}")
        self.where, self.count, self.batch_size = where, batches, batch_size
        self.source: Batches = as_batches(data, seed=_SEED, batch_size=batch_size)

    def first(self) -> Batch:
        """Some samples, to see what the model does with them."""
        try:
            return self.source.first()
        finally:
            self.source.close()

    def taken(
        self, *, largest: int, together: bool, dtype: torch.dtype, device: torch.device
    ) -> tuple[list[Batch], str]:
        """The mini-batches, and what they are in words.

        Args:
            largest: Elements of the largest activation of one sample.
            together: Whether a batch norm needs two samples in each.
            dtype: Precision of the model.
            device: Where it is.
        """
        source, least = self.source, 2 if together else 1
        if source.cut is not None:
            total = source.samples or 1
            count = min(self.count, max(total // least, 1))
            size = max(min(-(-total // count), _LARGEST, _ELEMENTS // max(largest, 1)), least)
            if self.batch_size is not None:
                size, count = self.batch_size, min(count, -(-total // self.batch_size))
            source = source.cut(min(total, size * count), True)
            found = _dealt(next(iter(source)), count)
        else:
            found = list(islice(source, self.count))
        source.close()
        if not found:
            raise DataError(f"{self.where}(data): the data yields no batch; expected at least one sample")
        for number, batch in enumerate(found):
            check_inputs(batch, number)
        sizes = sorted({batch.size for batch in found})
        span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        times = "1 mini-batch" if len(found) == 1 else f"{len(found)} mini-batches"
        words = f"calibrated on {times} of {span} samples of {source.description}"
        if len(found) < self.count:
            words += f" ({self.count} were asked for, the data has no more)"
        return [batch.converted(dtype, device) for batch in found], words


def _dealt(batch: Batch, count: int) -> list[Batch]:
    """Deal the samples out to so many batches, like cards."""
    size = batch.size

    def part(value: Any, number: int) -> Any:
        return (
            value[number::count] if isinstance(value, Tensor) and value.ndim and len(value) == size else value
        )

    return [
        Batch(
            tuple(part(value, number) for value in batch.args),
            {name: part(value, number) for name, value in batch.kwargs.items()},
            part(batch.target, number),
        )
        for number in range(count)
    ]
