"""Draws of a wide network's guesses against laws that are known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, norm

from firstlight.theory.readout import factor, read_out


@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_binary_guesses_follow_the_closed_law(gamma: float, seed: int) -> None:
    """Independent points with a common centre: G_0 = Φ(√γ ξ)."""
    points = 1200
    covariance = np.full((points, points), gamma) + np.eye(points)
    fractions = read_out(covariance, 2, draws=1000, seed=seed).fractions[:, 0]
    law = kstest(fractions, lambda g: norm.cdf(norm.ppf(np.clip(g, 1e-12, 1 - 1e-12)) / np.sqrt(gamma)))
    assert law.pvalue > 1e-4


def test_neutral_guesses_are_binomial(seed: int) -> None:
    found = read_out(np.eye(200), 5, draws=4000, seed=seed).fractions
    assert found.sum(axis=1) == pytest.approx(np.ones(4000))
    assert found.mean(axis=0) == pytest.approx(np.full(5, 0.2), abs=5 * np.sqrt(0.16 / 200 / 4000))
    assert found.std() == pytest.approx(np.sqrt(0.16 / 200), rel=0.05)


def test_labels_are_exchangeable_and_the_favoured_label_is_the_greatest(seed: int) -> None:
    generator = np.random.default_rng(seed)
    points = generator.standard_normal((60, 4)) + 0.5
    found = read_out(points @ points.T, 3, draws=3000, seed=seed)
    stderr = found.fractions.std(axis=0) / np.sqrt(3000)
    assert (np.abs(found.fractions.mean(axis=0) - 1 / 3) < 5 * stderr).all()
    assert found.favoured.mean() == pytest.approx(found.fractions.max(axis=1).mean())
    assert found.directions == 4


def test_the_factor_leaves_out_what_rounding_made() -> None:
    points = np.random.default_rng(0).standard_normal((30, 3))
    covariance = points @ points.T
    half = factor(covariance)
    assert half.shape == (30, 3)
    assert half @ half.T == pytest.approx(covariance, abs=1e-12)


def test_outputs_that_are_all_zero_are_refused() -> None:
    with pytest.raises(RuntimeError, match="no greatest label"):
        read_out(np.zeros((4, 4)), 2, draws=1)
