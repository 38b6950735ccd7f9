r"""How the maximum of K units depends on the correlation between two data points.

Enters: K, an activation by its pieces, two deviations. Leaves: the joint gain g(θ) at correlation cos θ, with which

    d/dt Cov(max_i φ(u_i), max_i φ(u'_i)) = σ_a σ_b g,     g = K E[φ'(u) φ'(u') H(u, u')^{K−1}],   t = cos θ,

where (u, u') is one unit at both points and H(u, u') = P(φ(v) ≤ φ(u), φ(v') ≤ φ(u')) the chance that another unit loses
to it at both. It follows from Hoeffding's Cov = ∫∫ [H^K − F^K F^K] ds dr over levels, and from Plackett's
∂Φ₂(x, y; t)/∂t = φ₂(x, y; t) for the bivariate normal. K = 1 is Price's theorem.

With x = s cos(θ/2) + d sin(θ/2), y = s cos(θ/2) − d sin(θ/2) the numbers s, d are independent N(0, 1), no scale
shrinks as θ → 0, and H grows along s by the closed form ∂Φ₂/∂s = cos(θ/2) [φ(x) Φ(τσ − w/τ) + φ(y) Φ(τσ + w/τ)],
τ = tan(θ/2), σ = s cos(θ/2), w = d sin(θ/2): one cumulative Gauss rule per line. Panels end where a kink meets x or y.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from firstlight.theory.kernels.kernel import Array
from firstlight.theory.kernels.level_sets import Crossings
from firstlight.theory.kernels.panels import legendre, on_panels
from firstlight.theory.kernels.winner import Winner, normal_density

__all__ = ["JointGain", "TabulatedGain", "bivariate_normal"]

_ALONG = np.array([-9.0, -5.5, -3.5, -2.0, -0.5, 1.0, 2.25, 3.5, 5.0, 6.5, 9.0])
_ACROSS = np.array([0.0, 2.5, 7.5])
_ACROSS_BETWEEN = np.array([1.2, 4.0])
_LAYERS = np.array([-12.0, -3.0, 3.0, 12.0])
_NODES_ALONG, _NODES_ACROSS = 12, 14
_DEGREE = 40
_FAR = 8.3  # deviations beyond which a normal tail is below the rounding of 1


class JointGain:
    """The function g(θ) for the winners at two data points.

    Attributes:
        first: The winner at the first point; its marks end the panels of x.
        second: The winner at the second point.
        angles: Angles between which g is smooth.
    """

    def __init__(self, first: Winner, second: Winner) -> None:
        self.first, self.second = first, second
        bend, gap = min(first.scale, second.scale), min(first.gap, second.gap)
        self._at_right_angle = 0.0
        self._bends = _growing(bend, 4.0) if bend < 0.3 else np.array([])
        self.angles = _growing(min(bend if bend < 0.3 else 1.2, gap), 1.2)
        if _is_even(first) and _is_even(second):
            self._at_right_angle = self._at(
                0.5 * math.pi
            )  # 0 but for rounding, which a slope at c → 0 would divide by c

    def __call__(self, theta: Array) -> Array:
        """Return g at angles in [0, π]."""
        return np.array([self._at(float(angle)) for angle in theta.ravel()]).reshape(
            theta.shape
        ) - self._at_right_angle * np.sin(theta)

    def _at(self, theta: float) -> float:
        cosine, sine = max(math.cos(theta / 2), 1e-12), math.sin(theta / 2)
        d, weight = on_panels(self._edges_across(cosine, sine), _NODES_ACROSS)
        weight = weight * normal_density(d)
        if self.first is self.second:
            weight = 2.0 * weight
        else:
            d, weight = np.concatenate([-d, d]), np.concatenate([weight, weight])
        w = sine * d
        edges = self._edges_along(w, cosine, sine)  # (d, edge)
        at, rule = legendre(_NODES_ALONG)
        width = np.diff(edges)[..., None]
        s = edges[:, :-1, None] + width * at  # (d, panel, node)
        sigma, w, tau = cosine * s, w[:, None, None], sine / cosine
        x, y = sigma + w, sigma - w
        density_x, density_y = normal_density(x), normal_density(y)
        shift = (cosine * d)[:, None, None]
        rise = density_x * special.ndtr(tau * sigma - shift) + density_y * special.ndtr(tau * sigma + shift)
        rise *= cosine * width
        whole = rise @ rule
        below = (np.cumsum(whole, axis=-1) - whole)[..., None] + rise @ _CUMULATIVE
        if not (self.first.pieces.is_monotone and self.second.pieces.is_monotone):
            below = self._below_levels(x, y, below, theta)
        derivative, size = self.first.function.derivative, self.first.size
        value = derivative(self.first.deviation * x) * derivative(self.second.deviation * y)
        value *= below ** (size - 1) * normal_density(s)
        inner = ((value @ rule) * width[..., 0]).sum(axis=-1)
        return float(size * (inner @ weight))

    def _edges_across(self, cosine: float, sine: float) -> Array:
        # without kinks the marks are levels at which g is only weakly singular: the lines need not meet at panel ends
        first, second = (
            w.marks[: len(w.marks) * bool(len(w.kinks))] / w.deviation for w in (self.first, self.second)
        )
        cross = np.abs(np.subtract.outer(first, second)).ravel() / 2
        cross = np.concatenate([cross, self._bends])
        with np.errstate(over="ignore"):
            cross = cross[cross > 1e-12] / sine
        if cosine < sine:
            cross = np.concatenate([cross, _growing(3.0 * cosine, _ACROSS[1])])
        if (
            self.first.size > 16 and not self.first.pieces.is_monotone
        ):  # u and u' can win far apart, one low, one high
            cross = np.concatenate([cross, _ACROSS_BETWEEN])
        return np.unique(np.concatenate([_ACROSS, cross[cross < _ACROSS[-1]]]))

    def _edges_along(self, w: Array, cosine: float, sine: float) -> Array:
        rising = self.first.pieces.is_monotone and self.second.pieces.is_monotone
        even = _ALONG if rising else np.union1d(_ALONG, -_ALONG)  # where φ turns, low u can win too
        shifted = [np.broadcast_to(even, (len(w), len(even)))]
        for winner, sign in ((self.first, -1.0), (self.second, 1.0)):
            turns = (
                np.array([]) if winner.pieces.is_monotone else winner.pieces.turning_points / winner.deviation
            )
            layers = np.add.outer(
                turns, min(sine, cosine) * _LAYERS
            ).ravel()  # where both crossings are within reach of each other
            marks = np.concatenate(
                [winner.marks / winner.deviation, winner.narrow / winner.deviation, layers]
            )
            marks = np.unique(marks[np.abs(marks) < 12.0])
            shifted.append((marks + sign * w[:, None]) / cosine)
        return np.sort(np.clip(np.concatenate(shifted, axis=1), _ALONG[0], _ALONG[-1]), axis=1)

    def _below_levels(self, x: Array, y: Array, below: Array, theta: float) -> Array:
        """H where φ is not monotone: signed bivariate normal probabilities over all pairs of crossings."""
        a, b = self.first.deviation, self.second.deviation
        u, v = a * x, b * y
        others_u, right_u = self.first.pieces.crossings(u)
        others_v, right_v = self.second.pieces.crossings(v)
        sign_u, sign_v = self.first.pieces.sign_at(u), self.second.pieces.sign_at(v)
        every = np.ones(x.shape, dtype=bool)
        chance_u = sign_u * special.ndtr(x)
        chance_v = sign_v * special.ndtr(y)
        for other in others_u:
            chance_u += np.where(other.exists, other.sign * special.ndtr(other.place / a), 0.0)
        for other in others_v:
            chance_v += np.where(other.exists, other.sign * special.ndtr(other.place / b), 0.0)
        total = sign_u * sign_v * below + right_u * chance_v + right_v * chance_u + right_u * right_v
        all_u = [Crossings(u, 0.0, every), *others_u]
        all_v = [Crossings(v, 0.0, every), *others_v]
        for i, first in enumerate(all_u):
            for j, second in enumerate(all_v):
                if i == j == 0:
                    continue
                both = first.exists & second.exists
                if not both.any():
                    continue
                sign = (first.sign if i else sign_u[both]) * (second.sign if j else sign_v[both])
                total[both] += sign * bivariate_normal(first.place[both] / a, second.place[both] / b, theta)
        return np.clip(total, 0.0, 1.0)


class TabulatedGain:
    """g(θ) of a function of two slopes, which depends on no variance: a Chebyshev series on each half of [0, π]."""

    angles = np.array([])

    def __init__(self, winner: Winner) -> None:
        self._joint = JointGain(winner, winner)
        self._series: dict[bool, Array] = {}

    def __call__(self, theta: Array) -> Array:
        """Return g at angles in [0, π]."""
        acute = theta <= 0.5 * math.pi
        result = np.empty(theta.shape)
        for half in np.unique(acute):
            at = (theta[acute == half] - (0.0 if half else 0.5 * math.pi)) * (4.0 / math.pi) - 1.0
            result[acute == half] = np.polynomial.chebyshev.chebval(at, self._half(bool(half)))
        return result

    def _half(self, half: bool) -> Array:
        if half not in self._series:
            nodes = np.polynomial.chebyshev.chebpts1(_DEGREE)
            values = self._joint((0.0 if half else 0.5 * math.pi) + 0.25 * math.pi * (nodes + 1.0))
            self._series[half] = np.asarray(
                np.polynomial.chebyshev.chebfit(nodes, values, _DEGREE - 1), dtype=np.float64
            )
        return self._series[half]


def bivariate_normal(h: Array, k: Array, theta: float) -> Array:
    """Return Φ₂(h, k) at correlation cos θ by Owen's T; k − h cos θ is formed without cancellation at small θ."""
    result = special.ndtr(np.minimum(h, k))  # the limit of k − h ≫ sin θ at an acute angle
    sine, versine = math.sin(theta), 2.0 * math.sin(theta / 2) ** 2
    low, high = np.minimum(h, k), np.maximum(h, k)
    open_ = low > -_FAR
    if versine < 1.0:
        open_ &= (high - low) + versine * low < _FAR * sine
    h, k = low[open_], high[open_]
    h, k = np.where(h == 0, 1e-300, h), np.where(k == 0, 1e-300, k)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        slope_h, slope_k = ((k - h) + versine * h) / (h * sine), ((h - k) + versine * k) / (k * sine)
    both = 0.5 * (special.ndtr(h) + special.ndtr(k)) - _owen(h, slope_h) - _owen(k, slope_k)
    result[open_] = np.where((h < 0) != (k < 0), both - 0.5, both)
    return np.asarray(result)


def _owen(h: Array, slope: Array) -> Array:
    return np.asarray(special.owens_t(h, np.where(np.isnan(slope), 0.0, slope)))


def _is_even(winner: Winner) -> bool:
    u = winner.deviation * np.linspace(0.1, 6.0, 60)
    return bool(np.all(winner.function.value(u) == winner.function.value(-u)))


def _growing(start: float, end: float) -> Array:
    """Return start·(1, 4, 16, …) below ``end``."""
    return np.ldexp(start, 2 * np.arange(max(0, math.ceil(math.log2(end / start) / 2))))


def _cumulative_rule(order: int) -> Array:
    """Return the matrix that takes values at the Gauss nodes of [0, 1] to integrals from 0 to each node."""
    nodes, _ = legendre(order)
    z = 2.0 * nodes - 1.0
    series = np.linalg.inv(np.polynomial.legendre.legvander(z, order - 1))
    integrated = np.polynomial.legendre.legint(series, lbnd=-1.0) / 2.0
    return np.asarray(np.polynomial.legendre.legvander(z, order) @ integrated).T


_CUMULATIVE = _cumulative_rule(_NODES_ALONG)
