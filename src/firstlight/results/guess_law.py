r"""The law of guess fractions over the initializations of a wide network.

Enters: γ = C/V at the output and the number of labels M. Leaves: densities, distribution functions,
quantiles and exact draws of the fraction :math:`G_c` of data points on which label c wins.

Over the data, output c of a wide network is Gaussian with variance V around its own centre :math:`\mu_c
\sim N(0, C)`. For two labels :math:`G_0 = \Phi(\sqrt{\gamma}\,\xi)` with a standard normal :math:`\xi`, so
that, at :math:`z = \Phi^{-1}(g)`,

.. math:: P(G_0 \le g) = \Phi(z / \sqrt{\gamma}), \qquad f(g) = e^{\frac12 z^2 (1 - 1/\gamma)} / \sqrt{\gamma}.

The law is uniform at γ = 1 exactly: below, it peaks at ½; above, at 0 and 1; at γ = 0 nothing is preferred.
These are the regimes. For more labels ``guess_fractions`` gives the joint fractions of each draw of centres
exactly and ``guess_marginal`` the law of one of them.

Francazi, Lucchi & Baity-Jesi, *Initial guessing bias*, ICML 2024; the density is their eq. for two classes
in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import UsageError
from firstlight.results.guess_null import null_corrected_bias

if TYPE_CHECKING:
    from firstlight.results.guess_counts import CountedLaw
    from firstlight.results.guess_marginal import MarginalTable
    from firstlight.results.guess_maximum import MaximumLaw

__all__ = [
    "Estimate",
    "GuessLaw",
    "default_draws",
    "regime",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values with their standard errors and the number of draws or initializations behind them (0: exact)."""

    value: Array
    stderr: Array
    count: int


def regime(gamma: float) -> str:
    """Name what γ does to the law of guesses.

    ``"neutral"`` at γ = 0, ``"weak prejudice"`` below 1, ``"deep prejudice"`` from 1 on.

    γ = 1 is where the density of a binary guess is flat: below it a network typically splits its guesses,
    from there on the typical network puts most data points into one class.

    >>> [regime(gamma) for gamma in (0.0, 0.467, 1.0, 18.4)]
    ['neutral', 'weak prejudice', 'deep prejudice', 'deep prejudice']
    """
    if math.isnan(gamma) or gamma < 0:
        raise UsageError(f"regime(gamma): expected a number of at least 0, got {gamma!r}")
    if gamma == 0:
        return "neutral"
    return "weak prejudice" if gamma < 1 else "deep prejudice"


