"""A norm in several places, side by side in training: accuracy and max_c G_c by step (figures 5, G.10 and G.11).

Enters: networks by name, the usual placement first, pictures and a recipe. Leaves: by name, a Profile of untrained
networks (``…-birth``) and the Trajectory of the runs. Run i has the weights and the order of the data of run i in every
placement, so that placements are compared run by run. No initialization is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from firstlight.data.samples import Samples
from firstlight.measurement.measuring import measure
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.plots.trajectories import draw_mean
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement
from firstlight.results.run_averages import mean_and_stderr
from firstlight.results.run_times import area_over_steps
from firstlight.results.trajectory import Trajectory
from firstlight.training.recipes import Recipe
from firstlight.training.running import train

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "births",
    "draw_placements",
    "draw_steps",
    "explained",
    "gamma_falls",
    "greater",
    "onset_mean",
    "onset_statements",
    "runs_of",
]

Network = nn.Module | Callable[..., nn.Module]


def births(work: Work, name: str, network: Network, pictures: Samples) -> Profile:
    """Guesses and γ of the output over ``births`` initializations, on ``born_on`` pictures in one batch."""
    return work.piece(
        f"{name}-birth",
        partial(
            measure,
            network,
            pictures.subset(work["born_on"], seed=work.seed),
            inits=work["births"],
            seed=work.seed,
            quantities=["guesses", "gamma", "center_variance", "data_variance"],
            layers="output",
            batch_size=work["born_on"],
            progress=work.progress,
        ),
    )


def runs_of(
    work: Work,
    name: str,
    network: Network,
    pictures: Samples,
    test: Samples,
    recipe: Recipe,
    *,
    test_mode: str = "eval",
) -> Trajectory:
    """``runs`` training runs, each a piece of its own."""
    return Trajectory.merge(
        work.piece(
            f"{name}-run{run}",
            partial(
                train,
                network,
                pictures,
                recipe=recipe,
                test=test,
                runs=[run],
                seed=work.seed,
                modes={"test": test_mode},
                evaluation_batch=128,  # as in the papers' image programs
                evaluation_samples=work["looked_at"],
                progress=work.progress,
            ),
        )
        for run in range(work["runs"])
    )


def draw_placements(results: Mapping[str, Any], titles: Mapping[str, str]) -> Figure:
    """Accuracy above, max_c G_c below, training pictures left, test pictures right; γ in the legend."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.0, 4.6), dpi=200, layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        for (name, title), style in zip(titles.items(), series_styles(len(titles)), strict=True):
            runs, birth = results[name], results[f"{name}-birth"]
            label = f"{title}: γ = {float(birth.gamma[-1]):.3g}"
            for column, split in enumerate(("train", "test")):
                for row, quantity in enumerate(("accuracy", "max_guess")):
                    draw_mean(axes[row, column], runs, style, quantity, split=split, label=label)
        for column, split in enumerate(("training pictures", "test pictures")):
            axes[0, column].set_title(split)
            axes[1, column].set_xlabel("step")
            draw_steps(axes[1, column], max(int(results[name].steps[-1]) for name in titles))
            axes[1, column].set_ylim(0, 1.02)
        axes[0, 0].set_ylabel("accuracy")
        axes[1, 0].set_ylabel(r"$\max_c G_c$")
        figure.legend(
            *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=min(3, len(titles))
        )
    return figure


def draw_steps(axes: Axes, last: int) -> None:
    """Logarithmic steps with a place for step 0."""
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set_xlim(-0.15, max(last, 1) * 1.3)
    axes.set_xticks([0, *(10**power for power in range(int(math.log10(max(last, 1))) + 1))])


def onset_mean(trajectory: Trajectory, name: str, last: int, *, split: str = "train") -> NDArray[np.float64]:
    """Mean of a quantity over the steps up to ``last``, by the trapezoid rule, of each run."""
    early = trajectory.steps <= last
    steps = trajectory.steps[early]
    values = trajectory.quantity(name, split=split).values[:, early]
    return np.asarray(area_over_steps(steps, values) / (steps[-1] - steps[0]))


def greater(says: str, larger: NDArray[np.float64], smaller: NDArray[np.float64]) -> Statement:
    """That one quantity exceeds another on average, compared run by run."""
    difference, stderr, _ = mean_and_stderr(np.asarray(larger - smaller, dtype=np.float64))
    # no difference at all is none, however well it is known
    return Statement(says, ">", 0.0, float(difference), max(float(stderr), 1e-9))


def gamma_falls(results: Mapping[str, Any], after: str, where: str, *, before: str = "before") -> Statement:
    """That γ of untrained networks is smaller with the norm behind the activation."""
    usual, moved = results[f"{before}-birth"], results[f"{after}-birth"]
    return Statement(
        f"{where}: γ is smaller with the norm after the activation; γ before − γ after",
        ">",
        0.0,
        float(usual.gamma[-1] - moved.gamma[-1]),
        math.hypot(float(usual["gamma_stderr"][-1]), float(moved["gamma_stderr"][-1])),
    )


def onset_statements(
    results: Mapping[str, Any], last: int, where: str, *, before: str = "before", after: str = "after"
) -> list[Statement]:
    """Faster and more balanced at the onset of training."""
    usual, moved = results[before], results[after]
    accuracy = [onset_mean(item, "accuracy", last) for item in (moved, usual)]
    greatest = [onset_mean(item, "max_guess", last) for item in (usual, moved)]
    return [
        greater(
            f"{where}: the norm after the activation converges faster; training accuracy, mean of the first "
            f"{last:,} steps, after − before",
            *accuracy,
        ),
        greater(
            f"{where}: the bias decays earlier with the norm after the activation; max_c G_c, mean of the first "
            f"{last:,} steps, before − after",
            *greatest,
        ),
    ]


def explained(statement: Statement, because: str) -> Statement:
    """The statement with the likely reason, where it differs."""
    return statement if statement.agrees else replace(statement, because=because)
