"""The phase diagram: γ after a number of layers, over weight and bias variance, with the edge of chaos.

Enters: a ``PhaseDiagram``. Leaves: a figure whose colour is log₁₀ γ at its depth (blue below γ = 1, vermillion above,
white between), with the line χ_1 = 1 that parts the ordered from the chaotic phase, and the regimes by name. Where γ
is 0 the plane is dotted; where the mean square has no finite value that lives, it is hatched. A diagram over one
variance alone is drawn as a curve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import UsageError
from firstlight.plots.style import PALETTE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from firstlight.results.phase_diagram import PhaseDiagram

__all__ = ["plot_phase_diagram"]

_NAMES = {
    "weight_variance": r"weight variance $\sigma_w^2$",
    "bias_variance": r"bias variance $\sigma_b^2$",
}
_HATCHES = {"divergent": "////", "dead": "\\\\\\\\"}
_DECADES = 3.0
"""The colours reach at most this many decades to each side of γ = 1; beyond, the ends of the bar are pointed."""

_EDGE = 1.0 - 1e-5
"""The slope at which the edge of chaos is drawn: below 1 by more than rounding, because where the slope is 1 on a whole
region (ReLU without a norm, σ_w² ≥ 2) rounding would draw islands there."""


def plot_phase_diagram(diagram: PhaseDiagram) -> Figure:
    """Draw γ at the diagram's depth over the plane of variances (or along the one that varies)."""
    weights, biases = (np.asarray(diagram.coordinates[name].values, dtype=np.float64) for name in _NAMES)
    with house_style():
        if weights.size > 1 and biases.size > 1:
            return _plane(diagram, weights, biases)
        if weights.size == biases.size == 1:
            raise UsageError(
                "plot_phase_diagram: expected a grid of weight or bias variances, got a single point; "
                "pass several values of weight_variance or bias_variance to phases"
            )
        return _curve(diagram, weights, biases)


def _plane(diagram: PhaseDiagram, weights: NDArray[np.float64], biases: NDArray[np.float64]) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    gamma, regime = (
        _gamma(diagram).T,
        _regime(diagram).T,
    )  # (bias_variance, weight_variance): rows run upwards
    with np.errstate(divide="ignore"):
        log_gamma = np.log10(gamma)
    finite = np.abs(log_gamma[np.isfinite(log_gamma)])
    reach = float(np.clip(finite.max(initial=0.5), 0.5, _DECADES))
    colors = LinearSegmentedColormap.from_list(
        "prejudice", [PALETTE["blue"], "#F7F7F7", PALETTE["vermillion"]]
    )
    figure, axes = new_figure(width=3.7, height=2.8)
    # -inf and inf have colours of their own: those of the two ends.
    image = axes.pcolormesh(
        weights,
        biases,
        np.clip(log_gamma, -10 * _DECADES, 10 * _DECADES),
        cmap=colors,
        norm=Normalize(-reach, reach),
        shading="nearest",
        rasterized=True,
    )
    ends = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    extend = ends[bool((log_gamma < -reach).any()), bool((log_gamma > reach).any())]
    bar = figure.colorbar(image, ax=axes, extend=extend, pad=0.02)
    bar.set_label(rf"$\log_{{10}}\,\gamma$ after {diagram.depth} hidden layers")
    low, high = (float(np.clip(edge, -reach, reach)) for edge in (np.nanmin(log_gamma), np.nanmax(log_gamma)))
    bar.ax.set_ylim(min(low, -0.1 * reach), max(high, 0.1 * reach))
    bar.outline.set_linewidth(0.6)
    axes.set_xlabel(_NAMES["weight_variance"])
    axes.set_ylabel(_NAMES["bias_variance"])
    for spine in axes.spines.values():
        spine.set_visible(True)
    axes.set_facecolor("0.85")  # where γ is not defined
    slope = _slope(diagram).T
    if np.nanmin(slope) < _EDGE < np.nanmax(slope):
        axes.contour(weights, biases, slope, levels=[_EDGE], colors="black", linewidths=1.4)
    _hatch(axes, weights, biases, gamma == 0, "....")
    for name, hatch in _HATCHES.items():
        _hatch(axes, weights, biases, regime == name, hatch)
    for name in dict.fromkeys(regime.ravel().tolist()):
        _name_region(axes, weights, biases, regime == name, name)
    return figure


def _curve(diagram: PhaseDiagram, weights: NDArray[np.float64], biases: NDArray[np.float64]) -> Figure:
    axis, place = ("weight_variance", weights) if weights.size > 1 else ("bias_variance", biases)
    gamma, slope = _gamma(diagram).ravel(), _slope(diagram).ravel()
    inside = np.isfinite(gamma) & (gamma > 0)
    figure, axes = new_figure()
    axes.set_yscale("log")
    axes.plot(place, np.where(inside, gamma, np.nan), color=PALETTE["blue"], label="gamma")
    axes.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
    for crossing in _crossings(place, slope - _EDGE):
        axes.axvline(crossing, color="black", linewidth=1.4, linestyle=(0, (5, 1.5)), label="edge of chaos")
        axes.annotate(
            r"$\chi_1 = 1$",
            (crossing, 1.0),
            xytext=(3, -2),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            va="top",
        )
    axes.set_xlabel(_NAMES[axis])
    axes.set_ylabel(rf"$\gamma$ after {diagram.depth} hidden layers")
    return figure


def _hatch(
    axes: Axes,
    weights: NDArray[np.float64],
    biases: NDArray[np.float64],
    inside: NDArray[np.bool_],
    hatch: str,
) -> None:
    if inside.any():
        drawn = axes.contourf(
            weights, biases, inside.astype(float), levels=[0.5, 1.5], colors="none", hatches=[hatch]
        )
        drawn.set_edgecolor("0.35")
        drawn.set_linewidth(0.0)


def _name_region(
    axes: Axes,
    weights: NDArray[np.float64],
    biases: NDArray[np.float64],
    inside: NDArray[np.bool_],
    name: str,
) -> None:
    """Write the regime's name at the point of its region that lies deepest inside, if there is room."""
    from matplotlib.patheffects import withStroke
    from scipy.ndimage import distance_transform_cdt

    if inside.mean() < 0.03:
        return
    depth = distance_transform_cdt(np.pad(inside, 1), metric="chessboard")[1:-1, 1:-1]
    row, column = np.argwhere(depth == depth.max()).mean(axis=0).round().astype(int)
    if not inside[row, column]:
        row, column = np.unravel_index(int(np.argmax(depth)), depth.shape)
    axes.text(
        weights[column],
        biases[row],
        name,
        ha="center",
        va="center",
        fontstyle="italic",
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )


def _crossings(place: NDArray[np.float64], height: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where a curve through these points crosses 0, by the straight line between its neighbours."""
    exact = place[height == 0]
    before, after = height[:-1], height[1:]
    change = before * after < 0
    share = before[change] / (before[change] - after[change])
    return np.sort(np.concatenate([exact, place[:-1][change] + share * np.diff(place)[change]]))


def _gamma(diagram: PhaseDiagram) -> NDArray[np.float64]:
    return np.asarray(diagram.variables["gamma_at_depth"].values, dtype=np.float64)


def _slope(diagram: PhaseDiagram) -> NDArray[np.float64]:
    """χ_1, undefined where the signal dies: there is no correlation left to have a slope."""
    slope = np.asarray(diagram.variables["slope"].values, dtype=np.float64)
    return np.where(_regime(diagram) == "dead", np.nan, slope)


def _regime(diagram: PhaseDiagram) -> NDArray[Any]:
    return np.asarray(diagram.variables["regime"].values, dtype=str)
