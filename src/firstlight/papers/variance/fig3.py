"""Figure 3: mean square gradient by layer: Kaiming initialization, scale + bias initialization, batch norm.

Depth 50, gradients ∂L/∂x^l of a random linear read-out L = w·x^L of the last activation, averaged over networks and
samples. Where the sample variance is preserved they grow backwards by 1/σ_s² = 1/(1 − 1/π) a layer, so that log ⟨(∂L/∂
x^l)²⟩ has the slope log(1 − 1/π) = −0.383 against l; Kaiming's stay. Section 4 of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from firstlight.data.gaussian import gaussian_noise
from firstlight.measurement.measuring import measure
from firstlight.papers.chunks import pooled
from firstlight.papers.figure import PaperFigure
from firstlight.papers.jackknife import jackknife
from firstlight.papers.variance.relu_nets import relu_net
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.remedies.data_dependent import scale_bias_initialization
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

Array = NDArray[np.float64]

SETTINGS = {"kaiming": "Kaiming", "scale-bias": "scale + bias", "batch-norm": "batch norm"}
"""The three panels, with the words for them."""

SLOPES = {"scale-bias": -0.379, "batch-norm": -0.381}
"""What the paper fits, at width 3000."""

THEORY = math.log(1 - 1 / math.pi)
"""Slope where the sample variance is preserved."""

MINIBATCHES = 5


def _compute(work: Work) -> dict[str, Profile]:
    """One Profile a setting."""
    return {
        setting: pooled(work, setting, work["networks"], partial(_measured, work, setting), chunk=2)
        for setting in SETTINGS
    }


def _measured(work: Work, setting: str, seed: int, networks: int) -> Profile:
    inputs, width = work["inputs"], work["width"]
    calibration = gaussian_noise(MINIBATCHES * inputs, width, seed=work.seed).inputs

    def build() -> nn.Module:
        net = relu_net(width, work["depth"], batch_norm=setting == "batch-norm")
        if setting == "scale-bias":
            scale_bias_initialization(net, calibration, batches=MINIBATCHES, batch_size=inputs, in_place=True)
        return net

    return measure(
        build,
        calibration[:inputs],
        inits=networks,
        seed=seed,
        quantities=["gradient_scale"],
        layers=["activation*"],
        progress=False,
    )


def _draw(results: Mapping[str, Any]) -> Figure:
    """Three panels: the average over networks, the networks one by one, the fitted line."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(9.0, 2.8), dpi=200, layout="constrained")
        for axes, (setting, words), style in zip(
            figure.subplots(1, len(SETTINGS)), SETTINGS.items(), series_styles(len(SETTINGS)), strict=True
        ):
            logs = _logs(results[setting])
            layers, average = np.arange(1, logs.shape[1] + 1), _average(logs)
            axes.plot(layers, np.exp(logs.T), color="0.8", linewidth=0.6)
            axes.plot(layers, np.exp(average), color=style.color, label="average over networks")
            slope, constant = np.polyfit(layers, average, 1)
            axes.plot(
                layers, np.exp(constant + slope * layers), "--", color="black", label=f"slope {slope:.3f}"
            )
            axes.set(yscale="log", xlabel="layer $l$", title=words)
            axes.legend(fontsize=7)
            if setting == "kaiming":
                axes.set_ylim(0.03, 30)
                axes.set_ylabel(r"$\langle(\partial L/\partial x^l)^2\rangle$")
    return figure


def _logs(profile: Profile) -> Array:
    """Log ⟨(∂L/∂x^l)²⟩ over samples and units, (network, layer)."""
    return np.asarray(profile.variables["log_gradient_scale_init"].values)


def _average(logs: Array) -> Array:
    """Logarithm of the average over networks."""
    top = logs.max(0)
    return np.asarray(top + np.log(np.exp(logs - top).mean(0)))


def _slope(logs: Array) -> tuple[float, float]:
    """Least-squares slope of the average against the layer, and its standard error over networks."""
    layers = np.arange(1, logs.shape[1] + 1)
    return jackknife(lambda chosen: float(np.polyfit(layers, _average(logs[chosen]), 1)[0]), len(logs))


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """The slopes that section 4 fits and predicts."""
    slopes = {setting: _slope(_logs(results[setting])) for setting in SETTINGS}
    said = [
        Statement(
            "Kaiming: the scale of gradients remains fixed (figure 3): slope of its logarithm",
            "=",
            0.0,
            *slopes["kaiming"],
        )
    ]
    for setting, stated in SLOPES.items():
        words, (slope, error) = SETTINGS[setting], slopes[setting]
        said += [
            Statement(
                f"{words}: fitted slope at width 3000 (section 4)",
                "=",
                stated,
                slope,
                error,
                tolerance=0.0005,
            ),
            Statement(
                f"{words}: predicted slope −log σ_s² = log(1 − 1/π) (section 4)", "=", THEORY, slope, error
            ),
        ]
    return said


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"depth": 8, "width": 30, "inputs": 20, "networks": 3},
        "small": {"depth": 50, "width": 1000, "inputs": 100, "networks": 8},
        "paper": {"depth": 50, "width": 3000, "inputs": 100, "networks": 30},
    },
    departs={"small": ("8 networks of width 1000 instead of 30 of width 3000",)},
)
