"""Both slopes by nested quadrature, right for any piecewise smooth activation.

Enters: the moments of an activation at ``q``, ``c`` and ``ρ = 1 − c``. Leaves ``B/(c q)`` and ``V'/(ρ q)``, where with
``u = m + √V x``, ``m ~ N(0, c q)``, ``V = ρ q``::

    f1(m) = E_x φ(u)       B = E_m (f1 − M)²       V' = E_m Var_x φ(u)

Three regimes, because no single rule is accurate in all of them:

- ``c ≤ 1/20``: twenty terms of the power series in ``c`` (see ``hermite``; what is left out is below 20⁻²⁰).
- ``√V`` comparable with the panels of φ: outer panels end at the panels of φ and around every kink at the scale ``√V``,
  for inner ones see ``smoothing``.
- ``√V`` far below every panel: away from kinks φ' alone; a window around each kink is integrated in units of ``√V``,
  from φ' on either side and the jump of φ.

Two orders are compared, and the higher is returned when they agree to 1e-8: then its own error is far smaller, since
every step of order gains two to three digits. Where the highest two do not agree the kernel refuses.
"""

from __future__ import annotations

import math

import numpy as np

from firstlight.errors import CouldNotError
from firstlight.theory.kernels.hermite import hermite_slopes
from firstlight.theory.kernels.kernel import Array
from firstlight.theory.kernels.moments import Moments
from firstlight.theory.kernels.numerical import NumericalKernel
from firstlight.theory.kernels.panels import Kink, legendre, on_panels
from firstlight.theory.kernels.smoothing import (
    KINK_ENDS,
    SEPARATED,
    change_in_panel,
    ends_around_kinks,
    gaussian_density,
    gaussian_ends,
    inner_rule,
    smoothed,
    thinned,
)

__all__ = ["QuadratureKernel", "nested_slopes"]

_SERIES_BELOW = 0.05
_WANTED = 1e-8
_ORDERS = (8, 12, 16, 22, 30)
_SMALLEST = 1e-300
_ROUNDING = 1e-14


class QuadratureKernel(NumericalKernel):
    """Gaussian averages by quadrature alone."""

    method = "quadrature"

    def _slopes(self, moments: Moments, c: Array, rho: Array) -> tuple[Array, Array]:
        spread, data = np.empty_like(c), np.empty_like(c)
        small = c <= _SERIES_BELOW
        if small.any():
            spread[small], data[small], _ = hermite_slopes(moments, c[small], rho[small])
        for i in np.flatnonzero(~small):
            spread[i], data[i] = nested_slopes(moments, float(c[i]), float(rho[i]))
        return spread, data


def nested_slopes(
    moments: Moments, c: float, rho: float, *, orders: tuple[int, ...] = _ORDERS
) -> tuple[float, float]:
    """Return ``B/(c q)`` and ``V'/(ρ q)`` for ``c > 1/20``, confirmed by two orders."""
    if moments.jumps and moments.deviation * math.sqrt(rho) < _SMALLEST:
        return moments.variance, math.inf  # what a jump adds diverges as 1/√ρ
    rho = max(rho, _SMALLEST)  # all else has long settled
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite fails the comparison
        return _confirmed(moments, c, rho, orders)


def _confirmed(moments: Moments, c: float, rho: float, orders: tuple[int, ...]) -> tuple[float, float]:
    """Raise the order until two agree."""
    rule = _separated_slopes if _is_separated(moments, rho) else _overlapping_slopes
    former = rule(moments, c, rho, orders[0])
    difference = math.inf
    for order in orders[1:]:
        latter = rule(moments, c, rho, order)
        # B may be smaller than what rounding of φ alone makes of it, when it is nothing beside the variance
        rounding = _ROUNDING * moments.variance
        difference = max(_relative(former[0], latter[0], rounding), _relative(former[1], latter[1]))
        if difference <= _WANTED:
            return latter
        former = latter
    if len(orders) == 1:
        return former
    raise CouldNotError(
        f"kernel of {moments.function.name!r} at variance {moments.q:.6g}, correlation {c:.6g} (1 − {rho:.6g}): "
        f"expected two orders of quadrature to agree within {_WANTED:.0e}, got a relative difference of "
        f"{difference:.1e}; the function oscillates too fast, or is not smooth between its kinks: list them in `kinks`"
    )


