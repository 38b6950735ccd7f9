"""``firstlight reproduce``: figures and tables of the papers, computed anew and checked."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firstlight.cli.output import print_result
from firstlight.errors import CouldNotError, FirstlightError, UsageError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from firstlight.results.reproduction import Reproduction

__all__ = ["reproduce"]

_UNITS = {"s": 1, "m": 60, "h": 3600}


class _Duration(click.ParamType[float]):
    """Seconds, from ``90s``, ``60m`` or ``2h``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        read = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", str(value))
        if read is None:
            self.fail(f"expected a number with s, m or h, such as 60m, got {value!r}", param, ctx)
        return float(read[1]) * _UNITS[read[2]]


@click.command()
@click.argument("keys", nargs=-1, metavar="[KEY|PAPER|all]...")
@click.option("--list", "listed", is_flag=True, help="List the keys.")
@click.option(
    "--scale",
    default="small",
    show_default=True,
    metavar="smoke|small|paper",
    help="How much is computed: small is a minute of two cores each, paper the papers' own sizes.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="reproductions",
    show_default=True,
    help="Folder for results, figures and verdicts.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Names every draw.")
@click.option("--budget", type=_Duration(), metavar="TIME", help="Begin no figure after this time (60m, 2h).")
@click.option("--workers", type=int, help="Figures at a time.  [default: one a core, at most 4]")
@click.option(
    "--data-root",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the data sets; $FIRSTLIGHT_DATA otherwise.",
)
@click.option("--again", is_flag=True, help="Compute anew what an earlier run left.")
@click.option(
    "--gallery",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write a page with all that was reproduced.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON a figure.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def reproduce(
    *,
    keys: tuple[str, ...],
    listed: bool,
    scale: str,
    out: Path,
    seed: int,
    budget: float | None,
    workers: int | None,
    data_root: Path | None,
    again: bool,
    gallery: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Reproduce figures of the papers: compute, draw, compare with what the paper says.

    KEY is a figure such as igb/fig5, a paper (igb, norm, variance, moments), a pattern ('norm/figG*') or all. What was
    computed is kept, and a later run goes on from there. A figure that differs from its paper is a finding, and exits
    with 0.
    """
    from firstlight.papers.catalogue import CATALOGUE, keys_matching

    if listed:
        for key, entry in CATALOGUE.items():
            click.echo(f"{key:14} {entry.title}")
        return
    if not keys and gallery is None:
        raise UsageError(
            "reproduce: expected the key of a figure, got none; type firstlight reproduce --list"
        )
    if workers is not None and workers < 1:
        raise UsageError(f"--workers: expected a whole number of at least 1, got {workers}")
    chosen = list(dict.fromkeys(key for pattern in keys for key in keys_matching(pattern)))
    at_once = min(workers or _cores(), max(len(chosen), 1))
    if again:
        from firstlight.papers.reproducing import forget

        forget(chosen, scale=scale, out=out)
    options = {
        "scale": scale,
        "out": str(out),
        "seed": seed,
        "data_root": None if data_root is None else str(data_root),
        "progress": not quiet and at_once == 1,
    }
    began, wrong, left = time.monotonic(), [], list[str]()
    for key, outcome in _each(chosen, options, at_once, budget, began):
        if outcome is None:
            left.append(key)
        elif isinstance(outcome, FirstlightError):
            wrong.append(key)
            click.echo(f"{key}: {outcome}", err=True)
        else:
            _tell(outcome, as_json=as_json)
    if left:
        click.echo(f"not begun within the budget: {', '.join(left)}; run it again to go on", err=True)
    if gallery is not None:
        from firstlight.papers.gallery import write_gallery

        click.echo(f"wrote {write_gallery(out, gallery)}", err=True)
    if wrong:
        raise CouldNotError(
            f"reproduce: {len(wrong)} of {len(chosen)} could not be computed: {', '.join(wrong)}"
        )


def _each(keys: list[str], options: dict[str, Any], workers: int, budget: float | None, began: float) -> Any:
    """Key and outcome of each figure, in the order they end; None for what the budget did not reach."""

    def late() -> bool:
        return budget is not None and time.monotonic() - began > budget

    if workers == 1:
        for key in keys:
            yield key, None if late() else _one(key, options)
        return
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from multiprocessing import get_context

    # A fresh interpreter each: threads of torch do not survive a fork.
    with ProcessPoolExecutor(workers, get_context("spawn"), _one_thread) as pool:
        waiting = list(keys)
        running: dict[Future[Any], str] = {}
        while waiting or running:
            while waiting and len(running) < workers and not late():
                key = waiting.pop(0)
                running[pool.submit(_one, key, options)] = key
            if not running:
                yield from ((key, None) for key in waiting)
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(done), done.result()


def _cores() -> int:
    """Cores of this process, at most 4: each figure holds its own data."""
    import os

    held = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(held, 4)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _one(key: str, options: dict[str, Any]) -> Reproduction | FirstlightError:
    from dataclasses import replace

    from firstlight.papers.reproducing import reproduce as compute

    try:
        return replace(compute(key, **options), results={})
    except FirstlightError as error:
        return error


def _tell(made: Reproduction, *, as_json: bool) -> None:
    print_result(made, as_json=as_json)
    sys.stdout.flush()
