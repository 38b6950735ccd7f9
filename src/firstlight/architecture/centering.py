"""The mark of a layer whose biases were set to minus its means over data.

Enters: a module. Leaves: whether its biases still are what was set. Such biases follow from the weights: to take them
for independent draws, as theory takes any bias that it reads, would give a network that was centred a prejudice. The
mark holds sums over the parameters as they were, so that training or drawing them anew takes it away.
"""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["is_centered", "mark_centered"]

_MARK = "_centered_at"


def mark_centered(module: nn.Module) -> None:
    """Note that the biases are minus the means over data, from now until they change.

    >>> layer = nn.Linear(2, 3)
    >>> mark_centered(layer)
    >>> is_centered(layer)
    True
    >>> layer.reset_parameters()
    >>> is_centered(layer)
    False
    """
    setattr(module, _MARK, _sums(module))


def is_centered(module: nn.Module) -> bool:
    """Whether it was marked, and is as it was."""
    mark = getattr(module, _MARK, None)
    return mark is not None and mark == _sums(module)


def _sums(module: nn.Module) -> tuple[float, ...]:
    held = [getattr(module, name, None) for name in ("weight", "bias")]
    return tuple(
        float(part)
        for tensor in held
        if isinstance(tensor, Tensor) and not tensor.is_meta
        for values in (tensor.detach().double(),)
        for part in (values.sum(), values.abs().sum())
    )
