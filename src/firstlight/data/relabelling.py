"""Classes chosen and merged: new labels for old ones.

Enters: labels with their names, and groups of classes. Leaves: which samples stay, and their new labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from firstlight.errors import UsageError, one_of

__all__ = ["class_indices", "relabel"]


def class_indices(where: str, label_names: Sequence[str], classes: Iterable[str | int]) -> list[int]:
    """Numbers of classes that are given by name (upper or lower case) or by number.

    >>> class_indices("pets", ["cat", "dog"], ["Dog", 0])
    [1, 0]
    """
    lowered = {name.lower(): index for index, name in enumerate(label_names)}
    found = []
    for item in classes:
        if isinstance(item, str):
            if item.lower() not in lowered:
                raise one_of(f"{where}: class", item, label_names)
            found.append(lowered[item.lower()])
        elif 0 <= item < len(label_names):
            found.append(int(item))
        else:
            raise UsageError(
                f"{where}: class: expected a number from 0 to {len(label_names) - 1}, got {item}"
            )
    return found


def relabel(
    where: str, labels: Tensor, label_names: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> tuple[Tensor, Tensor]:
    """Indices of the samples whose class is in a group, in their old order, and their new labels.

    Raises:
        UsageError: No group, an empty group, or a class in two groups.
    """
    if not groups:
        raise UsageError(f"{where}: expected at least one class, got none")
    table = torch.full((len(label_names),), -1, dtype=torch.int64)
    for new, (name, members) in enumerate(groups.items()):
        if not members:
            raise UsageError(f"{where}: group {name!r}: expected at least one class, got none")
        for old in class_indices(where, label_names, members):
            if table[old] >= 0:
                raise UsageError(
                    f"{where}: class {label_names[old]!r} is listed twice; a class belongs to one group"
                )
            table[old] = new
    fresh = table[labels]
    kept = torch.nonzero(fresh >= 0).flatten()
    return kept, fresh[kept]
