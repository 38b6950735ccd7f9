"""``firstlight repair``: change a model by remedies, and show it before and after."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firstlight.cli.output import ARCHIVE, WritablePath, announce, print_result
from firstlight.errors import UsageError
from firstlight.remedies.registry import REMEDIES

if TYPE_CHECKING:
    from firstlight.results.change import Change

__all__ = ["repair"]

WEIGHTS = (".pt", ".pth")
"""Suffixes of saved weights."""


@click.command(
    epilog="Remedies: "
    + "; ".join(f"{name} ({remedy.title})" for name, remedy in REMEDIES.items())
    + ". --save writes the weights of initialization 0 (or of the module that was named), and how to build the model "
    "they fit."
)
@click.argument("model")
@click.option(
    "--remedy",
    "remedies",
    multiple=True,
    metavar="NAME",
    help="What to change; repeat for more, in their order. Without it, what a diagnosis names.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of a remedy: variant=after-branch, to=layer, past_pool=False …; repeat for more.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Places to change by name, '*.bn1', re:… or ~exclusion; repeat for more.",
)
@click.option(
    "--data",
    metavar="NAME[:TASK,OPTIONS]",
    help="What measure takes; 1,000 gaussian points where MODEL is a description.",
)
@click.option("--inits", type=int, default=64, show_default=True, help="Initializations before and after.")
@click.option("--seed", type=int, default=0, show_default=True, help="Names the initializations.")
@click.option(
    "--mode",
    default="train",
    show_default=True,
    metavar="train|eval",
    help="Which statistics batch norm uses.",
)
@click.option("--batch-size", type=int, metavar="B", help="Samples in a batch.")
@click.option("--samples", type=int, metavar="D", help="At most so many samples, drawn by the seed.")
@click.option("--redraw", metavar="LAW", help="Draw weights by kaiming_normal, xavier_uniform, orthogonal …")
@click.option("--dry-run", is_flag=True, help="List the edits; measure nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--save",
    type=WritablePath(WEIGHTS),
    metavar="FILE.pt",
    help="Write the state_dict of the repaired model.",
)
@click.option(
    "--save-change", type=WritablePath(ARCHIVE), metavar="FILE.nc", help="Write the change to an archive."
)
@click.option("--quiet", is_flag=True, help="No progress bar and no remarks on stderr.")
def repair(
    *,
    model: str,
    remedies: tuple[str, ...],
    options: tuple[str, ...],
    only: tuple[str, ...],
    data: str | None,
    inits: int,
    seed: int,
    mode: str,
    batch_size: int | None,
    samples: int | None,
    redraw: str | None,
    dry_run: bool,
    as_json: bool,
    save: Path | None,
    save_change: Path | None,
    quiet: bool,
) -> None:
    """Change a model by remedies, and measure it before and after over the same initializations.

    MODEL is package.module:factory or path/to/file.py:factory (a function without required arguments that returns
    an nn.Module, or a module itself), a description such as mlp:depth=20,norm=layer,placement=before, or
    hf:path-or-class, a Hugging Face configuration.
    """
    import firstlight as fl
    from firstlight.cli.given_data import data_for, shapes_told
    from firstlight.cli.named_models import model_named, own_mistakes_told

    named = model_named(model)
    given: Any = None
    if data is not None or not dry_run or named.words is not None:
        given, named = data_for(named, data, quiet=quiet)
    typed = _typed(options)
    if only:
        typed["layers"] = list(only)
    with own_mistakes_told(named.folder), shapes_told(given):
        repaired, change = fl.repair(
            named.model,
            given,
            list(remedies) or "suggest",
            inits=inits,
            seed=seed,
            mode=mode,
            dry_run=dry_run,
            batch_size=batch_size,
            max_samples=samples,
            redraw=redraw,
            progress=not quiet,
            **typed,
        )
        if save is not None:
            if dry_run:
                raise UsageError("--save: a dry run changes nothing that could be saved; leave out --dry-run")
            _save_weights(repaired, change, model, typed, save, quiet=quiet)
    if save_change is not None:
        announce(change.save(save_change))
    print_result(change, as_json=as_json)


def _typed(options: tuple[str, ...]) -> dict[str, Any]:
    """Options of remedies: Python's literals, and words without quotes."""
    found: dict[str, Any] = {}
    for words in options:
        name, equals, value = words.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--option: expected NAME=VALUE, got {words!r}")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def _save_weights(
    repaired: Any, change: Change, words: str, options: dict[str, Any], path: Path, *, quiet: bool
) -> None:
    """The state_dict, with what must be done to a fresh model before it fits."""
    import torch

    from firstlight.measurement.initialization import drawing

    seed = change.provenance.seed or 0
    module = repaired
    if not isinstance(repaired, torch.nn.Module):
        module = drawing(repaired, seed=seed).module_of(0)
    rebuild = {"model": words, "remedies": list(change.remedies), "options": options, "seed": seed}
    torch.save({"state_dict": module.state_dict(), "rebuild": rebuild}, path)
    announce(path)
    if not quiet:
        given = "".join(f", {name}={value!r}" for name, value in options.items())
        click.echo(
            "to load: build the model anew; "
            + "; ".join(_once_more(name, given) for name in change.remedies)
            + f'; model.load_state_dict(torch.load({str(path)!r})["state_dict"])',
            err=True,
        )


def _once_more(name: str, given: str) -> str:
    """The line that does to a fresh model what was done; what goes in front of a model makes another one."""
    from firstlight.remedies.registry import remedy_named

    if remedy_named(name).changes == "data":
        return f"model, _ = fl.repair(model, data, [{name!r}], inits=1{given})"
    return f"fl.apply_(model, {name!r}, data{given})"
