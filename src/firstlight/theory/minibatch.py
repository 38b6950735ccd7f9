r"""The law of one batch-normalized Gaussian value on a mini-batch of B points.

Enters: a batch size. Leaves: the distribution of b = (z_a − mean z)/s for z ~ N(0, 1), independent over the
batch, with s² the biased variance, and the averages of an activation under it.

The normalized batch is √B times a uniform point of the unit sphere in B − 1 dimensions, so each value is a
function of one angle θ in (−π/2, π/2) with density ∝ cos^{B−3} θ. Two laws are maps of that same angle:

- ``"exact"``, what frameworks run (a point is part of its own batch): b = √(B−1) sin θ, that is
  b²/(B−1) ~ Beta(½, (B−2)/2); |b| ≤ √(B−1), Var b = 1. B = 2 leaves the values ±1, B = 3 the arcsine law.
- ``"leave_one_out"``, the approximation of the paper on norm placement (statistics of the other points):
  b = √B tan θ = √(B/(B−2))·t_{B−2}, density ∝ (1 + b²/B)^{−(B−1)/2}; Var b = B/(B−4), infinite for B ≤ 4.

Which pairs of points decide the data variance? Two points of one batch are dependent given the weights: the
batch sums to zero, so their correlation is −1/(B−1). Over n points in batches of B the centre variance is the
covariance averaged over all pairs, of which a share (B−1)/(n−1) lies in one batch. For n ≫ B two generic
points are in different batches; there the two normalized values are independent, whatever centre and variance
the unit had, because normalizing removed them: E φ(b)φ(b′) = (E φ(b))². So batch norm → φ over a large data
set gives

    C′ = σ_w² (E φ(b))² + σ_b²,     V′ = σ_w² (E φ(b)² − (E φ(b))²).

Only if the data set is one batch (n = B) do all pairs share it; then E φ(b)φ(b′) within the batch replaces
(E φ)², as dataset theory does block by block. Length and direction of a Gaussian batch are independent, so
for φ = ReLU that is the Gaussian kernel (sin θ + (π−θ) cos θ)/(2π) at cos θ = −1/(B−1).

Noise passes with the statistics held, dx′ = φ′(b) dx/s. By the same independence its variance is multiplied
by ``gain(φ) · inverse_variance_gain`` under the exact law, for any φ.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import UsageError, one_of
from firstlight.theory.halving import integrate_by_halving

__all__ = ["MinibatchLaw", "gamma_ratio"]

Array = NDArray[np.float64]

_VARIANTS = ("exact", "leave_one_out")
_METHODS = ("auto", "closed_form", "quadrature")
_FIRST_PANELS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 13.0, 16.0, 20.0, 25.0, 32.0)


@dataclass(frozen=True)
class MinibatchLaw:
    """Distribution of a batch-normalized Gaussian value.

    Args:
        batch_size: Points in the batch, 2 or more (3 or more for the leave-one-out law).
        variant: ``"exact"`` or ``"leave_one_out"``.

    >>> def step(u):
    ...     return np.heaviside(u, 0.5)
    >>> relu = ActivationFunction("relu", lambda u: u * step(u), step, (0.0,), slopes=(0.0, 1.0))
    >>> law = MinibatchLaw(32)
    >>> mean, square = law.mean(relu), law.mean_square(relu)
    >>> print(f"{mean**2 / (square - mean**2):.4f}")  # the full batch gives 1/(π−1) = 0.4669
    0.4782
    """

    batch_size: int
    variant: str = "exact"

    def __post_init__(self) -> None:
        if self.variant not in _VARIANTS:
            raise one_of("variant of the mini-batch law", self.variant, _VARIANTS)
        try:
            size = operator.index(self.batch_size)
        except TypeError:
            raise UsageError(f"batch_size: expected a whole number, got {self.batch_size!r}") from None
        object.__setattr__(self, "batch_size", size)
        if size == 1:
            raise UsageError(
                "batch_size: expected 2 or more, got 1; batch norm of one point is 0 whatever the point, "
                "because it is its own mean"
            )
        if size < 1:
            raise UsageError(f"batch_size: expected 2 or more, got {size}")
        if size == 2 and self.variant == "leave_one_out":
            raise UsageError(
                "batch_size: expected 3 or more for the leave-one-out law, got 2; one remaining point has no "
                "variance to divide by, use variant='exact'"
            )

    @property
    def variance(self) -> float:
        """Var b: 1 under the exact law; B/(B−4) under leave-one-out, infinite for B ≤ 4."""
        return 2.0 * self._half_moment(2)

    @property
    def support(self) -> tuple[float, float]:
        """Least and greatest value: ±√(B−1) under the exact law."""
        edge = math.sqrt(self.batch_size - 1) if self.variant == "exact" else math.inf
        return -edge, edge

    @property
    def inverse_variance_gain(self) -> float:
        r"""E[1/s²] for values of variance 1: what held statistics multiply the variance of noise by.

        B·s² ~ χ²_{B−1}, so this is B/(B−3); leave-one-out statistics hold B−1 points: (B−1)/(B−4).
        Infinite for B ≤ 3 (4). Noise then has no mean growth: 1/s² has a tail x^{−(B−1)/2}, the sum over the
        N units of a layer is ruled by the few that hardly vary over their batch, and one layer multiplies noise
        by an amount that grows with the width, like log N at B = 3 and like N at B = 2, until the ε of the norm
        cuts it. ``typical_inverse_variance_gain`` stays finite.
        """
        points = self._points_in_statistics
        return points / (points - 3) if points > 3 else math.inf

    @property
    def typical_inverse_variance_gain(self) -> float:
        """Geometric mean of 1/s²: (n/2) exp(−ψ((n−1)/2)) with n points in the statistics; always finite."""
        points = self._points_in_statistics
        return float(0.5 * points * np.exp(-special.digamma(0.5 * (points - 1))))

    def pdf(self, b: ArrayLike) -> Array:
        """Density; infinite at ±√2 for B = 3 (arcsine law)."""
        if self.batch_size == 2:
            raise UsageError("pdf: a batch of 2 leaves only the values −1 and +1, without a density; use cdf")
        b = np.asarray(b, dtype=np.float64)
        size = self.batch_size
        if self.variant == "leave_one_out":
            return np.asarray(
                self._peak / math.sqrt(size) * np.exp(-0.5 * (size - 1) * np.log1p(np.square(b) / size))
            )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inside = np.log1p(-np.square(b / self.support[1]))
            power = np.zeros_like(inside) if size == 4 else 0.5 * (size - 4) * inside
            density = self._peak / math.sqrt(size - 1) * np.exp(power)
        return np.where(np.isnan(b), np.nan, np.where(np.abs(b) <= self.support[1], density, 0.0))

    def cdf(self, b: ArrayLike) -> Array:
        """P(value ≤ b)."""
        b = np.asarray(b, dtype=np.float64)
        size = self.batch_size
        if size == 2:
            return np.where(np.isnan(b), np.nan, 0.5 * (b >= -1.0) + 0.5 * (b >= 1.0))
        tail = self._tail(b)
        return np.asarray(np.where(b <= 0, tail, 1.0 - tail))

    def quantile(self, p: ArrayLike) -> Array:
        """Least b with cdf(b) ≥ p, for p in [0, 1]."""
        p = np.asarray(p, dtype=np.float64)
        outside = ~((p >= 0) & (p <= 1))
        if np.any(outside):
            raise UsageError(f"quantile: expected probabilities in [0, 1], got {p[outside].flat[0]}")
        size = self.batch_size
        if size == 2:
            return np.where(p <= 0.5, -1.0, 1.0)
        tails = 2.0 * np.minimum(p, 1.0 - p)
        sine_square = special.betainccinv(0.5, 0.5 * (size - 2), tails)
        if self.variant == "exact":
            magnitude = np.sqrt((size - 1) * sine_square)
        else:
            with np.errstate(divide="ignore"):
                magnitude = np.sqrt(size * sine_square / special.betaincinv(0.5 * (size - 2), 0.5, tails))
        return np.asarray(np.where(p < 0.5, -magnitude, magnitude))

    def sample(self, n: int, *, seed: int) -> Array:
        """Draw n independent values."""
        generator = np.random.default_rng(seed)
        own = generator.standard_normal(n)
        if self.batch_size == 2:
            return np.copysign(1.0, own)
        others = 2.0 * generator.standard_gamma(0.5 * (self.batch_size - 2), n)
        if self.variant == "leave_one_out":
            return np.asarray(own * np.sqrt(self.batch_size / others))
        return np.asarray(own * np.sqrt((self.batch_size - 1) / (np.square(own) + others)))

    def mean(self, function: ActivationFunction, *, method: str = "auto") -> float:
        """E φ(b), an odd part counting 0; ``method``: ``"auto"``, ``"closed_form"``, ``"quadrature"``."""
        return self._average(function, 1, method)

    def mean_square(self, function: ActivationFunction, *, method: str = "auto") -> float:
        """E φ(b)²."""
        return self._average(function, 2, method)

    def fourth_moment(self, function: ActivationFunction, *, method: str = "auto") -> float:
        """E φ(b)⁴."""
        return self._average(function, 4, method)

    def gain(self, function: ActivationFunction, *, method: str = "auto") -> float:
        """E φ′(b)²."""
        slopes = _slopes_for_closed_form(function, method)
        if slopes is not None:
            return 0.5 * (slopes[0] ** 2 + slopes[1] ** 2)
        return self._integrate(lambda b: np.square(function.derivative(b)), function)

    @property
    def _points_in_statistics(self) -> int:
        return self.batch_size - (self.variant == "leave_one_out")

    @property
    def _peak(self) -> float:
        """Density of θ at 0: Γ((B−1)/2) / (√π Γ((B−2)/2))."""
        return gamma_ratio(0.5 * (self.batch_size - 2), 1) / math.sqrt(math.pi)

    def _tail(self, b: Array) -> Array:
        """P(value ≤ −|b|) = ½ P(sin² θ ≥ its value at b), to full relative precision."""
        size = self.batch_size
        if self.variant == "exact":
            ratio = np.minimum(np.abs(b) / self.support[1], 1.0)
            sine_square, cosine_square = np.square(ratio), (1.0 - ratio) * (1.0 + ratio)
        else:
            with np.errstate(over="ignore"):
                cosine_square = 1.0 / (1.0 + np.square(b) / size)
            sine_square = 1.0 - cosine_square
            sine_square = np.where(sine_square < 0.5, np.square(b) / size * cosine_square, sine_square)
        if size == 3:  # θ is uniform
            return np.asarray(np.arctan2(np.sqrt(cosine_square), np.sqrt(sine_square)) / np.pi)
        near = special.betaincc(0.5, 0.5 * (size - 2), sine_square)
        far = special.betainc(0.5 * (size - 2), 0.5, cosine_square)
        return np.asarray(0.5 * np.where(sine_square < 0.5, near, far))

    def _average(self, function: ActivationFunction, power: int, method: str) -> float:
        slopes = _slopes_for_closed_form(function, method)
        if slopes is None:
            return self._integrate(lambda b: function.value(b) ** power, function)
        left, right = slopes
        if right**power + (-left) ** power and self._half_moment(power) == math.inf:
            return math.copysign(math.inf, right**power + (-left) ** power)
        total = function.shift**power  # binomial sum of (shift + left·min(b, 0) + right·max(b, 0))^power
        for k in range(1, power + 1):
            weight = math.comb(power, k) * function.shift ** (power - k) * (right**k + (-left) ** k)
            total += weight * self._half_moment(k) if weight else 0.0
        return float(total)

    def _half_moment(self, k: int) -> float:
        r"""E max(b, 0)^k, exactly (B−1)^{k/2} Γ((k+1)/2) Γ((B−1)/2) / (2√π Γ((B−1+k)/2))."""
        size = self.batch_size
        if size == 2:
            return 0.5
        factor = 0.5 * math.gamma(0.5 * (k + 1)) / math.sqrt(math.pi)
        if self.variant == "exact":
            return factor * math.pow(size - 1, 0.5 * k) / gamma_ratio(0.5 * (size - 1), k)
        if k >= size - 2:
            return math.inf
        return factor * math.pow(size, 0.5 * k) / gamma_ratio(0.5 * (size - 2 - k), k)

    def _integrate(self, integrand: Callable[[Array], Array], function: ActivationFunction) -> float:
        """Average over the angle θ (no singular ends), b paired with −b so that odd functions give 0."""
        size, exact = self.batch_size, self.variant == "exact"
        if size == 2:
            return 0.5 * float(np.sum(integrand(np.array([-1.0, 1.0]))))

        def paired(b: Array) -> Array:
            return np.asarray(integrand(b) + integrand(-b))

        if not exact and _growth(paired) >= size - 2 - 1e-3:  # the tail of the density is |b|^{−(B−1)}
            return math.copysign(math.inf, float(paired(np.array(1e12))))
        scale = math.sqrt(size - 1 if exact else size)
        sizes = np.abs([*_FIRST_PANELS, *(function.kinks or ())]) / scale
        angles = np.arcsin(np.minimum(sizes, 1.0)) if exact else np.arctan(sizes)
        edges = np.unique([0.0, *angles, 0.5 * math.pi])

        def weighted(theta: Array) -> Array:
            sine, cosine = np.sin(theta), np.cos(theta)
            log_cosine = np.where(theta < 0.7, 0.5 * np.log1p(-np.minimum(sine**2, 0.5)), np.log(cosine))
            weight = np.exp((size - 3) * log_cosine)
            b = np.where(weight > 0, scale * (sine if exact else sine / cosine), 0.0)
            return np.asarray(weight * paired(b))

        where = f"average of {function.name} over mini-batches of {size} ({self.variant})"
        return self._peak * integrate_by_halving(weighted, edges, where=where)


def _slopes_for_closed_form(function: ActivationFunction, method: str) -> tuple[float, float] | None:
    if method not in _METHODS:
        raise one_of("method", method, _METHODS)
    if method == "closed_form" and function.slopes is None:
        raise UsageError(
            f"method: {function.name} has no closed form under the mini-batch law; expected 'auto' or "
            "'quadrature', got 'closed_form'"
        )
    return None if method == "quadrature" else function.slopes


def _growth(integrand: Callable[[Array], Array]) -> float:
    """Exponent a of |integrand| ~ b^a far out; infinite if faster than any power."""
    with np.errstate(all="ignore"):
        near, far = (float(np.max(np.abs(integrand(at * np.linspace(1.0, 2.0, 101))))) for at in (1e8, 1e12))
    if not (math.isfinite(near) and math.isfinite(far)):
        return math.inf
    return math.log(far / max(near, 1e-300)) / math.log(1e4) if far > 0 else -math.inf


def gamma_ratio(n: float, steps: int) -> float:
    """Γ(n + steps/2)/Γ(n), to full relative precision for any n > 0."""
    ratio = math.prod(n + step for step in range(steps // 2))
    if steps % 2 == 0:
        return ratio
    n += steps // 2
    if n < 85:
        return ratio * math.gamma(n + 0.5) / math.gamma(n)
    # A difference of log-gammas would lose as many digits as n has.
    series = (
        -399 / 262144,
        -21 / 32768,
        5 / 1024,
        1 / 128,
        -1 / 8,
        1.0,
    )  # no difference of log-gammas: it loses digits
    return ratio * math.sqrt(n) * float(np.polyval(series, 1 / n))
