"""Figure 8: a shifted ReLU removes the bias; the law of G_0 of one hidden layer, ReLU against SReLU.

Appendix G.3: an activation whose mean over the data is 0 leaves γ = 0, so that only the finite data set scatters G_0.
The mean of a ReLU on u ~ N(0, 2), as weights of variance 2/fan_in make of standard data, is 1/√π, hence

    SReLU(u) = max(u, 0) − 1/√π.

With d inputs the mean of a hidden unit is |w|/√(2π) instead, |w|² = 2 (1 ± √(2/d)), which leaves γ = 1/(2 (π − 1) d).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.gaussian import gaussian_noise
from firstlight.papers.figure import PaperFigure
from firstlight.papers.igb.perceptrons_on_noise import (
    draw_theory_over_histogram,
    gamma_statement,
    measured_and_predicted,
)
from firstlight.papers.work import Work
from firstlight.plots.style import house_style
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

ACTIVATIONS = {"relu": "ReLU", "shifted-relu": "SReLU"}


def _compute(work: Work) -> dict[str, Profile]:
    """Theory and measurement of both on the same points."""
    data = gaussian_noise(work["samples"], work["inputs"], seed=work.seed)
    results: dict[str, Profile] = {}
    for name in ACTIVATIONS:
        activation = "relu" if name == "relu" else ("shifted_relu", {"shift": -1 / math.sqrt(math.pi)})
        blueprint = Blueprint.mlp(inputs=work["inputs"], depth=1, width=work["width"], activation=activation)
        results |= measured_and_predicted(work, name, blueprint, data)
    return results


def _draw(results: Mapping[str, Any]) -> Figure:
    """ReLU beside SReLU."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(6.4, 2.8), dpi=200, layout="constrained")
        for axes, (name, title) in zip(figure.subplots(1, 2), ACTIVATIONS.items(), strict=True):
            draw_theory_over_histogram(axes, results, name, title, bins=40)
            axes.legend(fontsize=7, loc="upper right", handlelength=1.2)
        figure.axes[0].set_ylabel("density over initializations")
    return figure


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What appendix G says of both."""
    shifted = results["shifted-relu-measured"]
    samples = shifted.provenance.settings["samples"]
    inputs = results["shifted-relu-theory"].provenance.settings["inputs"]
    left = 1 / (2 * (math.pi - 1) * inputs)
    expected = 0.25 / samples + left / (2 * math.pi)
    fractions = shifted.guesses.fractions.values[:, 0]
    spread = float(fractions.std(ddof=1))
    relu = results["relu-measured"].guesses.fractions.values[:, 0]
    wide, error = float(relu.std(ddof=1)), 1 / math.sqrt(2 * (len(relu) - 1))
    return [
        gamma_statement("ReLU: γ is 1/(π−1)", 1 / (math.pi - 1), results["relu-measured"]),
        Statement(
            "SReLU: γ is 0 in theory (eq. 187)", "=", 0.0, float(results["shifted-relu-theory"].gamma[-1])
        ),
        Statement(
            "SReLU shows no bias (appendix G.3): of γ there is V/D of the finite data set, 1/D, and 1/(2 (π−1) d) of "
            "finitely many inputs (ours)",
            "=",
            1 / samples + left,
            float(shifted.gamma[-1]),
            # one data set is drawn: its own centre has |x̄|²/d = (1 ± √(2/d))/D
            math.hypot(float(shifted["gamma_stderr"][-1]), math.sqrt(2 / inputs) / samples),
        ),
        Statement(
            "SReLU: G_0 scatters as counting D points does, 0.5/√D, and a little by that γ (ours)",
            "=",
            math.sqrt(expected),
            spread,
            spread * error,
        ),
        Statement(
            "SReLU scatters less than ReLU: ratio of the standard deviations of G_0",
            "<",
            0.5,
            spread / wide,
            spread / wide * error * math.sqrt(2),
        ),
    ]


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"samples": 200, "inputs": 100, "width": 50, "inits": 20},
        "small": {"samples": 500, "inputs": 1000, "width": 300, "inits": 500},
        "paper": {"samples": 20_000, "inputs": 3072, "width": 10_000, "inits": 10_000},
    },
    departs={
        "small": ("500 points of 1,000 coordinates, 300 hidden units and 500 initializations",),
        "paper": (
            "the text has lost the sizes of the data set, of the hidden layer and of the ensemble; these are ours",
        ),
    },
)
