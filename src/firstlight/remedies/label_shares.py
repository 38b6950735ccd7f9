"""How often each label occurs in data that come with targets.

Enters: whatever ``measure`` takes, and the number of labels. Leaves: shares that sum to 1, (label,), float64.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from firstlight.errors import DataError
from firstlight.measurement.batches import as_batches

__all__ = ["label_shares"]

_IGNORED = -100
"""The target that torch's cross-entropy leaves out."""


def label_shares(data: Any, labels: int, where: str, *, added: float = 0.0) -> Tensor:
    """Shares of the labels; ``added`` is counted to each, before they are shared out.

    >>> label_shares((torch.zeros(4, 2), torch.tensor([0, 0, 0, 1])), 2, "a doctest").tolist()
    [0.75, 0.25]
    """
    counts = torch.full((labels,), float(added), dtype=torch.float64)
    batches = as_batches(data, seed=0)
    try:
        for batch in batches:
            counts += torch.bincount(_targets(batch.target, labels, where), minlength=labels).double()
    finally:
        batches.close()
    return counts / counts.sum()


def _targets(target: Any, labels: int, where: str) -> Tensor:
    if not isinstance(target, Tensor) or target.is_floating_point() or target.is_complex():
        got = "none" if target is None else f"{getattr(target, 'dtype', type(target).__name__)}"
        raise DataError(
            f"{where}(data): expected a whole-number target for each sample, got {got}; pass (x, y), or the shares "
            "themselves"
        )
    flat = target.reshape(-1).long()
    flat = flat[flat != _IGNORED]
    if len(flat) and (int(flat.min()) < 0 or int(flat.max()) >= labels):
        raise DataError(
            f"{where}(data): expected targets from 0 to {labels - 1}, as many as the model has outputs, "
            f"got {int(flat.min())} … {int(flat.max())}"
        )
    return flat
