"""Figure 2: vanilla nets; histograms of (a) log ν2(x^l) − log ν2(x⁰) and (b) log μ2(dx^l) − log μ2(dx⁰) at four depths.

Over the histograms of the fully-connected net lies the diffusion law N(−s²/2, s²) of ``diffusion.py`` for one of the
batches. Section 5 of the paper, theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firstlight.data.loading import load
from firstlight.papers.figure import PaperFigure
from firstlight.papers.moments.diffusion import noise_diffusion, signal_diffusion
from firstlight.papers.moments.simulations import GEOMETRIES, along, fresh_batches, simulated
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.results.arrays import Arrays
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

Array = NDArray[np.float64]

MOMENTS = {
    "mean_square": r"$\log\,\nu_2(x^l) - \log\,\nu_2(x^0)$",
    "noise_variance": r"$\log\,\mu_2(dx^l) - \log\,\mu_2(dx^0)$",
}
PARTS = 4
"""Depths shown: quarters of the net, 50, 100, 150, 200 in the paper."""


def _compute(work: Work) -> dict[str, Any]:
    """Simulations of both geometries, and the law for the fully-connected net."""
    quantities = ("gamma", "center_variance", "data_variance", *MOMENTS)
    found: dict[str, Any] = {
        geometry: simulated(work, "vanilla", geometry, quantities=quantities, chunk=50)
        for geometry in GEOMETRIES
    }
    found["law"] = work.piece("law", lambda: _law(work))
    return found


def _law(work: Work) -> Arrays:
    """s² by depth, for one batch."""
    of = work["dense"]
    pictures = load("cifar10", root=work.data_root)
    [batch] = fresh_batches(pictures, 1, size=of["batch"], seed=work.seed, flatten=True)
    points = batch.double().numpy()
    gram, sizes = points @ points.T, {"width": of["width"], "depth": of["length"]}
    return Arrays.of(
        {
            "mean_square": ("layer", signal_diffusion(gram, **sizes)),
            "noise_variance": ("layer", noise_diffusion(gram, inputs=points.shape[1], **sizes)),
        },
        provenance=Provenance(
            "theory", "vanilla net", f"a batch of {of['batch']} pictures", seed=work.seed, settings=sizes
        ),
    )


def _logs(profile: Profile, moment: str) -> dict[int, Array]:
    """Logarithm of a moment relative to the input, whose mean square is 1, at the four depths."""
    curve = along(profile, moment, "activation{}")
    last = int(curve.depths[-1])
    depths = [last * part // PARTS for part in range(1, PARTS + 1)]
    return {depth: np.log(curve.at(depth)) for depth in depths}


def _draw(results: Mapping[str, Any]) -> Figure:
    """A row each geometry, a column each moment."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.4, 5.0), dpi=200, layout="constrained")
        axes = figure.subplots(len(GEOMETRIES), len(MOMENTS))
        for row, (geometry, words) in enumerate(GEOMETRIES.items()):
            for column, (moment, label) in enumerate(MOMENTS.items()):
                law = results["law"][moment].values if geometry == "dense" else None
                _draw_laws(axes[row, column], _logs(results[geometry], moment), law)
                axes[row, column].set(xlabel=label, yticks=[], title=f"({'ab'[column]}) {words}")
            axes[row, 0].set_ylabel("density over simulations")
    return figure


