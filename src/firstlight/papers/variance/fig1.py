"""Figure 1: left, the sample mean and deviation of a pre-activation by layer; right, its law at layers 1 and 50.

The curves are √2K^{l−1}(0) and √2(1 − K^{l−1}(0)) of section 3.1 with the finite networks of section 3.2 beside them.
The laws are over samples for three units of one network, and over samples and networks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firstlight.data.gaussian import gaussian_noise
from firstlight.measurement.seeding import initialization_seed, seeded, stream
from firstlight.papers.figure import PaperFigure
from firstlight.papers.jackknife import mean_and_error
from firstlight.papers.variance.relu_nets import (
    finite_sample,
    measured_widths,
    preactivations,
    profiles_by_width,
    relu_net,
    theory,
)
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.results.arrays import Arrays
from firstlight.results.provenance import Provenance
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

UNITS = 3
"""Units of one network whose laws are drawn."""
POOLED = 200
"""Units of each network, at most, that make up the law over samples and networks; all units have one law."""
POOLED_SAMPLES = 100


def _compute(work: Work) -> dict[str, Any]:
    """Theory, the networks of each width, and values of single units."""
    return {
        "theory": work.piece("theory", lambda: theory(work["depth"])),
        **measured_widths(work),
        "units": work.piece("units", lambda: _values_of_units(work)),
    }


def _values_of_units(work: Work) -> Arrays:
    """Pre-activations at the first and last layer: of some units of the first network, and of units of all."""
    of = work["laws"]
    data = gaussian_noise(of["inputs"], of["width"], seed=work.seed).inputs
    names = ("linear1", f"linear{work['depth']}")
    units = stream(initialization_seed(work.seed, 0, 1)).permutation(of["width"])[:POOLED]
    values = []
    first: list[NDArray[np.float64]] = []
    for number in range(of["networks"]):
        with seeded(initialization_seed(work.seed, number)):
            net = relu_net(of["width"], work["depth"])
        found = [layer[:, units].T.numpy() for layer in _outputs(net, data, names)]  # (unit, sample) each
        values.append([layer[:, :POOLED_SAMPLES] for layer in found])
        first = first or [layer[:UNITS] for layer in found]
    return Arrays.of(
        {
            "units": (("layer", "unit", "sample"), first),
            "everything": (("init", "layer", "pooled", "pooled_sample"), np.array(values)),
        },
        provenance=Provenance(
            "measurement",
            f"ReLU net, {of['width']} wide, {work['depth']} deep",
            f"{of['inputs']} inputs N(0, 1)",
            seed=work.seed,
        ),
    )


def _outputs(net: nn.Sequential, data: torch.Tensor, names: Sequence[str]) -> list[torch.Tensor]:
    """What the named children of a Sequential return."""
    found = {}
    with torch.no_grad():
        for name, layer in net.named_children():
            data = layer(data)
            if name in names:
                found[name] = data
    return [found[name] for name in names]


def _draw(results: Mapping[str, Any]) -> Figure:
    """Left the curves, right two rows (layers 1 and 50) of four laws."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(9.6, 3.6), dpi=200, layout="constrained")
        left, right = np.asarray(figure.subfigures(1, 2, width_ratios=[1, 1.5]))
        _draw_curves(left.subplots(), results)
        axes = right.subplots(2, UNITS + 1, sharex="row")
        units, everything = (results["units"][name].values for name in ("units", "everything"))
        depth = len(results["theory"].layers) - 1
        for row, layer in enumerate((1, depth)):
            reach = 3.5 * float(everything[:, row].std())
            for column in range(UNITS + 1):
                over_all = column == UNITS
                shown = everything[:, row].ravel() if over_all else units[row, column]
                axes[row, column].hist(
                    shown,
                    bins=np.linspace(-reach, reach, 60),
                    density=True,
                    color="#D55E00" if over_all else "#0072B2",
                )
                axes[row, column].set(yticks=[], xlim=(-reach, reach))
                if row == 0:
                    axes[row, column].set_title("all networks" if over_all else f"unit {column + 1}")
            axes[row, 0].set_ylabel(f"density at layer {layer}")
        right.supxlabel("pre-activation $u$", fontsize=9)
    return figure


def _draw_curves(axes: Axes, results: Mapping[str, Any]) -> None:
    """m, v and σ by layer: lines for theory, markers for the finite networks."""
    from matplotlib.lines import Line2D

    samples = _samples(results)
    predicted = finite_sample(results["theory"], samples)
    layers = np.arange(1, len(predicted["m2"]) + 1)
    names = ("m", "v", r"\sigma")
    curves = (predicted["m2"], predicted["v2"], predicted["m2"] + predicted["v2"])
    lines = []
    for name, curve, style in zip(names, curves, series_styles(3), strict=True):
        [line] = axes.plot(layers, np.sqrt(curve), color=style.color, linestyle=style.linestyle)
        line.set_label(f"${name}$")
        lines.append(line)
    chosen = np.unique(np.geomspace(1, len(layers), 9).astype(int)) - 1
    widths = profiles_by_width(results)
    shades = np.linspace(0.25, 1, len(widths))
    for (width, profile), shade, marker in zip(widths.items(), shades, "ov^sD", strict=False):
        for quantity, line in zip(("center_variance", "data_variance"), lines, strict=False):
            found = np.sqrt(preactivations(profile, quantity).mean(0))
            axes.plot(
                layers[chosen],
                found[chosen],
                marker,
                color=line.get_color(),
                alpha=shade,
                markersize=3,
                linestyle="none",
            )
        lines.append(
            Line2D([], [], color="0.3", alpha=shade, marker=marker, linestyle="none", label=f"width {width}")
        )
    axes.set(
        xlabel="layer $l$", ylabel="network average", ylim=(0, None), title=f"lines: theory, {samples} inputs"
    )
    axes.legend(handles=lines, ncols=2, fontsize=7)


