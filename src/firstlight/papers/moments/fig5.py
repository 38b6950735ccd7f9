"""Figure 5: batch-normalized residual nets; the sensitivity follows a power law and no pathology occurs.

Panels as in figure 4, inside a unit at its first layer h = 1: δχ^{l,1} from the unit's input to behind its first linear
map, with its factor δ_BN; the rest is δ_φ. (b) shows the power law C l^τ with

    τ = ½ (⟨δχ^{l,1}⟩^{2H} − 1),  H = 2,

the increment averaged over the evolution, C by least squares. Section 7 of the paper, theorem 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firstlight.papers.figure import PaperFigure
from firstlight.papers.jackknife import jackknife, mean_and_error
from firstlight.papers.moments.evolution import (
    GAUSSIAN_ABSOLUTE,
    draw_curves,
    draw_moments,
    relative_absolute,
)
from firstlight.papers.moments.simulations import GEOMETRIES, Curve, along, simulated
from firstlight.papers.work import Work
from firstlight.plots.style import house_style
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE", "power_law"]

LAYERS_IN_A_UNIT = 2


def _compute(work: Work) -> dict[str, Profile]:
    """Simulations of both geometries."""
    return {geometry: simulated(work, "residual", geometry) for geometry in GEOMETRIES}


def power_law(sensitivity: Curve, increment: Curve) -> tuple[float, float, float]:
    """τ of the increments, log C by least squares given τ, and the slope that log χ itself has against log l.

    Args:
        sensitivity: log χ^l.
        increment: δχ^{l,1}.
    """
    exponent = 0.5 * (float(increment.values.mean()) ** (2 * LAYERS_IN_A_UNIT) - 1)
    logs, places = sensitivity.values.mean(0), np.log(sensitivity.depths)
    return exponent, float((logs - exponent * places).mean()), float(np.polyfit(places, logs, 1)[0])


def _sensitivity(profile: Profile) -> Curve:
    """Log χ^l relative to the input of the first unit."""
    stem = along(profile, "log_sensitivity", "linear{}", start=0)
    units = along(profile, "log_sensitivity", "unit{}")
    return Curve(units.depths, units.values - stem.at(0)[:, None])


def _increment(profile: Profile) -> Curve:
    """δχ^{l,1}."""
    return along(profile, "sensitivity_increment", "unit{}.branch.linear1", start=2)


def _draw(results: Mapping[str, Any]) -> Figure:
    """A row each geometry; the paper's four panels."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(10.0, 4.6), dpi=200, layout="constrained")
        axes = figure.subplots(len(GEOMETRIES), 4)
        for row, (geometry, words) in enumerate(GEOMETRIES.items()):
            profile = results[geometry]
            xlabel = "unit $l$" if row == len(GEOMETRIES) - 1 else ""
            increment = _increment(profile)
            norm = along(profile, "sensitivity_increment_norm", "unit{}.branch.norm1", start=2)
            increments = {
                r"$\delta\chi^{l,1}$": increment,
                r"$\delta_{BN}\chi^{l,1}$": norm,
                r"$\delta_\phi\chi^{l,1}$": Curve(increment.depths, increment.values / norm.values),
            }
            draw_curves(axes[row, 0], increments, title="(a) increments in a unit", xlabel=xlabel)
            logs = _sensitivity(profile)
            shown = {r"$\chi^l$": Curve(logs.depths, np.exp(logs.values))}
            draw_curves(axes[row, 1], shown, title=r"(b) $\chi^l$", xlabel=xlabel)
            exponent, constant, _ = power_law(logs, increment)
            label = rf"$C\,l^\tau$, $\tau$ = {exponent:.2f}"
            axes[row, 1].plot(
                logs.depths,
                np.exp(constant + exponent * np.log(logs.depths)),
                ":",
                color="black",
                label=label,
            )
            axes[row, 1].set(xscale="log", yscale="log")
            axes[row, 1].legend(fontsize=7)
            ranks = {
                "$x^{l,1}$": along(profile, "effective_rank", "unit{}.branch.activation1"),
                "$dx^{l,1}$": along(profile, "noise_effective_rank", "unit{}.branch.activation1"),
            }
            draw_curves(axes[row, 2], ranks, title=r"(c) $r_{\mathrm{eff}}$", xlabel=xlabel)
            axes[row, 2].set(yscale="log")
            draw_moments(axes[row, 3], profile, "unit{}.branch.norm1", xlabel=xlabel)
            axes[row, 0].set_ylabel(words)
    return figure


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What section 7 says of the evolution, for each geometry."""
    said = []
    for geometry, words in GEOMETRIES.items():
        profile = results[geometry]
        said += [*_of_power_law(f"{words}: ", profile), *_well_behaved(f"{words}: ", profile)]
    return said


def _of_power_law(words: str, profile: Profile) -> list[Statement]:
    logs, increment = _sensitivity(profile), _increment(profile)
    count, last = len(logs.values), int(logs.depths[-1])

    def law(chosen: NDArray[np.intp]) -> tuple[float, float, float]:
        return power_law(
            Curve(logs.depths, logs.values[chosen]), Curve(increment.depths, increment.values[chosen])
        )

    exponent, _, slope = law(np.arange(count))
    _, error = jackknife(lambda chosen: law(chosen)[2] - law(chosen)[0], count)
    settled = np.flatnonzero(logs.depths >= last // 10)
    steady = Curve(logs.depths[settled], logs.values[:, settled])
    steady_error = jackknife(lambda chosen: _own_slope(steady, chosen) - law(chosen)[0], count)[1]

    def residual(chosen: NDArray[np.intp]) -> NDArray[np.float64]:
        tau, offset, _ = law(chosen)
        return np.asarray(steady.values[chosen].mean(0) - offset - tau * np.log(steady.depths))

    deviations = residual(np.arange(count))
    worst = int(np.abs(deviations).argmax())
    worst_error = jackknife(lambda chosen: float(residual(chosen)[worst]), count)[1]
    rates = np.diff(logs.values, axis=1) / np.diff(logs.depths)
    slowing, slowing_error = mean_and_error(rates[:, 0] - rates[:, -1])
    early = (
        "l^τ is the limit of many units: a unit adds a variance of about 0.69 to the 1 with which the skip path "
        "begins, so that in the first units the branch weighs less than 1/l and χ grows more slowly"
    )
    own = _own_slope(steady, np.arange(count))
    return [
        Statement(
            f"{words}χ grows as the power τ = ½(⟨δχ^(l,1)⟩⁴ − 1) of l (figure 5b): slope of log χ against log l, "
            f"units 1 to {last}",
            "=",
            exponent,
            slope,
            error,
            because=early if exponent - slope > 3 * error else "",
        ),
        Statement(
            f"{words}the same from unit {int(steady.depths[0])} on, read off to 0.1",
            "=",
            exponent,
            own,
            steady_error,
            tolerance=0.1,
        ),
        Statement(
            f"{words}C l^τ describes χ very well (figure 5b): largest deviation of log χ from unit "
            f"{int(steady.depths[0])} on, at unit {int(steady.depths[worst])}, read off to 0.15",
            "=",
            0.0,
            float(deviations[worst]),
            worst_error,
            tolerance=0.15,
        ),
        Statement(
            f"{words}the growth gets slower and slower (section 7): growth of log χ a unit, first less last",
            ">",
            0.0,
            slowing,
            slowing_error,
        ),
    ]


def _own_slope(logs: Curve, chosen: NDArray[np.intp]) -> float:
    """Least-squares slope of log χ against log l."""
    return float(np.polyfit(np.log(logs.depths), logs.values[chosen].mean(0), 1)[0])


def _well_behaved(words: str, profile: Profile) -> list[Statement]:
    rank = along(profile, "effective_rank", "unit{}.branch.activation1")
    kurtosis = along(profile, "kurtosis", "unit{}.branch.norm1")
    absolute = relative_absolute(profile, "unit{}.branch.norm1")
    last = int(rank.depths[-1])
    many, many_error = mean_and_error(rank.values[:, -1])
    tail, tail_error = mean_and_error(kurtosis.values[:, -1])
    size, size_error = mean_and_error(absolute.values[:, -1])
    return [
        Statement(
            f"{words}many directions of signal variance are preserved (figure 5c): r_eff(x) at unit {last} above 2",
            ">",
            2.0,
            many,
            many_error,
        ),
        Statement(
            f"{words}z is close to Gaussian (figure 5d): μ4(z) at unit {last}, read off to 1",
            "=",
            3.0,
            tail,
            tail_error,
            tolerance=1.0,
        ),
        Statement(
            f"{words}z is close to Gaussian (figure 5d): ν1(|z|) at unit {last}, read off to 0.05",
            "=",
            GAUSSIAN_ABSOLUTE,
            size,
            size_error,
            tolerance=0.05,
        ),
    ]


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {
            "dense": {"length": 6, "width": 16, "batch": 8, "simulations": 2, "every": 2},
            "convolutional": {"length": 6, "width": 4, "batch": 2, "simulations": 2, "every": 2},
        },
        "small": {
            "dense": {"length": 100, "width": 512, "batch": 64, "simulations": 12, "every": 5},
            "convolutional": {"length": 100, "width": 64, "batch": 12, "simulations": 12, "every": 5},
        },
        "paper": {
            "dense": {"length": 500, "width": 512, "batch": 64, "simulations": 1000, "every": 5},
            "convolutional": {"length": 500, "width": 512, "batch": 64, "simulations": 1000, "every": 5},
        },
    },
    departs={
        "small": (
            "100 units instead of 500; 12 simulations instead of 1,000",
            "convolutions of 64 channels on 12 pictures instead of 512 channels on 64",
        )
    },
)
