"""Blueprints as plain containers that JSON takes, and back.

Enters: a ``Blueprint``, or a dictionary. Leaves: the other one. A Python callable leaves its name only: a dictionary
that holds one describes the network to people, and rebuilding from it is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from firstlight.architecture import layers as words
from firstlight.architecture.activation_registry import lookup, names
from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.layers import Layer
from firstlight.errors import UsageError, one_of

if TYPE_CHECKING:
    from firstlight.architecture.blueprint import Blueprint

__all__ = ["VERSION", "from_dict", "to_dict"]

VERSION = 1
"""Version of the dictionary's layout."""

_KINDS = {
    kind.__name__: kind
    for kind in (
        words.Activation,
        words.AdaptivePool,
        words.Convolution,
        words.Dense,
        words.Norm,
        words.Pass,
        words.Pool,
        words.PositionPool,
        words.Residual,
        words.Unmodelled,
    )
}


def to_dict(blueprint: Blueprint) -> dict[str, Any]:
    """Plain containers that JSON takes.

    >>> from firstlight.architecture.blueprint import Blueprint
    >>> to_dict(Blueprint.mlp(depth=1))["layers"][2]
    {'layer': 'Activation', 'address': 'activation1', 'function': {'activation': 'relu', 'parameters': {}}}
    """
    plain = {item.name: _plain(getattr(blueprint, item.name)) for item in fields(blueprint)}
    plain["arguments"] = {key: _plain(value) for key, value in blueprint.arguments}
    return {"kind": "blueprint", "version": VERSION, **plain}


def from_dict(plain: Mapping[str, Any]) -> Blueprint:
    """Read what ``to_dict`` wrote.

    Raises:
        UsageError: Another layout, or an activation that was a Python callable.
    """
    from firstlight.architecture.blueprint import Blueprint

    if plain.get("kind") != "blueprint" or plain.get("version") != VERSION:
        raise UsageError(
            f"Blueprint.from_dict: expected what Blueprint.to_dict writes (kind 'blueprint', version {VERSION}), "
            f"got kind {plain.get('kind')!r}, version {plain.get('version')!r}"
        )
    given = {item.name: plain[item.name] for item in fields(Blueprint)}
    given["layers"] = tuple(_layer(item) for item in given["layers"])
    given["arguments"] = tuple((key, _restored(value)) for key, value in given["arguments"].items())
    given["notes"] = tuple(given["notes"])
    return Blueprint(**given)


def _plain(value: Any) -> Any:
    if isinstance(value, ActivationFunction):
        if value.name not in names() or value.source is not None:
            return {"activation": value.name, "callable": True}
        return {"activation": value.name, "parameters": dict(value.parameters)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if type(value) in _KINDS.values():
        return {
            "layer": type(value).__name__,
            **{item.name: _plain(getattr(value, item.name)) for item in fields(value)},
        }
    return value


def _layer(plain: Mapping[str, Any]) -> Layer:
    given = {key: _restored(value) for key, value in plain.items() if key != "layer"}
    if plain.get("layer") not in _KINDS:
        raise one_of("Blueprint.from_dict, layer", plain.get("layer"), _KINDS)
    layer: Layer = _KINDS[plain["layer"]](**given)
    return layer


def _restored(value: Any) -> Any:
    if isinstance(value, Mapping) and "activation" in value:
        if value.get("callable"):
            raise UsageError(
                f"Blueprint.from_dict: expected registered activations, got the Python callable "
                f"{value['activation']!r}, of which a dictionary keeps the name only; "
                "make the blueprint again with that callable"
            )
        return lookup(value["activation"], value["parameters"])
    if isinstance(value, Mapping):
        return _layer(value)
    if isinstance(value, list):
        return tuple(_restored(item) for item in value)
    return value
