"""γ against depth: how fast a prejudice grows, for several networks or for theory beside measurement.

Enters: profiles. Leaves: a figure with γ on a logarithmic axis against the number of hidden layers passed, and
the line γ = 1 that parts weak from deep prejudice. A γ of 0 (neutral) has no place on a logarithmic axis and is
marked on its floor, an infinite one on its ceiling. Profiles of theory are lines; those of measurement are
markers with a band of ±2 standard errors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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

WEIGHT_LAYERS = ("dense", "convolution")


def plot_gamma_by_depth(
    *profiles: Profile,
    labels: Sequence[str] | None = None,
    kinds: Collection[str] | None = WEIGHT_LAYERS,
) -> Figure:
    """Draw γ at every weight layer of each profile.

    Args:
        profiles: One or more.
        labels: One for each; their models by default.
        kinds: Kinds of layers to draw, counted from 0, so that the place of a weight layer is the number of
            hidden layers before it. ``None`` draws every layer at its place in the running order.
    """
    if not profiles:
        raise UsageError("plot_gamma_by_depth: expected at least one Profile, got none")
    names = [profile.provenance.model for profile in profiles] if labels is None else list(labels)
    if len(names) != len(profiles):
        raise UsageError(
            f"plot_gamma_by_depth(labels): expected one for each of the {len(profiles)} profiles, got {len(names)}"
        )
    from matplotlib.ticker import MaxNLocator

    with house_style():
        figure, axes = new_figure()
        axes.set_yscale("log")
        drawn = [_gammas(profile, kinds) for profile in profiles]
        _set_limits(axes, drawn)
        axes.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
        for word, offset, side in (("deep", 2, "bottom"), ("weak", -2, "top")):
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
        for profile, name, (place, gamma, stderr), style in zip(
            profiles, names, drawn, series_styles(len(profiles)), strict=True
        ):
            _draw(
                axes, place, gamma, stderr, style, name, measured=profile.provenance.engine == "measurement"
            )
        axes.set_xlabel("hidden layers passed" if kinds is not None else "layer")
        axes.set_ylabel(r"$\gamma$  (centre variance / data variance)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(profiles) > 1 or labels is not None:
            axes.legend(loc="best")
    return figure


Triple = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]


def _gammas(profile: Profile, kinds: Collection[str] | None) -> Triple:
    """Places, γ and its standard error (where there is one) at the layers of these kinds."""
    if "gamma" not in profile.variables:
        raise CouldNotError(
            "plot_gamma_by_depth: this profile has no gamma; compute it with quantities='standard'"
        )
    gamma = profile.variables["gamma"].values
    stderr = profile.variables["gamma_stderr"].values if "gamma_stderr" in profile.variables else None
    chosen = np.ones(gamma.size, dtype=bool)
    if kinds is not None and "kind" in profile.coordinates:
        chosen = np.isin(profile.coordinates["kind"].values.astype(str), list(kinds))
        if not chosen.any():
            raise UsageError(
                f"plot_gamma_by_depth(kinds): the profile has no layer of kind {', '.join(map(repr, kinds))}; "
                f"it has {', '.join(sorted(set(map(str, profile.coordinates['kind'].values))))}"
            )
    place = np.arange(int(chosen.sum()), dtype=np.float64)
    return place, gamma[chosen], None if stderr is None else stderr[chosen]


def _set_limits(axes: Axes, drawn: Sequence[Triple]) -> None:
    """Half a decade around what is finite and positive, and around γ = 1."""
    every = np.concatenate([gamma for _, gamma, _ in drawn])
    finite = np.append(every[np.isfinite(every) & (every > 0)], 1.0)
    axes.set_ylim(float(finite.min()) / 10**0.6, float(finite.max()) * 10**0.5)


def _draw(
    axes: Axes,
    place: NDArray[np.float64],
    gamma: NDArray[np.float64],
    stderr: NDArray[np.float64] | None,
    style: Series,
    name: str,
    *,
    measured: bool,
) -> None:
    low, high = axes.get_ylim()
    inside = np.isfinite(gamma) & (gamma > 0)
    line = (
        {"linestyle": "none", "marker": style.marker, "markerfacecolor": "white"}
        if measured
        else {"linestyle": style.linestyle}
    )
    axes.plot(place, np.where(inside, gamma, np.nan), color=style.color, label=name, zorder=3, **line)
    if stderr is not None:
        reach = 2 * stderr
        bottom = np.where(inside, np.maximum(gamma - reach, low), np.nan)
        axes.fill_between(
            place, bottom, np.where(inside, gamma + reach, np.nan), color=style.color, alpha=0.2, lw=0
        )
    for value, edge, marker in ((0.0, low, "v"), (np.inf, high, "^")):
        at = place[gamma == value]
        if at.size:
            word = "0" if value == 0 else r"\infty"
            axes.plot(
                at,
                np.full(at.size, edge),
                linestyle="none",
                marker=marker,
                color=style.color,
                clip_on=False,
                markersize=4,
                zorder=4,
                label=f"_{name}: gamma = {word}",
            )
