"""Figure 1: what the normalized sensitivity χ means, on three networks with one input and one output.

All three see the same inputs x⁰ and are scaled to the same variance of their outputs: (a) inputs lie where the mapping
is flat, χ < 1; (b) the mapping is a constant rescaling, χ = 1; (c) the mapping is chaotic, χ > 1. Section 3 of the
paper: χ is the excess root mean square sensitivity relative to (b),

    χ = √⟨Φ'(x⁰)²⟩ · sd(x⁰) / sd(Φ(x⁰)).

The paper draws sketches. Here (a) is a staircase of two steep tanh units, (c) a deep batch-normalized ReLU net at
initialization with the statistics of the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from firstlight.measurement.measuring import measure
from firstlight.measurement.seeding import data_seed, initialization_seed, seeded, stream
from firstlight.models.kaiming import KaimingLinear
from firstlight.models.pathology_nets import batch_norm_feedforward_net
from firstlight.papers.figure import PaperFigure
from firstlight.papers.jackknife import mean_and_error
from firstlight.papers.work import Work
from firstlight.plots.style import house_style
from firstlight.results.arrays import Arrays
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

NETWORKS = {"flat": "(a) flat at the data", "rescaling": "(b) constant rescaling", "chaotic": "(c) chaotic"}
CLUSTERS, SPREAD = (-1.0, 0.0, 1.0), 0.12
"""Inputs: three clusters, between which the staircase of (a) has its steps."""
SHOWN = 40
"""Points drawn."""
REACH = 1.5
"""The curves are drawn from −REACH to REACH."""
STEP = 1e-4
"""Of the differences that give the slopes independently of ``measure``."""


def _compute(work: Work) -> dict[str, Any]:
    """Of each network its curve with slopes at the inputs, and χ measured with several draws of the noise."""
    inputs = _inputs(work)
    found: dict[str, Any] = {}
    for name in NETWORKS:
        net = _network(name, work, inputs)
        found[f"{name}-curve"] = work.piece(f"{name}-curve", partial(_curve, name, net, inputs, work.seed))
        for draw in range(work["draws"]):
            found[f"{name}-{draw}"] = work.piece(f"{name}-{draw}", partial(_measured, net, inputs, draw))
    return found


def _inputs(work: Work) -> Tensor:
    generator = stream(data_seed(work.seed))
    centers = generator.choice(CLUSTERS, (work["samples"], 1))
    return torch.from_numpy(centers + SPREAD * generator.standard_normal(centers.shape)).float()


def _network(name: str, work: Work, inputs: Tensor) -> nn.Module:
    """The network in evaluation mode; batch norms hold the statistics of the inputs."""
    net: nn.Module
    if name == "rescaling":
        net = nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            net.weight.fill_(1.0)
        return net.eval()
    if name == "flat":
        steps, together = nn.Linear(1, 2), nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            steps.weight.fill_(15.0)
            steps.bias.copy_(15.0 * torch.tensor([0.5, -0.5]))
            together.weight.fill_(0.5)
        return nn.Sequential(steps, nn.Tanh(), together).eval()
    with seeded(initialization_seed(work.seed, 0)):
        body = batch_norm_feedforward_net(1, depth=work["depth"], width=work["width"], kernel=None)
        net = nn.Sequential(body, KaimingLinear(work["width"], 1, weight_variance=1.0, bias=False))
    for item in net.modules():
        if isinstance(item, nn.BatchNorm1d):
            item.momentum = 1.0
    with torch.no_grad():
        net.train()(inputs)
    return net.eval()


@torch.no_grad()
def _curve(name: str, net: nn.Module, inputs: Tensor, seed: int) -> Arrays:
    """The mapping on a grid and at the inputs, with central differences there, in double precision."""
    double = net.double()
    points = inputs.double()
    slopes = (double(points + STEP) - double(points - STEP)) / (2 * STEP)
    grid = torch.linspace(-REACH, REACH, 1201, dtype=torch.float64)[:, None]
    values = {"inputs": points, "outputs": double(points), "slopes": slopes}
    curves = {"grid": grid, "mapping": double(grid)}
    double.float()
    return Arrays.of(
        {
            **{key: ("sample", item[:, 0].numpy()) for key, item in values.items()},
            **{key: ("place", item[:, 0].numpy()) for key, item in curves.items()},
        },
        provenance=Provenance("measurement", name, f"{len(inputs)} inputs in three clusters", seed=seed),
    )


def _measured(net: nn.Module, inputs: Tensor, draw: int) -> Profile:
    return measure(
        net,
        inputs,
        inits=1,
        seed=draw,
        redraw="keep",
        mode="eval",
        quantities=["data_variance", "noise_variance", "sensitivity"],
        layers="output",
        progress=False,
    )


def _draw(results: Mapping[str, Any]) -> Figure:
    """Three panels, each a curve with points, its output scaled to the inputs' deviation."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(9.0, 2.8), dpi=200, layout="constrained")
        for axes, (name, words) in zip(figure.subplots(1, 3, sharey=True), NETWORKS.items(), strict=True):
            curve = {key: item.values for key, item in results[f"{name}-curve"].variables.items()}
            middle, scale = curve["outputs"].mean(), curve["inputs"].std() / curve["outputs"].std()
            axes.plot(curve["grid"], scale * (curve["mapping"] - middle), color="#0072B2", linewidth=1.0)
            axes.plot(
                curve["inputs"][:SHOWN],
                scale * (curve["outputs"][:SHOWN] - middle),
                "o",
                color="#D55E00",
                markerfacecolor="none",
            )
            sensitivity, _ = _sensitivity(results, name)
            axes.set(title=rf"{words}: $\chi$ = {sensitivity:.2f}", xlabel="$x^0$")
            axes.label_outer()
        figure.axes[0].set_ylabel(r"$\Phi(x^0)$, scaled")
    return figure


