r"""The law of guesses counted over finitely many data points.

Enters: the law of the fractions and a number D of data points. Leaves: the law of the counted fraction K/D
of one label,

.. math:: P(K = k) = \int \binom{D}{k} g^k (1-g)^{D-k} f(g)\, dg.

Two labels, exactly: with g = Φ(z), z ~ N(0, γ), each integrand is log-concave in z (log Φ is concave), so
it has one mode and falls off on both sides at a rate that never slackens. Each k is integrated over its own
window, from where the integrand has fallen by e⁻⁴⁰ to where it has again, in two Gauss–Legendre panels that
meet at the mode. The scale of the window follows √γ or 1/√D, whichever is smaller, so the rule knows no
hard γ. Beyond |z| = 11 the end counts keep an untouched Gaussian tail, which is added in closed form. More
labels: from counted draws, pooled over the exchangeable labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import UsageError
from firstlight.results.guess_law import GuessLaw, default_draws

__all__ = ["CountedLaw"]

Array = NDArray[np.float64]

_REACH = 11.0  # D·Φ(−11) < 1e-16 up to D = 10¹¹
_FALL = 40.0
_ORDER = 64


@dataclass(frozen=True)
class CountedLaw:
    """The law of fractions k/D counted over D data points.

    Attributes:
        law: The law of the fractions themselves.
        samples: D.

    >>> GuessLaw(1.0).with_samples(4).pmf.round(12).tolist()   # uniform G: every count equally likely
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """

    law: GuessLaw
    samples: int

    def __post_init__(self) -> None:
        if not isinstance(self.samples, (int, np.integer)) or self.samples < 1:
            raise UsageError(f"with_samples: expected a positive number of data points, got {self.samples!r}")

    @property
    def exact(self) -> bool:
        """Whether no draws are involved."""
        return self.law.labels == 2 or bool(self.law.atoms)

    @cached_property
    def pmf(self) -> Array:
        """P(K = k) of one label for k = 0 … D."""
        if (
            self.law.atoms or self.law.root_gamma * self.law.root_gamma * self.samples < 1e-17
        ):  # no count can tell so small a γ from 0
            return self._atomic()
        if self.law.labels == 2:
            half = _mixture(self.law, self.samples, np.arange(self.samples // 2 + 1))
            return np.concatenate([half, half[: (self.samples + 1) // 2][::-1]])
        counts = np.rint(self._draws * self.samples).astype(np.int64)
        return np.asarray(np.bincount(counts.ravel(), minlength=self.samples + 1) / counts.size)

    def cdf(self, g: ArrayLike) -> Array:
        """P(K/D ≤ g)."""
        values = np.asarray(g, dtype=np.float64)
        counts = np.floor(values * self.samples + 1e-9).clip(
            -1, self.samples
        )  # a fraction is a count over D, up to rounding
        padded = np.concatenate([[0.0], self._cumulative])
        found = padded[np.where(np.isnan(counts), 0, counts + 1).astype(np.intp)]
        return np.asarray(np.where(np.isnan(values), np.nan, found))[()]

    def cdf_stderr(self, g: ArrayLike) -> Array:
        """Standard error of ``cdf`` over draws; zero where exact."""
        values = np.asarray(g, dtype=np.float64)
        if self.exact:
            return np.zeros_like(values)[()]
        flat = [
            float((self._draws <= value + 1e-9 / self.samples).mean(axis=1).std(ddof=1))
            for value in values.ravel()
        ]
        return np.asarray(np.reshape(flat, values.shape) / np.sqrt(len(self._draws)))[()]

    def quantile(self, p: ArrayLike) -> Array:
        """The least k/D with P(K/D ≤ k/D) ≥ p."""
        probabilities = np.asarray(p, dtype=np.float64)
        if not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise UsageError(f"quantile(p): expected probabilities between 0 and 1, got {p!r}")
        counts = np.searchsorted(self._cumulative, probabilities - 1e-14, side="left").clip(0, self.samples)
        return np.asarray(counts / self.samples)[()]

    @cached_property
    def mean_max(self) -> float:
        """E max_c K_c/D."""
        if self.law.labels == 2:
            counts = np.arange(self.samples + 1)
            return float(self.pmf @ np.maximum(counts, self.samples - counts) / self.samples)
        if self.law.root_gamma == 0:
            from firstlight.results.guess_null import null

            return null(self.law.labels, self.samples).mean_max
        return 1.0 if self.law.atoms else float(self._draws.max(axis=1).mean())

    def max_cdf(self, g: ArrayLike) -> Array:
        """P(max_c K_c/D ≤ g)."""
        values = np.asarray(g, dtype=np.float64)
        if self.law.root_gamma == 0:
            from firstlight.results.guess_null import null

            return null(self.law.labels, self.samples).max_cdf(values)
        if self.law.labels == 2:
            counts = np.floor(values * self.samples + 1e-9).clip(-1, self.samples)
            padded = np.concatenate([[0.0], self._cumulative])
            inside = (
                padded[(counts + 1).astype(np.intp)]
                - padded[np.clip(self.samples - counts, 0, None).astype(np.intp)]
            )
            return np.asarray(np.where(2 * counts >= self.samples, inside, 0.0))[()]
        if self.law.atoms:
            return np.asarray(np.where(values >= 1, 1.0, 0.0))[()]
        greatest = np.sort(self._draws.max(axis=1))
        return np.asarray(
            np.searchsorted(greatest, values + 1e-9 / self.samples, side="right") / greatest.size
        )[()]

    def sample(self, n: int, *, seed: int = 0) -> Array:
        """Counted fractions of ``n`` initializations, ``(n, label)``."""
        return self.law.sample(n, seed=seed, samples=self.samples)

    @cached_property
    def _draws(self) -> Array:
        return self.sample(default_draws(self.law.labels))

    @cached_property
    def _cumulative(self) -> Array:
        return np.minimum(np.cumsum(self.pmf), 1.0)

    def _atomic(self) -> Array:
        """γ = 0: binomial with chance 1/M; γ = ∞: all or nothing."""
        from scipy.special import bdtr

        pmf = np.zeros(self.samples + 1)
        if self.law.root_gamma < 1:
            below = bdtr(np.arange(self.samples + 1.0), self.samples, 1 / self.law.labels)
            return np.diff(below, prepend=0.0)
        pmf[0], pmf[-1] = 1 - 1 / self.law.labels, 1 / self.law.labels
        return pmf


def _mixture(law: GuessLaw, samples: int, counts: NDArray[np.int64]) -> Array:
    """P(K = k) for two labels, for k up to D/2."""
    from scipy.special import ndtr

    nodes, weights = np.polynomial.legendre.leggauss(_ORDER)
    scale = law.root_gamma
    pmf = np.empty(len(counts))
    for start in range(0, len(counts), 4096):
        k = counts[start : start + 4096, None].astype(np.float64)
        mode = _mode(k, samples, scale)
        top = _log_kernel(mode, k, samples, scale)
        total = np.zeros_like(mode)
        for side in (-1.0, 1.0):
            end = _fallen(mode, top, k, samples, scale, side)
            half = np.abs(end - mode) / 2
            z = mode + side * half * (1 + nodes)
            with np.errstate(under="ignore"):
                total += half * (np.exp(_log_kernel(z, k, samples, scale) - top) @ weights[:, None])
        with np.errstate(under="ignore"):
            pmf[start : start + 4096] = (np.exp(top + _log_binomial(k, samples)) * total)[:, 0]
    pmf *= 1 / (np.sqrt(2 * np.pi) * scale)
    pmf[counts == 0] += ndtr(-_REACH / scale)  # there the network never guesses the label
    return pmf


def _log_kernel(z: Array, k: Array, samples: int, scale: float) -> Array:
    from scipy.special import log_ndtr

    return np.asarray(k * log_ndtr(z) + (samples - k) * log_ndtr(-z) - 0.5 * (z / scale) ** 2)


def _mode(k: Array, samples: int, scale: float) -> Array:
    """Where the log-concave kernel is greatest within reach: bisection on its falling derivative."""
    from scipy.special import log_ndtr

    low, high = np.full_like(k, -_REACH), np.zeros_like(k)  # k ≤ D/2: not right of the middle
    for _ in range(60):
        z = (low + high) / 2
        bell = -0.5 * z * z - 0.5 * np.log(2 * np.pi)
        slope = (
            k * np.exp(bell - log_ndtr(z)) - (samples - k) * np.exp(bell - log_ndtr(-z)) - z / scale / scale
        )
        low, high = np.where(slope > 0, z, low), np.where(slope > 0, high, z)
    return (low + high) / 2


def _fallen(mode: Array, top: Array, k: Array, samples: int, scale: float, side: float) -> Array:
    """Where the kernel has fallen by e⁻⁴⁰ on one side of its mode, or the end of the reach."""
    near, far = mode, np.full_like(mode, side * _REACH)
    for _ in range(60):
        z = (near + far) / 2
        high = _log_kernel(z, k, samples, scale) > top - _FALL
        near, far = np.where(high, z, near), np.where(high, far, z)
    return far


def _log_binomial(k: Array, samples: int) -> Array:
    """Log of the binomial coefficient by Stirling's series, so that it stays exact to rounding at large D."""
    from scipy.special import xlogy

    rest = samples - k
    middle = np.where((k > 0) & (rest > 0), k * rest, 1.0)
    leading = np.where((k > 0) & (rest > 0), 0.5 * np.log(samples / (2 * np.pi * middle)), 0.0)
    entropy = -xlogy(k, k / samples) - xlogy(rest, rest / samples)
    correction = _stirling_error(np.array(float(samples))) - _stirling_error(k) - _stirling_error(rest)
    return np.asarray(np.where((k > 0) & (rest > 0), leading + entropy + correction, 0.0))


def _stirling_error(n: Array) -> Array:
    """Log n! − log(√(2πn) (n/e)ⁿ)."""
    from scipy.special import gammaln

    large = np.maximum(n, 16.0)
    inverse = 1 / (large * large)
    series = (
        1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))
    ) / large
    small = np.maximum(n, 1.0)
    direct = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.where(n >= 16, series, direct)
