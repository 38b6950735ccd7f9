"""A measurement laid over its reference: γ by layer, the law of the guesses, and the differences in standard errors.

Enters: two profiles and their ``Comparison``. Leaves: a figure of three panels. Top left, γ: the line is what the
reference expects of data like these, the markers are measured, with bars of ±2 standard errors. Below it, the
difference of each layer in standard errors, over a band of ±3. Right, the reference's law of guesses over the
histogram of measured fractions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import CouldNotError, UsageError
from firstlight.plots.guess_law import draw_guesses
from firstlight.plots.style import COLUMN, Series, house_style, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from firstlight.results.comparison import Comparison
    from firstlight.results.profile import Profile

__all__ = ["plot_comparison"]

_BAND = 3.0
_FLOOR = 1e-6
"""A γ this small or smaller is 0 for the eye: rounding must not stretch the axis over fifteen decades."""

Array = NDArray[np.float64]


def plot_comparison(
    reference: Profile, measured: Profile, comparison: Comparison, *, bins: int = 20
) -> Figure:
    """Overlay reference and measurement.

    Args:
        reference: Usually theory.
        measured: The measurement.
        comparison: What ``firstlight.compare`` found for the two.
        bins: Number of bins of the histogram.
    """
    if "gamma_z" not in comparison:
        raise CouldNotError(
            "plot_comparison: the two profiles share no gamma; "
            f"compared: {', '.join(comparison.quantities) or 'nothing'}"
        )
    if bins < 1:
        raise UsageError(f"plot_comparison(bins): expected at least 1, got {bins}")
    from matplotlib.figure import Figure

    theory, found = series_styles(2)
    with house_style():
        figure = Figure(figsize=(2 * COLUMN, 3.6), dpi=200, layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=(3, 1.2))
        top = figure.add_subplot(grid[0, 0])
        bottom = figure.add_subplot(grid[1, 0], sharex=top)
        right = figure.add_subplot(grid[:, 1])
        _draw_gamma(top, comparison, theory, found)
        _draw_scores(bottom, comparison, found)
        _draw_guesses(right, reference, measured, comparison, theory, found, bins)
    return figure


def _values(comparison: Comparison, name: str) -> Array:
    return np.asarray(comparison.variables[f"gamma_{name}"].values, dtype=np.float64)


def _draw_gamma(axes: Axes, comparison: Comparison, theory: Series, found: Series) -> None:
    expected, got, spread = (_values(comparison, name) for name in ("reference", "measured", "stderr"))
    place = np.arange(expected.size, dtype=np.float64)
    every = np.concatenate([expected, got])
    visible = np.append(every[np.isfinite(every) & (every > _FLOOR)], 1.0)
    low, high = float(visible.min()) / 10**0.5, float(visible.max()) * 10**0.4
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)

    def shown(values: Array) -> Array:
        return np.where(values > _FLOOR, np.where(np.isfinite(values), values, np.nan), np.nan)

    line = axes.plot(place, shown(expected), color=theory.color, label="expected", zorder=2)[0]
    line.set(linestyle=theory.linestyle, marker=".", markersize=3)  # a point between two zeros is a point
    error = np.nan_to_num(2 * spread)
    centre = shown(got)
    downward = np.minimum(error, np.maximum(np.nan_to_num(centre) - low, 0))
    axes.errorbar(
        place,
        centre,
        yerr=np.stack([downward, error]),
        color=found.color,
        linestyle="none",
        marker=found.marker,
        markerfacecolor="white",
        elinewidth=0.8,
        label="measured",
        zorder=3,
    )
    # The expected mark is the larger, so that it shows around the measured one.
    for name, values, style, size in (("expected", expected, theory, 7), ("measured", got, found, 4)):
        for at, edge, marker in ((values <= _FLOOR, low, "v"), (np.isposinf(values), high, "^")):
            if at.any():
                marks = axes.plot(place[at], np.full(int(at.sum()), edge), color=style.color, marker=marker)[
                    0
                ]
                marks.set(linestyle="none", markersize=size, clip_on=False, zorder=4, label=f"_{name} beyond")
    axes.set_ylabel(r"$\gamma$")
    axes.tick_params(labelbottom=False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _draw_scores(axes: Axes, comparison: Comparison, found: Series) -> None:
    from matplotlib.ticker import MaxNLocator

    z = _values(comparison, "z")
    place = np.arange(z.size, dtype=np.float64)
    finite = np.abs(z[np.isfinite(z)])
    limit = 1.15 * max(_BAND + 1, float(finite.max()) if finite.size else 0.0)
    axes.set_ylim(-limit, limit)
    axes.axhspan(-_BAND, _BAND, color="0.93", zorder=0)
    axes.axhline(0.0, color="0.6", linewidth=0.8, zorder=1)
    axes.vlines(place, 0.0, z, color=found.color, linewidth=0.8, zorder=2)
    axes.plot(
        place, z, color=found.color, linestyle="none", marker=found.marker, markerfacecolor="white", zorder=3
    )
    for at, edge, marker in ((np.isneginf(z), -limit, "v"), (np.isposinf(z), limit, "^")):
        if at.any():
            marks = axes.plot(place[at], np.full(int(at.sum()), edge), color=found.color, marker=marker)[0]
            marks.set(linestyle="none", clip_on=False, label="_beyond")
    axes.set_xlim(-0.5, z.size - 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("shared layer, in running order")
    axes.set_ylabel(r"$z$ of $\gamma$")


def _draw_guesses(
    axes: Axes,
    reference: Profile,
    measured: Profile,
    comparison: Comparison,
    theory: Series,
    found: Series,
    bins: int,
) -> None:
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel(r"fraction of the data guessed as one class, $G_c$")
    axes.set_ylabel("probability density")
    if reference.guesses is None or measured.guesses is None:
        axes.text(
            0.5, 0.5, "one of the two has no guesses", transform=axes.transAxes, ha="center", color="0.4"
        )
        return
    heights = [
        draw_guesses(axes, measured.guesses, found, "measured", bins=bins),
        draw_guesses(axes, reference.guesses, theory, "expected", bins=bins),
    ]
    axes.set_ylim(0.0, 1.15 * max(2.0, *heights))
    legend = axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    if math.isfinite(comparison.distance):
        legend.set_title(
            f"{comparison.compared}: distance {comparison.distance:.3f}, $p$ = {comparison.p_value:.2g}"
        )
        legend.get_title().set_fontsize(8)