def _draw_laws(axes: Axes, logs: Mapping[int, Array], law: Array | None) -> None:
    for (depth, values), style in zip(logs.items(), series_styles(len(logs)), strict=True):
        axes.hist(values, bins="auto", density=True, color=style.color, alpha=0.35, label=f"$l$ = {depth}")
        if law is not None:
            variance = float(law[depth - 1])
            points = np.linspace(-variance / 2 - 4 * variance**0.5, -variance / 2 + 4 * variance**0.5, 200)
            density = np.exp(-((points + variance / 2) ** 2) / (2 * variance)) / math.sqrt(
                2 * math.pi * variance
            )
            axes.plot(points, density, color=style.color, linewidth=1.0)
    axes.legend(fontsize=7, title=None if law is None else "lines: law", title_fontsize=7)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What section 5 says of the two moments, and the law."""
    said = []
    for geometry in GEOMETRIES:
        for moment, name in (("mean_square", "ν2(x)"), ("noise_variance", "μ2(dx)")):
            logs = _logs(results[geometry], moment)
            said += _of_logs(f"{GEOMETRIES[geometry]}, log {name}", logs)
            if geometry == "dense":
                said += _of_law(name, logs, results["law"][moment].values, _width(results))
    return said


def _width(results: Mapping[str, Any]) -> int:
    return int(results["law"].provenance.settings["width"])


def _of_logs(name: str, logs: Mapping[int, Array]) -> list[Statement]:
    (early, first), (late, last) = min(logs.items()), max(logs.items())
    count, variance = len(last), float(last.var(ddof=1))
    growth = float(np.log(variance / first.var(ddof=1)))
    standardized = (last - last.mean()) / last.std()
    return [
        Statement(
            f"{name}: negative expectation that decreases slowly (section 5): mean at layer {late} less at {early}",
            "<",
            0.0,
            float((last - first).mean()),
            float((last - first).std(ddof=1) / math.sqrt(count)),
        ),
        Statement(
            f"{name}: slowly increasing variance (section 5): log ratio, layer {late} over {early}",
            ">",
            0.0,
            growth,
            2 / math.sqrt(count - 1),
        ),
        Statement(
            f"{name}: nearly Gaussian (section 5): skewness at layer {late}",
            "=",
            0.0,
            float((standardized**3).mean()),
            math.sqrt(6 / count),
        ),
        Statement(
            f"{name}: nearly Gaussian (section 5): kurtosis at layer {late}",
            "=",
            3.0,
            float((standardized**4).mean()),
            math.sqrt(24 / count),
        ),
        Statement(
            f"{name}: mean and variance oppose, so that the expectation is kept (section 5): mean + variance/2 "
            f"at layer {late}",
            "=",
            0.0,
            float(last.mean()) + variance / 2,
            math.sqrt(variance / count + variance**2 / (2 * (count - 1))),
        ),
    ]


def _of_law(name: str, logs: Mapping[int, Array], law: Array, width: int) -> list[Statement]:
    """Mean and variance at the last depth against the law, whose next order is 4/N of it."""
    late, last = max(logs.items())
    variance, count = float(law[late - 1]), len(last)
    found = float(last.var(ddof=1))
    because = (
        "the law is of leading order, and takes the alignment of the noises for certain, which fluctuates too"
        if name == "μ2(dx)"
        else "the law is of leading order in depth/width"
    )
    measured_mean, mean_error = float(last.mean()), math.sqrt(found / count)
    off_mean = abs(measured_mean + variance / 2) > 3 * mean_error + 2 * variance / width
    error = found * math.sqrt(2 / (count - 1))
    off = abs(found - variance) > 3 * error + 4 * variance / width
    return [
        Statement(
            f"diffusion law (ours): mean of log {name} at layer {late} is −s²/2",
            "=",
            -variance / 2,
            measured_mean,
            mean_error,
            tolerance=2 * variance / width,
            because=because if off_mean else "",
        ),
        Statement(
            f"diffusion law (ours): variance of log {name} at layer {late} is s²",
            "=",
            variance,
            found,
            error,
            tolerance=4 * variance / width,
            because=because if off else "",
        ),
    ]


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {
            "dense": {"length": 8, "width": 16, "batch": 8, "simulations": 4, "every": 2},
            "convolutional": {"length": 8, "width": 4, "batch": 2, "simulations": 4, "every": 2},
        },
        "small": {
            "dense": {"length": 200, "width": 128, "batch": 64, "simulations": 200, "every": 50},
            "convolutional": {"length": 200, "width": 32, "batch": 8, "simulations": 50, "every": 50},
        },
        "paper": {
            "dense": {"length": 200, "width": 128, "batch": 1024, "simulations": 10_000, "every": 50},
            "convolutional": {"length": 200, "width": 128, "batch": 1024, "simulations": 10_000, "every": 50},
        },
    },
    departs={
        "small": (
            "200 simulations of 64 pictures (fully connected) and 50 of 8 (convolutional) instead of 10,000 of 1,024",
            "convolutions of 32 channels instead of 128: at 200 layers they have diffused four times as far",
        )
    },
)