def _samples(results: Mapping[str, Any]) -> int:
    return int(next(iter(profiles_by_width(results).values())).provenance.settings["samples"])


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What sections 2 and 3.1 say of the curves and the laws."""
    widths, samples = profiles_by_width(results), _samples(results)
    width, profile = max(widths.items())
    predicted = finite_sample(results["theory"], samples)
    depth = len(predicted["m2"])
    variances = {
        name: preactivations(profile, name) for name in ("center_variance", "data_variance", "mean_square")
    }
    said = [_total(variances["mean_square"], layer, width, samples) for layer in (1, depth)]
    said += [
        _first_mean(variances["center_variance"], width),
        *_against_theory(variances, predicted, depth, width, samples),
        _decays(variances["data_variance"], width),
        _subexponential(variances["data_variance"], width),
        *_laws(results["units"]["everything"].values, depth),
    ]
    return said


def _total(mean_square: NDArray[np.float64], layer: int, width: int, samples: int) -> Statement:
    """σ² = 2, given how far the mean square of the drawn inputs may be from 1."""
    value, error = mean_and_error(mean_square[:, layer - 1])
    drawn = 2 * math.sqrt(2 / (samples * width))
    return Statement(
        f"the total variance of layer {layer} is σ² = 2 (section 2.1), width {width}",
        "=",
        2.0,
        value,
        math.hypot(error, drawn),
    )


def _first_mean(center: NDArray[np.float64], width: int) -> Statement:
    value, error = mean_and_error(center[:, 0])
    return Statement(
        f"m² of layer 1 is 2K(0) = 0.637 (equation 8 as printed), width {width}",
        "=",
        2 / math.pi,
        value,
        error,
        because="equation 8 counts one layer too many: by equation 6 the m² of layer l comes from the cosine of layer "
        "l − 1, so layer 1 has 2K⁰(0) = 0, and v²/T is left for T inputs",
    )


def _against_theory(
    variances: Mapping[str, NDArray[np.float64]],
    predicted: Mapping[str, NDArray[np.float64]],
    depth: int,
    width: int,
    samples: int,
) -> list[Statement]:
    """Deviations in the middle and at the end, as shares of σ², which do not feel a network's overall scale."""
    said = []
    for layer in (depth // 5, depth):
        share = variances["data_variance"][:, layer - 1] / variances["mean_square"][:, layer - 1]
        expected = predicted["v2"][layer - 1] / (predicted["v2"] + predicted["m2"])[layer - 1]
        value, error = mean_and_error(share)
        said.append(
            Statement(
                f"v²/σ² of layer {layer} is 1 − K^{layer - 1}(0) for {samples} inputs (section 3.1), width {width}",
                "=",
                float(expected),
                value,
                error,
                because="finite width keeps more of the sample variance than theory (section 3.2)"
                if abs(value - expected) > 3 * error
                else "",
            )
        )
    return said


def _decays(data: NDArray[np.float64], width: int) -> Statement:
    value, error = mean_and_error(np.sqrt(data[:, -1] / data[:, 0]))
    return Statement(
        f"the sample deviation decays with depth: v of the last layer over v of layer 1 (section 3.1), width {width}",
        "<",
        1.0,
        value,
        error,
    )


def _subexponential(data: NDArray[np.float64], width: int) -> Statement:
    """Rate of decay of log v a layer over the last fifth, less the rate over the first fifth."""
    logs = 0.5 * np.log(data)
    part = max(logs.shape[1] // 5, 1)
    early = (logs[:, 0] - logs[:, part]) / part
    late = (logs[:, -1 - part] - logs[:, -1]) / part
    value, error = mean_and_error(early - late)
    return Statement(
        f"the decay slows down (section 3.1.1): rate over the first fifth less rate over the last, width {width}",
        ">",
        0.0,
        value,
        error,
    )


def _laws(everything: NDArray[np.float64], depth: int) -> list[Statement]:
    """Deviation over samples of single units over the deviation over samples and networks."""
    said = []
    for row, layer, relation, expected, words in (
        (0, 1, "=", 1.0, "the laws over samples, and over samples and networks, are similar"),
        (1, depth, "<", 0.5, "the deviation over samples has decayed to less than half of the whole"),
    ):
        values = everything[:, row]  # (network, unit, sample)
        ratio = np.sqrt(values.var(axis=2).mean(axis=1) / values.var())
        value, error = mean_and_error(ratio)
        said.append(
            Statement(
                f"{words} at layer {layer} (figure 1, right): ratio of deviations",
                relation,
                expected,
                value,
                error,
                tolerance=1 / values.shape[2],
            )
        )
    return said


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {
            "depth": 10,
            "inputs": 20,
            "networks": [[30, 4], [100, 4]],
            "laws": {"width": 50, "inputs": 100, "networks": 4},
        },
        "small": {
            "depth": 50,
            "inputs": 100,
            "networks": [[30, 30], [100, 30], [300, 30], [1000, 30], [3000, 6]],
            "laws": {"width": 500, "inputs": 500, "networks": 10},
        },
        "paper": {
            "depth": 50,
            "inputs": 100,
            "networks": [[30, 30], [100, 30], [300, 30], [1000, 30], [3000, 30]],
            "laws": {"width": 3000, "inputs": 10_000, "networks": 30},
        },
    },
    departs={
        "small": (
            "6 networks of width 3000 instead of 30",
            "laws of units from networks of width 500 with 500 inputs, 10 of them for the law over networks",
        )
    },
)
