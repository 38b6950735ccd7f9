"""Training a perceptron with and without initial bias: recall of each class against the average over both.

Enters: the settings of a figure (data, depth, width, learning rate, updates, runs). Leaves: one ``Trajectory`` with
tanh units, which start without bias, and one with ReLU units, which start with it; their drawing; and what can be
stated of them. In each run rank 0 is the class that was guessed more often at birth.

The data is centred coordinate by coordinate, so that tanh units have no bias from it either; even and odd digits are
about as many. Plain stochastic gradient descent, as in the theory that the paper leans on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.loading import load
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.results.reproduction import Statement
from firstlight.results.run_averages import mean_and_stderr
from firstlight.results.run_times import settling_steps
from firstlight.results.trajectory import Trajectory
from firstlight.training.recipes import Recipe
from firstlight.training.running import train
from firstlight.training.schedules import at, log_spaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DEPARTS",
    "GROUPS",
    "class_gaps",
    "difference",
    "draw_training",
    "trained",
    "turned_around",
    "waiting",
]

GROUPS = {"tanh": "without bias: tanh", "relu": "with bias: ReLU"}
DEPARTS = (
    "the text says neither which network was trained, nor on what, nor how fast: here a perceptron of 5 hidden layers "
    "of 100 units on even and odd digits, stochastic gradient descent"
)

Values = NDArray[np.float64]


def trained(work: Work) -> dict[str, Trajectory]:
    """Runs of both groups; every early update is recorded up to the setting ``each``, log-spaced ones after that."""
    data = load(
        "mnist:even-odd",
        samples=work["samples"],
        seed=work.seed,
        standardize="batch",
        flatten=True,
        root=work.data_root,
    )
    steps = int(work["steps"])
    schedule = at([*range(work["each"] + 1), *log_spaced(steps + 1, points=14).upto(steps)])
    return {
        name: work.piece(
            name,
            partial(
                train,
                Blueprint.mlp(
                    inputs=data.shape[0], depth=work["depth"], width=work["width"], activation=name
                ),
                data,
                recipe=Recipe(optimizer="sgd", rate=work["rate"], batch_size=work["batch"], steps=steps),
                runs=work["runs"],
                seed=work.seed,
                schedule=schedule,
                class_gradients=True,
                progress=work.progress,
            ),
        )
        for name in GROUPS
    }


def class_gaps(trajectory: Trajectory) -> Values:
    """Recall of the class preferred at birth less that of the other, ``(init, step)``; runs that diverged left out."""
    return np.asarray(trajectory.quantity("class_gap").values, dtype=np.float64)[~trajectory.diverged]


def turned_around(gaps: Values, *, by: float = 0.2) -> Values:
    """Whether a run went over from one class to the other: its gap was above ``by``, and below −``by`` later, or so.

    >>> turned_around(np.array([[0.5, -0.3, 0.1], [0.5, 0.1, -0.1]])).tolist()
    [1.0, 0.0]
    """
    sides = np.where(np.abs(gaps) > by, np.sign(gaps), np.nan)
    return np.asarray((np.nanmax(_known(sides), 1) > 0) & (np.nanmin(_known(sides), 1) < 0), dtype=np.float64)


def _known(sides: Values) -> Values:
    """0 for runs that were never on a side."""
    return np.where(np.isnan(sides).all(1, keepdims=True), 0.0, sides)


def waiting(trajectory: Trajectory, level: float = 0.5) -> Values:
    """The first step from which the recall of both classes stays at ``level``; the last where that never happens."""
    recall = trajectory.quantity("recall").values[~trajectory.diverged]  # (init, step, label)
    found = settling_steps(trajectory.steps, recall.min(-1), level, interpolate=True)
    return np.where(np.isfinite(found), found, float(trajectory.steps[-1]))


def difference(says: str, less: Values, more: Values, *, because: str = "") -> Statement:
    """The second group has more of something on average: difference of the means, > 0."""
    (low, low_error, _), (high, high_error, _) = mean_and_stderr(less), mean_and_stderr(more)
    return Statement(
        says, ">", 0.0, float(high - low), math.hypot(float(low_error), float(high_error)), because=because
    )


def draw_training(results: Mapping[str, Trajectory], *, examples: int = 1) -> Figure:
    """A column each group: means over runs above, single runs below."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.0, 5.2), dpi=200, layout="constrained")
        axes = figure.subplots(2, len(GROUPS), sharex=True, sharey=True)
        for column, (name, title) in enumerate(GROUPS.items()):
            _draw_means(axes[0, column], results[name])
            _draw_runs(axes[1, column], results[name], examples)
            axes[0, column].set_title(title)
            axes[1, column].set_xlabel("step")
            axes[1, column].set_xscale("symlog", linthresh=1, linscale=0.4)
            axes[1, column].set_xlim(-0.1, results[name].steps[-1])
        axes[0, 0].set(ylabel="mean over runs", ylim=(-0.02, 1.02))
        axes[1, 0].set_ylabel("the first run" if examples == 1 else f"the first {examples} runs")
        axes[0, 0].legend(fontsize=7, loc="lower right")
    return figure


def _curves(trajectory: Trajectory) -> Sequence[tuple[str, Values]]:
    """Name and values (init, step) of the accuracy and of both recalls."""
    kept = ~trajectory.diverged
    recall = trajectory.quantity("recall", ordered=True).values[kept]
    return [
        ("both classes: accuracy", trajectory.quantity("accuracy").values[kept]),
        ("recall, class preferred at birth", recall[..., 0]),
        ("recall, the other class", recall[..., 1]),
    ]


def _draw_means(axes: Axes, trajectory: Trajectory) -> None:
    for (label, values), style in zip(_curves(trajectory), series_styles(3), strict=True):
        mean, error, _ = mean_and_stderr(values)
        axes.plot(trajectory.steps, mean, color=style.color, linestyle=style.linestyle, label=label)
        axes.fill_between(
            trajectory.steps, mean - error, mean + error, color=style.color, alpha=0.2, linewidth=0
        )


def _draw_runs(axes: Axes, trajectory: Trajectory, examples: int) -> None:
    for (_, values), style in zip(_curves(trajectory), series_styles(3), strict=True):
        for run in values[:examples]:
            axes.plot(trajectory.steps, run, color=style.color, linestyle=style.linestyle, linewidth=0.9)
