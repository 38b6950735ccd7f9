"""The standard error of a ratio of averages covers the ratio."""

from __future__ import annotations

import numpy as np

from firstlight.measurement.summarizing import ratio_of_averages


def test_the_standard_error_covers(seed):
    generator = np.random.default_rng(seed)
    runs = 2000
    # Centres like those of two logits, variances that go along with them.
    scale = generator.lognormal(0, 0.3, (100, runs))
    centers = scale * generator.chisquare(2, (100, runs))
    variances = scale * generator.uniform(0.5, 1.5, (100, runs))
    gamma, error = ratio_of_averages(centers, variances)
    z = (gamma - 2.0) / error
    # |z| < 1.96 in 95 % of the runs, ± 3 standard errors of that share, and two points because 100 are few.
    assert abs((np.abs(z) < 1.96).mean() - 0.95) < 3 * np.sqrt(0.05 * 0.95 / runs) + 0.02


def test_one_initialization_has_no_error():
    gamma, error = ratio_of_averages(np.array([[2.0]]), np.array([[4.0]]))
    assert gamma.item() == 0.5
    assert np.isnan(error).all()
