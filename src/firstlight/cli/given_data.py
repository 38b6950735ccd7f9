"""What ``--data`` names: a data set of ``data``, or the user's own loader; and the network that fits it.

Enters: ``cifar10:c2-b,samples=512``, ``package.module:loader`` or nothing. Leaves: data that ``measure`` takes, and the
model, with as many inputs as the data have where its description leaves them out.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.wording import arguments_of
from firstlight.cli.named_models import NamedModel, imported, own_mistakes_told
from firstlight.errors import ModelError, UsageError

__all__ = ["data_for", "gaussian_for", "shapes_told"]

_POINTS = 1000
"""Gaussian points where a described network comes without data."""


def data_for(named: NamedModel, words: str | None, *, quiet: bool = False) -> tuple[Any, NamedModel]:
    """The data that ``words`` name and the model that reads them.

    Args:
        named: The model.
        words: What ``--data`` says, or nothing: then Gaussian points, for a description only.
        quiet: Say nothing on stderr of what was chosen.
    """
    if words is None:
        words = gaussian_for(named)
        if not quiet:
            click.echo(f"--data {words}", err=True)
    given = _loaded(words)
    if named.words is None or not hasattr(given, "shape"):
        return given, named
    coordinates = math.prod(given.shape)
    stated = arguments_of(named.words).get("inputs")
    if stated is None and coordinates != named.model.inputs:
        if not quiet:
            click.echo(f"inputs={coordinates}, as many as the data have coordinates", err=True)
        return given, replace(named, model=Blueprint.parse(f"{named.words},inputs={coordinates}"))
    if stated not in (None, coordinates):
        raise UsageError(
            f"model {named.words!r}: inputs={stated}, but the samples of {words!r} have {coordinates} coordinates; "
            f"leave inputs out, or type inputs={coordinates}"
        )
    return given, named


@contextmanager
def shapes_told(given: Any, words: str = "…") -> Iterator[None]:
    """Add to a model's refusal of a batch what the data are and what could be typed.

    Args:
        given: The data.
        words: What ``--data`` says.
    """
    try:
        yield
    except ModelError as error:
        if "failed on a batch" not in str(error) or not hasattr(given, "shape"):
            raise
        shape = tuple(given.shape)
        raise ModelError(
            f"{error}; the samples have the shape {shape}{_fitting(error, shape, words)}"
        ) from error


def _fitting(error: ModelError, shape: tuple[int, ...], words: str) -> str:
    """The line that gives samples of the size that a dense layer asked for."""
    flat = "; for a model of flat inputs, add flatten=true to --data" if len(shape) > 1 else ""
    asked = re.search(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)", str(error))
    if asked is None or asked[1] == asked[2]:
        return flat
    got, expected = int(asked[1]), int(asked[2])
    if len(shape) > 1:
        return f"; type --data {_with(words, 'flatten=true')}" if math.prod(shape) == expected else flat
    told = f"; a layer takes {expected} numbers and gets {got}: give it {got} inputs"
    if words.partition(":")[0] in ("gaussian", "noise"):
        return f"{told}, or type --data {_with(words, f'dimensions={expected}')}"
    return told


def _with(words: str, option: str) -> str:
    """The line with an option more, or another value of it."""
    head, _, rest = words.partition(":")
    kept = [item for item in rest.split(",") if item and item.partition("=")[0] != option.partition("=")[0]]
    return f"{head}:{','.join([*kept, option])}"


def gaussian_for(named: NamedModel) -> str:
    """The line that names Gaussian points for a described network; anything else needs data."""
    blueprint = named.blueprint
    if blueprint is None or blueprint.inputs is None:
        raise UsageError(
            "--data: expected the name of a data set, got none; type --data cifar10, for example"
        )
    if (blueprint.input_mean, blueprint.input_variance) == (0.0, 1.0):
        return f"gaussian:samples={_POINTS},dimensions={blueprint.inputs}"
    law = f"mean={blueprint.input_mean!r},variance={blueprint.input_variance!r}"
    return f"noise:samples={_POINTS},dimensions={blueprint.inputs},{law}"


def _loaded(words: str) -> Any:
    from firstlight.data import load

    head, colon, _ = words.partition(":")
    if not (colon and "." in head):
        return load(words)
    found, module = imported(words, "--data")
    if not (inspect.isroutine(found) or inspect.isclass(found)):
        return found
    with own_mistakes_told(Path(module.__file__).resolve().parent if module.__file__ else None, "data"):
        return found()
