"""Figure 7: depth amplifies the bias; the law of G_0 of ReLU perceptrons of growing depth, theory over histogram.

Section 4.2 and appendix F: without norm, γ = C/V of a ReLU perceptron grows from layer to layer (0.467, 0.975, 2.79,
6.78, 18.4 behind 1, 2, 5, 10, 20 hidden layers), so that G_0 gathers at 0 and 1. Depth alone causes nothing: a network
of tanh units, as deep, stays at γ = 0, and its panel shows counting noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

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
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

_NARROW = (
    "theory is of infinite width; in a narrow deep network without norms the scale of the signal, and with it C and V, "
    "is log-normal over initializations (variance 5 · depth/width of its logarithm), and a ratio of averages "
    "follows the few greatest"
)


def _compute(work: Work) -> dict[str, Profile]:
    """Theory and measurement at each depth, and of the deepest network with tanh units, on the same points."""
    data = gaussian_noise(work["samples"], work["inputs"], seed=work.seed)
    results: dict[str, Profile] = {}
    for activation, depths in (("relu", work["depths"]), ("tanh", work["depths"][-1:])):
        for depth in depths:
            blueprint = Blueprint.mlp(
                inputs=work["inputs"], depth=depth, width=work["width"], activation=activation
            )
            results |= measured_and_predicted(work, f"{activation}-{depth}", blueprint, data)
    return results


def _draw(results: Mapping[str, Any]) -> Figure:
    """A panel each depth, and the last for tanh."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.2, 4.8), dpi=200, layout="constrained")
        names = [*_names(results, "relu"), *_names(results, "tanh")]
        for axes, name in zip(figure.subplots(2, 3).flat, names, strict=False):
            activation, depth = name.split("-")
            title = f"{'ReLU' if activation == 'relu' else activation}, depth {depth}"
            draw_theory_over_histogram(axes, results, name, title)
            axes.legend(fontsize=6, loc="upper left", handlelength=1.2)
        for axes in figure.axes[::3]:
            axes.set_ylabel("density over initializations")
    return figure


def _names(results: Mapping[str, Any], activation: str) -> list[str]:
    """Networks with that activation, shallow ones first."""
    found = {name.removesuffix("-theory") for name in results if name.startswith(f"{activation}-")}
    return sorted(
        (name for name in found if not name.endswith("-measured")), key=lambda name: int(name.split("-")[1])
    )


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What section 4.2 and appendix F say of depth."""
    names = _names(results, "relu")
    said = []
    for name in names:
        depth = int(name.split("-")[1])
        stated = float(results[f"{name}-theory"].gamma[-1])
        says = f"ReLU, depth {depth}: γ by theory" + (", 1/(π−1)" if depth == 1 else " (appendix F)")
        because = "" if depth == 1 else _NARROW
        said.append(gamma_statement(says, stated, results[f"{name}-measured"], because=because))
    for shallow, deep in pairwise(names):
        before, after = (_extreme(results[f"{name}-measured"]) for name in (shallow, deep))
        says = (
            f"G_0 gathers at 0 and 1 (section 4.2): networks that put 95 % of the points into one class, "
            f"depth {deep.split('-')[1]} less depth {shallow.split('-')[1]}"
        )
        said.append(Statement(says, ">", 0.0, after[0] - before[0], math.hypot(after[1], before[1])))
    [odd] = _names(results, "tanh")
    measured = results[f"{odd}-measured"]
    share, stderr = _extreme(measured)
    depth = int(odd.split("-")[1])
    said.append(
        Statement(
            f"depth does not cause the bias (section 4.2): tanh, depth {depth}, networks that put 95 % of the points "
            "into one class",
            "<",
            0.05,
            share,
            stderr,
        )
    )
    said.append(
        Statement(
            f"tanh, depth {depth}: γ is 0, and V/D of the finite data set remains",
            "<",
            3 / measured.provenance.settings["samples"],
            float(measured.gamma[-1]),
            float(measured["gamma_stderr"][-1]),
        )
    )
    return said


def _extreme(profile: Profile) -> tuple[float, float]:
    """Share of the initializations with G_0 below 0.05 or above 0.95."""
    share, stderr = share_near(profile, 0.05, 0.95)
    return 1 - share, stderr


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"depths": [1, 5], "samples": 100, "inputs": 50, "width": 30, "inits": 20},
        "small": {"depths": [1, 2, 5, 10, 20], "samples": 300, "inputs": 1000, "width": 200, "inits": 400},
        "paper": {
            "depths": [1, 2, 5, 10, 20],
            "samples": 20_000,
            "inputs": 3072,
            "width": 1000,
            "inits": 10_000,
        },
    },
    departs={
        "small": ("300 points of 1,000 coordinates, 200 hidden units a layer and 400 initializations",),
        "paper": ("the text has lost the depths, the widths and the size of the ensemble; these are ours",),
    },
)
