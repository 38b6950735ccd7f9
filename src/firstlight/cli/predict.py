"""``firstlight predict``: what theory says of a network, of i.i.d. inputs or of the data at hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firstlight.cli.output import ARCHIVE, FIGURE, WritablePath, announce, print_result, save_figure

if TYPE_CHECKING:
    from firstlight.architecture.blueprint import Blueprint
    from firstlight.cli.named_models import NamedModel

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
    epilog="Without SPEC, the options describe a perceptron; what they leave out, Blueprint.mlp chooses. With --data, "
    "as many inputs as the data have coordinates."
)
@click.argument("spec", required=False)
@_network_options
@click.option(
    "--data",
    metavar="NAME[:TASK,OPTIONS]",
    help="Speak of these data instead of i.i.d. inputs: cifar10, mnist:even-odd, …, or CODE:NAME of a loader.",
)
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
@click.option(
    "--samples",
    type=int,
    metavar="D",
    help="Count the guesses on D data points; with --data, draw so many by the seed.",
)
@click.option(
    "--landmarks",
    metavar="auto|none|M",
    help="With --data: carry the covariance of all points (none) or of M landmarks; by default beyond 5,000.",
)
@click.option(
    "--finite-width", is_flag=True, help="With --data: draw networks of the widths given instead of infinite."
)
@click.option(
    "--leading-width",
    is_flag=True,
    help="With --data: add the leading 1/width terms for the widths given, where they are known.",
)
@click.option("--inits", type=int, metavar="N", help="Networks that --finite-width draws, 200 by default.")
@click.option("--seed", type=int, metavar="S", help="With --data: names all that is drawn, 0 by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--save", type=WritablePath(ARCHIVE), metavar="FILE.nc", help="Write an archive.")
@click.option(
    "--plot", type=WritablePath(FIGURE), metavar="FILE", help="Draw the law of guesses (png, pdf, svg)."
)
@click.option("--plot-gamma", type=WritablePath(FIGURE), metavar="FILE", help="Draw γ against depth.")
def predict(
    spec: str | None,
    *,
    data: str | None,
    landmarks: str | None,
    finite_width: bool,
    leading_width: bool,
    inits: int | None,
    seed: int | None,
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

    SPEC describes the network in one line, for example mlp:depth=20,norm=layer,placement=before, or names code:
    package.module:factory or path/to/file.py:factory.
    """
    import firstlight as fl
    from firstlight.cli.named_models import own_mistakes_told

    if finite_width and leading_width:
        raise click.UsageError("expected --finite-width or --leading-width, got both")
    chosen = {
        "landmarks": _landmarks(landmarks),
        "width": "finite" if finite_width else "leading" if leading_width else None,
        "inits": inits,
        "seed": seed,
    }
    on_data: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    if landmarks == "none":
        on_data["landmarks"] = None
    options = {name: value for name, value in network.items() if value is not None}
    named = _named(spec, options)
    given = None
    if data is not None:
        given, named = _with_data(named, data, options)
        if samples is not None and hasattr(given, "subset"):
            # the points that measure takes too
            given = given.subset(samples, seed=seed or 0) if len(given) > samples else given
            samples = None
    elif on_data:
        flags = ", ".join(f"--{chosen[name]}-width" if name == "width" else f"--{name}" for name in on_data)
        raise click.UsageError(
            f"expected --data to go with {flags}, got none; theory of i.i.d. inputs draws nothing"
        )
    with own_mistakes_told(named.folder):
        profile = fl.predict(
            _read(named, given, seed or 0),
            data=given,
            method=method,
            batch_size=batch_size,
            batch_law=batch_law,
            samples=samples,
            **on_data,
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


def _named(spec: str | None, options: dict[str, Any]) -> NamedModel:
    """The network that the line or the options name."""
    import firstlight as fl
    from firstlight.cli.named_models import NamedModel, model_named

    if spec is None:
        if "depth" not in options:
            raise click.UsageError(
                "expected --depth, or a network in one line such as mlp:depth=20; got neither"
            )
        return NamedModel(fl.Blueprint.mlp(**options))
    if options:
        given = ", ".join("--" + name.replace("_", "-") for name in options)
        raise click.UsageError(
            f"expected a network in one line or by options, got {spec!r} and {given}; use one"
        )
    return model_named(spec)


def _with_data(named: NamedModel, words: str, options: dict[str, Any]) -> tuple[Any, NamedModel]:
    """The data, and the network with as many inputs as they have coordinates where nobody says how many."""
    from dataclasses import replace

    import firstlight as fl
    from firstlight.cli.given_data import data_for

    of_inputs = [name for name in ("input_mean", "input_variance") if name in options]
    if of_inputs:
        flags = " and ".join("--" + name.replace("_", "-") for name in of_inputs)
        raise click.UsageError(
            f"expected {flags} or --data, got both; the data have their own mean and variance"
        )
    given, named = data_for(named, words)
    if options and "inputs" not in options and hasattr(given, "shape"):
        named = replace(named, model=fl.Blueprint.mlp(**options, inputs=math.prod(given.shape)))
    return given, named


def _read(named: NamedModel, given: Any, seed: int) -> Blueprint:
    from firstlight.cli.named_blueprint import blueprint_of

    return blueprint_of(named, given, seed=seed)


def _landmarks(words: str | None) -> int | str | None:
    if words in (None, "auto", "none"):
        return "auto" if words == "auto" else None
    try:
        return int(words)
    except ValueError:
        raise click.UsageError(f"--landmarks: expected auto, none or a whole number, got {words!r}") from None