def default_draws(labels: int) -> int:
    """Draws taken where none are asked for: 10,000, fewer where draws · labels would exceed 2·10⁷."""
    return max(1, min(10_000, 20_000_000 // labels))


@dataclass(frozen=True, repr=False)
class GuessLaw:
    """The law of guess fractions at one γ.

    Every method takes γ from 0 (all mass on 1/M) to infinity (all mass on one label), and γ beyond float64
    by its logarithm. For two labels everything is in closed form. For more, one label's ``pdf``, ``cdf``
    and ``quantile`` carry a Monte-Carlo error that ``cdf_stderr`` states, and ``max`` and ``ranked`` state
    theirs.

    Attributes:
        gamma: Ratio of centre variance to data variance at the output.
        labels: Number of labels M.
        log_gamma: Its natural logarithm; needed only where γ itself has under- or overflowed.

    >>> law = GuessLaw(1.0)
    >>> law
    <GuessLaw: γ = 1 (deep prejudice), 2 labels>
    >>> law.cdf([0.0, 0.25, 1.0]).round(12).tolist(), law.mean_max
    ([0.0, 0.25, 1.0], 0.75)
    """

    gamma: float
    labels: int = 2
    log_gamma: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.labels, (int, np.integer)) or self.labels < 2:
            raise UsageError(f"GuessLaw(labels): expected an integer of at least 2, got {self.labels!r}")
        gamma, logarithm = float(self.gamma), self.log_gamma
        if math.isnan(gamma) or gamma < 0:
            raise UsageError(f"GuessLaw(gamma): a ratio of variances is at least 0, got {self.gamma!r}")
        own = math.log(gamma) if 0 < gamma < math.inf else (-math.inf if gamma == 0 else math.inf)
        if logarithm is None:
            logarithm = own
        elif 1e-300 < gamma < 1e300:
            if not abs(logarithm - own) <= 1e-6 * max(1.0, abs(own)):
                raise UsageError(
                    f"GuessLaw(log_gamma): expected log γ = {own:.6g} beside γ = {gamma:.6g}, got {logarithm!r}"
                )
            logarithm = own
        elif math.isnan(logarithm) or (logarithm > -690 if gamma < 1 else logarithm < 690):
            raise UsageError(f"GuessLaw(log_gamma): {logarithm!r} is no logarithm of γ = {gamma}")
        object.__setattr__(self, "gamma", gamma)
        object.__setattr__(self, "labels", int(self.labels))
        object.__setattr__(self, "log_gamma", float(logarithm))

    @property
    def regime(self) -> str:
        """``"neutral"``, ``"weak prejudice"`` or ``"deep prejudice"``."""
        return "weak prejudice" if self.gamma == 0 < self.root_gamma else regime(self.gamma)

    @cached_property
    def root_gamma(self) -> float:
        """√γ; finite and positive also where γ itself has over- or underflowed."""
        assert self.log_gamma is not None
        if 1e-300 < self.gamma < 1e300:
            return math.sqrt(self.gamma)
        return math.exp(self.log_gamma / 2) if self.log_gamma < 1400 else math.inf

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """(fraction, probability) of the point masses of one label's fraction; empty where the law has a density."""
        if self.root_gamma == 0:
            return ((1 / self.labels, 1.0),)
        if self.root_gamma == math.inf:
            return ((0.0, 1 - 1 / self.labels), (1.0, 1 / self.labels))
        return ()

    def logpdf(self, g: ArrayLike) -> Array:
        """Log density of one label's fraction; −∞ outside [0, 1], +∞ on point masses."""
        from scipy.special import ndtri

        values = np.asarray(g, dtype=np.float64)
        if self.atoms:
            at_atom = np.isin(values, [place for place, _ in self.atoms])
            return _keep_nan(values, np.where(at_atom, np.inf, -np.inf))
        inside = values.clip(0, 1)
        if self.labels > 2:
            density = self._marginal.logpdf(inside)
        else:
            z = ndtri(inside)
            log_gamma = 2 * math.log(self.root_gamma)
            curvature = -0.5 * math.expm1(-log_gamma) if log_gamma > -700 else -math.inf
            with np.errstate(over="ignore", invalid="ignore"):
                tilt = np.where((z == 0) | (curvature == 0), 0.0, curvature * z * z)
            density = tilt - log_gamma / 2
        return _keep_nan(values, np.where((values < 0) | (values > 1), -np.inf, density))

    def pdf(self, g: ArrayLike) -> Array:
        """Density of one label's fraction."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.logpdf(g)))[()]

    def cdf(self, g: ArrayLike) -> Array:
        """P(G_c ≤ g) of one label."""
        from scipy.special import ndtr, ndtri

        values = np.asarray(g, dtype=np.float64)
        if self.atoms:
            steps = np.sum([np.where(values >= place, weight, 0.0) for place, weight in self.atoms], axis=0)
            return _keep_nan(values, np.where(values >= 1, 1.0, steps))
        inside = values.clip(0, 1)
        inner = self._marginal.cdf(inside) if self.labels > 2 else ndtr(ndtri(inside) / self.root_gamma)
        return _keep_nan(values, np.where(values < 0, 0.0, np.where(values >= 1, 1.0, inner)))

    def cdf_stderr(self, g: ArrayLike) -> Array:
        """Standard error of ``cdf``; zero for two labels."""
        values = np.asarray(g, dtype=np.float64)
        if self.labels == 2 or self.atoms:
            return np.zeros_like(values)[()]
        return self._marginal.stderr_at(values.clip(0, 1))

    def quantile(self, p: ArrayLike) -> Array:
        """The fraction below which one label lies with probability p; the inverse of ``cdf``.

        Where γ is infinite, half of the mass of a binary guess lies on each end and the median is set to ½,
        its value at every γ.
        """
        from scipy.special import ndtr, ndtri

        probabilities = np.asarray(p, dtype=np.float64)
        if not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise UsageError(f"quantile(p): expected probabilities between 0 and 1, got {p!r}")
        if self.root_gamma == 0:
            return np.full_like(probabilities, 1 / self.labels)[()]
        if self.root_gamma == math.inf:
            most = 1 - 1 / self.labels
            middle = 0.5 if self.labels == 2 else 0.0
            return np.asarray(
                np.where(probabilities > most, 1.0, np.where(probabilities == most, middle, 0.0))
            )[()]
        if self.labels > 2:
            return self._marginal.quantile(probabilities)
        return np.asarray(ndtr(self.root_gamma * ndtri(probabilities)))[()]

    @cached_property
    def mean_max(self) -> float:
        """E max_c G_c: ½ + arctan(√γ)/π for two labels; for more, the mean of ``ranked()``."""
        if self.labels == 2:
            return 0.5 + math.atan(self.root_gamma) / math.pi
        return float(self.ranked().value[0])

    @cached_property
    def mean_bias(self) -> float:
        """E (M Σ G_c² − 1)/(M − 1), the mean of ``null_corrected_bias``.

        For two labels, (2/π) arcsin(γ/(1+γ)): it is E (G_0 − G_1)², an orthant probability of the outputs on
        two data points, whose correlation over initializations is γ/(1+γ). For more, from draws.
        """
        if self.labels == 2:
            return 2 / math.pi * math.asin(1 / (1 + self.root_gamma**-2)) if self.root_gamma > 1e-150 else 0.0
        return float(null_corrected_bias(self.sample(default_draws(self.labels)), None).mean())

    def probability_of_max_above(self, g: ArrayLike) -> Array:
        """P(max_c G_c > g)."""
        return self.max.survival(g)

    @cached_property
    def max(self) -> MaximumLaw:
        """The law of max_c G_c with ``.cdf(g)``, ``.survival(g)``, ``.quantile(p)``, ``.mean``.

        Exact for two labels, else from draws.
        """
        from firstlight.results.guess_maximum import MaximumLaw

        return MaximumLaw(self)

    def sample(self, n: int, *, seed: int = 0, samples: int | None = None) -> Array:
        """Draw the joint fractions of ``n`` initializations.

        Each draw takes M centres from N(0, γ) and gives their exact fractions (error below 10⁻¹³). The
        first rows do not depend on n.

        Args:
            n: Number of initializations.
            seed: Names the draws.
            samples: Count that many data points on top of each draw; None for the fractions themselves.

        Returns:
            Array ``(n, label)`` whose rows sum to one.
        """
        from scipy.special import ndtr

        from firstlight.results.guess_fractions import fractions_of_centres

        if not isinstance(n, (int, np.integer)) or n < 0:
            raise UsageError(f"sample(n): expected a number of draws, got {n!r}")
        if samples is not None and samples < 1:
            raise UsageError(
                f"sample(samples): expected a positive number of data points or None, got {samples!r}"
            )
        centre_seed, count_seed = np.random.SeedSequence(seed).spawn(2)
        centres = np.random.default_rng(centre_seed).standard_normal((n, self.labels))
        if self.root_gamma > 1e150:  # differences of centres would overflow; each is far beyond any noise
            fractions = np.zeros_like(centres)
            np.put_along_axis(fractions, centres.argmax(axis=1, keepdims=True), 1.0, axis=1)
        elif self.labels == 2:  # the difference of two levels is N(a_0 − a_1, 2)
            ahead = self.root_gamma * (centres[:, 0] - centres[:, 1]) / math.sqrt(2)
            fractions = ndtr(np.stack([ahead, -ahead], axis=1))
        else:
            fractions = fractions_of_centres(self.root_gamma * centres)
        if samples is None:
            return fractions
        counts = np.random.default_rng(count_seed).multinomial(samples, fractions)
        return np.asarray(counts / samples)

    def ranked(self, draws: int | None = None, *, seed: int = 0) -> Estimate:
        """Expected fractions by rank, greatest first, with standard errors.

        Exact for two labels and for γ of 0 or infinity.

        Args:
            draws: Number of draws; 10,000 by default, fewer where draws · labels would exceed 2·10⁷.
            seed: Names the draws.
        """
        if self.labels == 2 or self.atoms:
            value = np.zeros(self.labels)
            value[0] = 1.0
            if self.root_gamma == 0:
                value[:] = 1 / self.labels
            elif self.labels == 2:
                value[:] = self.mean_max, 1 - self.mean_max
            return Estimate(value, np.zeros(self.labels), 0)
        count = default_draws(self.labels) if draws is None else draws
        if count < 2:
            raise UsageError(f"ranked(draws): expected at least 2 draws, got {draws!r}")
        ordered = -np.sort(-self.sample(count, seed=seed), axis=1)
        return Estimate(ordered.mean(axis=0), ordered.std(axis=0, ddof=1) / math.sqrt(count), count)

    def with_samples(self, samples: int) -> CountedLaw:
        """The law of fractions counted over ``samples`` data points."""
        from firstlight.results.guess_counts import CountedLaw

        return CountedLaw(self, samples)

    @cached_property
    def _marginal(self) -> MarginalTable:
        from firstlight.results.guess_marginal import tabulate

        return tabulate(self.root_gamma, self.labels)

    def __repr__(self) -> str:
        shown = (
            f"{self.gamma:.4g}"
            if math.isfinite(self.gamma) and self.gamma > 0
            else f"exp({self.log_gamma:.4g})"
        )
        if self.atoms:
            shown = "0" if self.root_gamma == 0 else "∞"
        return f"<GuessLaw: γ = {shown} ({self.regime}), {self.labels:,} labels>"


def _keep_nan(values: Array, result: Array) -> Array:
    """Answer NaN where NaN was asked; scalars for scalars."""
    return np.asarray(np.where(np.isnan(values), np.nan, result))[()]
