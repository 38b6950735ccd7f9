"""Blueprints in words: the line of text that the command line takes, the one-line ``repr`` and the tables.

Enters: text, or a ``Blueprint``. Leaves: arguments for ``Blueprint.mlp``, or text.
"""

from __future__ import annotations

import html
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from firstlight.architecture.activation_registry import defaults, names
from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.layers import (
    Activation,
    AdaptivePool,
    Convolution,
    Dense,
    Layer,
    Norm,
    Pass,
    Pool,
    PositionPool,
    Residual,
    Unmodelled,
)
from firstlight.errors import UsageError, one_of

if TYPE_CHECKING:
    from firstlight.architecture.blueprint import Blueprint

__all__ = ["arguments_of", "html_table", "one_line", "text_table"]


def arguments_of(words: str) -> dict[str, Any]:
    """The arguments of ``Blueprint.mlp`` in ``mlp:depth=20,norm=layer,pool=max/2``; values are checked by ``mlp``.

    Parameters of an activation follow it: ``activation=hardtanh:min_val=-2,max_val=2``.

    >>> arguments_of("mlp:depth=3,activation=hardtanh:min_val=-2,max_val=2,norm=none")
    {'depth': 3, 'activation': 'hardtanh:min_val=-2,max_val=2', 'norm': None}
    """
    from firstlight.architecture.blueprint import Blueprint

    kind, _, given = words.partition(":")
    if kind.strip() != "mlp":
        raise one_of(f"blueprint {words!r}", kind.strip(), ["mlp"])
    known = list(inspect.signature(Blueprint.mlp).parameters)
    arguments: dict[str, Any] = {}
    previous = ""
    for part in given.split(",") if given.strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if (
            equals
            and key not in known
            and previous == "activation"
            and key in _parameters(arguments["activation"])
        ):
            arguments["activation"] += f",{key}={value}"
            continue
        if not equals or not value:
            raise UsageError(
                f"blueprint {words!r}: expected argument=value with commas between, got {part!r}; "
                "for example 'mlp:depth=20,norm=layer,placement=before'"
            )
        if key not in known:
            raise one_of(f"blueprint {words!r}", key, known)
        if key in arguments:
            raise UsageError(f"blueprint {words!r}: expected {key!r} once, got it twice")
        arguments[key] = value if key == "activation" else _value(value)
        previous = key
    if "depth" not in arguments:
        raise UsageError(f"blueprint {words!r}: expected a depth, got none; for example 'mlp:depth=20'")
    return arguments


def one_line(blueprint: Blueprint) -> str:
    """The call that makes it, for a perceptron; else what it is in one line."""
    if blueprint.arguments:
        from firstlight.architecture.blueprint import Blueprint as Home

        usual = {key: item.default for key, item in inspect.signature(Home.mlp).parameters.items()}
        usual["placement"] = "before" if dict(blueprint.arguments)["norm"] else None
        shown = []
        for key, value in blueprint.arguments:
            plain = value.spec if isinstance(value, ActivationFunction) else value
            # a placement is shown with its norm even where it is the usual one: the two mean little apart
            if plain != usual[key] or (key == "placement" and plain is not None):
                shown.append(f"{key}={plain!r}")
        return f"Blueprint.mlp({', '.join(shown)})"
    what = blueprint.name or "network"
    parts = [f"{sum(1 for _ in _rows(blueprint.layers))} layers"]
    parts += [f"{blueprint.inputs} inputs"] if blueprint.inputs is not None else []
    parts += [f"{blueprint.classes} classes"] if blueprint.classes is not None else []
    parts += [f"{len(blueprint.unmodelled)} unmodelled"] if blueprint.unmodelled else []
    return f"<Blueprint of {what}: {', '.join(parts)}>"


