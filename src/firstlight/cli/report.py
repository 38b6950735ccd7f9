"""``firstlight report``: tell what archives hold: HTML, Markdown, JSON, JUnit or text; several side by side."""

from __future__ import annotations

from pathlib import Path

import click

from firstlight.cli.output import REPORT, WritablePath, announce

__all__ = ["report"]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=WritablePath(REPORT),
    multiple=True,
    metavar="FILE",
    help="Write a report: .html, .md, .json, .xml (JUnit) or .txt; repeat for more.",
)
@click.option(
    "--format",
    "format_name",
    default="text",
    show_default=True,
    metavar="FORMAT",
    help="What to print without --out: text, html, markdown, json or junit.",
)
def report(files: tuple[Path, ...], *, out: tuple[Path, ...], format_name: str) -> None:
    """Tell what FILES (archives, .nc) hold; several diagnoses or profiles stand side by side."""
    import firstlight as fl

    found = [fl.load(file) for file in files]
    result = found[0] if len(found) == 1 else found
    for path in out:
        fl.report(result, path)
        announce(path)
    if not out:
        click.echo(fl.report(result, format=format_name), nl=False)
