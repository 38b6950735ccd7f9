"""Figure 4: batch-normalized feed-forward nets; sensitivity explodes, the signal gets ill-conditioned and fat-tailed.

(a) δχ with its factors δ_BN and δ_φ; (b) χ; (c) effective ranks of signal and noise; (d) μ4(z) and ν1(|z|) behind the
norm. Section 6 of the paper, theorem 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firstlight.papers.figure import PaperFigure
from firstlight.papers.jackknife import bounded, jackknife, mean_and_error
from firstlight.papers.moments.evolution import (
    GAUSSIAN_ABSOLUTE,
    draw_curves,
    draw_moments,
    relative_absolute,
)
from firstlight.papers.moments.simulations import (
    FEED_FORWARD_DEPARTURES,
    FEED_FORWARD_SCALES,
    GEOMETRIES,
    Curve,
    along,
    simulated,
)
from firstlight.papers.work import Work
from firstlight.plots.style import house_style
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

RECORDED = {10: 2.183, 20: 4.248, 40: 8.383, 200: 41.42}
"""Mean log χ of the fully-connected net, width 512, batches of 64, by the author's own program."""


SATURATED = (
    "a fully-connected net sees only as many points as there are pictures, 64: how they lie to each other settles "
    "early, and rank and tails stay there; the statement fits convolutional nets, whose positions are points too"
)


def _compute(work: Work) -> dict[str, Profile]:
    """Simulations of both geometries."""
    return {geometry: simulated(work, "feedforward", geometry) for geometry in GEOMETRIES}


def _draw(results: Mapping[str, Any]) -> Figure:
    """A row each geometry; the paper's four panels."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(10.0, 4.6), dpi=200, layout="constrained")
        axes = figure.subplots(len(GEOMETRIES), 4)
        for row, (geometry, words) in enumerate(GEOMETRIES.items()):
            profile = results[geometry]
            xlabel = "layer $l$" if row == len(GEOMETRIES) - 1 else ""
            increments = {
                r"$\delta\chi^l$": along(profile, "sensitivity_increment", "activation{}", start=2),
                r"$\delta_{BN}\chi^l$": _of_norm(profile),
                r"$\delta_\phi\chi^l$": _of_activation(profile),
            }
            draw_curves(axes[row, 0], increments, title="(a) increments", xlabel=xlabel)
            sensitivity = along(profile, "sensitivity", "activation{}")
            draw_curves(axes[row, 1], {r"$\chi^l$": sensitivity}, title=r"(b) $\chi^l$", xlabel=xlabel)
            axes[row, 1].set(yscale="log")
            ranks = {
                "$x^l$": along(profile, "effective_rank", "activation{}"),
                "$dx^l$": along(profile, "noise_effective_rank", "activation{}"),
            }
            draw_curves(axes[row, 2], ranks, title=r"(c) $r_{\mathrm{eff}}$", xlabel=xlabel)
            axes[row, 2].set(yscale="log")
            draw_moments(axes[row, 3], profile, "norm{}", xlabel=xlabel)
            axes[row, 0].set_ylabel(words)
    return figure


def _of_norm(profile: Profile) -> Curve:
    """δ_BN χ from layer 2 on: layer 1 has the first linear map before it too."""
    return along(profile, "sensitivity_increment_norm", "norm{}", start=2)


def _of_activation(profile: Profile) -> Curve:
    return along(profile, "sensitivity_increment_activation", "activation{}", start=2)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What section 6 says of the evolution, for each geometry; the author's own numbers for the fully-connected net."""
    said = []
    for geometry, words in GEOMETRIES.items():
        profile, why = results[geometry], SATURATED if geometry == "dense" else ""
        said += [
            *_of_sensitivity(f"{words}: ", profile, why),
            *_of_ranks(f"{words}: ", profile, why),
            *_of_tails(f"{words}: ", profile),
        ]
    return [*said, *_recorded(results["dense"])]


