from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr, ndtri

from firstlight.errors import UsageError
from firstlight.results.guess_fractions import fractions_of_centres
from firstlight.results.guess_law import GuessLaw, default_draws, regime
from firstlight.results.guess_null import null_corrected_bias

EXTREMES = [0.0, 1e-300, 1e-12, 1e-4, 0.5, 1.0, 3.0, 1e4, 1e12, 1e300, math.inf]
GAMMAS = st.floats(-12, 12).map(lambda power: 10.0**power)
SHARES = st.floats(1e-9, 1 - 1e-9)


@settings(deadline=None)
@given(gamma=GAMMAS, g=SHARES)
def test_binary_against_high_precision(gamma: float, g: float) -> None:
    law = GuessLaw(gamma)
    with mpmath.workdps(40):
        z = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(g) - 1)
        below = mpmath.ncdf(z / mpmath.sqrt(gamma))
        log_density = z * z / 2 * (1 - 1 / mpmath.mpf(gamma)) - mpmath.log(gamma) / 2
    # near ½ the probit of a rounded g is known to about 1e-16, which 1/√γ magnifies
    slack = 1e-14 + 4e-16 / math.sqrt(gamma)
    assert float(law.cdf(g)) == pytest.approx(float(below), rel=1e-9, abs=slack)
    assert float(law.logpdf(g)) == pytest.approx(float(log_density), rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(gamma=st.floats(-6, 3).map(lambda power: 10.0**power), p=st.floats(1e-6, 1 - 1e-6))
def test_quantile_inverts_cdf(gamma: float, p: float) -> None:
    law = GuessLaw(gamma)
    g = float(law.quantile(p))
    if 1e-300 < g < 1 - 1e-12:  # closer to one, the fraction itself is rounded
        assert float(law.cdf(g)) == pytest.approx(p, rel=1e-6, abs=4e-16 / math.sqrt(gamma))


@given(gamma=GAMMAS, g=SHARES)
def test_binary_is_symmetric(gamma: float, g: float) -> None:
    law = GuessLaw(gamma)
    slack = 1e-9 + 4e-16 / math.sqrt(gamma)
    assert float(law.cdf(g)) == pytest.approx(1 - float(law.cdf(1 - g)), abs=slack)
    assert float(law.quantile(g)) == pytest.approx(1 - float(law.quantile(1 - g)), abs=1e-9)


def mass_between(law: GuessLaw, low: float, high: float) -> float:
    """∫ f(g) dg in the variable z = Φ⁻¹(g), where no γ has sharp ends."""
    pieces = np.linspace(low, high, 41)
    x, weights = np.polynomial.legendre.leggauss(20)
    z = (pieces[:-1, None] + pieces[1:, None]) / 2 + np.diff(pieces)[:, None] / 2 * x
    return float(
        (law.pdf(ndtr(z)) * stats.norm.pdf(z) * np.diff(pieces)[:, None] / 2) @ weights @ np.ones(40)
    )


@pytest.mark.parametrize("gamma", [1e-3, 0.2, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("labels", [2, 3, 10])
def test_density_is_the_slope_of_the_distribution(gamma: float, labels: int) -> None:
    law = GuessLaw(gamma, labels)
    places = ndtri(np.clip(law.quantile([1e-9, 0.05, 0.5, 0.95, 1 - 1e-9]), 1e-9, 1 - 1e-9))
    for low, high in itertools.pairwise(places):
        assert mass_between(law, low, high) == pytest.approx(
            float(np.diff(law.cdf(ndtr([low, high])))[0]), abs=1e-8
        )


@pytest.mark.parametrize("labels", [2, 3, 10])
@pytest.mark.parametrize("gamma", [0.01, 0.7, 1.0])
def test_density_integrates_to_one(gamma: float, labels: int) -> None:
    assert mass_between(GuessLaw(gamma, labels), -8.2, 8.2) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("gamma", EXTREMES)
@pytest.mark.parametrize("labels", [2, 3, 12])
def test_no_gamma_makes_nan_or_disorder(gamma: float, labels: int) -> None:
    law = GuessLaw(gamma, labels)
    g = np.concatenate([[-0.5, 0, 1e-300, 1e-12], np.linspace(0.001, 0.999, 57), [1 - 1e-12, 1, 1.5]])
    p = np.concatenate([[0, 1e-300, 1e-12], np.linspace(0.01, 0.99, 49), [1 - 1e-12, 1]])
    for values in (law.pdf(g), law.cdf(g), law.quantile(p), law.logpdf(g), law.cdf_stderr(g)):
        assert not np.isnan(values).any()
    assert (np.diff(law.cdf(g)) >= 0).all()
    assert (np.diff(law.quantile(p)) >= 0).all()
    assert law.cdf(-0.5) == 0
    assert law.cdf(1.0) == 1
    assert ((law.quantile(p) >= 0) & (law.quantile(p) <= 1)).all()
    assert (law.pdf([-0.1, 1.1]) == 0).all()
    drawn = law.sample(20)
    assert np.abs(drawn.sum(axis=1) - 1).max() < 1e-12
    assert 1 / labels <= law.mean_max <= 1 + 1e-12
    assert (np.diff(law.ranked(50).value) <= 0).all()
    assert np.isnan(law.cdf([np.nan, 0.5])).tolist() == [True, False]


@pytest.mark.parametrize("labels", [2, 5])
def test_the_ends_are_point_masses(labels: int) -> None:
    neutral, fixed = GuessLaw(0.0, labels), GuessLaw(math.inf, labels)
    assert neutral.atoms == ((1 / labels, 1.0),)
    assert neutral.cdf([1 / labels - 1e-12, 1 / labels]).tolist() == [0, 1]
    assert neutral.sample(3).tolist() == [[pytest.approx(1 / labels)] * labels] * 3
    assert fixed.cdf([0.0, 0.7, 1.0]).tolist() == [1 - 1 / labels, 1 - 1 / labels, 1]
    assert set(np.unique(fixed.sample(50))) == {0.0, 1.0}
    assert (neutral.mean_max, fixed.mean_max) == (pytest.approx(1 / labels), 1.0)
    assert neutral.max.cdf([1 / labels - 0.01, 1 / labels]).tolist() == [0, 1]
    assert fixed.probability_of_max_above([0.99, 1.0]).tolist() == [1, 0]


@pytest.mark.parametrize("labels", [2, 7])
@pytest.mark.parametrize("near", [1e-12, 1e12])
def test_the_ends_are_limits(labels: int, near: float) -> None:
    law, end = GuessLaw(near, labels), GuessLaw(0.0 if near < 1 else math.inf, labels)
    places = [0.01, 0.9]
    assert (np.abs(law.cdf(places) - end.cdf(places)) < 1e-5 + 4 * law.cdf_stderr(places)).all()
    assert law.mean_max == pytest.approx(end.mean_max, abs=1e-3)


def test_one_is_uniform_and_parts_the_regimes() -> None:
    g = np.linspace(0, 1, 11)
    assert GuessLaw(1.0).cdf(g) == pytest.approx(g, abs=1e-14)
    assert GuessLaw(1.0).pdf(g) == pytest.approx(1)
    assert GuessLaw(0.99).pdf(0.5) > GuessLaw(0.99).pdf(0.01)
    assert GuessLaw(1.01).pdf(0.5) < GuessLaw(1.01).pdf(0.01)
    assert [regime(value) for value in (0, 1e-300, 1 - 1e-9, 1, math.inf)] == [
        "neutral",
        "weak prejudice",
        "weak prejudice",
        "deep prejudice",
        "deep prejudice",
    ]
    with pytest.raises(UsageError, match=r"regime.*at least 0.*-1"):
        regime(-1.0)


def test_gamma_beyond_float64_by_its_logarithm() -> None:
    law = GuessLaw(math.inf, log_gamma=1200.0)
    assert not law.atoms
    assert float(law.pdf(0.5)) == pytest.approx(math.exp(-600))
    assert float(law.cdf(0.3)) == pytest.approx(0.5)
    small = GuessLaw(0.0, log_gamma=-900.0)
    assert not small.atoms
    assert small.regime == "weak prejudice"
    assert float(small.cdf(0.5)) == 0.5
    assert float(small.logpdf(0.5)) == pytest.approx(450)
    assert GuessLaw(2.0) == GuessLaw(2.0, log_gamma=math.log(2.0))
    assert GuessLaw(5e-324, log_gamma=-744.0).log_gamma == -744.0


@pytest.mark.parametrize("gamma", [0.05, 0.466942, 1.0, 18.39, 400.0])
def test_binary_mean_max_and_bias_against_quadrature(gamma: float) -> None:
    unit, shares = np.polynomial.legendre.leggauss(20)
    x = (np.arange(0, 9, 0.25)[:, None] + (unit + 1) / 8).ravel()  # [0, 9] in pieces
    weights = 2 * np.tile(shares / 8, 36) * stats.norm.pdf(x)  # and its mirror image
    g = ndtr(math.sqrt(gamma) * x)
    law = GuessLaw(gamma)
    assert law.mean_max == pytest.approx(weights @ g, abs=1e-10)
    assert law.mean_bias == pytest.approx(weights @ (2 * g - 1) ** 2, abs=1e-10)
    assert law.ranked().value == pytest.approx([law.mean_max, 1 - law.mean_max])
    half = np.linspace(0.5, 1, 21)
    assert law.max.cdf(half) == pytest.approx(2 * law.cdf(half) - 1, abs=1e-12)
    if gamma < 50:  # beyond, quantiles round to one
        assert law.max.cdf(law.max.quantile([0.1, 0.5, 0.9])) == pytest.approx([0.1, 0.5, 0.9])
    assert law.probability_of_max_above(0.8) == pytest.approx(2 * law.cdf(0.2))


@pytest.mark.parametrize("gamma", [0.3, 2.0, 50.0])
def test_three_labels_mean_max_against_an_orthant_integral(gamma: float) -> None:
    """E max = P(the label with the greatest centre also wins): three pairs of correlation √(γ/(1+γ))."""
    rho, rest = math.sqrt(gamma / (1 + gamma)), math.sqrt(1 / (1 + gamma))
    x, weights = (8 * part for part in np.polynomial.legendre.leggauss(120))
    unit, shares = np.polynomial.legendre.leggauss(80)
    total = 0.0
    for place, weight in zip(x, weights, strict=True):
        noisy = rho * place + rest * x  # the noisy level of the leader, given its centre
        u, w = (place + 9) / 2 * (unit + 1) - 9, (place + 9) / 2 * shares
        below = (w * stats.norm.pdf(u)) @ ndtr(
            (noisy[None, :] - rho * u[:, None]) / rest
        )  # one rival below on both
        total += weight * stats.norm.pdf(place) * (weights * stats.norm.pdf(x)) @ below**2
    law = GuessLaw(gamma, 3)
    ranked = law.ranked(40_000, seed=1)
    assert abs(ranked.value[0] - 3 * total) < 4 * ranked.stderr[0]


def test_ten_labels_known_mean_max() -> None:
    ranked = GuessLaw(2.0, 10).ranked()
    assert abs(ranked.value[0] - 0.53) < 0.005 + 4 * ranked.stderr[0]
    assert ranked.value.sum() == pytest.approx(1, abs=1e-12)
    assert ranked.count == 10_000


@pytest.mark.parametrize(("gamma", "labels"), [(0.1, 3), (2.0, 3), (2.0, 10), (30.0, 10), (1.0, 100)])
def test_against_simulated_networks(gamma: float, labels: int) -> None:
    """Centres and data drawn as the definition says, nothing integrated."""
    generator = np.random.default_rng(labels)
    inits, points = 2000, 400
    fractions = np.empty((inits, labels))
    for row in range(inits):
        outputs = math.sqrt(gamma) * generator.standard_normal(labels) + generator.standard_normal(
            (points, labels)
        )
        fractions[row] = np.bincount(outputs.argmax(axis=1), minlength=labels) / points
    law = GuessLaw(gamma, labels)
    counted = law.sample(inits, seed=7, samples=points)
    for statistic in (
        lambda f: f.max(axis=1),
        lambda f: (f**2).sum(axis=1),
        lambda f: -np.sort(-f, axis=1)[:, 1],
    ):
        ours, theirs = statistic(counted), statistic(fractions)
        error = math.hypot(ours.std(), theirs.std()) / math.sqrt(inits)
        assert abs(ours.mean() - theirs.mean()) < 4 * error
    assert stats.ks_2samp(counted[:, 0], fractions[:, 0]).pvalue > 1e-4
    bias = null_corrected_bias(fractions, points)
    exact = null_corrected_bias(law.sample(inits, seed=8), None)
    assert abs(bias.mean() - exact.mean()) < 4 * math.hypot(bias.std(), exact.std()) / math.sqrt(inits)


def test_draws_are_named_by_their_seed() -> None:
    law = GuessLaw(1.3, 5)
    assert (law.sample(10, seed=3) == law.sample(40, seed=3)[:10]).all()
    assert (law.sample(10, seed=3) != law.sample(10, seed=4)).any()
    counted = law.sample(10, seed=3, samples=1000)
    assert np.abs(counted - law.sample(10, seed=3)).max() < 6 * 0.5 / math.sqrt(1000)
    assert (counted * 1000 == np.rint(counted * 1000)).all() or np.allclose(
        counted * 1000, np.rint(counted * 1000)
    )
    assert [default_draws(labels) for labels in (2, 2000, 50_000)] == [10_000, 10_000, 400]


def test_two_labels_are_drawn_by_the_closed_form_of_the_integral() -> None:
    law = GuessLaw(2.5)
    centres = np.random.default_rng(np.random.SeedSequence(11).spawn(2)[0]).standard_normal((200, 2))
    expected = fractions_of_centres(law.root_gamma * centres)
    assert np.abs(law.sample(200, seed=11) - expected).max() < 1e-13


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: GuessLaw(-1.0), "gamma.*at least 0.*-1"),
        (lambda: GuessLaw(math.nan), "gamma.*nan"),
        (lambda: GuessLaw(1.0, 1), "labels.*at least 2.*1"),
        (lambda: GuessLaw(1.0, log_gamma=1.0), "log_gamma.*= 0 .*1.0"),
        (lambda: GuessLaw(math.inf, log_gamma=3.0), "log_gamma.*3.0"),
        (lambda: GuessLaw(1.0).quantile(1.2), "quantile.*between 0 and 1.*1.2"),
        (lambda: GuessLaw(1.0, 3).quantile(-0.1), "quantile.*between 0 and 1"),
        (lambda: GuessLaw(1.0).max.quantile(2), "quantile.*between 0 and 1"),
        (lambda: GuessLaw(1.0).sample(-1), "sample.*-1"),
        (lambda: GuessLaw(1.0).sample(2, samples=0), "samples.*0"),
        (lambda: GuessLaw(1.0, 3).ranked(1), "ranked.*at least 2"),
    ],
)
def test_misuse_is_one_sentence(call, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()


def test_repr() -> None:
    assert [repr(GuessLaw(gamma, 1000)) for gamma in (0.0, 0.46694, math.inf)] == [
        "<GuessLaw: γ = 0 (neutral), 1,000 labels>",
        "<GuessLaw: γ = 0.4669 (weak prejudice), 1,000 labels>",
        "<GuessLaw: γ = ∞ (deep prejudice), 1,000 labels>",
    ]
    assert (
        repr(GuessLaw(math.inf, log_gamma=1200.0)) == "<GuessLaw: γ = exp(1200) (deep prejudice), 2 labels>"
    )
