from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from firstlight.results.guess_law import GuessLaw
from firstlight.results.guess_marginal import tabulate


@pytest.mark.parametrize("gamma", [1e-20, 1e-12, 1e-4, 0.3, 1.0, 7.0, 1e4, 1e12, 1e20])
def test_two_labels_are_the_closed_form_without_error(gamma: float) -> None:
    """With one rival there is no shape to draw: the table must reproduce Φ(Φ⁻¹(g)/√γ)."""
    table = tabulate(math.sqrt(gamma), 2, draws=64)
    root = math.sqrt(gamma)
    w = np.linspace(-7, 7, 57) * min(1.0, root)
    g = ndtr(w)
    slack = 1e-8 + 4e-16 / root  # the probit of a rounded g near ½
    assert np.abs(table.cdf(g) - ndtr(ndtri(g) / root)).max() < slack
    assert table.stderr.max() < 1e-14
    if gamma > 1e-10:
        exact = 0.5 * ndtri(g) ** 2 * (1 - 1 / gamma) - math.log(gamma) / 2
        assert np.abs(table.logpdf(g) - exact).max() < 1e-4


@pytest.mark.parametrize("labels", [3, 10, 100])
@pytest.mark.parametrize("gamma", [1e-6, 0.05, 0.7, 5.0])
def test_against_brute_force_draws(labels: int, gamma: float) -> None:
    draws = 200_000 // labels if labels > 50 else 6000
    law = GuessLaw(gamma, labels)
    fractions = law.sample(draws, seed=11)
    places = law.quantile([0.02, 0.2, 0.5, 0.8, 0.98])
    shares = np.stack([(fractions <= place).mean(axis=1) for place in places])  # exchangeable labels pooled
    error = np.hypot(shares.std(axis=1) / math.sqrt(draws), law.cdf_stderr(places))
    assert (np.abs(shares.mean(axis=1) - law.cdf(places)) < 4 * error).all()


@pytest.mark.parametrize(("labels", "gamma"), [(3, 0.5), (3, 20.0), (10, 0.5), (10, 20.0)])
def test_mean_is_one_over_the_labels(labels: int, gamma: float) -> None:
    """E G = ∫ (1 − F) dg = 1/M, an identity the table is not told."""
    table = tabulate(math.sqrt(gamma), labels)
    z = np.linspace(-8.2, 8.2, 4001)
    weights = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    error = float(weights @ table.stderr_at(ndtr(z)))  # errors at different g are correlated: add them up
    assert abs(float(weights @ (1 - table.cdf(ndtr(z)))) - 1 / labels) < 4 * error


@pytest.mark.parametrize(("labels", "gamma"), [(3, 0.4), (10, 2.0), (10, 300.0)])
def test_stated_error_is_the_scatter_of_repeats(labels: int, gamma: float) -> None:
    tables = [tabulate(math.sqrt(gamma), labels, draws=128, seed=seed) for seed in range(24)]
    places = ndtr(np.linspace(-3, 1, 5))
    found = np.array([table.cdf(places) for table in tables])
    stated = np.mean([table.stderr_at(places) for table in tables], axis=0)
    ratio = found.std(axis=0, ddof=1) / stated
    assert (np.abs(ratio - 1) < 4 / math.sqrt(2 * 23)).all()  # relative error of a standard deviation


def test_interpolation_and_inversion_add_nothing_that_shows() -> None:
    for labels, gamma in ((3, 0.01), (3, 4.0), (10, 100.0)):
        coarse = tabulate(math.sqrt(gamma), labels, draws=64)
        w = coarse.centre + (coarse.w[:-1] + coarse.w[1:]) / 2
        inside = w[(w > -8) & (w < 8)]
        # the same shapes, evaluated directly: invert H_r at one fraction by bisection on exact class fractions
        from firstlight.results.guess_fractions import fractions_of_centres

        shapes = np.random.default_rng(0).standard_normal((64, labels - 1))
        shapes = math.sqrt(gamma) * (shapes - shapes.mean(axis=1, keepdims=True))
        spread = math.sqrt(gamma * labels / (labels - 1))
        for z in inside[[20, 100, 128, 200]]:
            low, high = np.full(64, -12 * spread - 20), np.full(64, 12 * spread + 20)
            for _ in range(60):
                lead = (low + high) / 2
                share = fractions_of_centres(np.column_stack([lead, shapes]))[:, 0]
                below = share < ndtr(z)
                low, high = np.where(below, lead, low), np.where(below, high, lead)
            if 1e-10 < ndtr(z) < 1 - 1e-10:  # where fractions hold enough digits to invert
                assert float(coarse.cdf(ndtr(z))) == pytest.approx(ndtr(lead / spread).mean(), abs=1e-6)


@pytest.mark.parametrize("gamma", [1e-9, 0.2, 1.0, 50.0])
@pytest.mark.parametrize("labels", [3, 30])
def test_quantile_inverts_cdf(labels: int, gamma: float) -> None:
    law = GuessLaw(gamma, labels)
    p = np.linspace(0.02, 0.98, 33)
    g = law.quantile(p)
    clear = (g > 1e-14) & (g < 1 - 1e-12)
    assert np.abs(law.cdf(g) - p)[clear].max() < 1e-6
    assert (np.diff(g) >= 0).all()
