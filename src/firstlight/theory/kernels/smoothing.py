"""An activation averaged over a Gaussian around many places ``m``: ``E_x φ(m + √V x)`` and ``Var_x φ(m + √V x)``.

Enters: the moments of an activation, ascending ``m``, ``√V``. Leaves: ``E_x ψ`` and ``Var_x φ/V``, by two rules:

- inner panels end where ``m + √V x`` meets an end of a panel of φ, and values of φ are subtracted;
- where ``m`` is alone in a wide panel, φ changes little and is not subtracted: the change is the mean of φ' on the way.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from firstlight.theory.kernels.kernel import Array
from firstlight.theory.kernels.moments import Moments
from firstlight.theory.kernels.panels import legendre, on_panels

__all__ = [
    "KINK_ENDS",
    "SEPARATED",
    "change_in_panel",
    "ends_around_kinks",
    "gaussian_density",
    "gaussian_ends",
    "inner_rule",
    "smoothed",
    "thinned",
]

SEPARATED = 0.1
"""What ``√V`` times the reach of the Gaussian may be of a panel, for a Taylor series of φ' to converge fast in it."""
KINK_ENDS = np.array([0.5, 1.0, 2.0, 3.5, 6.0, 9.0])
"""Distances from a kink, in units of ``√V``, between which an average over ``√V x`` is close to a polynomial."""

_WIDE = 3.0
_THINNEST = 0.6
_REACH = 12.0
_OUTER_ENDS = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.5, 8.5])
_INNER_ENDS = np.array([-6.5, -4.0, -2.0, 0.0, 2.0, 4.0, 6.5])
_CHUNK = 48


def smoothed(moments: Moments, m: Array, inner: float, order: int) -> tuple[Array, Array]:
    """Return ``E_x ψ`` and ``Var_x φ/V`` at ``m + √V x`` for ascending ``m``, with ``inner = √V``."""
    breaks = moments.panels.breakpoints(moments.reach * moments.deviation)
    center, variance = np.empty_like(m), np.empty_like(m)
    window, reach = moments.reach * inner, max(moments.reach * moments.deviation, float(np.abs(m).max()))
    padded = np.concatenate([[-reach], breaks, [reach]])
    panel = np.clip(np.searchsorted(padded, m), 1, len(padded) - 1)
    low, high = padded[panel - 1], padded[panel]
    alone = (m - low >= window) & (high - m >= window) & (window <= SEPARATED * (high - low))
    if alone.any():
        drift, variance[alone] = change_in_panel(moments, m[alone], inner)
        center[alone] = moments.excess(m[alone]) + drift * (inner / moments.deviation)
    # where two panels of φ that are wide beside √V meet without a kink, an inner panel may straddle the end
    kinks = [kink.place for kink in moments.panels.kinks(reach)]
    straddled = (np.minimum(np.diff(padded)[1:], np.diff(padded)[:-1]) > _WIDE * inner) & ~np.isin(
        breaks, kinks
    )
    breaks = breaks[~straddled]
    rest = np.flatnonzero(~alone)
    for start in range(0, len(rest), _CHUNK):
        part = rest[start : start + _CHUNK]
        inside = breaks[(breaks > m[part[0]] - window) & (breaks < m[part[-1]] + window)]
        x, x_weight = inner_rule(moments, (inside - m[part, None]) / inner, order)  # (outer, inner)
        excess = moments.excess(m[part, None] + inner * x)
        center[part] = np.einsum("ij,ij->i", x_weight, excess)
        # the root of the weight first: the square of an exponential function alone may overflow
        deviation = (excess - center[part, None]) * (np.sqrt(x_weight) * (moments.deviation / inner))
        variance[part] = np.einsum("ij,ij->i", deviation, deviation)
    return center, variance


def ends_around_kinks(moments: Moments, inner: float) -> list[Array]:
    """Return panel ends at the scale ``√V`` around every kink."""
    kinks = np.array([kink.place for kink in moments.panels.kinks(moments.reach * moments.deviation)])
    return [(kinks[:, None] + sign * inner * KINK_ENDS).ravel() for sign in (-1, 1)]


def gaussian_ends(moments: Moments) -> Array:
    """Return panel ends that resolve the normal density, as far out as the activation needs it."""
    positive = np.concatenate([_OUTER_ENDS, np.arange(_REACH, moments.reach, 2.0), [moments.reach]])
    return np.concatenate([-positive[:0:-1], positive])


def inner_rule(moments: Moments, edges: Array, order: int) -> tuple[Array, Array]:
    """Return nodes and Gaussian weights for ``x``, with panels that also end at ``edges``, one row per outer node."""
    reach = moments.reach
    further = np.arange(_REACH, reach, 2.0)
    fixed = np.concatenate([[-reach], -further[::-1], _INNER_ENDS, further, [reach]])
    every = np.concatenate(
        [np.clip(edges, -reach, reach), np.broadcast_to(fixed, (len(edges), len(fixed)))], axis=1
    )
    x, weight = on_panels(np.sort(every, axis=1), order)
    return x, weight * gaussian_density(x)


def change_in_panel(moments: Moments, m: Array, inner: float) -> tuple[Array, Array]:
    """Return mean and variance of ``(φ(m + √V x) − φ(m))/√V`` where no kink is near, from φ' along the way."""
    x, x_weight = _hermite_rule()
    along, share = legendre(5)
    slopes = (
        moments.function.derivative(m[:, None, None] + inner * x[:, None] * along) @ share
    )  # (outer, inner)
    change = x * slopes
    center = change @ x_weight
    return center, (change - center[:, None]) ** 2 @ x_weight


def gaussian_density(z: Array) -> Array:
    """Return the density of N(0, 1)."""
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


@cache
def _hermite_rule() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(10)
    return np.asarray(nodes), np.asarray(weights / math.sqrt(2 * math.pi))


def thinned(edges: Array, inner: float) -> Array:
    """Drop ends that stand much closer than ``√V`` to the one before: averages over ``√V x`` vary no faster."""
    closest = _THINNEST * inner
    kept = [float(edges[0])]
    for edge in edges[1:-1].tolist():
        if edge - kept[-1] >= closest:
            kept.append(edge)
    return np.array([*kept, float(edges[-1])])