def _sensitivity(results: Mapping[str, Any], name: str) -> tuple[float, float]:
    """χ of the output, the root of the mean over draws of the noise of χ², and its standard error."""
    draws = [item for key, item in results.items() if key.startswith(f"{name}-") and key != f"{name}-curve"]
    square, error = mean_and_error(np.array([float(item["sensitivity"][-1]) ** 2 for item in draws]))
    return square**0.5, error / (2 * square**0.5)


def _slope_ratio(curve: Arrays) -> float:
    """Root mean square slope relative to the constant rescaling."""
    inputs, outputs, slopes = (curve.variables[key].values for key in ("inputs", "outputs", "slopes"))
    return float(np.sqrt((slopes**2).mean()) * inputs.std() / outputs.std())


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """χ below, at and above 1, and that it is the excess sensitivity."""
    said = []
    for (name, words), relation in zip(NETWORKS.items(), "<=>", strict=True):
        value, error = _sensitivity(results, name)
        said.append(
            Statement(
                f"{words}: χ {relation} 1 (figure 1)",
                relation,
                1.0,
                value,
                error,
                tolerance=1e-5 if relation == "=" else 0.0,
            )
        )
    for name, words in NETWORKS.items():
        ratio = _slope_ratio(results[f"{name}-curve"])
        value, error = _sensitivity(results, name)
        said.append(
            Statement(
                f"{words}: χ measures exactly the excess root mean square sensitivity (section 3.1): χ over that of "
                "differences along the curve",
                "=",
                1.0,
                value / ratio,
                error / ratio,
                tolerance=1e-3,
            )
        )
    return said


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"samples": 100, "depth": 8, "width": 20, "draws": 3},
        "small": {"samples": 5000, "depth": 8, "width": 50, "draws": 20},
        "paper": {"samples": 5000, "depth": 8, "width": 50, "draws": 20},
    },
    departs=dict.fromkeys(
        ("small", "paper"), ("the paper draws sketches; these are three networks whose χ is measured",)
    ),
)
