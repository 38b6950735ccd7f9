"""The papers' training experiments as calls: groups by initial bias, and grids of learning rates.

Enters: a model, data and a recipe. Leaves: trajectories by group, or by learning rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from firstlight.errors import CouldNotError, UsageError
from firstlight.results.trajectory import Trajectory
from firstlight.training.filtering import Filtered, filter_initializations
from firstlight.training.recipes import Recipe
from firstlight.training.running import train

__all__ = ["Groups", "best_rate", "compare_groups", "learning_rate_grid"]

Model = nn.Module | Callable[..., nn.Module] | Any
Rate = tuple[str, float]


@dataclass(frozen=True, eq=False)
class Groups:
    """Runs by initial bias.

    Attributes:
        everything: Runs of the first initializations, unfiltered.
        neutral: Runs of neutral initializations; None where none was found.
        prejudiced: Runs of prejudiced initializations; None where none was found.
        filtered: What was drawn and found.
    """

    everything: Trajectory
    neutral: Trajectory | None
    prejudiced: Trajectory | None
    filtered: Filtered


def compare_groups(
    model: Model,
    data: Any,
    *,
    recipe: Recipe | None = None,
    runs: int = 20,
    neutral_below: float = 0.1,
    prejudiced_above: float = 0.9,
    measure: str = "gap",
    redraws: int = 1000,
    seed: int = 0,
    redraw: str | Callable[[nn.Module], object] | None = None,
    evaluation_batch: int | None = None,
    resume: str | Path | None = None,
    progress: bool = True,
    **options: Any,
) -> Groups:
    """Train neutral, prejudiced and unfiltered initializations side by side (norm placement, figures 2 and 4).

    Args:
        model: As for ``train``.
        data: As for ``train``.
        recipe: How to train.
        runs: Runs in each group, where so many are found.
        neutral_below: As for ``filter_initializations``.
        prejudiced_above: As for ``filter_initializations``.
        measure: As for ``filter_initializations``.
        redraws: As for ``filter_initializations``.
        seed: Names the initializations.
        redraw: How weights are drawn, as for ``measure``.
        evaluation_batch: Samples in a batch when looking.
        resume: A folder for snapshots of the search and of the training.
        progress: Whether to show bars on a terminal.
        **options: Passed on to ``train``: ``test``, ``schedule``, ``layers`` …

    Returns:
        The three trajectories, in which rank 0 is the class that a run preferred at birth, and what was found. A run
        that belongs to two of them is trained once.
    """
    folder = None if resume is None else Path(resume)
    filtered = filter_initializations(
        model,
        data,
        runs=runs,
        neutral_below=neutral_below,
        prejudiced_above=prejudiced_above,
        measure=measure,
        redraws=redraws,
        seed=seed,
        mode=(options.get("modes") or {}).get("train", "train"),
        batch_size=evaluation_batch,
        max_samples=options.get("evaluation_samples"),
        redraw=redraw,
        resume=None if folder is None else _made(folder) / "filter",
        progress=progress,
    )
    first = range(runs)
    every = sorted({*first, *filtered.neutral, *filtered.prejudiced})
    whole = train(
        model,
        data,
        recipe=recipe,
        runs=every,
        seed=seed,
        redraw=redraw,
        evaluation_batch=evaluation_batch,
        resume=None if folder is None else folder / "train",
        progress=progress,
        **options,
    )

    def of(chosen: Sequence[int]) -> Trajectory | None:
        return whole.select([every.index(run) for run in chosen]) if chosen else None

    everything = of(first)
    assert everything is not None
    return Groups(everything, of(filtered.neutral), of(filtered.prejudiced), filtered)


def learning_rate_grid(
    model: Model,
    data: Any,
    rates: Sequence[float] | Mapping[str, Sequence[float]],
    *,
    recipe: Recipe | None = None,
    resume: str | Path | None = None,
    **options: Any,
) -> dict[Rate, Trajectory]:
    """Train the same initializations with several learning rates.

    Two rates make the papers' comparison of a small with a large one (initial guessing bias, figures 14 and 15); a
    longer list finds the best (sample-variance decay, figure 4).

    Args:
        model: As for ``train``.
        data: As for ``train``.
        rates: Learning rates of the recipe's optimizer, or by optimizer: ``{"sgd": (…), "adam": (…)}``. The recipe's
            momentum goes to SGD alone.
        recipe: Everything else about the training.
        resume: A folder for snapshots.
        **options: Passed on to ``train``.

    Returns:
        Trajectories by (optimizer, rate), in the order given.
    """
    base = recipe or Recipe()
    listed = rates if isinstance(rates, Mapping) else {base.optimizer: rates}
    if not any(len(values) for values in listed.values()):
        raise UsageError("learning_rate_grid(rates): expected at least one learning rate, got none")
    found: dict[Rate, Trajectory] = {}
    for optimizer, values in listed.items():
        for rate in values:
            momentum = base.momentum if optimizer == "sgd" else 0.0
            chosen = replace(base, optimizer=optimizer, rate=float(rate), momentum=momentum)
            place = None if resume is None else _made(Path(resume)) / f"{optimizer}-{float(rate):g}"
            found[optimizer, float(rate)] = train(model, data, recipe=chosen, resume=place, **options)
    return found


def best_rate(
    grid: Mapping[Rate, Trajectory],
    *,
    optimizer: str | None = None,
    name: str = "loss",
    split: str | None = None,
) -> Rate:
    """The rate whose runs end best on average; a rate that lost a run is out.

    Args:
        grid: What ``learning_rate_grid`` gave.
        optimizer: Look at this optimizer alone.
        name: ``"loss"`` (the smallest is best), ``"accuracy"`` (the largest) or another quantity without labels.
        split: Which data; the first split by default.
    """
    chosen = {key: item for key, item in grid.items() if optimizer in (None, key[0])}
    ends = {
        key: float(item.mean(name, split=split).value[-1])
        for key, item in chosen.items()
        if not item.diverged.any()
    }
    ends = {key: value for key, value in ends.items() if np.isfinite(value)}
    if not ends:
        raise CouldNotError(
            f"best_rate: runs diverged at every one of the {len(chosen)} rates; add smaller ones"
        )
    return (max if name == "accuracy" else min)(ends, key=lambda key: ends[key])


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
