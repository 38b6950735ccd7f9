"""``firstlight phases``: fixed points, regimes and γ at a depth over ranges of weight and bias variance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from firstlight.cli.output import ARCHIVE, FIGURE, WritablePath, announce, print_result, save_figure

__all__ = ["phases"]

_LARGEST_RANGE = 10_000


def _range(ctx: click.Context, param: click.Parameter, value: str) -> list[float]:
    """Evenly spaced numbers with both ends, or a single one."""
    words = value.split(":")
    try:
        if len(words) not in (1, 3):
            raise ValueError
        start = float(words[0])
        stop, count = (float(words[1]), int(words[2])) if len(words) == 3 else (start, 1)
    except ValueError:
        raise click.BadParameter(
            f"expected a number or START:STOP:COUNT such as 0.5:4:50, got {value!r}", ctx, param
        ) from None
    if not 1 <= count <= _LARGEST_RANGE:
        raise click.BadParameter(
            f"expected a COUNT between 1 and {_LARGEST_RANGE:,}, got {count} in {value!r}", ctx, param
        )
    if count == 1:
        if len(words) == 3 and stop != start:
            raise click.BadParameter(
                f"expected a COUNT of at least 2 between different ends, got {value!r}", ctx, param
            )
        return [start]
    step = (stop - start) / (count - 1)
    return [start + index * step for index in range(count - 1)] + [stop]


_RANGE: dict[str, Any] = {"callback": _range, "show_default": True, "metavar": "START:STOP:COUNT"}


@click.command()
@click.option("--activation", default="relu", show_default=True, metavar="NAME", help="Activation.")
@click.option("--weight-variance", default="2.0", **_RANGE, help="σ_w².")
@click.option("--bias-variance", default="0.0", **_RANGE, help="σ_b².")
@click.option("--depth", type=int, default=50, show_default=True, help="Hidden layers before γ is taken.")
@click.option("--norm", metavar="batch|layer|rms", help="Normalization in every hidden layer.")
@click.option("--placement", metavar="before|after", help="Norm before or after the activation.")
@click.option(
    "--input-mean", type=float, default=0.0, show_default=True, help="Mean of the input coordinates."
)
@click.option("--input-variance", type=float, default=1.0, show_default=True, help="Their variance.")
@click.option(
    "--method",
    default="auto",
    show_default=True,
    metavar="auto|closed_form|hermite|quadrature",
    help="How Gaussian averages are taken.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--save", type=WritablePath(ARCHIVE), metavar="FILE.nc", help="Write an archive.")
@click.option("--plot", type=WritablePath(FIGURE), metavar="FILE", help="Draw the diagram (png, pdf, svg).")
def phases(
    *,
    activation: str,
    weight_variance: list[float],
    bias_variance: list[float],
    depth: int,
    norm: str | None,
    placement: str | None,
    input_mean: float,
    input_variance: float,
    method: str,
    as_json: bool,
    save: Path | None,
    plot: Path | None,
) -> None:
    """Map the phases of a wide network over weight and bias variance.

    A range is START:STOP:COUNT, both ends included, or a single number.
    """
    import firstlight as fl

    points = len(weight_variance) * len(bias_variance)
    if points > 1:
        click.echo(f"{points:,} points, {depth} layers deep …", err=True)
    diagram = fl.phases(
        activation,
        weight_variance=weight_variance,
        bias_variance=bias_variance,
        norm=norm,
        placement=placement,
        depth=depth,
        input_mean=input_mean,
        input_variance=input_variance,
        method=method,
    )
    if save is not None:
        announce(diagram.save(save))
    if plot is not None:
        from firstlight.plots.phase_diagram import plot_phase_diagram

        save_figure(plot_phase_diagram(diagram), plot)
    print_result(diagram, as_json=as_json)
