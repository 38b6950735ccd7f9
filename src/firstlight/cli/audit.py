"""``firstlight audit``: from a model and data to a verdict that a person can act on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firstlight.cli.measuring_options import measuring_options
from firstlight.cli.output import ARCHIVE, REPORT, WritablePath, announce, print_result
from firstlight.errors import DataError, FirstlightError, UsageError

if TYPE_CHECKING:
    from firstlight.cli.named_models import NamedModel
    from firstlight.diagnosis.policies import Policy
    from firstlight.results.diagnosis import Diagnosis

__all__ = ["audit"]

_FIRST_LOOK = 32
"""Samples that show how many outputs a model has."""


@click.command(
    epilog="Exit code 1 when a network does not meet the policy. By default only broken networks fail it: bias is a "
    "regime, not a fault."
)
@click.argument("model")
@measuring_options
@click.option("--compare", "other", metavar="MODEL", help="Audit this one too, and set both side by side.")
@click.option(
    "--fail-on", metavar="A,B", help="Findings that fail, such as deep-prejudice,exploding-sensitivity."
)
@click.option("--warn-on", metavar="A,B", help="Findings that warn.")
@click.option("--ignore", metavar="A,B", help="Findings that neither fail nor warn.")
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Read the policy from [tool.firstlight.audit] or [audit] of this file.",
)
@click.option("--no-theory", is_flag=True, help="Do not predict beside the measurement.")
@click.option("--no-other-mode", is_flag=True, help="Do not measure batch norms in the other mode as well.")
@click.option(
    "--try-remedies", is_flag=True, help="Try what the findings name, and rank it by what it does to γ."
)
@click.option(
    "--out",
    type=WritablePath(REPORT),
    multiple=True,
    metavar="FILE",
    help="Write a report: .html, .md, .json, .xml (JUnit) or .txt; repeat for more.",
)
@click.option("--junit", type=WritablePath((".xml",)), metavar="FILE.xml", help="Write JUnit XML.")
@click.option("--markdown", type=WritablePath((".md",)), metavar="FILE.md", help="Write Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a report.")
@click.option(
    "--save", type=WritablePath(ARCHIVE), metavar="FILE.nc", help="Write the diagnosis to an archive."
)
@click.option("--quiet", is_flag=True, help="No progress bar and no remarks on stderr.")
@click.pass_context
def audit(
    ctx: click.Context,
    /,
    *,
    model: str,
    other: str | None,
    data: str | None,
    fail_on: str | None,
    warn_on: str | None,
    ignore: str | None,
    policy_file: Path | None,
    no_theory: bool,
    no_other_mode: bool,
    try_remedies: bool,
    out: tuple[Path, ...],
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
    save: Path | None,
    quiet: bool,
    **measuring: Any,
) -> None:
    """Measure a model, predict what theory can, and say what was found and what would change it.

    MODEL is package.module:factory or path/to/file.py:factory (a function without required arguments that returns an
    nn.Module, or a module itself), a description such as mlp:depth=20,norm=layer,placement=before, or
    hf:path-or-class, a Hugging Face configuration.
    """
    import firstlight as fl

    if save is not None and other is not None:
        raise UsageError("--save: --compare gives two results and a file holds one; audit them one at a time")
    policy = _policy(policy_file, fail_on, warn_on, ignore)
    options = {
        **_renamed(measuring),
        "theory": not no_theory,
        "other_mode": not no_other_mode,
        "try_remedies": try_remedies,
        "policy": policy,
    }
    found = [_audited(name, data, options, quiet=quiet) for name in (model, other) if name is not None]
    result: Any = found[0] if other is None else found
    if save is not None:
        announce(found[0].save(save))
    for path in (*out, *(path for path in (junit, markdown) if path is not None)):
        fl.report(result, path)
        announce(path)
    print_result(result, as_json=as_json)
    if any(note.startswith("interrupted") for item in found for note in item.profile.provenance.notes):
        ctx.exit(130)
    if not all(item.passed for item in found):
        ctx.exit(1)


def _audited(words: str, data: str | None, options: dict[str, Any], *, quiet: bool) -> Diagnosis:
    """The diagnosis of the model that ``words`` name; what was typed goes along, for commands that can be copied."""
    import firstlight as fl
    from firstlight.cli.given_data import data_for, gaussian_for, shapes_told
    from firstlight.cli.named_models import model_named, own_mistakes_told

    named = model_named(words)
    if data is None:
        data = gaussian_for(named)
        if not quiet:
            click.echo(f"--data {data}", err=True)
    given, named = data_for(named, data, quiet=quiet)
    with own_mistakes_told(named.folder), shapes_told(given, data):
        _check_labels(named, words, given, data)
        diagnosis = fl.audit(named.model, given, progress=not quiet, **options)
    return replace(
        diagnosis,
        extra={**diagnosis.extra, "typed": {"model": words, "data": data, "name": words}},
    )


def _check_labels(named: NamedModel, words: str, given: Any, data: str) -> None:
    """Refuse data whose labels the model has no outputs for; before an hour is spent."""
    import firstlight as fl

    names = getattr(given, "label_names", None)
    if not names:
        return
    try:
        first = fl.measure(
            named.model,
            given,
            inits=1,
            max_samples=_FIRST_LOOK,
            quantities=["guesses"],
            layers="output",
            progress=False,
        )
    except FirstlightError:
        return  # whatever it is, the audit itself will say it in full
    outputs = len(names) if first.guesses is None else first.guesses.labels
    if outputs >= len(names):
        return
    if named.words is not None:
        kept = [part for part in words.split(",") if not part.startswith("classes=")]
        told = f"type {','.join([*kept, f'classes={len(names)}'])}"
    else:
        head = data.partition(":")[0]
        fewer = f", or choose {outputs} of the classes: --data {head}:{','.join(names[:outputs])}"
        told = f"give its last layer {len(names)} outputs{'' if '.' in head else fewer}"
    raise DataError(
        f"audit: {words!r} has {outputs:,} outputs, but {data!r} has {len(names):,} labels; {told}"
    )


def _renamed(measuring: dict[str, Any]) -> dict[str, Any]:
    """Options of the command line under the names of ``measure``."""
    layers = measuring.pop("layers")
    samples = measuring.pop("samples")
    return {
        **measuring,
        "layers": (layers[0] if len(layers) == 1 else list(layers)) or None,
        "max_samples": samples,
    }


def _policy(file: Path | None, fail_on: str | None, warn_on: str | None, ignore: str | None) -> Policy:
    """That of the file, with what was typed on top."""
    from firstlight.diagnosis.policies import Policy

    policy = Policy() if file is None else Policy.from_toml(file)
    typed = {
        word: tuple(name.strip() for name in (given or "").split(",") if name.strip())
        for word, given in (("fail_on", fail_on), ("warn_on", warn_on), ("ignore", ignore))
    }
    every = {name for names in typed.values() for name in names}
    merged: dict[str, Any] = {
        word: (*(name for name in getattr(policy, word) if name not in every), *names)
        for word, names in typed.items()
    }
    return replace(policy, **merged)
