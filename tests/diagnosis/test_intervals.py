"""Intervals: exact where they are exact, covering where they are not, honest where there is too little."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from firstlight.diagnosis.intervals import (
    Interval,
    of_logarithm,
    of_mean,
    of_ratio,
    of_scale,
    of_share,
    scan,
    simultaneous,
    status_of,
)


def test_the_mean_agrees_with_scipy(seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal(17)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    found = of_mean(values, 0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_the_share_agrees_with_scipy() -> None:
    for hits in (0, 3, 20):
        expected = stats.binomtest(hits, 20).proportion_ci(0.95)
        found = of_share(hits, 20, 0.95)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(("freedom", "least"), [(1, 0.915), (9, 0.93)])
@pytest.mark.parametrize("inits", [10, 64])
def test_the_ratio_covers(freedom: int, least: float, inits: int, seed: int) -> None:
    """C of two (χ²_1) and of ten labels (χ²_9) over a V that differs between initializations by a tenth.

    ``least`` is what the docstring of the module says, less three standard errors of 2,000 trials.
    """
    generator = np.random.default_rng(seed)
    trials = 2000
    scale = np.exp(0.1 * generator.standard_normal((trials, inits)))
    centers = generator.chisquare(freedom, (trials, inits)) / freedom
    truth = 1 / math.exp(0.005)
    covered = [of_ratio(c, v, 0.95) for c, v in zip(centers, scale, strict=True)]
    share = np.mean([item.low <= truth <= item.high for item in covered])
    assert least - 3 * math.sqrt(0.06 / trials) <= share <= 0.965 + 3 * math.sqrt(0.05 / trials)


def test_simultaneous_intervals_hold_together(seed: int) -> None:
    generator = np.random.default_rng(seed)
    layers, trials = 20, 1000
    level = simultaneous(0.95, layers)
    together = 0
    for _ in range(trials):
        values = generator.standard_normal((30, layers))
        together += all(
            item.low <= 0 <= item.high for item in (of_mean(column, level) for column in values.T)
        )
    assert together / trials >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)


def test_the_scale_is_a_geometric_mean_and_bears_zeros() -> None:
    assert of_scale(np.log([1.0, 4.0]), 0.95).value == pytest.approx(2.0)
    gone = of_scale(np.full(5, -np.inf), 0.95)
    assert 0 < gone.value < 1e-300


def test_a_single_initialization_decides_nothing() -> None:
    assert of_mean([3.0], 0.95) == Interval(3.0, -math.inf, math.inf)
    assert of_ratio([1.0], [2.0], 0.95) == Interval(0.5, 0.0, math.inf)
    assert status_of(of_mean([3.0], 0.95), 0.0) == "undecided"
    assert math.isinf(of_logarithm(np.log, [2.0], level=0.95).high)


def test_what_is_not_finite_is_left_out() -> None:
    assert of_mean([1.0, np.nan, 1.0], 0.95).value == 1.0
    assert of_ratio([1.0, np.nan, 1.0], [2.0, 1.0, 2.0], 0.95).value == 0.5
    assert of_mean([np.nan], 0.95).missing
    assert of_ratio([0.0, 0.0], [0.0, 0.0], 0.95).missing
    assert of_ratio([1.0, 1.0], [0.0, 0.0], 0.95).low == math.inf
    assert of_ratio([0.0, 0.0], [1.0, 1.0], 0.95) == Interval(0.0, 0.0, 0.0)
    assert status_of(of_mean([], 0.95), 1.0) == "unknown"


@pytest.mark.parametrize(
    ("intervals", "side", "expected"),
    [
        ([Interval(1, 0.5, 1.5), Interval(4, 3, 5)], "above", (1, "found")),
        ([Interval(1, 0.5, 1.5), Interval(2, 1, 3)], "above", (1, "undecided")),
        ([Interval(1, 0.5, 1.5), Interval(1.2, 1, 1.9)], "above", (1, "absent")),
        ([Interval(1, 0.5, 1.5), Interval(4, 3, 5)], "below", (0, "found")),
        ([Interval(math.nan, math.nan, math.nan)], "above", (0, "unknown")),
        ([], "above", (0, "unknown")),
    ],
)
def test_the_worst_of_several(intervals: list[Interval], side: str, expected: tuple[int, str]) -> None:
    assert scan(intervals, 2.0, side=side) == expected
