"""What a finite sample does to guesses: the neutral null, and bias beyond it.

Enters: a number of labels M and of data points D. Leaves: the law of the greatest counted fraction of a
network that prefers no label, and an estimate of bias that is zero on average for such a network.

A neutral network puts each data point into one of M classes with equal chance, so its counts are
multinomial and its greatest fraction exceeds 1/M by about √(2 ln M/(M D)). The law of the maximum is exact
here. With independent Poisson counts of any rate λ, truncated at m and conditioned on their sum,

    P(max ≤ m) = D! M⁻ᴰ λ⁻ᴰ Z_m(λ)ᴹ P_λ(S = D),    Z_m(λ) = Σ_{j≤m} λʲ/j!

where S is the sum of M truncated counts (Levin, Ann. Statist. 9 (1981) 1123, with λ free). The rate that
centres S on D makes P(S = D) a number of order one over its standard deviation, and one Fourier sum
evaluates it without cancellation. Far in the upper tail the complement is replaced by the sum over classes,
M·P(Bin(D, 1/M) ≥ m): counts are negatively associated, so that sum exceeds the probability by less than
half of its square.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import DataError, UsageError

__all__ = ["NullLaw", "null", "null_corrected_bias"]

_FAR_TAIL = 1e-6


def null(labels: int, samples: int | None) -> NullLaw:
    """The law of the guesses of a neutral network, counted over ``samples`` data points (None: without end).

    >>> neutral = null(2, 4)
    >>> float(neutral.mean_max)          # (2·1 + 8·¾ + 6·½)/16
    0.6875
    >>> float(neutral.p_value(1.0))      # both constant guesses: 2/16
    0.125
    """
    return NullLaw(labels, samples)


def null_corrected_bias(fractions: ArrayLike, samples: int | None) -> NDArray[np.float64]:
    r"""Bias of each initialization beyond what counting noise explains.

    The chance that one network gives two different data points the same label is :math:`A = \sum_c G_c^2`;
    a neutral network has A = 1/M and one that always says the same A = 1. Counted over the D(D−1) ordered
    pairs of different points,

    .. math:: \hat A = \frac{\sum_c k_c (k_c - 1)}{D (D - 1)} = \frac{D \sum_c \hat G_c^2 - 1}{D - 1}, \qquad
              b = \frac{M \hat A - 1}{M - 1} .

    For independent data points :math:`E \hat A = A` exactly, at every D ≥ 2, because each pair is an unbiased
    vote. So b is 0 on average without preference (single values scatter around it, also below), 1 for a
    constant guess, and :math:`(M \sum_c G_c^2 - 1)/(M - 1)` on average in between, whatever D; the plain
    statistic :math:`\sum_c (\hat G_c - 1/M)^2` would add :math:`(1 - A)/D`. For two labels b estimates
    :math:`(G_0 - G_1)^2`.

    Args:
        fractions: Counted fractions, ``(init, label)`` or ``(label,)``, all labels present.
        samples: Data points that each row was counted over, at least 2; None for exact fractions.

    Returns:
        One value per initialization.

    >>> null_corrected_bias([[1.0, 0.0], [0.5, 0.5]], 4).round(4).tolist()
    [1.0, -0.3333]
    """
    array = np.asarray(fractions, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] < 2:
        raise UsageError(
            f"null_corrected_bias(fractions): expected (init, label) with two labels or more, got shape {array.shape}"
        )
    if not np.allclose(array.sum(axis=-1), 1, rtol=0, atol=1e-6):
        raise DataError(
            "null_corrected_bias(fractions): expected rows that sum to one; pass all labels, not only the leading ones"
        )
    agreement = (array * array).sum(axis=-1)
    if samples is not None:
        if samples < 2:
            raise UsageError(
                "null_corrected_bias(samples): bias shows in pairs of data points; "
                f"expected at least 2, got {samples!r}"
            )
        agreement = (samples * agreement - 1) / (samples - 1)
    labels = array.shape[-1]
    return np.asarray((labels * agreement - 1) / (labels - 1))


@dataclass(frozen=True)
class NullLaw:
    """Guesses of a neutral network, counted.

    Attributes:
        labels: Number of labels M.
        samples: Number of data points D; None for infinitely many.
    """

    labels: int
    samples: int | None

    def __post_init__(self) -> None:
        if not isinstance(self.labels, (int, np.integer)) or self.labels < 2:
            raise UsageError(f"null(labels): expected an integer of at least 2, got {self.labels!r}")
        if self.samples is not None and (not isinstance(self.samples, (int, np.integer)) or self.samples < 1):
            raise UsageError(f"null(samples): expected a positive integer or None, got {self.samples!r}")

    @property
    def standard_deviation(self) -> float:
        """Of one label's fraction: √((1/M)(1 − 1/M)/D)."""
        if self.samples is None:
            return 0.0
        return float(np.sqrt((1 - 1 / self.labels) / self.labels / self.samples))

    def max_cdf(self, fraction: ArrayLike) -> NDArray[np.float64]:
        """P(max_c Ĝ_c ≤ fraction)."""
        values = np.asarray(fraction, dtype=np.float64)
        if self.samples is None:
            return np.asarray(np.where(values >= 1 / self.labels, 1.0, 0.0))[()]
        counts = np.floor(values * self.samples + 1e-9).clip(
            -1, self.samples
        )  # a fraction is a count over D, up to rounding
        distinct, inverse = np.unique(counts, return_inverse=True)
        found = np.array([_max_probability(self.labels, self.samples, int(count))[0] for count in distinct])
        return np.asarray(found[inverse].reshape(values.shape))[()]

    def p_value(self, fraction: ArrayLike) -> NDArray[np.float64]:
        """P(max_c Ĝ_c ≥ fraction): how often a neutral network looks at least as biased."""
        values = np.asarray(fraction, dtype=np.float64)
        if self.samples is None:
            return np.asarray(np.where(values <= 1 / self.labels, 1.0, 0.0))[()]
        counts = np.ceil(values * self.samples - 1e-9).clip(0, self.samples + 1)
        distinct, inverse = np.unique(counts, return_inverse=True)
        found = np.array(
            [_max_probability(self.labels, self.samples, int(count) - 1)[1] for count in distinct]
        )
        return np.asarray(found[inverse].reshape(values.shape))[()]

    def max_quantile(self, p: ArrayLike) -> NDArray[np.float64]:
        """The least fraction g with P(max ≤ g) ≥ p."""
        probabilities = np.asarray(p, dtype=np.float64)
        if not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise UsageError(f"max_quantile(p): expected probabilities between 0 and 1, got {p!r}")
        if self.samples is None:
            return np.full_like(probabilities, 1 / self.labels)[()]
        found = [self._max_count(float(value)) for value in probabilities.ravel()]
        return np.asarray(np.reshape(found, probabilities.shape) / self.samples)[()]

    def _max_count(self, probability: float) -> int:
        assert self.samples is not None
        low, high = -(-self.samples // self.labels) - 1, self.samples  # P(max ≤ low) = 0, P(max ≤ high) = 1
        while high - low > 1:
            middle = (low + high) // 2
            if _max_probability(self.labels, self.samples, middle)[0] >= probability:
                high = middle
            else:
                low = middle
        return high

    @cached_property
    def mean_max(self) -> float:
        """E max_c Ĝ_c.

        Sums P(max > m) over m, at every m where the law is narrow; where it spans more than 512 counts, at
        512 equally spaced ones, which for so smooth a function is the same sum to rounding.
        """
        if self.samples is None:
            return 1 / self.labels
        low, high = self._max_count(1e-14), self._max_count(1 - 1e-14)
        stride = max(1, (high - low) // 512)
        above = [_max_probability(self.labels, self.samples, m)[1] for m in range(low, high + stride, stride)]
        first = low + (stride - 1) / 2  # each term stands for the `stride` counts around it
        return float((first + stride * sum(above)) / self.samples)

    def sample(self, n: int, *, seed: int = 0) -> NDArray[np.float64]:
        """Counted fractions of ``n`` neutral networks, ``(n, label)``."""
        even = np.full(self.labels, 1 / self.labels)
        if self.samples is None:
            return np.tile(even, (n, 1))
        counts = np.random.default_rng(seed).multinomial(self.samples, even, size=n)
        return np.asarray(counts / self.samples)


def _max_probability(labels: int, samples: int, m: int) -> tuple[float, float]:
    """(P(max ≤ m), P(max > m)) for a neutral multinomial."""
    from scipy.special import bdtrc

    if m >= samples:
        return 1.0, 0.0
    if m * labels < samples:
        return 0.0, 1.0
    single = float(bdtrc(m, samples, 1 / labels))  # P(one count > m)
    if labels * single < _FAR_TAIL:
        return 1 - labels * single, labels * single
    if labels == 2 and 2 * m >= samples:
        return 1 - 2 * single, 2 * single  # both counts cannot exceed half
    inside = min(1.0, _truncated_poisson(labels, samples, m))
    return inside, 1 - inside


def _truncated_poisson(labels: int, samples: int, m: int) -> float:
    """D! M⁻ᴰ λ⁻ᴰ Zᴹ P(S = D), with the rate that centres S on D."""
    from scipy.special import gammaln

    mean = samples / labels
    least = max(0, int(mean - 10 * np.sqrt(mean)) - 40)  # below, even the untilted weights are under exp(−50)
    counts = np.arange(least, m + 1)
    log_factorial = gammaln(counts + 1)
    constant = float(gammaln(samples + 1)) - samples * np.log(labels)
    if m * labels == samples:  # all counts equal
        return float(np.exp(constant - labels * log_factorial[-1]))

    def tilted(log_rate: float) -> tuple[NDArray[np.float64], float]:
        exponents = counts * log_rate - log_factorial
        greatest = exponents.max()
        with np.errstate(under="ignore"):
            weights = np.exp(exponents - greatest)
        total = weights.sum()
        return weights / total, float(greatest + np.log(total))

    low = high = float(np.log(mean))  # truncation lowers the mean, so the rate lies above it
    reach = 1.0
    while counts @ tilted(high)[0] < mean:
        low, high, reach = high, high + reach, 2 * reach
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if counts @ tilted(middle)[0] < mean else (low, middle)
    log_rate = (low + high) / 2
    weights, log_normalizer = tilted(log_rate)

    # P(S = D) by a Fourier sum over N points: aliases of D lie N apart, 12 standard deviations or beyond the support
    spread = np.sqrt(labels * max(float((counts - mean) ** 2 @ weights), 1e-300))
    points = int(min(labels * m + 1, 24 * spread + 64))
    folded = np.bincount(counts % points, weights=weights, minlength=points)
    at_sum = np.fft.ifft(np.fft.fft(folded) ** labels).real[samples % points]
    return float(np.exp(constant - samples * log_rate + labels * log_normalizer) * at_sum)