def _of_sensitivity(words: str, profile: Profile, why: str) -> list[Statement]:
    logs = along(profile, "log_sensitivity", "activation{}")
    middle, last = int(logs.depths[len(logs.depths) // 2]), int(logs.depths[-1])
    norm, bent = _of_norm(profile), _of_activation(profile)
    least, lowest, highest = int(norm.mean.argmin()), int(bent.mean.argmin()), int(bent.mean.argmax())
    return [
        bounded(
            f"{words}χ ≥ exp(γl) with γ > 0 (figure 4b): growth of log χ a layer, layers {middle} to {last}",
            ">",
            0.0,
            (logs.at(last) - logs.at(middle)) / (last - middle),
        ),
        bounded(
            f"{words}δ_BN is at least 1 (section 6): its least mean, at layer {int(norm.depths[least])}",
            ">",
            1.0,
            norm.values[:, least],
        ),
        bounded(
            f"{words}δ_φ is at least 1 (theorem 3): its least mean, at layer {int(bent.depths[lowest])}",
            ">",
            1.0,
            bent.values[:, lowest],
        ),
        bounded(
            f"{words}δ_φ is at most √2 (theorem 3): its greatest mean, at layer {int(bent.depths[highest])}",
            "<",
            math.sqrt(2),
            bent.values[:, highest],
        ),
        bounded(
            f"{words}δ_φ is subdominant at large depth (figure 4a): log δ_BN less log δ_φ at layer {last}",
            ">",
            0.0,
            np.log(norm.values[:, -1] / bent.values[:, -1]),
            otherwise=why,
        ),
    ]


def _of_ranks(words: str, profile: Profile, why: str) -> list[Statement]:
    rank = along(profile, "effective_rank", "activation{}")
    noise = along(profile, "noise_effective_rank", "activation{}")
    norm = _of_norm(profile)
    last = int(rank.depths[-1])
    shared = [int(depth) for depth in np.intersect1d(rank.depths, norm.depths)]
    ranks = np.stack([rank.at(depth) for depth in shared], axis=1)
    increments = np.stack([norm.at(depth) for depth in shared], axis=1)

    def correlation(chosen: NDArray[np.intp]) -> float:
        return float(np.corrcoef(np.log(ranks[chosen].mean(0)), increments[chosen].mean(0))[0, 1])

    return [
        bounded(
            f"{words}the signal becomes ill-conditioned (figure 4c): log r_eff(x), layer {last} less layer 2",
            "<",
            0.0,
            np.log(rank.values[:, -1] / rank.at(2)),
            otherwise=why,
        ),
        bounded(
            f"{words}the noise remains well-conditioned (figure 4c): log r_eff(dx) less log r_eff(x), layer {last}",
            ">",
            0.0,
            np.log(noise.values[:, -1] / rank.values[:, -1]),
            otherwise=why,
        ),
        Statement(
            f"{words}r_eff(x) and δ_BN are inversely correlated (section 6): correlation along the depth",
            "<",
            0.0,
            *jackknife(correlation, len(ranks)),
        ),
    ]


def _of_tails(words: str, profile: Profile) -> list[Statement]:
    kurtosis, absolute = along(profile, "kurtosis", "norm{}"), relative_absolute(profile, "norm{}")
    last = int(kurtosis.depths[-1])
    return [
        bounded(
            f"{words}z becomes fat-tailed (figure 4d): μ4(z) at layer {last} above a Gaussian's",
            ">",
            3.0,
            kurtosis.values[:, -1],
        ),
        bounded(
            f"{words}z becomes fat-tailed (figure 4d): ν1(|z|) at layer {last} below a Gaussian's",
            "<",
            GAUSSIAN_ABSOLUTE,
            absolute.values[:, -1],
        ),
    ]


def _recorded(profile: Profile) -> list[Statement]:
    """The author's own curve, at the depths that were simulated with its sizes."""
    logs = along(profile, "log_sensitivity", "activation{}")
    said = []
    for depth, expected in RECORDED.items():
        if depth in logs.depths:
            value, error = mean_and_error(logs.at(depth))
            said.append(
                Statement(
                    f"fully connected: mean log χ at layer {depth} by the author's program (width 512, batches of 64)",
                    "=",
                    expected,
                    value,
                    error,
                    tolerance=0.005,
                )
            )
    return said


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales=FEED_FORWARD_SCALES,
    departs=FEED_FORWARD_DEPARTURES,
)
