"""The law of guesses: how the fraction of the data that goes to one class is distributed over draws of the weights.

Enters: profiles or guesses. Leaves: a figure over G in [0, 1]. A law that theory knows is a density; where γ is 0 or ∞
it has no density but points of mass, drawn as arrows. Fractions that were measured are a histogram. Each entry of the
legend says γ and the regime it falls in. A thin line marks the even share.
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

    from firstlight.results.guess_law import GuessLaw
    from firstlight.results.guesses import Guesses
    from firstlight.results.profile import Profile

__all__ = ["draw_guesses", "plot_guess_law"]

_CEILING = 6.0
"""Densities that grow without bound at 0 and 1 are cut here, and so are narrow peaks beside other laws."""


def plot_guess_law(*given: Profile | Guesses, labels: Sequence[str] | None = None, bins: int = 20) -> Figure:
    """Draw the law of one class's fraction for each network.

    Args:
        given: Profiles, or their guesses.
        labels: One for each; the models of the profiles by default.
        bins: Number of bins of each histogram of measured fractions.
    """
    if not given:
        raise UsageError("plot_guess_law: expected at least one Profile or Guesses, got none")
    names = [_model(item) for item in given] if labels is None else list(labels)
    if len(names) != len(given):
        raise UsageError(
            f"plot_guess_law(labels): expected one for each of the {len(given)} laws, got {len(names)}"
        )
    guesses = [_guesses(item, name) for item, name in zip(given, names, strict=True)]
    with house_style():
        figure, axes = new_figure(height=2.2 + 0.32 * math.ceil(len(given) / 2))
        heights = [
            draw_guesses(axes, item, style, name, bins=bins)
            for item, style, name in zip(guesses, series_styles(len(guesses)), names, strict=True)
        ]
        axes.set_xlim(0.0, 1.0)
        ceiling = _CEILING if len(guesses) > 1 else np.inf
        axes.set_ylim(0.0, 1.15 * max(2.0, min(max(heights), ceiling)))
        axes.set_xlabel(r"fraction of the data guessed as one class, $G_c$")
        axes.set_ylabel("probability density")
        figure.legend(loc="outside upper center", ncols=min(2, len(given)))
    return figure


def draw_guesses(axes: Axes, guesses: Guesses, style: Series, name: str, *, bins: int = 20) -> float:
    """Draw one law, or the histogram of measured fractions, and answer how high the axes should reach for it."""
    law = guesses.law
    if law is None:
        return _draw_fractions(axes, guesses, style, name, bins)
    label = f"{name}\n$\\gamma$ = {_number(law.gamma)}: {law.regime}"
    axes.axvline(1 / law.labels, color="0.8", linewidth=0.6, zorder=0)
    if law.atoms:
        _draw_atoms(axes, law.atoms, style, label)
        return 0.0
    place = _places(law)
    density = law.pdf(place)
    axes.plot(place, density, color=style.color, linestyle=style.linestyle, label=label, zorder=3)
    inside = (place > 0.005) & (place < 0.995)  # for a deep prejudice, the ends are infinitely high
    height = float(density[inside].max())
    return min(height, _CEILING) if law.gamma >= 1 else height


def _places(law: GuessLaw) -> NDArray[np.float64]:
    """Points of [0, 1] that lie densest at the ends and where the law has its mass."""
    even = 0.5 - 0.5 * np.cos(np.pi * np.linspace(0.0, 1.0, 402)[1:-1])
    return np.unique(
        np.concatenate([even, np.clip(law.quantile(np.linspace(0.002, 0.998, 200)), even[0], even[-1])])
    )


def _draw_atoms(axes: Axes, atoms: Sequence[tuple[float, float]], style: Series, label: str) -> None:
    """Points of mass: arrows as high in the axes as they are probable."""
    for place, probability in atoms:
        inner = min(max(place, 0.004), 0.996)
        axes.annotate(
            "",
            xy=(inner, 0.92 * probability),
            xytext=(inner, 0.0),
            xycoords=axes.get_xaxis_transform(),
            arrowprops={
                "arrowstyle": "-|>",
                "color": style.color,
                "linewidth": 1.4,
                "shrinkA": 0,
                "shrinkB": 0,
            },
            zorder=4,
        )
    axes.plot([], [], color=style.color, marker=r"$\uparrow$", markersize=7, linestyle="none", label=label)


def _draw_fractions(axes: Axes, guesses: Guesses, style: Series, name: str, bins: int) -> float:
    """A histogram of the fractions of all labels, which are exchangeable over initializations."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    below = np.concatenate([[0.0], guesses.cdf(edges[1:])])
    heights = np.diff(below) * bins
    axes.stairs(
        heights,
        edges,
        fill=True,
        facecolor=style.color,
        edgecolor=style.color,
        alpha=0.3,
        linewidth=0.8,
        label=f"{name}\n{guesses.draws:,} initializations",
        zorder=2,
    )
    return float(heights.max())


def _guesses(given: Profile | Guesses, name: str) -> Guesses:
    if not hasattr(given, "guesses"):
        return given
    if given.guesses is None:
        raise CouldNotError(
            f"plot_guess_law: the profile of {name} has no guesses; its output was not reached, see profile.coverage"
        )
    return given.guesses


def _model(given: Profile | Guesses) -> str:
    return given.provenance.model.splitlines()[0] if hasattr(given, "provenance") else "guesses"


def _number(gamma: float) -> str:
    if gamma == 0 or np.isinf(gamma):
        return "0" if gamma == 0 else r"$\infty$"
    return f"{gamma:.3g}" if 1e-3 <= gamma < 1e4 else f"$10^{{{np.log10(gamma):.1f}}}$"
