"""Training data that can be asked for any samples by number, and the order in which each run sees them.

Enters: ``Samples``, (x, y), a map-style ``Dataset``, a loader (its dataset) or the name of a data set. Leaves: inputs
and labels of chosen samples. The order of run i in epoch e is a permutation that follows from (seed, i, e) alone, so
that a run can be taken up at any step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from firstlight.data.samples import Samples
from firstlight.errors import DataError
from firstlight.measurement.seeding import initialization_seed

__all__ = ["Examples", "examples", "order_of"]

_ORDER = 3
"""What is drawn for an initialization besides its weights: 1 noise, 2 read-out, 3 the order of the data, 4 dropout."""


@dataclass(frozen=True)
class Examples:
    """Samples by number.

    Attributes:
        description: One line for provenance.
        count: How many there are.
        fetch: Inputs and labels of the samples with these numbers.
        held: Whether fetching draws no random numbers and costs memory alone, so that runs may share a call.
        label_names: Names of the labels, where they are known.
        source: What they were made from.
    """

    description: str
    count: int
    fetch: Callable[[Tensor], tuple[Tensor, Tensor]]
    held: bool
    label_names: tuple[str, ...] | None
    source: Any


def examples(data: Any) -> Examples:
    """Read data for training."""
    if isinstance(data, str):
        from firstlight.data.loading import load

        data = load(data)
    if isinstance(data, DataLoader):
        data = data.dataset
    if isinstance(data, Samples):
        # pixels become numbers when they are asked for; what is stored as numbers already is kept as inputs
        inputs = data.inputs if data.stored.dtype == torch.float32 else None

        def of_samples(numbers: Tensor) -> tuple[Tensor, Tensor]:
            return data[numbers] if inputs is None else (inputs[numbers], data.labels[numbers])

        return Examples(data.description, len(data), of_samples, True, data.label_names, data)
    if isinstance(data, tuple) and len(data) == 2:
        return _of_pair(data)
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset) and hasattr(data, "__len__"):
        return _of_dataset(data)
    raise DataError(
        f"train(data): cannot read a {type(data).__name__}; expected (x, y), Samples, a Dataset that is asked by "
        "number, or the name of a data set; for anything else, follow your own loop with firstlight.track"
    )


def _of_pair(data: tuple[Any, Any]) -> Examples:
    x, y = (item if isinstance(item, Tensor) else torch.as_tensor(np.asarray(item)) for item in data)
    if len(x) != len(y) or not len(x):
        raise DataError(
            f"train(data): expected as many labels as samples, at least one, got {len(x)} and {len(y)}"
        )
    if y.is_floating_point():
        raise DataError(f"train(data): expected whole-number labels, got {y.dtype}")
    if x.dtype == torch.float64:
        x = x.float()
    title = f"Tensor {tuple(x.shape)} with targets"
    return Examples(title, len(x), lambda numbers: (x[numbers], y[numbers]), True, None, data)


def _of_dataset(data: Any) -> Examples:
    def fetch(numbers: Tensor) -> tuple[Tensor, Tensor]:
        batch = default_collate([data[int(number)] for number in numbers])
        if not (isinstance(batch, list | tuple) and len(batch) == 2):
            raise DataError(
                f"train(data): expected items (input, label) of {type(data).__name__}, got {type(batch).__name__}; "
                "for other batches, follow your own loop with firstlight.track"
            )
        return batch[0], batch[1]

    names = getattr(data, "classes", None)
    listed = tuple(str(name) for name in names) if isinstance(names, list | tuple) else None
    return Examples(f"{type(data).__name__} of {len(data)}", len(data), fetch, False, listed, data)


def order_of(seed: int, run: int, step: int, samples: int, batch_size: int) -> Tensor:
    """Numbers of the samples in the batch of update ``step`` of a run.

    >>> first = [order_of(0, 7, step, 5, 2).tolist() for step in range(3)]
    >>> sorted(sum(first, [])), [len(batch) for batch in first]
    ([0, 1, 2, 3, 4], [2, 2, 1])
    """
    in_epoch = -(-samples // batch_size)
    epoch, place = divmod(step, in_epoch)
    order = _permutation(seed, run, epoch, samples)
    return order[place * batch_size : (place + 1) * batch_size]


@lru_cache(maxsize=64)
def _permutation(seed: int, run: int, epoch: int, samples: int) -> Tensor:
    sequence = initialization_seed(seed, run, _ORDER, epoch)
    return torch.from_numpy(np.random.default_rng(sequence).permutation(samples))
