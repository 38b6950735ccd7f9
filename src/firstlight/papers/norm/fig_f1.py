"""Figure F.1: γ by layer over twenty layers, ReLU against LN + ReLU; the curves lie on each other.

Theorem F.2: layer norm before the ReLU changes nothing about the bias. Measured are both ratios that finite networks
have: of the averages over initializations, C and V each (the paper's), and the average of C/V of each initialization.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.measurement.measuring import measure
from firstlight.papers.figure import PaperFigure
from firstlight.papers.norm.data_sets import data_set
from firstlight.papers.norm.networks import TITLES, perceptron
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement
from firstlight.theory.predicting import predict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

NETWORKS = ("plain", "layer-before")
_FINITE = (
    "theory is of infinite width; in a finite network without a norm the scale of the activations is log-normal, with "
    "variance 5·depth/width, and γ the smaller the narrower it is"
)


def _compute(work: Work) -> dict[str, Profile]:
    data = data_set("noise", work["samples"], seed=work.seed)
    results = {}
    for name in NETWORKS:
        blueprint = perceptron(name, inputs=data.shape[0], depth=work["depth"], width=work["width"])
        results[f"{name}-theory"] = work.piece(f"{name}-theory", partial(predict, blueprint))
        results[f"{name}-measured"] = work.piece(
            f"{name}-measured",
            partial(
                measure,
                blueprint,
                data,
                inits=work["inits"],
                seed=work.seed,
                quantities=["gamma", "center_variance", "data_variance"],
                layers=["linear*", "output"],
                progress=work.progress,
            ),
        )
    return results


def _draw(results: Mapping[str, Any]) -> Figure:
    """Left γ as the paper defines it, right that of single initializations."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(6.4, 2.8), dpi=200, layout="constrained")
        for axes, single in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
            for name, style in zip(NETWORKS, series_styles(2), strict=True):
                theory = results[f"{name}-theory"].gamma.values
                mean, error = _gammas(results[f"{name}-measured"], single=single)
                layers = np.arange(1, len(theory))  # the first is that of the centred inputs, 0
                theory, mean, error = theory[1:], mean[1:], error[1:]
                axes.plot(
                    layers,
                    theory,
                    color=style.color,
                    linestyle=style.linestyle,
                    label=f"{TITLES[name]}, theory",
                )
                axes.errorbar(
                    layers, mean, error, color=style.color, marker=style.marker, linestyle="none",
                    markerfacecolor="white", label=f"{TITLES[name]}, measured",
                )  # fmt: skip
            axes.set(xlabel="layer $l$", yscale="log", ylim=(0.1, 60))
            axes.set_title("mean C / mean V" if not single else "mean of C/V of one initialization")
        figure.axes[0].set_ylabel(r"$\gamma^{(l)}$")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    plain, normed = (results[f"{name}-measured"] for name in NETWORKS)
    depth = len(plain.gamma) - 1
    said = []
    for single, words in ((False, "mean C over mean V"), (True, "mean of C/V")):
        (a, a_error), (b, b_error) = (_gammas(item, single=single) for item in (plain, normed))
        # the first layer's γ is that of centred inputs, 0 but for their finite number
        ratio, error = np.log(b[1:] / a[1:]), np.hypot(a_error[1:] / a[1:], b_error[1:] / b[1:])
        worst = int(np.argmax(np.abs(ratio) / np.maximum(error, 1e-12)))
        said.append(
            Statement(
                f"the curves of ReLU and LN + ReLU overlap (figure F.1): log of their ratio at layer {worst + 1}, "
                f"where it is furthest from 0 in standard errors ({words})",
                "=",
                0.0,
                float(ratio[worst]),
                float(error[worst]),
                because=_FINITE,
            )
        )
    for name, item in zip(NETWORKS, (plain, normed), strict=True):
        theory = float(results[f"{name}-theory"].gamma[-1])
        value, error = _gammas(item, single=True)
        said.append(
            Statement(
                f"{TITLES[name]}: γ after {depth} hidden layers by theory (theorem F.2), mean of C/V",
                "=",
                theory,
                float(value[-1]),
                float(error[-1]),
                because=_FINITE,
            )
        )
    return said


def _gammas(profile: Profile, *, single: bool) -> tuple[np.ndarray, np.ndarray]:
    """γ by layer with standard errors: ratio of averages, or average of the ratios of single initializations."""
    if not single:
        return profile.gamma.values, profile["gamma_stderr"].values
    ratios = profile["center_variance_init"].values / profile["data_variance_init"].values
    return ratios.mean(0), ratios.std(0, ddof=1) / math.sqrt(len(ratios))


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"samples": 50, "depth": 4, "width": 20, "inits": 10},
        "small": {"samples": 200, "depth": 20, "width": 1000, "inits": 40},
        "paper": {"samples": 10_000, "depth": 20, "width": 1000, "inits": 1000},
    },
    departs={"small": ("200 points and 40 initializations; the paper does not say its width",)},
)
