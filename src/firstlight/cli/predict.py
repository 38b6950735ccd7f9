"""``firstlight predict``: what theory says of a network described by options or by one line of text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from firstlight.cli.output import ARCHIVE, FIGURE, WritablePath, announce, print_result, save_figure

__all__ = ["predict"]

_NETWORK = (
    click.option("--depth", type=int, help="Hidden layers."),
    click.option("--width", type=int, help="Units of each hidden layer."),
    click.option("--inputs", type=int, help="Input coordinates."),
    click.option("--classes", type=int, help="Labels."),
    click.option("--activation", metavar="NAME", help="relu, gelu, leaky_relu:negative_slope=0.2, …"),
    click.option("--norm", metavar="batch|layer|rms", help="Normalization in every hidden layer."),
    click.option("--placement", metavar="before|after", help="Norm before or after the activation."),
    click.option("--pool", metavar="max/K|avg/K", help="Pool K units after the activation."),
    click.option(
        "--residual", type=int, metavar="UNITS", help="Residual units that share the hidden layers."
    ),
    click.option("--weight-variance", type=float, help="σ_w²: weights are N(0, σ_w²/fan-in)."),
    click.option("--bias-variance", type=float, help="σ_b²: biases are N(0, σ_b²)."),
    click.option("--input-mean", type=float, help="Mean of the input coordinates."),
    click.option("--input-variance", type=float, help="Variance of the input coordinates."),
)


def _network_options(command: Any) -> Any:
    for option in reversed(_NETWORK):
        command = option(command)
    return command


@click.command(
    epilog="Without SPEC, the options describe a perceptron; what they leave out, Blueprint.mlp chooses."
)
@click.argument("spec", required=False)
@_network_options
@click.option("--batch-size", type=int, metavar="B", help="Batch norm sees mini-batches of B points.")
@click.option(
    "--batch-law",
    default="exact",
    show_default=True,
    metavar="exact|leave_one_out",
    help="Law of a mini-batch.",
)
@click.option(
    "--method",
    default="auto",
    show_default=True,
    metavar="auto|closed_form|hermite|quadrature",
    help="How Gaussian averages are taken.",
)
@click.option("--samples", type=int, metavar="D", help="Count the guesses on D data points.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--save", type=WritablePath(ARCHIVE), metavar="FILE.nc", help="Write an archive.")
@click.option(
    "--plot", type=WritablePath(FIGURE), metavar="FILE", help="Draw the law of guesses (png, pdf, svg)."
)
@click.option("--plot-gamma", type=WritablePath(FIGURE), metavar="FILE", help="Draw γ against depth.")
def predict(
    spec: str | None,
    *,
    batch_size: int | None,
    batch_law: str,
    method: str,
    samples: int | None,
    as_json: bool,
    save: Path | None,
    plot: Path | None,
    plot_gamma: Path | None,
    **network: Any,
) -> None:
    """Predict γ layer by layer, and how the untrained network guesses.

    SPEC describes the network in one line, for example mlp:depth=20,norm=layer,placement=before.
    """
    import firstlight as fl

    profile = fl.predict(
        _blueprint(spec, {name: value for name, value in network.items() if value is not None}),
        method=method,
        batch_size=batch_size,
        batch_law=batch_law,
        samples=samples,
    )
    if save is not None:
        announce(profile.save(save))
    if plot is not None:
        from firstlight.plots.guess_law import plot_guess_law

        save_figure(plot_guess_law(profile), plot)
    if plot_gamma is not None:
        from firstlight.plots.gamma_by_depth import plot_gamma_by_depth

        save_figure(plot_gamma_by_depth(profile), plot_gamma)
    print_result(profile, as_json=as_json)


def _blueprint(spec: str | None, options: dict[str, Any]) -> Any:
    import firstlight as fl

    if spec is None:
        if "depth" not in options:
            raise click.UsageError(
                "expected --depth, or a network in one line such as mlp:depth=20; got neither"
            )
        return fl.Blueprint.mlp(**options)
    if options:
        given = ", ".join("--" + name.replace("_", "-") for name in options)
        raise click.UsageError(
            f"expected a network in one line or by options, got {spec!r} and {given}; use one"
        )
    return fl.Blueprint.parse(spec)
