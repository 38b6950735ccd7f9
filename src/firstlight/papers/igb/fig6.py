"""Figure 6: the law of an output's centre over initializations, linear against ReLU, for several sizes of the data set.

SHLP on Gaussian points. The centre of an output is its mean over the D points. Appendix C: its law is Gaussian with

    variance V/D (linear),      variance C = 2/π, whatever D (ReLU; exactly C + V/D)

with V the variance over the data; both are 4/D and 2/π + 2(1 − 1/π)/D with weights of variance 2/fan_in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.gaussian import gaussian_noise
from firstlight.data.samples import Samples
from firstlight.measurement.initialization import drawing
from firstlight.measurement.seeding import random_state_preserved
from firstlight.papers.figure import PaperFigure
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.results.arrays import Arrays
from firstlight.results.provenance import Provenance
from firstlight.results.reproduction import Statement
from firstlight.results.run_averages import mean_and_stderr, ratio_and_stderr
from firstlight.theory.predicting import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE", "output_centers"]

NETWORKS = {"linear": "linear", "relu": "ReLU"}


def output_centers(
    blueprint: Blueprint, data: Samples, sizes: Sequence[int], *, inits: int, seed: int
) -> Arrays:
    """Mean of each output over the first D points, for each D: ``center`` (init, size, label)."""
    draw = drawing(blueprint, seed=seed)
    found = np.empty((inits, len(sizes), int(blueprint.classes or 0)))
    with random_state_preserved(), torch.no_grad():
        for init in range(inits):
            outputs = draw.module_of(init)(data.inputs[: max(sizes)])  # (sample, label)
            for place, size in enumerate(sizes):
                found[init, place] = outputs[:size].double().mean(0).numpy()
    return Arrays.of(
        {"center": (("init", "size", "label"), found)},
        coordinates={"size": list(sizes)},
        provenance=Provenance(
            "measurement",
            draw.description,
            data.description,
            seed=seed,
            settings={"inits": inits, "inputs": blueprint.inputs},
        ),
    )


def _compute(work: Work) -> dict[str, Any]:
    data = gaussian_noise(max(work["sizes"]), work["inputs"], seed=work.seed)
    results: dict[str, Any] = {}
    for name in NETWORKS:
        blueprint = Blueprint.mlp(inputs=work["inputs"], depth=1, width=work["width"], activation=name)
        results[f"{name}-theory"] = work.piece(f"{name}-theory", partial(predict, blueprint))
        results[f"{name}-measured"] = work.piece(
            f"{name}-measured",
            partial(output_centers, blueprint, data, work["sizes"], inits=work["inits"], seed=work.seed),
        )
    return results


def _draw(results: Mapping[str, Any]) -> Figure:
    """Linear above ReLU, histograms of the centres by D with the theory of each over it."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(5.0, 5.0), dpi=200, layout="constrained")
        for axes, (name, title) in zip(figure.subplots(2, 1, sharex=True), NETWORKS.items(), strict=True):
            _draw_network(axes, results, name)
            axes.set(title=title, ylabel="density over initializations")
            axes.legend(title="histogram: measured; line: theory", fontsize=7, title_fontsize=7)
        axes.set_xlabel("centre of an output, its mean over $D$ points")
    return figure


def _draw_network(axes: Axes, results: Mapping[str, Any], name: str) -> None:
    sizes, centers = _centers(results, name)
    reach = 3.5 * math.sqrt(_law_variance(results, "relu", int(sizes[-1])))
    points = np.linspace(-reach, reach, 601)
    for place, (size, style) in enumerate(zip(sizes, series_styles(len(sizes)), strict=True)):
        variance = _law_variance(results, name, int(size))
        bins = 3.5 * math.sqrt(variance) * np.linspace(-1, 1, 29)
        axes.hist(
            centers[:, place].ravel(),
            bins=bins.tolist(),
            density=True,
            histtype="stepfilled",
            color=style.color,
            alpha=0.25,
        )
        density = np.exp(-(points**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
        axes.plot(points, density, color=style.color, linestyle=style.linestyle, label=f"$D$ = {size:,}")
    axes.set_xlim(-reach, reach)


def _centers(results: Mapping[str, Any], name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sizes and centres (init, size, label)."""
    measured = results[f"{name}-measured"]
    return measured.coordinates["size"].values, measured.variables["center"].values


def _law_variance(results: Mapping[str, Any], name: str, size: int) -> float:
    """C + V/D of theory, at the output."""
    theory = results[f"{name}-theory"]
    return float(theory.center_variance[-1]) + float(theory.data_variance[-1]) / size


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What appendix C says of the centres."""
    said = []
    for name, title in NETWORKS.items():
        sizes, centers = _centers(results, name)
        square = (centers**2).mean(-1)  # (init, size); the two outputs of a network share their hidden layer
        value, stderr, _ = mean_and_stderr(square)
        within = float(results[f"{name}-theory"].data_variance[-1])
        inputs = results[f"{name}-measured"].provenance.settings["inputs"]
        for place, size in enumerate(sizes.tolist()):
            # one data set is drawn: its own centre has |x̄|²/d = (1 ± √(2/d))/D
            one_draw = math.sqrt(2 / inputs) * within / size
            error = math.hypot(float(stderr[place]), one_draw)
            if name == "linear":
                says = f"linear: centres of variance V/D = {within:g}/{size} (eq. 89)"
                said.append(Statement(says, "=", within / size, float(value[place]), error))
            elif place == len(sizes) - 1:
                says = f"ReLU: centres of variance C = 2/π at D = {size}, V/D neglected (eq. 91)"
                said.append(
                    Statement(says, "=", 2 / math.pi, float(value[place]), error, tolerance=within / size)
                )
        kept, spread, _ = ratio_and_stderr(square[:, -1], square[:, 0])
        change = f"from D = {sizes[0]} to {sizes[-1]}"
        if name == "linear":
            says = f"linear: the law narrows {change}: share of its variance that is left"
            said.append(Statement(says, "<", 0.5, float(kept), float(spread)))
        else:
            says = f"{title}: the law stays wide {change}: share of its variance that is left"
            said.append(Statement(says, ">", 0.5, float(kept), float(spread)))
        said.append(
            _shape_statement(
                centers[:, -1, 0], math.sqrt(_law_variance(results, name, int(sizes[-1]))), title
            )
        )
    return said


def _shape_statement(centers: NDArray[np.float64], deviation: float, title: str) -> Statement:
    """Distance of Kolmogorov and Smirnov to the Gaussian of theory, against its 99.7 % quantile 1.8/√n."""
    from scipy.stats import kstest

    found = kstest(centers / deviation, "norm").statistic
    return Statement(
        f"{title}: the law of the centres is that Gaussian: Kolmogorov–Smirnov distance over {len(centers)} networks",
        "<",
        1.8 / math.sqrt(len(centers)),
        float(found),
    )


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"sizes": [10, 40, 160], "inputs": 100, "width": 50, "inits": 40},
        "small": {"sizes": [20, 100, 500], "inputs": 1000, "width": 300, "inits": 500},
        "paper": {"sizes": [100, 1000, 10_000], "inputs": 3072, "width": 10_000, "inits": 10_000},
    },
    departs={
        "small": ("20 to 500 points of 1,000 coordinates, 300 hidden units and 500 initializations",),
        "paper": (
            "the text has lost the sizes of the data set, of the hidden layer and of the ensemble; these are ours",
        ),
    },
)
