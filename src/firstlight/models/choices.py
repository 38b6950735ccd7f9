"""Activations, pools and norms by name, for the variants that the figures compare.

Enters: a name. Leaves: a fresh module, or one sentence that lists the names.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from firstlight.errors import UsageError, one_of

__all__ = [
    "activation_named",
    "checked_counts",
    "checked_placement",
    "norm1d_named",
    "norm2d_named",
    "pool_named",
]

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "linear": nn.Identity,
}


def activation_named(where: str, name: str) -> nn.Module:
    """A fresh activation.

    >>> activation_named("doc", "tanh")
    Tanh()
    """
    if name not in _ACTIVATIONS:
        raise one_of(f"{where}: activation", name, _ACTIVATIONS)
    return _ACTIVATIONS[name]()


def pool_named(where: str, name: str, size: int, stride: int) -> nn.Module:
    """A fresh max or average pool over size × size positions."""
    if name not in ("max", "avg"):
        raise one_of(f"{where}: pool", name, ["max", "avg"])
    return nn.MaxPool2d(size, stride) if name == "max" else nn.AvgPool2d(size, stride)


def norm1d_named(where: str, name: str, width: int) -> nn.Module:
    """A fresh norm of vectors, scale 1 and shift 0, ε = 1e-5."""
    norms: dict[str, Callable[..., nn.Module]] = {
        "batch": nn.BatchNorm1d,
        "layer": nn.LayerNorm,
        "rms": nn.RMSNorm,
    }
    if name not in norms:
        raise one_of(f"{where}: norm", name, norms)
    return norms[name](width, eps=1e-5)


def norm2d_named(where: str, name: str, channels: int) -> nn.Module:
    """A fresh norm of pictures: batch norm, scale 1 and shift 0, ε = 1e-5."""
    if name != "batch":
        raise one_of(f"{where}: norm", name, ["batch"])
    return nn.BatchNorm2d(channels, eps=1e-5)


def checked_placement(where: str, placement: str, allowed: tuple[str, ...] = ("before", "after")) -> str:
    """The placement, when it is one of those allowed."""
    if placement not in allowed:
        raise one_of(f"{where}: placement", placement, allowed)
    return placement


def checked_counts(where: str, **counts: int) -> None:
    """Refuse sizes below 1."""
    for name, count in counts.items():
        if count < 1:
            raise UsageError(f"{where}: {name}: expected at least 1, got {count}")
