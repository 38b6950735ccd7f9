"""Panels of figures 3 to 5: curves by depth with bands, mean over simulations and 16th to 84th percentiles.

Enters: curves. Leaves: axes that are drawn on, in the arrangement of those figures: increments of the sensitivity, the
sensitivity, effective ranks, moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from firstlight.papers.moments.simulations import Curve, along
from firstlight.plots.style import series_styles
from firstlight.results.profile import Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GAUSSIAN_ABSOLUTE", "draw_curves", "draw_moments", "relative_absolute"]

GAUSSIAN_ABSOLUTE = float(np.sqrt(2 / np.pi))
"""ν1(|z|) of a Gaussian of variance 1."""


def draw_curves(axes: Axes, curves: Mapping[str, Curve], *, title: str, xlabel: str) -> None:
    """Draw one line a curve, under its name, with its band."""
    for (name, curve), style in zip(curves.items(), series_styles(len(curves)), strict=True):
        low, high = np.percentile(curve.values, (16, 84), axis=0)
        axes.plot(curve.depths, curve.mean, color=style.color, linestyle=style.linestyle, label=name)
        axes.fill_between(curve.depths, low, high, color=style.color, alpha=0.2, linewidth=0)
    axes.set(title=title, xlabel=xlabel)
    axes.legend(fontsize=7)


def relative_absolute(profile: Profile, address: str) -> Curve:
    """ν1(|z|) of z divided by its root mean square, which is 1 behind a batch norm."""
    absolute, square = (along(profile, name, address) for name in ("mean_absolute", "mean_square"))
    return Curve(absolute.depths, absolute.values / np.sqrt(square.values))


def draw_moments(axes: Axes, profile: Profile, address: str, *, xlabel: str) -> None:
    """Draw μ4(z) on the left scale and ν1(|z|) on the right one, with thin lines where a Gaussian has them."""
    kurtosis, absolute = along(profile, "kurtosis", address), relative_absolute(profile, address)
    first, second = series_styles(2)
    right = axes.twinx()
    for panel, curve, style, gaussian in (
        (axes, kurtosis, first, 3.0),
        (right, absolute, second, GAUSSIAN_ABSOLUTE),
    ):
        low, high = np.percentile(curve.values, (16, 84), axis=0)
        panel.plot(curve.depths, curve.mean, color=style.color, linestyle=style.linestyle)
        panel.fill_between(curve.depths, low, high, color=style.color, alpha=0.2, linewidth=0)
        panel.axhline(gaussian, color=style.color, linewidth=0.5)
        panel.tick_params(axis="y", labelcolor=style.color)
    right.spines["right"].set_visible(True)
    right.set_ylim(0, 1)
    axes.set(title=r"$\mu_4(z)$ (left), $\nu_1(|z|)$ (right)", xlabel=xlabel, ylim=(0, None))
