"""Figure 3: vanilla nets; the increment δχ falls to 1, the sensitivity χ grows slowly, r_eff(x) shows one dimension.

The paper shows δχ and r_eff; χ, the noise's rank and the moments of the pre-activations are drawn as in figure 4, so
that the three kinds of nets can be compared. Section 5 of the paper, theorem 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.papers.figure import PaperFigure
from firstlight.papers.jackknife import bounded, mean_and_error
from firstlight.papers.moments.evolution import draw_curves, draw_moments
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


def _compute(work: Work) -> dict[str, Profile]:
    """Simulations of both geometries."""
    return {geometry: simulated(work, "vanilla", geometry) for geometry in GEOMETRIES}


def _draw(results: Mapping[str, Any]) -> Figure:
    """A row each geometry; δχ, χ, effective ranks, moments."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(10.0, 4.6), dpi=200, layout="constrained")
        axes = figure.subplots(len(GEOMETRIES), 4)
        for row, (geometry, words) in enumerate(GEOMETRIES.items()):
            profile, last = results[geometry], row == len(GEOMETRIES) - 1
            xlabel = "layer $l$" if last else ""
            draw_curves(
                axes[row, 0], {r"$\delta\chi^l$": _increment(profile)}, title=r"$\delta\chi^l$", xlabel=xlabel
            )
            draw_curves(
                axes[row, 1],
                {r"$\chi^l$": along(profile, "sensitivity", "activation{}")},
                title=r"$\chi^l$",
                xlabel=xlabel,
            )
            ranks = {
                "$x^l$": along(profile, "effective_rank", "activation{}"),
                "$dx^l$": along(profile, "noise_effective_rank", "activation{}"),
            }
            draw_curves(axes[row, 2], ranks, title=r"$r_{\mathrm{eff}}$", xlabel=xlabel)
            axes[row, 2].set(yscale="log")
            draw_moments(axes[row, 3], profile, "linear{}", xlabel=xlabel)
            axes[row, 0].set_ylabel(words)
    return figure


def _increment(profile: Profile) -> Curve:
    """δχ from layer 2 on: layer 1 has the first linear map before it too."""
    return along(profile, "sensitivity_increment", "activation{}", start=2)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What section 5 says of the evolution, for each geometry."""
    return [
        item for geometry, words in GEOMETRIES.items() for item in _of_net(f"{words}: ", results[geometry])
    ]


def _of_net(words: str, profile: Profile) -> list[Statement]:
    increment = _increment(profile)
    rank = along(profile, "effective_rank", "activation{}")
    noise = along(profile, "noise_effective_rank", "activation{}")
    logs = along(profile, "log_sensitivity", "activation{}")
    last = int(rank.depths[-1])
    quarters = [int(logs.depths[np.abs(logs.depths - last * part / 4).argmin()]) for part in range(1, 5)]
    steps = np.array([logs.at(quarters[0]), *(logs.at(b) - logs.at(a) for a, b in pairwise(quarters))])
    least, highest = int(steps.mean(1).argmin()), int(increment.mean.argmax())
    gap = logs.depths[-1] - logs.depths[-2]
    end, end_error = mean_and_error(np.exp((logs.values[:, -1] - logs.values[:, -2]) / gap))
    narrow = (
        "at finite width N the logarithm of the signal's mean square falls by up to 5/2N a layer and that of the "
        "noise by less (figure 2), which keeps δχ above 1; the fewer channels, the more"
    )
    return [
        bounded(
            f"{words}χ always increases (theorem 2): growth of log χ over the quarter of the depth where it is "
            f"least, quarter {least + 1}",
            ">",
            0.0,
            steps[least],
        ),
        bounded(
            f"{words}δχ is at most √2 (theorem 2): its greatest mean, at layer {int(increment.depths[highest])}",
            "<",
            math.sqrt(2),
            increment.values[:, highest],
        ),
        Statement(
            f"{words}δχ → 1 (figure 3a): δχ over the last {int(gap)} layers, each, read off to 0.01",
            "=",
            1.0,
            end,
            end_error,
            tolerance=0.01,
            because=narrow if end - 1 > 0.01 + 3 * end_error else "",
        ),
        bounded(
            f"{words}the effective rank of the signal falls (figure 3b): log r_eff, layer {last} less layer 2",
            "<",
            0.0,
            np.log(rank.values[:, -1] / rank.at(2)),
        ),
        bounded(
            f"{words}one-dimensional signal, r_eff → 1 (figure 3b): less than two directions at layer {last}",
            "<",
            2.0,
            rank.values[:, -1],
        ),
        bounded(
            f"{words}the signal is worse conditioned than the noise: log r_eff of noise over signal, layer {last}",
            ">",
            0.0,
            np.log(noise.values[:, -1] / rank.values[:, -1]),
        ),
    ]


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales=FEED_FORWARD_SCALES,
    departs=FEED_FORWARD_DEPARTURES,
)
