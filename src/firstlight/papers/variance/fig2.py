"""Figure 2: the mean-std ratio r (equation 9) by layer: networks of finite width, ALL-CNN-C, U-Net.

Lines are means over initializations, bands their standard deviations; the dashed line is theory for infinite width.
Layers are convolutions in running order, and ALL-CNN-C's last is the linear layer behind the global pooling. Every
position of a channel is a unit, as equation 9 is written; counted by channel (dotted), up-convolutions look otherwise,
see ``position_ratios.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstlight.data.loading import load
from firstlight.measurement.seeding import data_seed, stream
from firstlight.models.all_cnn import all_cnn_c
from firstlight.models.unets import u_net
from firstlight.papers.figure import PaperFigure
from firstlight.papers.jackknife import bounded, mean_and_error
from firstlight.papers.variance.position_ratios import position_ratios
from firstlight.papers.variance.relu_nets import (
    finite_sample,
    measured_widths,
    preactivations,
    profiles_by_width,
    theory,
)
from firstlight.papers.work import Work
from firstlight.plots.style import Series, house_style, series_styles
from firstlight.results.arrays import Arrays
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

Array = NDArray[np.float64]

PEAK = 12
"""The layer of U-Net around which the paper sees the ratio turn."""


def _compute(work: Work) -> dict[str, Any]:
    """Theory, the networks of each width, and both convolutional networks."""
    return {
        "theory": work.piece("theory", lambda: theory(work["depth"])),
        **measured_widths(work),
        "all-cnn-c": position_ratios(
            work, "all-cnn-c", work["all_cnn_c"]["inits"], all_cnn_c, partial(_cifar, work)
        ),
        "u-net": position_ratios(
            work,
            "u-net",
            work["u_net"]["inits"],
            partial(u_net, width=work["u_net"]["width"]),
            partial(_squares, work),
        ),
    }


def _cifar(work: Work) -> Tensor:
    pictures = load("cifar10", root=work.data_root, samples=work["all_cnn_c"]["samples"], seed=work.seed)
    return pictures.standardize("per-channel").inputs


def _squares(work: Work) -> Tensor:
    """Squares at random places of random slices; whole slices where a side is 512."""
    of = work["u_net"]
    slices = load("isbi2012", root=work.data_root).standardize("per-channel").inputs
    count, side, full = of["samples"], of["side"], slices.shape[-1]
    generator = stream(data_seed(work.seed))
    chosen = np.resize(generator.permutation(len(slices)), count)
    corners = generator.integers(0, full - side + 1, (count, 2))
    return torch.stack(
        [
            slices[index, :, row : row + side, column : column + side]
            for index, (row, column) in zip(chosen, corners, strict=True)
        ]
    )


def _draw(results: Mapping[str, Any]) -> Figure:
    """Three panels, the ratio against the layer."""
    from matplotlib.figure import Figure

    widths = profiles_by_width(results)
    limit = np.sqrt(results["theory"].variables["gamma"].values[:-1])
    with house_style():
        figure = Figure(figsize=(9.0, 2.9), dpi=200, layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        for (width, profile), style in zip(widths.items(), series_styles(len(widths)), strict=True):
            _band(left, preactivations(profile, "mean_std_ratio"), style, f"$n$ = {width}")
        left.plot(np.arange(1, len(limit) + 1), _bound(results), "--", color="black", label="theory")
        left.set(title="ReLU MLP, i.i.d. inputs")
        for axes, name, title in (
            (middle, "all-cnn-c", "ALL-CNN-C, CIFAR-10"),
            (right, "u-net", "U-Net, ISBI 2012"),
        ):
            ratios = _measured(results[name])
            _band(axes, ratios, series_styles(1)[0], "measured")
            by_channel = results[name].variables["channel_ratio"].values.mean(0)
            axes.plot(np.arange(1, len(by_channel) + 1), by_channel, ":", color="0.5", label="by channel")
            shown = limit[: ratios.shape[1]]
            axes.plot(np.arange(1, len(shown) + 1), shown, "--", color="black", label="wide MLP, theory")
            axes.set(title=title)
        for axes in (left, middle, right):
            axes.set(xlabel="layer $l$", ylim=(0, None))
            axes.legend(fontsize=7)
        left.set_ylabel("mean-std ratio $r^l$")
    return figure


def _band(axes: Axes, ratios: Array, style: Series, label: str) -> None:
    layers, mean, deviation = np.arange(1, ratios.shape[1] + 1), ratios.mean(0), ratios.std(0, ddof=1)
    axes.plot(layers, mean, color=style.color, label=label)
    axes.fill_between(layers, mean - deviation, mean + deviation, color=style.color, alpha=0.2, linewidth=0)


def _measured(ratios: Arrays) -> Array:
    """Ratios (init, layer) of all layers, the output among them."""
    return np.asarray(ratios.variables["ratio"].values)


def _bound(results: Mapping[str, Any]) -> Array:
    """Theory for as many inputs as the networks of each width saw."""
    samples = next(iter(profiles_by_width(results).values())).provenance.settings["samples"]
    return finite_sample(results["theory"], samples)["r"]


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What sections 3.2 and 3.3 say."""
    return [*_of_widths(results), *_of_all_cnn_c(results), *_of_u_net(results)]


