"""Deliver a result: a table or JSON on stdout, a file or a figure where the user wants one.

Enters: a noun of ``results``. Leaves: text on stdout; a line on stderr for each file written.

JSON here is strict (RFC 8259), which knows neither NaN nor infinities: NaN (not defined, not computed) becomes
``null``, infinities become the strings ``"Infinity"`` and ``"-Infinity"``, because γ = ∞ is an answer. The object
opens with ``"schema": "firstlight/<kind>"`` and ``"schema_version"``, which grows when a reader would have to change.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from firstlight.results.labelled import Labelled

__all__ = [
    "ARCHIVE",
    "FIGURE",
    "JSON_SCHEMA_VERSION",
    "WritablePath",
    "announce",
    "json_text",
    "print_result",
    "save_figure",
]

JSON_SCHEMA_VERSION = 1

ARCHIVE = (".nc",)
"""Suffixes of archives."""

FIGURE = (".pdf", ".png", ".svg")
"""Suffixes of figures."""


class WritablePath(click.Path):
    """A file to write, looked at before anything is computed: its folder must exist, its suffix must be known."""

    def __init__(self, suffixes: tuple[str, ...]) -> None:
        super().__init__(dir_okay=False, path_type=Path)
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path, or the error that says why nothing can be written there."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.suffix.lower() not in self.suffixes:
            self.fail(
                f"expected a file name that ends in {' or '.join(self.suffixes)}, got {str(path)!r}",
                param,
                ctx,
            )
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such folder; make it first", str(path.parent))
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, "not writable", str(path))
        return path


def print_result(result: Labelled, *, as_json: bool) -> None:
    """Print a result on stdout: as one JSON object, or as a table for people."""
    if as_json:
        click.echo(json_text(result.kind, result.to_dict()))
        return
    from firstlight.cli.tables import print_table

    print_table(result)


def json_text(kind: str, plain: Mapping[str, Any]) -> str:
    """Strict JSON of what ``to_dict`` gave, under its schema.

    >>> json_text("profile", {"gamma": [0.5, float("inf"), float("nan")]})
    '{"schema": "firstlight/profile", "schema_version": 1, "gamma": [0.5, "Infinity", null]}'
    """
    head = {"schema": f"firstlight/{kind}", "schema_version": JSON_SCHEMA_VERSION}
    return json.dumps({**head, **_strict(plain)}, allow_nan=False, ensure_ascii=False)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of its suffix."""
    figure.savefig(path)
    announce(path)


def announce(path: Path) -> None:
    """Say on stderr that a file was written."""
    click.echo(f"wrote {path}", err=True)


def _strict(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _strict(item) for key, item in value.items()}
        case list() | tuple():
            return [_strict(item) for item in value]
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case _:
            return value
