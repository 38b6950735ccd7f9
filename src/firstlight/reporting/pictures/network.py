"""The whole network in one picture: γ, effective rank, χ and the scale of the gradients by layer, on linked axes.

Enters: a Profile, and theory's where there is one. Leaves: a ``NetworkPicture`` of panels that share their layers,
each on a logarithmic scale. The line runs through the layers with weights, whose outputs theory speaks of; norms,
activations and pools are dots. What is undefined is left out, and the panel says how often and why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firstlight.reporting.layer_tables import cell
from firstlight.reporting.pictures.marks import Point, area, dots, line, rules
from firstlight.reporting.pictures.scales import Scale, Tick, log_scale
from firstlight.results.profile import Profile
from firstlight.results.quantities import QUANTITIES

__all__ = ["NetworkPicture", "Panel", "network_picture", "shared_scales"]

_WEIGHTED = ("dense", "convolution", "embedding")
_GAMMA_FLOOR = -3.0
"""log₁₀ of the γ below which nobody can see a bias: drawn on the lower edge."""
_REACH = 1.96
"""Standard errors that the band spans to either side: 95 %."""


@dataclass(frozen=True)
class _Kind:
    """A panel to draw."""

    name: str
    title: str
    meaning: str
    floor: float = -math.inf
    reference: float | None = None
    reference_label: str = ""


_KINDS = (
    _Kind(
        "gamma",
        "bias, γ",
        "how much stronger the favourite is than the differences between inputs; above 1 most data get one answer",
        _GAMMA_FLOOR,
        0.0,
        "γ = 1",
    ),
    _Kind(
        "effective_rank",
        "directions, r_eff",
        "in how many independent directions the signal varies; 1 is a single line",
        0.0,
        0.0,
        "one direction",
    ),
    _Kind(
        "sensitivity",
        "sensitivity, χ",
        "how much a small change of the input has grown by this layer, relative to the signal",
        reference=0.0,
        reference_label="as at the input",
    ),
    _Kind(
        "gradient_scale",
        "gradients, ⟨(∂L/∂u)²⟩",
        "mean square of the gradients that arrive at this layer on their way back from the output",
    ),
)


@dataclass(frozen=True)
class Panel:
    """One quantity over the layers."""

    name: str
    title: str
    meaning: str
    summary: str
    ticks: tuple[Tick, ...]
    grid: str
    reference: str
    reference_place: float
    reference_label: str
    band: str
    line: str
    dots: str
    theory: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class NetworkPicture:
    """The panels, and what a reader who points at a layer is told."""

    panels: tuple[Panel, ...]
    missing: tuple[str, ...]
    layers: tuple[str, ...]
    data: dict[str, Any]
    has_theory: bool


def network_picture(
    profile: Profile, theory: Profile | None = None, *, scales: dict[str, Scale] | None = None
) -> NetworkPicture:
    """Draw the panels of a network.

    Args:
        profile: The measurement, or theory alone.
        theory: What theory says of the same layers.
        scales: Scales by quantity, where several networks share them; see ``shared_scales``.
    """
    shared = scales or shared_scales([(profile, theory)])
    panels = tuple(_panel(kind, profile, theory, shared[kind.name]) for kind in _KINDS if kind.name in shared)
    missing = tuple(
        f"{kind.title}: not computed by this {profile.provenance.engine}"
        for kind in _KINDS
        if kind.name not in shared
    )
    layers = profile.layers
    kinds = _kinds(profile)
    data = {
        "layers": layers,
        "kinds": kinds,
        "rows": [
            {"name": kind.title, "values": [cell(profile, kind.name, index) for index in range(len(layers))]}
            for kind in _KINDS
            if kind.name in profile.variables
        ],
    }
    has_theory = any(panel.theory for panel in panels)
    return NetworkPicture(panels, missing, tuple(layers), data, has_theory)


def shared_scales(networks: Sequence[tuple[Profile, Profile | None]]) -> dict[str, Scale]:
    """A scale for each quantity that some network has, wide enough for all of them."""
    found = {}
    for kind in _KINDS:
        exponents = [
            value
            for profile, theory in networks
            for item in (profile, theory)
            if item is not None and kind.name in item.variables
            for value in _exponents(item, kind.name)
        ]
        if any(kind.name in profile.variables for profile, _ in networks):
            include = () if kind.reference is None else (kind.reference,)
            found[kind.name] = log_scale(exponents, floor=kind.floor, include=include)
    return found


def _panel(kind: _Kind, profile: Profile, theory: Profile | None, scale: Scale) -> Panel:
    count = len(profile.layers)
    places = [(index + 0.5) / count for index in range(count)]
    exponents = _exponents(profile, kind.name) if kind.name in profile.variables else [math.nan] * count
    weighted = _weighted(profile)
    main = [index for index in range(count) if weighted[index]]
    points: list[Point] = [(places[index], _place(scale, exponents[index])) for index in range(count)]
    low, high = _band(profile, kind.name, exponents)
    reference = "" if kind.reference is None else rules([scale.place(kind.reference)])
    return Panel(
        kind.name,
        kind.title,
        kind.meaning,
        _summary(kind, profile),
        scale.ticks,
        rules(tick.place for tick in scale.ticks),
        reference,
        0.0 if kind.reference is None else scale.place(kind.reference),
        kind.reference_label,
        area(
            [(places[index], _place(scale, low[index])) for index in main],
            [(places[index], _place(scale, high[index])) for index in main],
        ),
        line(points[index] for index in main),
        dots(points),
        _theory_line(kind.name, profile, theory, scale, places),
        _notes(kind, exponents, scale),
    )


def _summary(kind: _Kind, profile: Profile) -> str:
    """What a reader who cannot see the plot is told."""
    known = (
        [index for index, value in enumerate(_exponents(profile, kind.name)) if math.isfinite(value)]
        if kind.name in profile.variables
        else []
    )
    if not known:
        return f"{kind.title}: nothing to show"
    first, last = known[0], known[-1]
    return (
        f"{kind.title} by layer: {cell(profile, kind.name, first)} at {profile.layers[first]}, "
        f"{cell(profile, kind.name, last)} at {profile.layers[last]}"
    )


def _notes(kind: _Kind, exponents: list[float], scale: Scale) -> tuple[str, ...]:
    undefined = sum(math.isnan(value) for value in exponents)
    infinite = sum(value == math.inf for value in exponents)
    below = sum(value < scale.low for value in exponents)
    notes = []
    if undefined:
        notes.append(
            f"undefined at {undefined:,} of {len(exponents):,} layers and left out: nothing varies there"
        )
    if infinite:
        notes.append(
            f"infinite at {infinite:,} layers, drawn on the upper edge: the data make no difference there"
        )
    if below:
        edge = f"{10**kind.floor:g}" if math.isfinite(kind.floor) else "the scale"
        notes.append(f"below {edge} at {below:,} layers, drawn on the lower edge")
    return tuple(notes)


def _theory_line(
    name: str, profile: Profile, theory: Profile | None, scale: Scale, places: list[float]
) -> str:
    if theory is None or name not in theory.variables:
        return ""
    exponents = dict(zip(theory.layers, _exponents(theory, name), strict=True))
    shared = [
        (places[index], exponents[layer]) for index, layer in enumerate(profile.layers) if layer in exponents
    ]
    return line((x, _place(scale, value)) for x, value in shared)


def _exponents(profile: Profile, name: str) -> list[float]:
    """Common logarithms, from the natural ones where they were kept."""
    log = profile.variables.get(f"log_{name}")
    with np.errstate(divide="ignore", invalid="ignore"):
        if log is not None and QUANTITIES[name].logarithm:
            return [float(value) for value in np.asarray(log.values, dtype=float) / math.log(10)]
        return [float(value) for value in np.log10(np.asarray(profile.variables[name].values, dtype=float))]


def _band(profile: Profile, name: str, exponents: list[float]) -> tuple[list[float], list[float]]:
    """Ends of the interval over initializations, as logarithms; NaN where there is none."""
    spread = profile.variables.get(f"{name}_stderr")
    if spread is None or name not in profile.variables:
        nothing = [math.nan] * len(exponents)
        return nothing, nothing
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (
            _REACH
            * np.asarray(spread.values, dtype=float)
            / np.asarray(profile.variables[name].values, dtype=float)
        )
        centre = np.asarray(exponents)
        low = centre + np.log10(np.maximum(1 - share, 1e-3))
        high = centre + np.log10(1 + share)
    return [float(value) for value in low], [float(value) for value in high]


def _place(scale: Scale, exponent: float) -> float | None:
    if math.isnan(exponent):
        return None
    return scale.place(exponent)


def _kinds(profile: Profile) -> list[str]:
    if "kind" not in profile.coordinates:
        return [""] * len(profile.layers)
    return [str(kind) for kind in profile.coordinates["kind"].values]


def _weighted(profile: Profile) -> list[bool]:
    """Which layers the line runs through: those with weights, and all where fewer than two have any."""
    found = [kind in _WEIGHTED for kind in _kinds(profile)]
    return found if sum(found) > 1 else [True] * len(found)
