from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from firstlight.errors import UsageError
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guess_null import null


def by_high_precision(gamma: float, samples: int, count: int) -> float:
    """∫ φ(x) Bin(k; D, Φ(√γ x)) dx at 40 digits (its own Φ loses some), cut where either scale changes."""
    with mpmath.workdps(40):
        root = mpmath.sqrt(gamma)
        edges = [mpmath.mpf(k) / 4 for k in range(-60, 61)]
        if gamma > 1:
            edges += [edge / root for edge in edges]

        def integrand(x: mpmath.mpf) -> mpmath.mpf:
            return (
                mpmath.npdf(x) * mpmath.ncdf(root * x) ** count * mpmath.ncdf(-root * x) ** (samples - count)
            )

        return float(
            mpmath.binomial(samples, count)
            * mpmath.quad(integrand, sorted(set(edges)), method="gauss-legendre", maxdegree=4)
        )


@pytest.mark.parametrize(
    ("gamma", "samples", "count"),
    [
        (1e-4, 7, 3),
        (1e-4, 100, 20),
        (0.3, 7, 0),
        (0.3, 100, 1),
        (3.0, 100, 50),
        (1e2, 100, 0),
        (1e6, 100, 37),
    ],
)
def test_against_high_precision(gamma: float, samples: int, count: int) -> None:
    found = GuessLaw(gamma).with_samples(samples).pmf[count]
    assert found == pytest.approx(by_high_precision(gamma, samples, count), rel=1e-10)


@settings(deadline=None, max_examples=60)
@given(power=st.floats(-13, 13), samples=st.integers(1, 3000))
def test_mass_is_one_symmetric_and_has_the_known_variance(power: float, samples: int) -> None:
    law = GuessLaw(10.0**power)
    pmf = law.with_samples(samples).pmf
    shares = np.arange(samples + 1) / samples
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    assert (pmf == pmf[::-1]).all()
    # law of total variance; E G² from the arcsine form
    second = 0.25 + law.mean_bias / 4
    assert pmf @ shares**2 - 0.25 == pytest.approx(
        second - 0.25 + (0.5 - second) / samples, rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("samples", [1, 2, 9, 1000, 10_000])
def test_uniform_at_one(samples: int) -> None:
    assert GuessLaw(1.0).with_samples(samples).pmf == pytest.approx(1 / (samples + 1), rel=1e-10)


@pytest.mark.parametrize("samples", [1, 10, 999])
@pytest.mark.parametrize("gamma", [0.0, 1e-300, 1e-13])
def test_neutral_end_is_binomial(gamma: float, samples: int) -> None:
    counted = GuessLaw(gamma).with_samples(samples)
    binomial = stats.binom.pmf(np.arange(samples + 1), samples, 0.5)
    assert np.abs(counted.pmf - binomial).max() < 1e-10
    assert counted.mean_max == pytest.approx(null(2, samples).mean_max, abs=1e-9)


def test_constant_end_is_all_or_nothing() -> None:
    counted = GuessLaw(math.inf).with_samples(5)
    assert counted.pmf.tolist() == [0.5, 0, 0, 0, 0, 0.5]
    assert counted.mean_max == 1
    assert GuessLaw(math.inf, 4).with_samples(5).pmf.tolist() == [0.75, 0, 0, 0, 0, 0.25]
    nearly = GuessLaw(math.inf, log_gamma=900.0).with_samples(5).pmf
    assert nearly == pytest.approx(counted.pmf, abs=1e-100)


def test_many_data_points_approach_the_law_itself() -> None:
    law = GuessLaw(2.5)
    g = np.linspace(0.05, 0.95, 19)
    counted = law.with_samples(100_000)
    assert counted.pmf.sum() == pytest.approx(1, abs=1e-11)
    assert np.abs(counted.cdf(g) - law.cdf(g)).max() < 1e-4


@pytest.mark.parametrize(
    ("gamma", "labels", "samples"), [(0.4, 2, 50), (6.0, 2, 51), (0.4, 5, 50), (6.0, 5, 50)]
)
def test_against_simulated_networks(gamma: float, labels: int, samples: int) -> None:
    generator = np.random.default_rng(3)
    inits = 4000
    centres = math.sqrt(gamma) * generator.standard_normal((inits, 1, labels))
    winners = (centres + generator.standard_normal((inits, samples, labels))).argmax(axis=2)
    fractions = np.stack([(winners == label).mean(axis=1) for label in range(labels)], axis=1)
    counted = GuessLaw(gamma, labels).with_samples(samples)
    for place in (0.1, 0.2, 0.5):
        shares = (fractions <= place + 1e-9).mean(axis=1)
        error = math.hypot(shares.std() / math.sqrt(inits), float(counted.cdf_stderr(place)))
        assert abs(shares.mean() - float(counted.cdf(place))) < 4 * error + 1e-12
    greatest = fractions.max(axis=1)
    error = greatest.std() / math.sqrt(inits) * (1 if labels == 2 else 1.3)  # theory draws 10,000 more
    assert abs(greatest.mean() - counted.mean_max) < 4 * error
    for place in (0.6, 0.8, 1.0):
        p = float(counted.max_cdf(place))
        error = math.sqrt(max(p * (1 - p), 1e-12) * (1 / inits + (labels > 2) / 10_000))
        assert abs((greatest <= place + 1e-9).mean() - p) <= 4 * error


@pytest.mark.parametrize("labels", [2, 3])
def test_quantiles_are_the_least_fractions_that_reach(labels: int) -> None:
    counted = GuessLaw(0.8, labels).with_samples(30)
    p = np.linspace(0.01, 0.99, 25)
    g = counted.quantile(p)
    assert (counted.cdf(g) >= p - 1e-12).all()
    assert (counted.cdf(g - 1 / 30) < p)[g > 0].all()
    assert counted.cdf([-0.1, 1.0, 2.0]).tolist() == [0, pytest.approx(1), pytest.approx(1)]
    assert np.isnan(counted.cdf([np.nan])).all()


def test_misuse() -> None:
    with pytest.raises(UsageError, match=r"positive number of data points.*0"):
        GuessLaw(1.0).with_samples(0)
    with pytest.raises(UsageError, match="between 0 and 1"):
        GuessLaw(1.0).with_samples(3).quantile(1.5)
