"""Several classes, each against its largest rival alone: exact for two, too much for more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

from firstlight.papers.igb.largest_rival import fractions_against_largest_rival
from firstlight.results.guess_law import GuessLaw


@pytest.mark.parametrize("gamma", [0.1, 0.467, 18.0])
def test_two_classes_have_one_rival_so_that_it_is_exact(gamma, seed):
    approximate = fractions_against_largest_rival(gamma, 2, 200, seed=seed)
    np.testing.assert_allclose(approximate.sum(1), 1.0, atol=1e-12)
    np.testing.assert_allclose(approximate, GuessLaw(gamma).sample(200, seed=seed), atol=1e-12)
    assert kstest(approximate[:, 0], GuessLaw(gamma).cdf).statistic < 2.0 / math.sqrt(200)


@pytest.mark.parametrize("labels", [3, 10])
def test_each_class_gets_at_least_its_exact_fraction_in_every_draw(labels, seed):
    exact = GuessLaw(0.467, labels).sample(300, seed=seed)
    approximate = fractions_against_largest_rival(0.467, labels, 300, seed=seed)
    assert (approximate >= exact - 1e-12).all()
    assert (approximate.argmax(1) == exact.argmax(1)).all()
    assert approximate.sum(1).min() > 1.0


def test_by_its_own_definition(seed):
    centers = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0]).standard_normal((50, 5))
    found = fractions_against_largest_rival(4.0, 5, 50, seed=seed)
    for row in range(50):
        for label in range(5):
            rival = max(2.0 * centers[row, other] for other in range(5) if other != label)
            expected = norm.cdf((2.0 * centers[row, label] - rival) / math.sqrt(2))
            assert found[row, label] == pytest.approx(expected, abs=1e-12)
