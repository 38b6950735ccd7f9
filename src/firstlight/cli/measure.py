"""``firstlight measure``: what an ensemble of initializations of any model does to data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firstlight.cli.measuring_options import measuring_options
from firstlight.cli.output import ARCHIVE, FIGURE, WritablePath, announce, print_result, save_figure
from firstlight.errors import CouldNotError

if TYPE_CHECKING:
    from firstlight.architecture.blueprint import Blueprint
    from firstlight.cli.named_models import NamedModel
    from firstlight.results.profile import Profile

__all__ = ["measure"]

_LARGEST_GRAM = 4000
"""Points whose covariance the theory of a given data set still carries from the command line."""


@click.command(
    epilog="Ctrl-C ends early: what is complete is printed and saved, says so in its notes, and exits with 130."
)
@click.argument("model")
@measuring_options
@click.option(
    "--quantities",
    default="standard",
    show_default=True,
    metavar="standard|all|A,B",
    help="What to compute.",
)
@click.option("--compare", is_flag=True, help="Print how it differs from theory, instead of the profile.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--save", type=WritablePath(ARCHIVE), metavar="FILE.nc", help="Write the profile to an archive."
)
@click.option(
    "--plot",
    type=WritablePath(FIGURE),
    metavar="FILE",
    help="Draw the guesses, or with --compare theory under measurement (png, pdf, svg).",
)
@click.option("--quiet", is_flag=True, help="No progress bar and no remarks on stderr.")
@click.pass_context
def measure(
    ctx: click.Context,
    *,
    model: str,
    data: str | None,
    inits: int,
    seed: int,
    layers: tuple[str, ...],
    quantities: str,
    mode: str,
    batch_size: int | None,
    samples: int | None,
    precision: float | None,
    redraw: str | None,
    compare: bool,
    as_json: bool,
    save: Path | None,
    plot: Path | None,
    quiet: bool,
) -> None:
    """Measure γ layer by layer, and how a model guesses, over many initializations.

    MODEL is package.module:factory or path/to/file.py:factory (a function without required arguments that returns
    an nn.Module, or a module itself), a description such as mlp:depth=20,norm=layer,placement=before, or
    hf:path-or-class, a Hugging Face configuration.
    """
    import firstlight as fl
    from firstlight.cli.given_data import data_for, shapes_told
    from firstlight.cli.named_models import model_named, own_mistakes_told

    named = model_named(model)
    given, named = data_for(named, data, quiet=quiet)
    if compare and samples is not None and hasattr(given, "subset") and len(given) > samples:
        given, samples = given.subset(samples, seed=seed), None  # theory and measurement see the same points
    with own_mistakes_told(named.folder), shapes_told(given, data or "…"):
        profile = fl.measure(
            named.model,
            given,
            inits=inits,
            seed=seed,
            quantities=[name.strip() for name in quantities.split(",")] if "," in quantities else quantities,
            layers=(layers[0] if len(layers) == 1 else list(layers)) or None,
            mode=mode,
            batch_size=batch_size,
            max_samples=samples,
            precision=precision,
            redraw=redraw,
            progress=not quiet,
        )
    if save is not None:
        announce(profile.save(save))
    if compare:
        with own_mistakes_told(named.folder):
            reference = _theory(named, given, profile, redraw=redraw, population=data is None)
        if not (quiet or reference.coverage.complete):
            click.echo(f"theory: {reference.coverage!r}", err=True)
        comparison = fl.compare(reference, profile, seed=seed)
        if plot is not None:
            from firstlight.plots.comparison import plot_comparison

            save_figure(plot_comparison(reference, profile, comparison), plot)
        print_result(comparison, as_json=as_json)
    else:
        if plot is not None:
            from firstlight.plots.guess_law import plot_guess_law

            save_figure(plot_guess_law(profile), plot)
        print_result(profile, as_json=as_json)
    if any(note.startswith("interrupted") for note in profile.provenance.notes):
        ctx.exit(130)


def _theory(
    named: NamedModel, given: Any, profile: Profile, *, redraw: str | None, population: bool
) -> Profile:
    """What theory says of this network: of Gaussian inputs in general, or of the very points that were given."""
    import firstlight as fl
    from firstlight.architecture.layers import Norm, walk
    from firstlight.theory.predicting_data import predict_on

    blueprint = named.blueprint or _read(named, given, profile.provenance.seed or 0, redraw)
    coupled = any(isinstance(layer, Norm) and layer.kind == "batch" for layer in walk(blueprint.layers))
    if coupled and profile.provenance.mode == "eval":
        raise CouldNotError(
            "--compare: theory speaks of batch norm in train mode, got --mode eval; leave out --mode or --compare"
        )
    points, sizes = profile.provenance.settings["samples"], profile.provenance.settings["batch_sizes"]
    batch_size = sizes[-1] if coupled and sizes[-1] < points else None
    if population:
        return fl.predict(blueprint, batch_size=batch_size)
    if batch_size is not None:
        raise CouldNotError(
            f"--compare: batch norm saw shuffled batches of {batch_size}, and theory on given data needs all points "
            f"in one batch; type --batch-size {points}, or fewer --samples"
        )
    if points > _LARGEST_GRAM:
        raise CouldNotError(
            f"--compare: theory carries the covariance of all points, at most {_LARGEST_GRAM:,}, got {points:,}; "
            "type --samples 1000"
        )
    return predict_on(blueprint, given)


def _read(named: NamedModel, given: Any, seed: int, redraw: str | None) -> Blueprint:
    """The Blueprint of initialization 0."""
    import firstlight as fl
    from firstlight.measurement.initialization import drawing
    from firstlight.measurement.seeding import random_state_preserved

    with random_state_preserved():
        module = drawing(named.model, seed=seed, redraw=redraw).module_of(0)
        return fl.Blueprint.read(module, example=given.inputs[:2] if hasattr(given, "inputs") else None)
