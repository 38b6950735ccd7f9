"""Figure C.1: how the decision boundary starts and moves, in two dimensions, after neutral and prejudiced births.

Appendix C.1 draws a sketch: a neutral boundary cuts the cloud of representations and only turns; a prejudiced one
misses it, is first shifted onto it and then turned. Here it is measured, in an exact section of the last hidden layer
of SHLP on Gaussian blobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.data.gaussian import gaussian_blobs
from firstlight.papers.figure import PaperFigure
from firstlight.papers.norm.boundary_motion import boundary_motion, time_of_half
from firstlight.papers.norm.networks import perceptron
from firstlight.papers.work import Work
from firstlight.plots.style import PALETTE, house_style
from firstlight.results.arrays import Arrays
from firstlight.results.reproduction import Statement
from firstlight.training.filtering import filter_initializations
from firstlight.training.recipes import Recipe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

KINDS = ("neutral", "prejudiced")


def _compute(work: Work) -> dict[str, Arrays]:
    return {kind: work.piece(kind, partial(_motion, work, kind)) for kind in KINDS}


def _motion(work: Work, kind: str) -> Arrays:
    data = gaussian_blobs(samples=work["samples"], dimensions=work["dimensions"], seed=work.seed)
    network = perceptron("plain", inputs=work["dimensions"], depth=1)
    found = filter_initializations(
        network, data, runs=work["runs"], groups=[kind], seed=work.seed, progress=work.progress
    )
    recipe = Recipe(rate=work["rate"], batch_size=work["batch_size"], epochs=work["epochs"])
    return boundary_motion(network, data, recipe, runs=getattr(found, kind), seed=work.seed)


def _draw(results: Mapping[str, Any]) -> Figure:
    """Above a neutral start (a, b), below a prejudiced one (c, d, e); on the right both averages over time."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.4, 4.0), dpi=200, layout="constrained")
        axes = figure.subplots(2, 4)
        for row, kind in zip(axes, KINDS, strict=True):
            motion = results[kind]
            for panel, place in zip(row, _moments(motion), strict=False):
                _draw_section(panel, motion, place)
            _draw_times(row[3], motion, kind)
        for panel, letter in zip((axes[0, 0], axes[0, 2], *axes[1, :3]), "abcde", strict=True):
            panel.set_title(f"({letter}) {panel.get_title()}", fontsize=8)
        axes[0, 0].set_ylabel("neutral start")
        axes[1, 0].set_ylabel("prejudiced start")
    return figure


def _moments(motion: Arrays) -> list[int]:
    """Records at birth, where the boundary has come half-way to the cloud, and at the end."""
    steps = np.asarray(motion.coordinates["step"].values, dtype=np.float64)
    half = _half_offset(motion)[0]
    return [0, int(np.abs(steps - half).argmin()), len(steps) - 1]


def _draw_section(axes: Axes, motion: Arrays, place: int) -> None:
    points, labels = motion["points"].values[0, place], motion["labels"].values
    for label, color, marker in ((0, PALETTE["blue"], "o"), (1, PALETTE["vermillion"], "^")):
        chosen = points[labels == label]
        axes.scatter(chosen[:, 0], chosen[:, 1], s=3, color=color, marker=marker, alpha=0.6, linewidths=0)
    a, b, c = motion["line"].values[0, place]
    reach = 1.05 * float(np.abs(motion["points"].values[0]).max())
    span = max(reach, 1.1 * abs(c) / math.hypot(a, b))
    along = np.array([-b, a]) / math.hypot(a, b) * 3 * span
    foot = -c * np.array([a, b]) / (a * a + b * b)
    axes.plot(*np.stack([foot - along, foot + along], 1), color="black")
    axes.set(
        xlim=(-span, span),
        ylim=(-span, span),
        xticks=[],
        yticks=[],
        aspect="equal",
        title=f"step {motion.coordinates['step'].values[place]}",
        xlabel="class difference",
    )


def _draw_times(axes: Axes, motion: Arrays, kind: str) -> None:
    steps = motion.coordinates["step"].values
    for name, color, dashes in (
        ("offset", PALETTE["green"], "-"),
        ("separation", PALETTE["purple"], (0, (4, 1.5))),
    ):
        values = motion[name].values
        mean = values.mean(0)
        axes.plot(steps, mean, color=color, linestyle=dashes, label=name)
        if len(values) > 1:
            error = values.std(0, ddof=1) / math.sqrt(len(values))
            axes.fill_between(steps, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set(xlabel="step", title=f"{len(values)} {kind} starts", ylim=(-0.1, None), xlim=(0, steps[-1]))
    axes.legend(fontsize=7)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    said = []
    for kind, relation, where in (
        ("neutral", "<", "cuts the cloud of representations (C.1 a)"),
        ("prejudiced", ">", "misses it (C.1 c)"),
    ):
        mean, error = _average(results[kind]["offset"].values[:, 0])
        said.append(
            Statement(
                f"{kind} start: the boundary {where}; its offset at birth in deviations of the data",
                relation,
                1.0,
                mean,
                error,
            )
        )
    motion = results["prejudiced"]
    shift, turn = _half_offset(motion), _half_separation(motion)
    mean, error = _average(turn - shift)
    said.append(
        Statement(
            "prejudiced start: the boundary is first shifted onto the cloud, then turned (C.1 d, e); steps from half "
            "of the shift to half of the turn",
            ">",
            0.0,
            mean,
            error,
            because=f"half of the shift at step {shift.mean():.0f}, half of the turn at {turn.mean():.0f} on average: "
            "an order, not two separate phases",
        )
    )
    late, early = (_average(_half_separation(results[kind])) for kind in ("prejudiced", "neutral"))
    said.append(
        Statement(
            "a prejudiced boundary is turned later than a neutral one, which only turns (timescales τ of C.1); steps "
            "between their half turns",
            ">",
            0.0,
            late[0] - early[0],
            math.hypot(late[1], early[1]),
            because="a prejudiced boundary is turned while it is shifted; what lags is accuracy (figure 2)",
        )
    )
    return said


def _half_offset(motion: Arrays) -> np.ndarray:
    offset = motion["offset"].values
    return time_of_half(_steps(motion), offset, offset[:, 0] / 2)


def _half_separation(motion: Arrays) -> np.ndarray:
    """Half of the separation at the end of training."""
    separation = motion["separation"].values
    return time_of_half(_steps(motion), separation, separation[:, -1] / 2)


def _steps(motion: Arrays) -> np.ndarray:
    return np.asarray(motion.coordinates["step"].values, dtype=np.float64)


def _average(values: np.ndarray) -> tuple[float, float]:
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
    return float(values.mean()), error


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"samples": 64, "dimensions": 20, "batch_size": 32, "rate": 1e-3, "epochs": 4, "runs": 1},
        "small": {
            "samples": 2048,
            "dimensions": 100,
            "batch_size": 512,
            "rate": 1e-4,
            "epochs": 240,
            "runs": 8,
        },
        "paper": {
            "samples": 20_000,
            "dimensions": 1000,
            "batch_size": 512,
            "rate": 1e-5,
            "epochs": 80,
            "runs": 20,
        },
    },
    departs={
        "small": (
            "the paper's figure is a sketch without settings: here SHLP, 2,048 Gaussian points in 100 dimensions, Adam "
            "1e-4, so that a unit moves as fast as at 1e-5 in 1,000 dimensions",
        ),
        "paper": ("the paper's figure is a sketch without settings; those of figure 2 are taken",),
    },
)
