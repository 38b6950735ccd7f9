from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from firstlight.errors import DataError, UsageError
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guess_null import null, null_corrected_bias


def max_law_by_enumeration(labels: int, samples: int) -> list[Fraction]:
    """P(max ≤ m) for all m: every composition of D into M counts with its exact multinomial probability."""
    mass = [Fraction(0)] * (samples + 1)
    for cuts in itertools.combinations(range(samples + labels - 1), labels - 1):
        edges = (-1, *cuts, samples + labels - 1)
        counts = [right - left - 1 for left, right in itertools.pairwise(edges)]
        ways = math.factorial(samples)
        for count in counts:
            ways //= math.factorial(count)
        mass[max(counts)] += Fraction(ways, labels**samples)
    return list(itertools.accumulate(mass))


@pytest.mark.parametrize(
    ("labels", "samples"), [(2, 1), (2, 7), (2, 8), (3, 5), (3, 12), (4, 8), (5, 9), (9, 4)]
)
def test_max_is_exact(labels: int, samples: int) -> None:
    exact = max_law_by_enumeration(labels, samples)
    law = null(labels, samples)
    places = np.arange(samples + 1) / samples
    assert law.max_cdf(places) == pytest.approx([float(p) for p in exact], abs=1e-13)
    assert law.p_value(places) == pytest.approx(
        [1.0, *(float(1 - p) for p in exact[:-1])], rel=1e-6, abs=1e-13
    )
    assert law.mean_max == pytest.approx(float(sum(1 - p for p in exact) / samples), abs=1e-13)


@pytest.mark.parametrize(
    ("labels", "samples"), [(2, 10_000), (3, 1000), (10, 100), (10, 50_000), (1000, 500), (1000, 100_000)]
)
def test_max_against_draws(labels: int, samples: int) -> None:
    law = null(labels, samples)
    draws = 3000
    greatest = law.sample(draws, seed=2).max(axis=1)
    assert abs(greatest.mean() - law.mean_max) < 4 * greatest.std() / math.sqrt(draws)
    for p in (0.1, 0.5, 0.9):
        place = float(law.max_quantile(p))
        reached = float(law.max_cdf(place))
        assert reached >= p > float(law.max_cdf(place - 1 / samples))
        assert (
            abs((greatest <= place + 1e-12).mean() - reached)
            < 4 * math.sqrt(reached * (1 - reached) / draws) + 1e-12
        )


@pytest.mark.parametrize("samples", [100, 1001])
def test_two_labels_are_binomial(samples: int) -> None:
    law = null(2, samples)
    counts = np.arange(samples // 2 + 1, samples + 1)
    assert law.p_value(counts / samples) == pytest.approx(
        2 * stats.binom.sf(counts - 1, samples, 0.5), rel=1e-10
    )
    assert law.standard_deviation == pytest.approx(1 / (2 * math.sqrt(samples)))
    kept = GuessLaw(0.0).with_samples(samples)
    assert kept.mean_max == pytest.approx(law.mean_max, rel=1e-12)


def test_far_tail_keeps_its_digits() -> None:
    law = null(10, 1000)
    assert float(law.p_value(1.0)) == pytest.approx(10 * 10.0**-1000, abs=1e-300)
    assert float(law.p_value(0.3)) == pytest.approx(10 * stats.binom.sf(299, 1000, 0.1), rel=1e-10)
    around = law.p_value(np.arange(100, 300) / 1000)
    assert (np.diff(around) <= 0).all()
    assert (around[:-1] - around[1:] < 0.2).all()  # no step where the two forms meet


def test_p_values_of_neutral_networks_are_not_too_small() -> None:
    law = null(4, 60)
    p = law.p_value(law.sample(4000, seed=1).max(axis=1))
    for level in (0.01, 0.1, 0.5):
        assert (p <= level).mean() < level + 4 * math.sqrt(level * (1 - level) / 4000)


def test_infinitely_many_data_points() -> None:
    law = null(5, None)
    assert (law.mean_max, law.standard_deviation) == (0.2, 0.0)
    assert law.max_cdf([0.1, 0.2]).tolist() == [0, 1]
    assert law.p_value([0.2, 0.21]).tolist() == [1, 0]
    assert law.max_quantile([0.1, 0.9]).tolist() == [0.2, 0.2]
    assert law.sample(2).tolist() == [[0.2] * 5] * 2


@settings(deadline=None, max_examples=40)
@given(weights=st.lists(st.integers(0, 9), min_size=2, max_size=4).filter(any), samples=st.integers(2, 6))
def test_bias_is_unbiased(weights: list[int], samples: int) -> None:
    """The exact expectation over all outcomes of D independent guesses, at any preference and any D."""
    chances = np.array(weights) / sum(weights)
    labels = len(chances)
    expectation = 0.0
    for guesses in itertools.product(range(labels), repeat=samples):
        counts = np.bincount(guesses, minlength=labels)
        probability = math.prod(chances[guess] for guess in guesses)
        expectation += probability * float(null_corrected_bias(counts / samples, samples))
    assert expectation == pytest.approx(float(null_corrected_bias(chances, None)), abs=1e-12)
    assert null_corrected_bias(chances, None) == pytest.approx(
        (labels * (chances**2).sum() - 1) / (labels - 1)
    )


def test_bias_of_drawn_networks_matches_the_closed_form() -> None:
    for gamma in (0.0, 0.5, 10.0):
        law = GuessLaw(gamma)
        bias = null_corrected_bias(law.sample(20_000, seed=4, samples=20), 20)
        assert abs(bias.mean() - law.mean_bias) < 4 * bias.std() / math.sqrt(20_000)
    assert null_corrected_bias(np.eye(3), 10).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: null(1, 10), UsageError, "labels.*at least 2.*1"),
        (lambda: null(2, 0), UsageError, "samples.*positive.*0"),
        (lambda: null(2, 3).max_quantile(2), UsageError, "between 0 and 1"),
        (lambda: null_corrected_bias([1.0], 5), UsageError, r"two labels or more.*\(1,\)"),
        (lambda: null_corrected_bias([0.5, 0.2], 5), DataError, "sum to one"),
        (lambda: null_corrected_bias([0.5, 0.5], 1), UsageError, "at least 2.*1"),
    ],
)
def test_misuse_is_one_sentence(call, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
