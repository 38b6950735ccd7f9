"""The product average at unequal variances and any correlation, for data sets.

Enters: a numerical kernel, ``q_a``, ``q_b`` and a correlation ``r`` in [−1, 1]. Leaves ``E φ(u_a) φ(u_b)``::

    M_a M_b + σ_a σ_b Σ_k b_k(q_a) b_k(q_b) r^k          remainder at most |r|^(K+1) √(R_K(q_a) R_K(q_b))

and where that remainder matters, with ``u = √|r| σ z + √(1 − |r|) σ x``, the integral over ``z`` of the product of both
averages over ``x``. The error is relative to ``√(E φ(u_a)² E φ(u_b)²)``, since the product itself may vanish.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from firstlight.theory.kernels.kernel import Array, Number
from firstlight.theory.kernels.moments import MOST_COEFFICIENTS, Moments
from firstlight.theory.kernels.panels import on_panels
from firstlight.theory.kernels.smoothing import ends_around_kinks, gaussian_density, gaussian_ends, smoothed

if TYPE_CHECKING:
    from firstlight.theory.kernels.numerical import NumericalKernel

__all__ = ["product_of"]

_TOLERANCE = 1e-11
_ORDER = 18


def product_of(kernel: NumericalKernel, q_a: Number, q_b: Number, correlation: Number) -> Number:
    """Return ``E φ(u_a) φ(u_b)`` for every triple of the broadcast arguments."""
    arrays = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (q_a, q_b, correlation)))
    first, second, r = (x.ravel() for x in arrays)
    distinct, where = np.unique(np.concatenate([first, second]), return_inverse=True)
    index_a, index_b = where[: first.size], where[first.size :]
    every = [kernel.moments(float(q)) for q in distinct]
    count = _terms(every, float(np.abs(r).max(initial=0.0)))
    table = np.array([moments.coefficients(count) for moments in every])  # (variance, term)
    mean, deviation, excess, variance = (
        np.array([getattr(moments, name) for moments in every])
        for name in ("mean", "deviation", "mean_excess", "variance")
    )
    series = np.zeros_like(r)
    for k in range(count - 1, -1, -1):
        series = (series + table[index_a, k] * table[index_b, k]) * r
    rest = np.maximum(variance - (table**2).sum(axis=1), 1e-15 * variance)
    total = np.sqrt(variance)[index_a] * np.sqrt(variance)[index_b]
    left_out = np.abs(r) ** (count + 1) * np.sqrt(rest)[index_a] * np.sqrt(rest)[index_b]
    for i in np.flatnonzero(left_out > _TOLERANCE * total):
        a, b = every[index_a[i]], every[index_b[i]]
        series[i] = _nested(a, b, float(r[i])) - excess[index_a[i]] * excess[index_b[i]]
    result = mean[index_a] * mean[index_b] + deviation[index_a] * deviation[index_b] * series
    return result.reshape(arrays[0].shape) if arrays[0].shape else float(result[0])


def _terms(every: list[Moments], top: float) -> int:
    """Return how many terms are enough for the largest correlation, as far as the series goes."""
    for count in (24, 48, 96, 192):
        rest = [m.variance - float((m.coefficients(count) ** 2).sum()) for m in every]
        enough = [top ** (count + 1) * r <= _TOLERANCE * m.variance for r, m in zip(rest, every, strict=True)]
        if all(enough):
            return count
    return MOST_COEFFICIENTS


def _nested(a: Moments, b: Moments, r: float) -> float:
    """Return ``E ψ_a ψ_b`` over ``z`` of the averages over ``x_a`` and ``x_b``."""
    common, own, sign = math.sqrt(abs(r)), math.sqrt(1 - abs(r)), math.copysign(1.0, r)
    wider = max((a, b), key=lambda moments: moments.reach)
    ends: list[Array] = [gaussian_ends(wider)]
    for moments, side in ((a, 1.0), (b, sign)):
        scale = side / (common * moments.deviation)
        ends += [scale * moments.panels.breakpoints(moments.reach * moments.deviation)]
        ends += [scale * points for points in ends_around_kinks(moments, own * moments.deviation)]
    reach = wider.reach
    z, weight = on_panels(np.unique(np.clip(np.concatenate(ends), -reach, reach)), _ORDER)
    left = _average(a, common * z, own)
    right = _average(b, common * z, own) if sign > 0 else _average(b, -common * z[::-1], own)[::-1]
    return float((weight * gaussian_density(z) * left) @ right)


def _average(moments: Moments, place: Array, own: float) -> Array:
    """Return ``E_x ψ(σ (place + own·x))`` for ascending places."""
    if own == 0:
        return moments.excess(moments.deviation * place)
    center, _ = smoothed(moments, moments.deviation * place, own * moments.deviation, _ORDER)
    return center
