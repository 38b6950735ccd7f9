"""Figure 5: one hidden layer of SHLP on Gaussian data; the law of G_0 for three networks, theory over histogram.

Linear (γ = 0: only the finite data set scatters), ReLU (γ = 1/(π−1)) and ReLU + max-pooling of K units. Section 4.1
and appendix C of the paper. A second row shows the law of an output's centre over initializations, N(0, C).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.gaussian import gaussian_noise
from firstlight.measurement.measuring import measure
from firstlight.papers.figure import PaperFigure
from firstlight.papers.work import Work
from firstlight.plots.guess_law import draw_guesses
from firstlight.plots.style import house_style, series_styles
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement
from firstlight.theory.predicting import predict

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
    results = {}
    for name, network in NETWORKS.items():
        width = work["width"] * network.get("pool", ("none", 1))[1]  # as many units behind the pool
        blueprint = Blueprint.mlp(inputs=work["inputs"], depth=1, width=width, **network)
        results[f"{name}-theory"] = work.piece(f"{name}-theory", partial(predict, blueprint))
        results[f"{name}-measured"] = work.piece(
            f"{name}-measured",
            partial(
                measure,
                blueprint,
                data,
                inits=work["inits"],
                seed=work.seed,
                quantities=["guesses", "gamma", "center_variance", "data_variance"],
                progress=work.progress,
            ),
        )
    return results


def _draw(results: Mapping[str, Any]) -> Figure:
    """The law of G_0, and under it the law of the centres, a column each network."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.0, 4.2), dpi=200, layout="constrained")
        axes = figure.subplots(2, 3)
        for column, (name, title) in enumerate(zip(NETWORKS, TITLES, strict=True)):
            theory, measured = results[f"{name}-theory"], results[f"{name}-measured"]
            styles = series_styles(2)
            heights = [
                draw_guesses(axes[0, column], measured.guesses, styles[0], "measured", bins=24),
                draw_guesses(axes[0, column], theory.guesses, styles[1], "theory"),
            ]
            axes[0, column].set(
                title=title, xlim=(0, 1), ylim=(0, 1.2 * min(max(2.0, *heights), 30.0)), xlabel="$G_0$"
            )
            _draw_centers(axes[1, column], theory, measured)
        axes[0, 0].set_ylabel("density over initializations")
        axes[1, 0].set_ylabel("density over initializations")
    return figure


def _draw_centers(axes: Axes, theory: Profile, measured: Profile) -> None:
    """|centre| of the output by initialization: √C_init, over the half-normal law that N(0, C) gives two outputs."""
    found = np.sqrt(measured.variables["center_variance_init"].values[:, -1])
    expected = float(theory.center_variance[-1])
    axes.hist(found, bins=24, density=True, color="0.85", edgecolor="0.5", label="measured")
    points = np.linspace(0, max(found.max(), 1e-3) * 1.05, 300)
    if expected > 0:  # the root of the mean of two squares of N(0, C): a Rayleigh law of scale √(C/2)
        scale = expected / 2
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
        profile = results[f"{name}-measured"]
        said.append(
            Statement(
                where,
                "=",
                stated,
                float(profile.gamma[-1]),
                float(profile["gamma_stderr"][-1]),
                tolerance=_finite_sample(profile),
            )
        )
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
    relu, pooled = (
        results[f"{name}-measured"].guesses.fractions.values[:, 0] for name in ("relu", "relu-max-pool")
    )
    said.append(
        _share_statement("ReLU: the law of G_0 peaks at ½, so the middle fifth holds more than", relu, ">")
    )
    said.append(
        _share_statement(
            "ReLU + max-pool: it peaks at 0 and 1, so the middle fifth holds less than", pooled, "<"
        )
    )
    return said


def _share_statement(says: str, fractions: np.ndarray, relation: str) -> Statement:
    """Share of the initializations whose G_0 lies in the middle fifth, against a fifth."""
    share = float((np.abs(fractions - 0.5) < 0.1).mean())
    return Statement(
        f"{says} a fifth of the initializations",
        relation,
        0.2,
        share,
        math.sqrt(max(share * (1 - share), 1e-12) / len(fractions)),
    )


def _finite_sample(profile: Profile) -> float:
    """How far D points and their one draw move γ: 1/D of scatter, and √(2/d) of it (see ``compare``)."""
    samples = profile.provenance.settings["samples"]
    return 3.0 / float(samples) * (1 + float(profile.gamma[-1]))


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"samples": 200, "inputs": 100, "width": 50, "inits": 20},
        "small": {"samples": 500, "inputs": 1000, "width": 150, "inits": 400},
        "paper": {"samples": 20_000, "inputs": 1000, "width": 10_000, "inits": 10_000},
    },
    departs={"small": ("500 points, 150 hidden units behind the pool and 400 initializations",)},
)
