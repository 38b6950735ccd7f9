"""``firstlight compare``: two archived profiles side by side, in units of their own uncertainty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstlight.cli.output import ARCHIVE, FIGURE, WritablePath, announce, print_result, save_figure
from firstlight.errors import UsageError

if TYPE_CHECKING:
    from firstlight.results.profile import Profile

__all__ = ["compare"]


@click.command()
@click.argument("reference", type=click.Path(path_type=Path))
@click.argument("measured", type=click.Path(path_type=Path))
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draws for the p-value.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--save", type=WritablePath(ARCHIVE), metavar="FILE.nc", help="Write an archive.")
@click.option("--plot", type=WritablePath(FIGURE), metavar="FILE", help="Draw both (png, pdf, svg).")
def compare(
    reference: Path, measured: Path, *, seed: int, as_json: bool, save: Path | None, plot: Path | None
) -> None:
    """Compare two archives: z-scores by layer, and the distance between the laws of the guesses.

    REFERENCE is usually what predict saved, MEASURED what measure saved.
    """
    import firstlight as fl

    left, right = _profile(reference), _profile(measured)
    comparison = fl.compare(left, right, seed=seed)
    if save is not None:
        announce(comparison.save(save))
    if plot is not None:
        from firstlight.plots.comparison import plot_comparison

        save_figure(plot_comparison(left, right, comparison), plot)
    print_result(comparison, as_json=as_json)


def _profile(path: Path) -> Profile:
    import firstlight as fl

    found = fl.load(path)
    if not isinstance(found, fl.Profile):
        raise UsageError(
            f"compare: expected a profile, got {str(path)!r}, which holds a {found.kind}; "
            "save one with firstlight predict or firstlight measure --save"
        )
    return found
