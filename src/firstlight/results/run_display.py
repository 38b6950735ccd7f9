"""How a Trajectory prints itself: at most 100 columns of text, or self-contained HTML.

Enters: a trajectory. Leaves: a headline, what became of the bias, and a row for each recorded step (the middle left
out), averaged over the runs that did not diverge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.results.display import Page, ends, page_html, page_text
from firstlight.results.rounding import number, with_stderr
from firstlight.results.run_averages import mean_and_stderr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firstlight.results.trajectory import Trajectory

__all__ = ["step_table", "trajectory_html", "trajectory_text"]


def trajectory_text(trajectory: Trajectory) -> str:
    """The trajectory in lines of at most 100 columns."""
    return page_text(_page(trajectory))


def trajectory_html(trajectory: Trajectory) -> str:
    """The trajectory for notebooks."""
    return page_html(_page(trajectory))


def step_table(trajectory: Trajectory, split: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and a row for each step at which the split was recorded: averages with standard errors.

    ``preferred`` and ``others`` are recalls: of the class that a run preferred at birth, and the mean of the others.
    """
    named = {
        "loss": ("loss", None),
        "accuracy": ("accuracy", None),
        "preferred": ("recall", 0),
        "others": ("recall", slice(1, None)),
        "max G": ("max_guess", None),
    }
    kept = ~trajectory.diverged
    columns: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for name, rank in named.values():
        values = trajectory._values(name, split, ordered=rank is not None)[1][kept]
        if isinstance(rank, slice):
            values = mean_and_stderr(np.moveaxis(values[..., rank], -1, 0))[0]
        elif rank is not None:
            values = values[..., rank]
        mean, stderr, _ = mean_and_stderr(values)
        columns.append((mean, stderr))
    rows = [
        (
            str(step),
            *(with_stderr(float(mean[place]), float(error[place]), gap="") for mean, error in columns),
        )
        for place, step in enumerate(trajectory.steps)
        if not np.isnan(columns[1][0][place])
    ]
    return ("step", *named), rows


def _page(trajectory: Trajectory) -> Page:
    origin = trajectory.provenance
    runs, lost = trajectory.runs, int(trajectory.diverged.sum())
    facts = [f"data: {origin.data}"]
    steps = trajectory.steps
    span = f"{len(steps)} records from step {steps[0]:,} to {steps[-1]:,}" if len(steps) else "no records"
    seed = "" if origin.seed is None else f", seed {origin.seed}"
    facts.append(f"{runs} {'run' if runs == 1 else 'runs'}{seed}; {span} of {', '.join(trajectory.splits)}")
    if lost:
        when = ", ".join(f"{step:,}" for step in sorted(_lost_at(trajectory))[:5])
        facts.append(
            f"{lost} of {runs} runs diverged (seen at step {when}{' …' if lost > 5 else ''}), left out of averages"
        )
    facts.extend(_fate(trajectory))
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    if lost < runs and len(steps):
        heads, every = step_table(trajectory, trajectory.splits[0])
        skipped = len(every) - len([place for place in ends(len(every)) if place is not None])
        gap = (f"… {skipped:,} more", *[""] * (len(heads) - 1))
        rows = tuple(gap if place is None else every[place] for place in ends(len(every)))
    headline = (
        f"Trajectory: {origin.model.splitlines()[0] if origin.model else 'a model without description'}"
    )
    return Page(headline, tuple(facts), heads, rows, 1, tuple(origin.notes))


def _lost_at(trajectory: Trajectory) -> list[int]:
    return [int(step) for step in trajectory.variables["diverged_step"].values if step >= 0]


def _fate(trajectory: Trajectory) -> list[str]:
    """When the accuracy settled and when the bias was gone, in words."""
    if trajectory.diverged.all() or not trajectory.variables["samples"].values[:, :, 0].any():
        return []
    times = (
        ("accuracy 0.6", trajectory.convergence_time(0.6).values),
        (f"max G ≤ {number(trajectory.neutral_level())} (neutral)", trajectory.absorption_time().values),
    )
    alive = int((~trajectory.diverged).sum())
    said = []
    for what, found in times:
        known = found[np.isfinite(found)]
        median = f", median step {number(float(np.median(known)))}" if known.size else ""
        said.append(f"{what} for good: {known.size} of {alive} runs{median}")
    return ["; ".join(said)]
