"""How guesses evolve in training: accuracy, accuracy by class, and the largest share of guesses, against the step.

Enters: trajectories. Leaves: a figure of three panels over log-spaced steps (norm placement, figures 2 and 4). Lines
are means over the runs that did not diverge, bands ±1 standard error. In the middle panel the solid line is the class
that a run preferred at birth, the dashed one the mean of the others. The inset of the top panel is the histogram of
the fraction of one class at birth. A thin line in the bottom panel marks what counting noise explains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import CouldNotError, UsageError
from firstlight.plots.style import COLUMN, Series, house_style, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from firstlight.results.trajectory import Trajectory

__all__ = ["draw_births", "draw_mean", "plot_trajectories"]

_DASHED = (0.0, (4.0, 1.5))


def plot_trajectories(
    *trajectories: Trajectory,
    labels: Sequence[str] | None = None,
    split: str | None = None,
    births: ArrayLike | None = None,
) -> Figure:
    """Draw the runs of each trajectory as one series.

    Args:
        trajectories: One or more, such as neutral and prejudiced runs.
        labels: One for each; their models by default.
        split: Which data; the first split by default.
        births: Guess fractions of initializations, ``(init, label)``, for the inset; by default those of all the runs
            that are drawn.
    """
    from matplotlib.figure import Figure

    if not trajectories:
        raise UsageError("plot_trajectories: expected at least one Trajectory, got none")
    names = (
        [item.provenance.model.splitlines()[0] for item in trajectories] if labels is None else list(labels)
    )
    if len(names) != len(trajectories):
        raise UsageError(
            f"plot_trajectories(labels): expected {len(trajectories)}, one for each trajectory, got {len(names)}"
        )
    for item, name in zip(trajectories, names, strict=True):
        if item.diverged.all():
            raise CouldNotError(
                f"plot_trajectories: all {item.runs} runs of {name!r} diverged; there is nothing to draw"
            )
    born = (
        np.concatenate([item.variables["initial_fractions"].values[:, 0] for item in trajectories])
        if births is None
        else np.asarray(births)[:, 0]
    )
    with house_style():
        figure = Figure(
            figsize=(COLUMN, 5.2 + 0.16 * math.ceil(len(names) / 2)), dpi=200, layout="constrained"
        )
        top, middle, bottom = figure.subplots(3, 1, sharex=True)
        for item, name, series in zip(trajectories, names, series_styles(len(names)), strict=True):
            style = series._replace(
                linestyle="-"
            )  # colours and markers tell series apart, dashes the classes
            draw_mean(top, item, style, "accuracy", split=split, label=_told(item, name))
            draw_mean(middle, item, style, "recall", split=split, label=name)
            draw_mean(bottom, item, style, "max_guess", split=split, label=name)
        bottom.axhline(
            max(item.neutral_level(split=split) for item in trajectories),
            color="0.6",
            linewidth=0.6,
            zorder=0,
        )
        top.set_ylabel("accuracy")
        middle.set_ylabel("accuracy by class")
        bottom.set_ylabel(r"$\max_c G_c$")
        bottom.set_xlabel("step")
        for axes in (top, middle, bottom):
            axes.set_ylim(-0.02, 1.02)
        _log_steps(bottom, max(int(item.steps[-1]) for item in trajectories))
        _explain_dashes(middle)
        draw_births(top.inset_axes((0.62, 0.14, 0.34, 0.3)), born)
        figure.legend(*top.get_legend_handles_labels(), loc="outside upper center", ncols=min(2, len(names)))
    return figure


def draw_mean(
    axes: Axes, trajectory: Trajectory, style: Series, name: str, *, split: str | None = None, label: str = ""
) -> None:
    """Draw the mean of one quantity with its band; of ``"recall"``, the preferred class and the others."""
    if name != "recall":
        average = trajectory.mean(name, split=split)
        _draw(axes, trajectory, average.value.values, average.stderr.values, style, label)
        return
    recall = trajectory.mean("recall", split=split, ordered=True)
    gap = trajectory.mean("class_gap", split=split)
    preferred = recall.value.values[:, 0]
    _draw(axes, trajectory, preferred, recall.stderr.values[:, 0], style, label)
    others = (
        preferred - gap.value.values
    )  # of every run, the mean of the others is the preferred one less the gap
    error = recall.stderr.values[:, 1] if recall.sizes["rank"] == 2 else np.full(len(others), np.nan)
    _draw(axes, trajectory, others, error, style._replace(linestyle=_DASHED), f"_{label}: others")


def draw_births(axes: Axes, fractions: ArrayLike, *, bins: int = 20) -> None:
    """Draw the histogram of one class's fraction at birth."""
    values = np.asarray(fractions, dtype=np.float64)
    axes.hist(values, bins=np.linspace(0, 1, bins + 1).tolist(), color="0.6", density=True)
    axes.set_xlim(0, 1)
    axes.set_yticks([])
    axes.tick_params(labelsize=6, length=2, pad=1)
    axes.set_xticks([0, 1])
    axes.set_xlabel("$G_0$ at birth", fontsize=6, labelpad=-5)


def _draw(
    axes: Axes,
    trajectory: Trajectory,
    mean: NDArray[np.float64],
    error: NDArray[np.float64],
    style: Series,
    label: str,
) -> None:
    known = np.isfinite(mean)
    steps = trajectory.steps[known]
    axes.plot(
        steps,
        mean[known],
        color=style.color,
        linestyle=style.linestyle,
        marker=style.marker,
        markersize=2.5,
        linewidth=1.1,
        label=label,
        zorder=3,
    )
    spread = np.nan_to_num(error[known])
    if spread.any():
        axes.fill_between(
            steps, mean[known] - spread, mean[known] + spread, color=style.color, alpha=0.2, linewidth=0
        )


def _told(trajectory: Trajectory, name: str) -> str:
    """The name with the number of runs, and of those that are left out."""
    lost = int(trajectory.diverged.sum())
    runs = trajectory.runs - lost
    return f"{name} ({runs} {'run' if runs == 1 else 'runs'}{f', {lost} diverged' if lost else ''})"


def _log_steps(axes: Axes, last: int) -> None:
    """Logarithmic from step 1 on, with a place for step 0."""
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set_xlim(-0.15, max(last, 1) * 1.3)
    axes.set_xticks([0, *(10**power for power in range(int(math.log10(max(last, 1))) + 1))])


def _explain_dashes(axes: Axes) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color="0.3", linestyle="-", label="preferred at birth"),
        Line2D([], [], color="0.3", linestyle=_DASHED, label="others"),
    ]
    axes.legend(handles=handles, loc="lower right", fontsize=7)
