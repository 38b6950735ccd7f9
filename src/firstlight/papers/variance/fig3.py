"""Figure 3: mean square gradient by layer: Kaiming initialization, scale + bias initialization, batch norm.

Depth 50, gradients ∂L/∂x^l of a random linear read-out L = w·x^L of the last activation, averaged over networks and
samples. A network has one w ~ N(0, 1) for all samples; where batch norm couples them, that is not the same as a w for
each, which is what ``gradient_scale`` has without a loss: the last batch norm lets nothing pass that is common to the
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
from firstlight.papers.variance.relu_nets import relu_net, total, with_read_out
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

REASONS = {
    "scale-bias": "in the last layers single inputs outgrow the others, whose scale only the layer's average holds; "
    "the layer is then steered by them and its gradients stop growing; wider networks get there deeper",
    "batch-norm": "the informal argument takes σ_s for one number; it scatters between units, the more the fewer "
    "inputs are in the batch, and how many the paper takes is not said (compare the batches below)",
}
"""Likely, where the slopes differ."""

MINIBATCHES = 5


def _compute(work: Work) -> dict[str, Profile]:
    """One Profile a setting, and batch norm again with batches of several sizes."""
    found = {setting: _networks(work, setting, setting, work[setting]) for setting in SETTINGS}
    of = work["batches"]
    for inputs in of["inputs"]:
        name = f"batch-of-{inputs}"
        found[name] = _networks(work, name, "batch-norm", {**of, "inputs": inputs})
    return found


def _networks(work: Work, name: str, setting: str, of: Mapping[str, Any]) -> Profile:
    return pooled(
        work, name, of["networks"], partial(_measured, work.seed, setting, work["depth"], of), chunk=1
    )


def _measured(
    data_seed: int, setting: str, depth: int, of: Mapping[str, Any], seed: int, networks: int
) -> Profile:
    inputs, width = of["inputs"], of["width"]
    calibration = gaussian_noise(MINIBATCHES * inputs, width, seed=data_seed).inputs

    def build() -> nn.Module:
        net = relu_net(width, depth, batch_norm=setting == "batch-norm")
        if setting == "scale-bias":
            scale_bias_initialization(net, calibration, batches=MINIBATCHES, batch_size=inputs, in_place=True)
        return with_read_out(net, width)

    return measure(
        build,
        calibration[:inputs],
        inits=networks,
        seed=seed,
        quantities=["gradient_scale"],
        layers=["activation*"],
        loss=total,
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
    """Log ⟨(∂L/∂x^l)²⟩ over samples and units, (network, layer), without the read-out itself, which is last."""
    return np.asarray(profile.variables["log_gradient_scale_init"].values[:, :-1])


def _average(logs: Array) -> Array:
    """Logarithm of the average over networks."""
    top = logs.max(0)
    return np.asarray(top + np.log(np.exp(logs - top).mean(0)))


def _slope(logs: Array) -> tuple[float, float]:
    """Least-squares slope of the average against the layer, and its standard error over networks."""
    layers = np.arange(1, logs.shape[1] + 1)
    return jackknife(lambda chosen: float(np.polyfit(layers, _average(logs[chosen]), 1)[0]), len(logs))


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """The slopes that section 4 fits and predicts, and how batch norm's depends on the batch."""
    slopes = {name: _slope(_logs(profile)) for name, profile in results.items()}
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
        for says, expected, rounding in (
            ("fitted slope at width 3000 (section 4)", stated, 0.0005),
            ("predicted slope −log σ_s² = log(1 − 1/π) (section 4)", THEORY, 0.0),
        ):
            off = abs(slope - expected) > 3 * error + rounding
            said.append(
                Statement(
                    f"{words}: {says}",
                    "=",
                    expected,
                    slope,
                    error,
                    tolerance=rounding,
                    because=REASONS[setting] if off else "",
                )
            )
    batches = sorted(int(name.removeprefix("batch-of-")) for name in results if name.startswith("batch-of-"))
    (steep, steep_error), (flat, flat_error) = (slopes[f"batch-of-{batches[end]}"] for end in (0, -1))
    said.append(
        Statement(
            f"batch norm (ours): gradients grow faster in small batches: slope with {batches[-1]} inputs less that "
            f"with {batches[0]}",
            ">",
            0.0,
            flat - steep,
            math.hypot(steep_error, flat_error),
        )
    )
    return said


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {
            "depth": 8,
            **{setting: {"width": 30, "inputs": 20, "networks": 3} for setting in SETTINGS},
            "batches": {"width": 30, "inputs": [10, 40], "networks": 3},
        },
        "small": {
            "depth": 50,
            "kaiming": {"width": 1000, "inputs": 100, "networks": 8},
            "scale-bias": {"width": 3000, "inputs": 100, "networks": 3},
            "batch-norm": {"width": 1000, "inputs": 100, "networks": 8},
            "batches": {"width": 300, "inputs": [30, 100, 1000], "networks": 3},
        },
        "paper": {
            "depth": 50,
            **{setting: {"width": 3000, "inputs": 100, "networks": 30} for setting in SETTINGS},
            "batches": {"width": 3000, "inputs": [30, 100, 1000], "networks": 30},
        },
    },
    departs={
        "small": (
            "8 networks of width 1000 instead of 30 of width 3000 (Kaiming and batch norm), 3 of width 3000 "
            "(scale + bias)",
            "100 inputs, as in figure 2: the paper does not say how many",
        ),
        "paper": ("100 inputs, as in figure 2: the paper does not say how many",),
    },
)
