"""``firstlight show``: print what an archive holds, as the verb that made it would have."""

from __future__ import annotations

from pathlib import Path

import click

from firstlight.cli.output import print_result

__all__ = ["show"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def show(file: Path, *, as_json: bool) -> None:
    """Print the result that FILE (an archive, .nc) holds."""
    import firstlight as fl

    print_result(fl.load(file), as_json=as_json)
