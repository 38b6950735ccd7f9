"""The data themselves: how far their coordinates lie from zero, and how much they vary.

Enters: batches. Leaves: mean square over coordinates of their mean (C of the inputs), mean of their variance (V), over
the first floating argument of the model; nothing for tokens, which have no centre. C/V is γ behind a linear layer.
"""

from __future__ import annotations

from collections.abc import Iterable

from firstlight.measurement.batches import Batch
from firstlight.measurement.layouts import Rows
from firstlight.measurement.observables import moments

__all__ = ["input_statistics"]


def input_statistics(batches: Iterable[Batch]) -> dict[str, float]:
    """``input_center_variance`` and ``input_data_variance``.

    >>> import torch
    >>> input_statistics([Batch((torch.tensor([[1.0, 3.0], [3.0, 3.0]]),))])
    {'input_center_variance': 6.5, 'input_data_variance': 0.5}
    """
    state: moments.Moments | None = None
    for batch in batches:
        tensor = next((item for item in batch.tensors if item.is_floating_point()), None)
        if tensor is None:
            return {}
        rows = tensor.reshape(len(tensor), -1)
        if state is None:
            state = moments.init(rows.shape[1], order=2)
        elif rows.shape[1] != len(state.mean):
            return {}  # samples of several shapes have no coordinates in common
        state = moments.update(state, Rows(rows))
    if state is None:
        return {}
    found = moments.finalize(state)
    return {f"input_{name}": found[name] for name in ("center_variance", "data_variance")}
