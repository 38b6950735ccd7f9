"""What a module holds beside its parameters and buffers: numbers, words, tensors and the classes of its parts.

Enters: a module. Leaves: a value that is equal for two modules that differ in nothing but parameters and buffers.
Members of an ensemble whose weights are stacked run as one module; what is not registered with it would be that
of one member for all. Objects that are none of these are told apart by their class alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["unregistered"]

_OWN = frozenset(vars(nn.Module()))
"""What every module holds: its parameters, buffers, children, hooks and mode."""


def unregistered(module: nn.Module) -> tuple[Any, ...]:
    """By address, the class and what it holds.

    >>> first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> unregistered(first) == unregistered(second)
    True
    >>> first.gain, second.gain = torch.tensor(1.0), torch.tensor(2.0)
    >>> unregistered(first) == unregistered(second)
    False
    """
    return tuple(
        (name, type(item), _value({key: held for key, held in vars(item).items() if key not in _OWN}))
        for name, item in module.named_modules()
    )


def _value(held: Any) -> Any:
    if isinstance(held, Tensor):
        numbers = held.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return held.dtype, tuple(held.shape), numbers.numpy().tobytes()
    if isinstance(held, np.ndarray):
        return held.dtype, held.shape, held.tobytes()
    if isinstance(held, list | tuple):
        return tuple(_value(item) for item in held)
    if isinstance(held, Mapping):
        return tuple((key, _value(item)) for key, item in held.items())
    return held if isinstance(held, bool | int | float | complex | str | None) else type(held)
