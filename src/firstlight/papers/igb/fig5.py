"""Figure 5: one hidden layer of SHLP on Gaussian data; the law of G_0 for three networks, theory over histogram.

Linear (γ = 0: only the finite data set scatters), ReLU (γ = 1/(π−1)) and ReLU + max-pooling of K units. Section 4.1
and appendix C of the paper. A second row shows the law of an output's centre over initializations, N(0, C).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.gaussian import gaussian_noise
from firstlight.papers.figure import PaperFigure
from firstlight.papers.igb.perceptrons_on_noise import (
    draw_theory_over_histogram,
    gamma_statement,
    measured_and_predicted,
    share_near,
)
from firstlight.papers.work import Work
from firstlight.plots.style import house_style
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "linear": {"activation": "linear"},
    "relu": {"activation": "relu"},
    "relu-max-pool": {"activation": "relu", "pool": ("max", 9)},
}
TITLES = ("linear", "ReLU", "ReLU + max-pool 9")


def _compute(work: Work) -> dict[str, Profile]:
    """Theory and measurement of each network on the same points."""
    data = gaussian_noise(work["samples"], work["inputs"], seed=work.seed)
    results: dict[str, Profile] = {}
    for name, network in NETWORKS.items():
        width = work["width"] * network.get("pool", ("none", 1))[1]  # as many units behind the pool
        blueprint = Blueprint.mlp(inputs=work["inputs"], depth=1, width=width, **network)
        results |= measured_and_predicted(work, name, blueprint, data)
    return results


def _draw(results: Mapping[str, Any]) -> Figure:
    """The law of G_0, and under it the law of the centres, a column each network."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.0, 4.2), dpi=200, layout="constrained")
        axes = figure.subplots(2, 3)
        for column, (name, title) in enumerate(zip(NETWORKS, TITLES, strict=True)):
            draw_theory_over_histogram(axes[0, column], results, name, title)
            place = "upper center" if column else "upper left"
            axes[0, column].legend(fontsize=6, loc=place, handlelength=1.2)
            _draw_centers(axes[1, column], results[f"{name}-theory"], results[f"{name}-measured"])
        axes[0, 0].set_ylabel("density over initializations")
        axes[1, 0].set_ylabel("density over initializations")
    return figure


def _draw_centers(axes: Axes, theory: Profile, measured: Profile) -> None:
    """|centre| of the output by initialization: √C_init, over its law by N(0, C + V/D)."""
    found = np.sqrt(measured.variables["center_variance_init"].values[:, -1])
    samples = measured.provenance.settings["samples"]
    expected = float(theory.center_variance[-1]) + float(theory.data_variance[-1]) / samples
    axes.hist(found, bins=24, density=True, color="0.85", edgecolor="0.5", label="measured")
    points = np.linspace(0, max(found.max(), 1e-3) * 1.05, 300)
    scale = expected / 2  # the root of the mean of two squares of N(0, c): a Rayleigh law of scale √(c/2)
    axes.plot(points, points / scale * np.exp(-(points**2) / (2 * scale)), label="theory")
    axes.set(xlabel="r.m.s. centre of the two outputs", xlim=(0, None))
    axes.legend()


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What section 4.1 says of the three laws."""
    said = []
    for name, stated, where in (
        ("relu", 1 / (math.pi - 1), "γ of ReLU is 1/(π−1)"),
        (
            "relu-max-pool",
            float(results["relu-max-pool-theory"].gamma[-1]),
            "γ of ReLU + max-pool 9, by the law of the greatest of 9",
        ),
    ):
        said.append(gamma_statement(where, stated, results[f"{name}-measured"]))
    linear = results["linear-measured"]
    fractions = linear.guesses.fractions.values[:, 0]
    spread = float(fractions.std(ddof=1))
    said.append(
        Statement(
            "linear: G_0 scatters by 0.399/√D, finite data alone (appendix C)",
            "=",
            1 / math.sqrt(2 * math.pi * linear.guesses.samples),
            spread,
            spread / math.sqrt(2 * (len(fractions) - 1)),
            because="for i.i.d. inputs the binomial scatter 0.5/√D is exact; the paper's correction counts the "
            "fluctuation of the centre alone",
        )
    )
    said.append(
        Statement(
            "linear: binomial scatter 0.5/√D (ours)",
            "=",
            0.5 / math.sqrt(linear.guesses.samples),
            spread,
            spread / math.sqrt(2 * (len(fractions) - 1)),
        )
    )
    for name, says, relation in (
        ("relu", "ReLU: the law of G_0 peaks at ½, so the middle fifth holds more than", ">"),
        ("relu-max-pool", "ReLU + max-pool: it peaks at 0 and 1, so the middle fifth holds less than", "<"),
    ):
        share, stderr = share_near(results[f"{name}-measured"], 0.4, 0.6)
        said.append(Statement(f"{says} a fifth of the initializations", relation, 0.2, share, stderr))
    return said


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"samples": 200, "inputs": 100, "width": 50, "inits": 20},
        "small": {"samples": 500, "inputs": 1000, "width": 150, "inits": 400},
        "paper": {"samples": 20_000, "inputs": 3072, "width": 10_000, "inits": 10_000},
    },
    departs={
        "small": (
            "500 points of 1,000 coordinates, 150 hidden units behind the pool and 400 initializations",
        ),
        "paper": (
            "the text has lost the sizes of data, network, pool and ensemble; these are ours, "
            "but for the dimension of CIFAR-10",
        ),
    },
)
