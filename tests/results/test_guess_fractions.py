from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from firstlight.errors import CouldNotError
from firstlight.results.guess_fractions import fractions_of_centres


def by_high_precision(centres: list[float]) -> list[float]:
    """The defining integral, one class at a time, by an independent integrator at 20 digits."""
    with mpmath.workdps(20):
        places = sorted({-40.0, *centres, *(c + d for c in centres for d in (-4, 4)), 40.0})

        def one(label: int) -> mpmath.mpf:
            def integrand(t: mpmath.mpf) -> mpmath.mpf:
                others = (mpmath.ncdf(t - c) for i, c in enumerate(centres) if i != label)
                return mpmath.npdf(t - centres[label]) * mpmath.fprod(others)

            return mpmath.quad(integrand, places)

        return [float(one(label)) for label in range(len(centres))]


@pytest.mark.parametrize(
    "centres",
    [
        [0.0, 0.0],
        [1.5, -0.3],
        [0.0, 0.0, 0.0],
        [2.0, -1.0, 0.5],
        [5.0, 4.9, -3.0, 0.1],
        [0.1 * k for k in range(8)],
    ],
)
def test_against_high_precision_integrals(centres: list[float]) -> None:
    found = fractions_of_centres(np.array([centres]))[0]
    assert np.abs(found - by_high_precision(centres)).max() < 1e-13


@given(st.floats(-1e8, 1e8), st.floats(-1e8, 1e8))
def test_two_labels_are_the_closed_form(first: float, second: float) -> None:
    found = fractions_of_centres(np.array([[first, second]]))[0]
    assert found[0] == pytest.approx(ndtr((first - second) / np.sqrt(2)), abs=1e-13)


@settings(deadline=None, max_examples=30)
@given(
    labels=st.integers(2, 60),
    scale=st.sampled_from([0.0, 1e-6, 0.1, 1.0, 10.0, 1e6]),
    shift=st.floats(-1e3, 1e3),
    seed=st.integers(0, 2**31),
)
def test_fractions_are_fractions(labels: int, scale: float, shift: float, seed: int) -> None:
    centres = scale * np.random.default_rng(seed).standard_normal((3, labels))
    found = fractions_of_centres(centres)
    assert np.abs(found.sum(axis=1) - 1).max() < 1e-12
    assert (found >= 0).all()
    assert (np.diff(np.take_along_axis(found, centres.argsort(axis=1), axis=1), axis=1) >= -1e-15).all()
    rounding = 10 * np.spacing(1e3 + np.abs(centres).max())  # of the shifted centres themselves
    assert np.abs(fractions_of_centres(centres + shift) - found).max() < rounding + 1e-13


@pytest.mark.parametrize("labels", [100, 1000, 20_000])
def test_many_equal_labels_share_equally(labels: int) -> None:
    assert fractions_of_centres(np.zeros((1, labels))) == pytest.approx(1 / labels, rel=1e-11)


def test_against_simulated_outputs() -> None:
    generator = np.random.default_rng(5)
    centres = 1.4 * generator.standard_normal(1000)
    points = 20_000
    winners = np.concatenate(
        [(centres + generator.standard_normal((500, 1000))).argmax(axis=1) for _ in range(points // 500)]
    )
    counted = np.bincount(winners, minlength=1000)
    expected = points * fractions_of_centres(centres[None])[0]
    likely = expected > 5
    squares = ((counted - expected)[likely] ** 2 / expected[likely]).sum()
    assert abs(squares - likely.sum()) < 4 * np.sqrt(2 * likely.sum())


def test_rows_do_not_depend_on_their_company() -> None:
    centres = np.random.default_rng(1).standard_normal((50, 3000))
    assert (fractions_of_centres(centres)[17] == fractions_of_centres(centres[17:18])[0]).all()


def test_centres_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(CouldNotError, match=r"3 labels.*finite"):
        fractions_of_centres(np.array([[0.0, np.nan, 1.0]]))
