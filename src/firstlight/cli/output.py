"""Deliver a result: a table or JSON on stdout, a file or a figure where the user wants one.

Enters: a noun of ``results``. Leaves: text on stdout, as ``reporting`` words it; a line on stderr for each file
written.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from matplotlib.figure import Figure
__all__ = [
    "ARCHIVE",
    "FIGURE",
    "REPORT",
    "WritablePath",
    "announce",
    "print_result",
    "save_figure",
]

ARCHIVE = (".nc",)
"""Suffixes of archives."""

FIGURE = (".pdf", ".png", ".svg")
"""Suffixes of figures."""

REPORT = (".html", ".json", ".md", ".txt", ".xml")
"""Suffixes of reports."""


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


def print_result(result: Any, *, as_json: bool) -> None:
    """Print a result on stdout: as one JSON object, or as a table for people."""
    if as_json:
        from firstlight.reporting.strict_json import json_report

        click.echo(json_report(result))
        return
    from firstlight.reporting.terminal import print_report

    print_report(result)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of its suffix."""
    figure.savefig(path)
    announce(path)


def announce(path: Path) -> None:
    """Say on stderr that a file was written."""
    click.echo(f"wrote {path}", err=True)