def _is_separated(moments: Moments, rho: float) -> bool:
    """Say whether ``√V`` is far below every panel of φ that the Gaussian sees."""
    breaks = moments.panels.breakpoints(max(moments.reach * moments.deviation, 2.0))
    return moments.reach * math.sqrt(rho) * moments.deviation <= SEPARATED * float(
        np.diff(breaks).min(initial=2.0)
    )


def _overlapping_slopes(moments: Moments, c: float, rho: float, order: int) -> tuple[float, float]:
    outer, inner = math.sqrt(c) * moments.deviation, math.sqrt(rho) * moments.deviation
    reach = moments.reach * outer
    ends = [moments.panels.breakpoints(moments.reach * moments.deviation), *ends_around_kinks(moments, inner)]
    ends += [outer * gaussian_ends(moments)]
    edges = np.unique(np.clip(np.concatenate(ends), -reach, reach))
    m, weight = on_panels(thinned(edges, inner), order)
    weight = weight * gaussian_density(m / outer) / outer
    m, weight = m[weight > 0], weight[weight > 0]
    center, variance = smoothed(moments, m, inner, order)
    return float(weight @ (center - moments.mean_excess) ** 2) / c, float(weight @ variance)


def _separated_slopes(moments: Moments, c: float, rho: float, order: int) -> tuple[float, float]:
    outer, inner = math.sqrt(c) * moments.deviation, math.sqrt(rho) * moments.deviation
    reach, window = moments.reach * outer, moments.reach * inner
    kinks = moments.panels.kinks(reach + window)
    places = np.array([kink.place for kink in kinks])
    breaks = moments.panels.breakpoints(reach)
    ends = [breaks, outer * gaussian_ends(moments), places - window, places + window]
    edges = np.unique(np.clip(np.concatenate(ends), -reach, reach))
    data = _far_from_kinks(moments, edges, places, outer, inner, order)
    with np.errstate(over="ignore"):
        for kink in kinks:
            data += _around_kink(moments, kink, outer, inner, order)
    fallen = rho * data  # V'/q
    return ((moments.variance - fallen) if math.isfinite(data) else moments.variance) / c, data


def _far_from_kinks(
    moments: Moments, edges: Array, places: Array, outer: float, inner: float, order: int
) -> float:
    middles = (edges[1:] + edges[:-1]) / 2
    far = (np.abs(middles[:, None] - places) > moments.reach * inner * (1 - 1e-9)).all(axis=1)
    if not far.any():
        return 0.0
    m, weight = on_panels(np.stack([edges[:-1], edges[1:]], axis=-1)[far], order)
    m, weight = m.ravel(), (weight * gaussian_density(m / outer) / outer).ravel()
    if inner * moments.reach < 1e-9 * float(np.diff(edges).min(initial=1.0)):
        return float(weight @ moments.function.derivative(m) ** 2)
    return float(weight @ change_in_panel(moments, m, inner)[1])


def _around_kink(moments: Moments, kink: Kink, outer: float, inner: float, order: int) -> float:
    """Return the part of ``V'/V`` that comes from ``|m − κ| < reach·√V``, in units ``y = (m − κ)/√V``."""
    reach = moments.reach
    gaussian = (outer * gaussian_ends(moments) - kink.place) / inner
    ends = np.concatenate([KINK_ENDS, -KINK_ENDS, gaussian, [-reach, 0.0, reach]])
    y, weight = on_panels(np.unique(np.clip(ends, -reach, reach)), order)
    weight = weight * gaussian_density((kink.place + inner * y) / outer) * (inner / outer)
    y, weight = y[weight > 0], weight[weight > 0]
    if not y.size:
        return 0.0
    x, x_weight = inner_rule(moments, -y[:, None], order)
    t = y[:, None] + x
    along, share = legendre(5)
    step = np.maximum(inner * np.abs(t[..., None]) * along, max(kink.uncertainty, 1e-300))
    slopes = moments.function.derivative(kink.place + np.sign(t[..., None]) * step) @ share
    change = t * slopes
    if kink.jump:
        change = change + np.where(t > 0, kink.jump / inner, 0.0)
    center = np.einsum("ij,ij->i", x_weight, change)
    deviation = change - center[:, None]
    return float(weight @ np.einsum("ij,ij,ij->i", x_weight, deviation, deviation))


def _relative(a: float, b: float, negligible: float = 0.0) -> float:
    if not math.isfinite(a - b):
        return math.inf
    return abs(a - b) / abs(b) if abs(a - b) > negligible else 0.0
