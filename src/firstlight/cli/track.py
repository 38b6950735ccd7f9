"""``firstlight track``: train a model from many initializations and follow how its guesses evolve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firstlight.cli.output import ARCHIVE, FIGURE, WritablePath, announce, print_result, save_figure
from firstlight.errors import CouldNotError, UsageError

if TYPE_CHECKING:
    from firstlight.results.trajectory import Trajectory
    from firstlight.training.filtering import Filtered

__all__ = ["track"]

_GROUPS = ("neutral", "prejudiced")


@click.command(
    epilog="Interrupted (even by kill -9), the same command goes on where it was, if it has --save or --resume."
)
@click.argument("model")
@click.option(
    "--data",
    metavar="NAME[:TASK,OPTIONS]",
    help="gaussian, cifar10, cifar100, mnist, tiny-imagenet, or CODE:NAME of a loader; "
    "1,000 gaussian points where MODEL is a description.",
)
@click.option("--test", metavar="NAME[:TASK,OPTIONS]", help="Further data to look at, in eval mode.")
@click.option(
    "--runs", type=int, default=20, show_default=True, help="Initializations to train (in each group)."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Names the initializations.")
@click.option(
    "--groups",
    default="all",
    show_default=True,
    metavar="all|neutral,prejudiced",
    help="Which initializations: the first ones, or those that guess so at birth.",
)
@click.option(
    "--neutral-below", type=float, default=0.1, show_default=True, help="|f_0 − f_1| of a neutral start."
)
@click.option(
    "--prejudiced-above",
    type=float,
    default=0.9,
    show_default=True,
    help="|f_0 − f_1| of a prejudiced start.",
)
@click.option(
    "--redraws",
    type=int,
    default=1000,
    show_default=True,
    help="Draws in a row without a find that end the search.",
)
@click.option("--optimizer", default="adam", show_default=True, metavar="adam|sgd", help="Optimizer.")
@click.option("--rate", type=float, default=1e-5, show_default=True, help="Learning rate.")
@click.option("--momentum", type=float, default=0.0, show_default=True, help="Of SGD.")
@click.option("--weight-decay", type=float, default=0.0, show_default=True, help="Weight decay.")
@click.option("--clip", type=float, metavar="C", help="Clamp gradients to ±C.")
@click.option("--batch-size", type=int, default=512, show_default=True, help="Samples in a batch.")
@click.option("--epochs", type=int, default=80, show_default=True, help="Passes over the data.")
@click.option("--steps", type=int, metavar="T", help="Updates, instead of epochs.")
@click.option("--every", type=int, metavar="N", help="Record every N-th step; log-spaced steps by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--save", type=WritablePath(ARCHIVE), metavar="FILE.nc", help="Write the trajectory to an archive."
)
@click.option(
    "--plot",
    type=WritablePath(FIGURE),
    metavar="FILE",
    help="Draw accuracy, accuracy by class and max G (png, pdf, svg).",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where snapshots go; FILE.nc.unfinished by default.",
)
@click.option("--quiet", is_flag=True, help="No progress bar and no remarks on stderr.")
def track(
    *,
    model: str,
    data: str | None,
    test: str | None,
    runs: int,
    seed: int,
    groups: str,
    neutral_below: float,
    prejudiced_above: float,
    redraws: int,
    optimizer: str,
    rate: float,
    momentum: float,
    weight_decay: float,
    clip: float | None,
    batch_size: int,
    epochs: int,
    steps: int | None,
    every: int | None,
    as_json: bool,
    save: Path | None,
    plot: Path | None,
    resume: Path | None,
    quiet: bool,
) -> None:
    """Train a model from many initializations; record its guesses until the bias is gone.

    MODEL is package.module:factory, path/to/file.py:factory, a description such as mlp:depth=1,width=100, or
    hf:path-or-class, a Hugging Face configuration.
    """
    from firstlight.cli.given_data import data_for, shapes_told
    from firstlight.cli.named_models import model_named, own_mistakes_told
    from firstlight.training.filtering import filter_initializations
    from firstlight.training.recipes import Recipe
    from firstlight.training.running import train
    from firstlight.training.snapshots import discard

    wanted = _groups(groups)
    recipe = Recipe(
        optimizer=optimizer,
        rate=rate,
        momentum=momentum,
        weight_decay=weight_decay,
        clip=clip,
        batch_size=batch_size,
        epochs=epochs,
        steps=steps,
    )
    named = model_named(model)
    given, named = data_for(named, data, quiet=quiet)
    looked_at = None if test is None else data_for(named, test, quiet=True)[0]
    if looked_at is not None and getattr(looked_at, "shape", None) != getattr(given, "shape", None):
        raise UsageError(
            f"--test {test}: expected samples like those of --data, of shape {getattr(given, 'shape', None)}, "
            f"got {getattr(looked_at, 'shape', None)}; give both the same options"
        )
    folder = resume if resume is not None else None if save is None else Path(f"{save}.unfinished")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with own_mistakes_told(named.folder), shapes_told(given):
        filtered = None
        if wanted:
            filtered = filter_initializations(
                named.model,
                given,
                runs=runs,
                groups=wanted,
                neutral_below=neutral_below,
                prejudiced_above=prejudiced_above,
                redraws=redraws,
                seed=seed,
                resume=None if folder is None else folder / "filter",
                progress=not quiet,
            )
            if not quiet:
                click.echo(repr(filtered)[1:-1], err=True)
        trajectory = train(
            named.model,
            given,
            recipe=recipe,
            test=looked_at,
            runs=runs if filtered is None else _chosen(filtered, wanted),
            seed=seed,
            schedule=every,
            resume=None if folder is None else folder / "train",
            progress=not quiet,
        )
    if save is not None:
        announce(trajectory.save(save))
    parts = {"": trajectory} if filtered is None else _parts(trajectory, filtered, wanted)
    if plot is not None:
        from firstlight.plots.trajectories import plot_trajectories

        births = None if filtered is None else filtered.fractions
        names = [name or model for name in parts]
        save_figure(plot_trajectories(*parts.values(), labels=names, births=births), plot)
    if as_json:
        print_result(trajectory, as_json=True)
    else:
        for name, part in parts.items():
            if name:
                click.echo(f"{name}:")
            print_result(part, as_json=False)
    if folder is not None and save is not None and resume is None:
        discard(folder)


def _groups(words: str) -> tuple[str, ...]:
    """The groups that are named; nothing for all initializations."""
    from firstlight.errors import one_of

    if words == "all":
        return ()
    names = tuple(dict.fromkeys(name.strip() for name in words.split(",")))
    for name in names:
        if name not in _GROUPS:
            raise one_of("--groups", name, ["all", *_GROUPS])
    if not names:
        raise UsageError("--groups: expected all, neutral or prejudiced, got nothing")
    return names


def _chosen(filtered: Filtered, wanted: tuple[str, ...]) -> list[int]:
    found = [run for name in wanted for run in getattr(filtered, name)]
    if not found:
        raise CouldNotError(
            f"--groups {','.join(wanted)}: none of the {filtered.drawn:,} initializations drawn is one; this network "
            "may have no such starts (see firstlight predict); or set the thresholds otherwise"
        )
    return found


def _parts(trajectory: Trajectory, filtered: Filtered, wanted: tuple[str, ...]) -> dict[str, Any]:
    """The runs of each group that has some."""
    order = _chosen(filtered, wanted)
    return {
        name: trajectory.select([order.index(run) for run in getattr(filtered, name)])
        for name in wanted
        if getattr(filtered, name)
    }