def text_table(blueprint: Blueprint) -> str:
    """The layers, one a line, bodies of residual units indented.

    >>> from firstlight.architecture.blueprint import Blueprint
    >>> print(text_table(Blueprint.mlp(inputs=8, depth=1, width=4, norm="rms")))
    Blueprint.mlp(inputs=8, depth=1, width=4, norm='rms', placement='before')
    inputs: 8 coordinates, mean 0, variance 1
    flatten      Flatten     changes no number
    linear1      dense       8 → 4, weight variance 2, bias variance 0
    norm1        rms norm    4 units, ε = 1e-05
    activation1  activation  relu
    output       dense       4 → 2, weight variance 2, bias variance 0
    """
    rows = [("  " * level + layer.address, *_words(layer)) for level, layer in _rows(blueprint.layers)]
    first = max((len(row[0]) for row in rows), default=0)
    second = max((len(row[1]) for row in rows), default=0)
    lines = [f"{address:<{first}}  {kind:<{second}}  {detail}".rstrip() for address, kind, detail in rows]
    return "\n".join([*_head(blueprint), *lines, *(f"note: {note}" for note in blueprint.notes)])


def html_table(blueprint: Blueprint) -> str:
    """The same as an HTML table."""
    head = "".join(f"<div>{html.escape(line)}</div>" for line in _head(blueprint))
    rows = "".join(
        f'<tr><td style="padding-left:{0.5 + 1.5 * level}em">{html.escape(layer.address)}</td>'
        + "".join(f"<td>{html.escape(text)}</td>" for text in _words(layer))
        + "</tr>"
        for level, layer in _rows(blueprint.layers)
    )
    notes = "".join(f"<div>{html.escape(note)}</div>" for note in blueprint.notes)
    return f"{head}<table><tr><th>layer</th><th>kind</th><th></th></tr>{rows}</table>{notes}"


def _value(text: str) -> object:
    if text.lower() in ("none", "null"):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parameters(activation_words: str) -> dict[str, float]:
    name, colon, _ = activation_words.partition(":")
    return defaults(name) if colon and name in names() else {}


def _head(blueprint: Blueprint) -> list[str]:
    inputs = "unknown number of" if blueprint.inputs is None else blueprint.inputs
    lines = [
        one_line(blueprint),
        f"inputs: {inputs} coordinates, mean {blueprint.input_mean:g}, variance {blueprint.input_variance:g}",
    ]
    return [lines[0], blueprint.description, lines[1]] if blueprint.description else lines


def _rows(layers: tuple[Layer, ...], level: int = 0) -> Iterator[tuple[int, Layer]]:
    for layer in layers:
        yield level, layer
        if isinstance(layer, Residual):
            yield from _rows(layer.body, level + 1)
            yield from _rows(layer.shortcut, level + 1)


def _words(layer: Layer) -> tuple[str, str]:
    """Kind and detail of one layer."""
    match layer:
        case Dense():
            return "dense", f"{layer.fan_in} → {layer.fan_out}, {_variances(layer)}"
        case Convolution():
            channels = f"{layer.in_channels} → {layer.out_channels} channels"
            return "convolution", f"{channels}, kernel {_by(layer.kernel)}, {_variances(layer)}"
        case Norm():
            return f"{layer.kind} norm", f"{layer.width} units, ε = {layer.epsilon:g}"
        case Activation():
            return "activation", layer.function.spec
        case Pool():
            return f"{layer.kind} pool", f"{layer.size} neighbouring units"
        case PositionPool():
            windows = f"{_by(layer.kernel)} positions, stride {_by(layer.stride)}"
            return f"{layer.kind} pool", f"windows of {windows}"
        case AdaptivePool():
            return f"{layer.kind} pool", f"positions, to {_by(layer.output)}"
        case Pass():
            return layer.kind, "changes no number"
        case Residual():
            around = "a shortcut of its own" if layer.shortcut else "the identity"
            return "residual", f"{around} + {layer.scale:g} · body"
        case Unmodelled():
            return layer.kind, f"unmodelled: {layer.reason}"


def _by(sizes: tuple[int, ...]) -> str:
    return "×".join(map(str, sizes))


def _variances(layer: Dense | Convolution) -> str:
    bias = f"bias variance {layer.bias_variance:g}" if layer.has_bias else "no bias"
    if layer.centered:
        bias = "centred on the data"
    return f"weight variance {layer.weight_variance:g}, {bias}"
