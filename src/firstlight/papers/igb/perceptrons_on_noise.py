"""A perceptron on i.i.d. Gaussian points: what theory says of its guesses beside what was measured on those points.

Enters: a blueprint and points. Leaves: two profiles, ``NAME-theory`` and ``NAME-measured``, both for guesses counted on
as many points; and their drawing, theory over histogram. A law is drawn as its density. Where γ is 0 there is none, and
only the finite data set scatters: the counted law, Binomial(D, ½)/D, is drawn bin by bin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.samples import Samples
from firstlight.measurement.measuring import measure
from firstlight.papers.work import Work
from firstlight.plots.guess_law import draw_guesses
from firstlight.plots.style import series_styles
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement
from firstlight.theory.predicting import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_theory_over_histogram", "gamma_statement", "measured_and_predicted", "share_near"]

_HIGHEST = 30.0


def measured_and_predicted(work: Work, name: str, blueprint: Blueprint, data: Samples) -> dict[str, Profile]:
    """Both profiles of one network by their names; the setting ``inits`` says how many networks are drawn."""
    return {
        f"{name}-theory": work.piece(f"{name}-theory", partial(predict, blueprint, samples=len(data))),
        f"{name}-measured": work.piece(
            f"{name}-measured",
            partial(
                measure,
                blueprint,
                data,
                inits=work["inits"],
                seed=work.seed,
                quantities=["guesses", "gamma", "center_variance", "data_variance"],
                layers="output",
                progress=work.progress,
            ),
        ),
    }


def draw_theory_over_histogram(
    axes: Axes, results: Mapping[str, Any], name: str, title: str, *, bins: int = 24
) -> None:
    """The law of one class's fraction: measured as a histogram, theory as a line over it."""
    theory, measured = results[f"{name}-theory"].guesses, results[f"{name}-measured"].guesses
    first, second = series_styles(2)
    heights = [draw_guesses(axes, measured, first, "measured", bins=bins)]
    if theory.law.gamma < 1 / theory.samples:  # counting hides it
        edges = np.linspace(0.0, 1.0, bins + 1)
        density = np.diff(np.concatenate([[0.0], theory.cdf(edges[1:])])) * bins
        axes.stairs(
            density,
            edges,
            color=second.color,
            linewidth=1.4,
            label=f"theory, no bias\ncounted on {theory.samples:,} points",
            zorder=3,
        )
        heights.append(float(density.max()))
    else:
        heights.append(draw_guesses(axes, theory, second, "theory"))
    axes.set(title=title, xlim=(0, 1), ylim=(0, 1.45 * min(max(2.0, *heights), _HIGHEST)), xlabel="$G_0$")


def gamma_statement(says: str, expected: float, profile: Profile, *, because: str = "") -> Statement:
    """γ at the output against a number; the D points and their one draw move it by some of (1 + γ)/D."""
    gamma = float(profile.gamma[-1])
    return Statement(
        says,
        "=",
        expected,
        gamma,
        float(profile["gamma_stderr"][-1]),
        tolerance=3.0 / float(profile.provenance.settings["samples"]) * (1 + gamma),
        because=because,
    )


def share_near(profile: Profile, low: float, high: float) -> tuple[float, float]:
    """Share of the initializations with low < G_0 < high, and its standard error."""
    fractions = profile.guesses.fractions.values[:, 0]  # type: ignore[union-attr]
    share = float(((fractions > low) & (fractions < high)).mean())
    return share, math.sqrt(max(share * (1 - share), 1 / len(fractions)) / len(fractions))