def _of_widths(results: Mapping[str, Any]) -> list[Statement]:
    bound = float(_bound(results)[-1])
    last = {
        width: preactivations(profile, "mean_std_ratio")[:, -1]
        for width, profile in profiles_by_width(results).items()
    }
    said = []
    for width, ratios in last.items():
        said.append(
            bounded(
                "theory bounds the ratio of finite networks (section 3.2): r over theory at the last layer, "
                f"width {width}",
                "<",
                1.0,
                ratios / bound,
            )
        )
    for narrow, wide in zip(list(last)[:-1], list(last)[1:], strict=True):
        (low, low_error), (high, high_error) = (mean_and_error(last[width]) for width in (narrow, wide))
        said.append(
            Statement(
                f"the ratio of the last layer approaches theory as width grows (section 3.2): from {narrow} to {wide}",
                ">",
                0.0,
                (high - low) / bound,
                float(np.hypot(low_error, high_error)) / bound,
            )
        )
    return said


def _of_all_cnn_c(results: Mapping[str, Any]) -> list[Statement]:
    ratios = _measured(results["all-cnn-c"])
    steps = np.diff(ratios, axis=1)
    least = int(steps.mean(0).argmin())
    value, error = mean_and_error(steps[:, least])
    layers = ratios.shape[1]
    limit = float(np.sqrt(results["theory"].variables["gamma"].values[layers - 1]))
    last, last_error = mean_and_error(ratios[:, -1])
    return [
        Statement(
            "ALL-CNN-C: the ratio increases in all layers (section 3.3): smallest step of r, "
            f"from layer {least + 1} to {least + 2}",
            ">",
            0.0,
            value,
            error,
            because="the ninth convolution has only ten channels: a network's ratio scatters widely there, and the "
            "mean ratio lies below the root of the mean square, which a matrix preserves (equation 10)"
            if least == 7 and value < 3 * error
            else "",
        ),
        Statement(
            f"ALL-CNN-C: the last layer's ratio is higher than a wide MLP's at layer {layers} (section 3.3)",
            ">",
            limit,
            last,
            last_error,
        ),
    ]


def _of_u_net(results: Mapping[str, Any]) -> list[Statement]:
    ratios = _measured(results["u-net"])
    layers = ratios.shape[1]
    peak, peak_error = mean_and_error(ratios.argmax(1) + 1.0)
    limit = np.sqrt(results["theory"].variables["gamma"].values[:layers])
    excess = ratios[:, :PEAK] - limit[:PEAK]
    least = int(excess.mean(0).argmin())
    return [
        Statement("U-Net has 23 convolutions (section 3.3)", "=", 23.0, float(layers)),
        Statement(
            "U-Net: the ratio increases up to around layer 12 (section 3.3): layer of its greatest value",
            "=",
            float(PEAK),
            peak,
            peak_error,
            tolerance=1.0,
        ),
        bounded(
            f"U-Net: it decreases significantly afterwards (section 3.3): log r, layer {layers} less layer {PEAK}",
            "<",
            0.0,
            np.log(ratios[:, -1] / ratios[:, PEAK - 1]),
        ),
        bounded(
            "U-Net: up to layer 12 the ratio is higher than predicted (section 3.3): smallest excess, "
            f"layer {least + 1}",
            ">",
            0.0,
            excess[:, least],
        ),
    ]


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {
            "depth": 23,
            "inputs": 20,
            "networks": [[30, 4], [100, 4]],
            "all_cnn_c": {"samples": 4, "inits": 2},
            "u_net": {"samples": 4, "side": 32, "width": 4, "inits": 2},
        },
        "small": {
            "depth": 50,
            "inputs": 100,
            "networks": [[30, 30], [100, 30], [300, 30], [1000, 30], [3000, 6]],
            "all_cnn_c": {"samples": 50, "inits": 30},
            "u_net": {"samples": 64, "side": 64, "width": 32, "inits": 12},
        },
        "paper": {
            "depth": 50,
            "inputs": 100,
            "networks": [[30, 30], [100, 30], [300, 30], [1000, 30], [3000, 30]],
            "all_cnn_c": {"samples": 1000, "inits": 30},
            "u_net": {"samples": 30, "side": 512, "width": 64, "inits": 30},
        },
    },
    departs={
        "small": (
            "6 networks of width 3000 instead of 30",
            "ALL-CNN-C on 50 pictures (the paper does not say how many)",
            "12 U-Nets of width 32 instead of 30 of width 64, on 64 squares of 64 × 64 pixels instead of whole slices",
        ),
        "paper": (
            "1,000 pictures for ALL-CNN-C and all 30 slices for U-Net: the paper does not say how many",
        ),
    },
)
