"""γ against depth: how fast a prejudice grows, for several networks or for theory beside measurement.

Enters: profiles. Leaves: a figure with γ on a logarithmic axis against the number of hidden layers passed, and
the line γ = 1 that parts weak from deep prejudice. A γ of 0 (neutral) has no place on a logarithmic axis and is
marked on its floor, an infinite one on its ceiling. Profiles of theory are lines; those of measurement are
markers with a band of ±2 standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import CouldNotError, UsageError
from firstlight.plots.style import Series, house_style, new_figure, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from firstlight.results.profile import Profile

__all__ = ["plot_gamma_by_depth"]

_WEIGHT_LAYERS = ("dense", "convolution", "residual")


def plot_gamma_by_depth(
    *profiles: Profile, labels: Sequence[str] | None = None, every_layer: bool = False
) -> Figure:
    """Draw γ along the trunk of each network: behind every weight layer, and behind every residual sum.

    Args:
        profiles: One or more.
        labels: One for each; their models by default.
        every_layer: Draw every layer at its place in the running order, norms and activations and the insides of
            residual units included. Otherwise the k-th point, counted from 0, has k hidden layers (or residual
            units) before it.
    """
    from matplotlib.ticker import MaxNLocator

    if not profiles:
        raise UsageError("plot_gamma_by_depth: expected at least one Profile, got none")
    names = (
        [profile.provenance.model.splitlines()[0] for profile in profiles] if labels is None else list(labels)
    )
    if len(names) != len(profiles):
        raise UsageError(
            f"plot_gamma_by_depth(labels): expected one for each of the {len(profiles)} profiles, got {len(names)}"
        )
    drawn = [_gammas(profile, every_layer) for profile in profiles]
    with house_style():
        figure, axes = new_figure(height=2.4 + 0.16 * math.ceil(len(profiles) / 2))
        axes.set_yscale("log")
        _set_limits(axes, drawn)
        _name_regimes(axes)
        for profile, name, (gamma, stderr), style in zip(
            profiles, names, drawn, series_styles(len(profiles)), strict=True
        ):
            _draw(axes, gamma, stderr, style, name, measured=profile.provenance.engine == "measurement")
        axes.set_xlabel("layer" if every_layer else "hidden layers passed")
        axes.set_ylabel(r"$\gamma$ (centre variance / data variance)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(profiles) > 1 or labels is not None:
            figure.legend(loc="outside upper center", ncols=min(2, len(profiles)))
    return figure


Pair = tuple[NDArray[np.float64], NDArray[np.float64] | None]


def _gammas(profile: Profile, every_layer: bool) -> Pair:
    """γ and its standard error (where there is one) at the layers to draw."""
    if "gamma" not in profile.variables:
        raise CouldNotError(
            f"plot_gamma_by_depth: the profile of {profile.provenance.model} has no gamma; "
            f"it has {', '.join(profile.variables) or 'nothing'}"
        )
    chosen = np.ones(len(profile.layers), dtype=bool) if every_layer else _trunk(profile)
    gamma = profile.variables["gamma"].values[chosen]
    if "gamma_stderr" not in profile.variables:
        return gamma, None
    return gamma, profile.variables["gamma_stderr"].values[chosen]


def _trunk(profile: Profile) -> NDArray[np.bool_]:
    """Weight layers and residual sums that lie in no residual unit; all layers where their kinds are not told."""
    if "kind" not in profile.coordinates:
        return np.ones(len(profile.layers), dtype=bool)
    kinds = profile.coordinates["kind"].values.astype(str)
    units = [f"{name}." for name, kind in zip(profile.layers, kinds, strict=True) if kind == "residual"]
    inside = np.array([name.startswith(tuple(units)) for name in profile.layers], dtype=bool)
    chosen = np.isin(kinds, _WEIGHT_LAYERS) & ~inside
    return chosen if chosen.any() else np.ones(len(profile.layers), dtype=bool)


def _set_limits(axes: Axes, drawn: Sequence[Pair]) -> None:
    """Half a decade around what is finite and positive, and around γ = 1."""
    every = np.concatenate([gamma for gamma, _ in drawn])
    finite = np.append(every[np.isfinite(every) & (every > 0)], 1.0)
    axes.set_ylim(float(finite.min()) / 10**0.6, float(finite.max()) * 10**0.4)
    axes.set_xlim(-0.5, max(gamma.size for gamma, _ in drawn) - 0.5)


def _name_regimes(axes: Axes) -> None:
    axes.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
    for word, offset, side in (("deep prejudice", 2, "bottom"), ("weak prejudice", -2, "top")):
        axes.annotate(
            word,
            (1.0, 1.0),
            xytext=(-2, offset),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color="0.4",
            fontsize=7,
            ha="right",
            va=side,
        )


def _draw(
    axes: Axes,
    gamma: NDArray[np.float64],
    stderr: NDArray[np.float64] | None,
    style: Series,
    name: str,
    *,
    measured: bool,
) -> None:
    place = np.arange(gamma.size, dtype=np.float64)
    inside = np.isfinite(gamma) & (gamma > 0)
    line = axes.plot(place, np.where(inside, gamma, np.nan), color=style.color, label=name, zorder=3)[0]
    if measured:
        line.set(linestyle="none", marker=style.marker, markerfacecolor="white")
    else:
        line.set_linestyle(style.linestyle)
    low, high = axes.get_ylim()
    if stderr is not None:
        bottom = np.where(inside, np.maximum(gamma - 2 * stderr, low), np.nan)
        top = np.where(inside, gamma + 2 * stderr, np.nan)
        axes.fill_between(place, bottom, top, color=style.color, alpha=0.2, linewidth=0)
    for value, edge, marker in ((0.0, low, "v"), (np.inf, high, "^")):
        at = place[gamma == value]
        if not at.size:
            continue
        word = "0" if value == 0 else r"\infty"
        marks = axes.plot(at, np.full(at.size, edge), linestyle="none", marker=marker, color=style.color)[0]
        marks.set(
            clip_on=False, markersize=4, zorder=4, label=f"_{name}: 0" if value == 0 else f"_{name}: infinity"
        )
        if not inside.any():  # the line is empty: the marks stand for the series
            line.set_label(f"_{name}")
            marks.set_label(rf"{name} ($\gamma = {word}$)")
