"""A few samples of whatever holds samples, as one batch that a model takes.

Enters: data as for ``measure``, and the model. Leaves: a small batch in the model's precision, on its device.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from firstlight.measurement.batches import Batch, as_batches

__all__ = ["example_batch"]

_SAMPLES = 2


def example_batch(data: Any, model: nn.Module) -> Batch:
    """The first samples.

    >>> import torch
    >>> example_batch(torch.zeros(5, 3, dtype=torch.float64), nn.Linear(3, 2)).tensors[0].dtype
    torch.float32
    """
    batches = as_batches(data, seed=0)
    try:
        batch = batches.first().head(_SAMPLES)
    finally:
        batches.close()
    first = next((item for item in model.parameters() if item.is_floating_point()), None)
    return batch if first is None else batch.converted(first.dtype, first.device)
