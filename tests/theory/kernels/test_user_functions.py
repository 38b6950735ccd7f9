"""Functions that nobody registered: steep, bent, broken, even, oscillating, or of no use."""

import math

import numpy as np
import pytest
from scipy import special, stats

from firstlight.architecture.activations import ActivationFunction, activation
from firstlight.errors import CouldNotError
from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.kernel import kernel_of
from firstlight.theory.kernels.panels import Panels

RHO = np.array([1e-300, 1e-20, 1e-8, 1e-4, 1e-2, 0.2, 0.5, 0.8, 0.97])
C = 1 - RHO


def both(function):
    return [kernel_of(function), kernel_of(function, method="quadrature")]


@pytest.mark.parametrize("steepness", [3.0, 100.0, 1e5])
@pytest.mark.parametrize("q", [1e-4, 1.0, 50.0])
def test_a_steep_function_is_resolved(steepness, q):
    # erf(s·u) at variance q is erf at variance s²q, which has a closed form
    steep = ActivationFunction(
        "steep",
        lambda u: special.erf(steepness * u),
        lambda u: steepness * 2 / math.sqrt(math.pi) * np.exp(-((steepness * u) ** 2)),
    )
    expected = kernel_of(activation("erf")).transfer(steepness**2 * q, C, RHO)
    for kernel in both(steep):
        got = kernel.transfer(q, C, RHO)
        np.testing.assert_allclose(got.spread_slope, expected.spread_slope * steepness**2, rtol=1e-9)
        np.testing.assert_allclose(got.data_slope, expected.data_slope * steepness**2, rtol=1e-9)


@pytest.mark.parametrize("width", [1.0, 0.03, 1e-3])
def test_a_narrow_bump_is_resolved(width):
    # exp(−u²/2w²) is a Gaussian: E of the product is a 2×2 determinant
    bump = ActivationFunction(
        "bump",
        lambda u: np.exp(-0.5 * (u / width) ** 2),
        lambda u: -u / width**2 * np.exp(-0.5 * (u / width) ** 2),
    )
    q, w2 = 1.0, width**2
    scale = w2 + q
    mean_square = w2 / scale
    t = C * q / scale
    rise = t**2 / (np.sqrt(1 - t**2) * (1 + np.sqrt(1 - t**2)))  # 1/√(1 − t²) − 1
    top = q / scale
    full = top**2 / (math.sqrt(1 - top**2) * (1 + math.sqrt(1 - top**2)))
    wide = RHO > 1e-5  # where the difference of the two does not cancel
    for kernel in both(bump):
        got = kernel.transfer(q, C, RHO)
        assert got.mean[0] ** 2 == pytest.approx(mean_square, rel=1e-12)
        np.testing.assert_allclose(got.spread_slope * C * q, mean_square * rise, rtol=1e-9)
        np.testing.assert_allclose(
            (got.data_slope * RHO * q)[wide], (mean_square * (full - rise))[wide], rtol=1e-9
        )


@pytest.mark.parametrize("place", [0.0, 0.37, -1.0, 2.0])
def test_an_unknown_kink_is_found(place):
    bent = ActivationFunction(
        "bent", lambda u: np.maximum(u - place, 0), lambda u: np.heaviside(u - place, 0.5), kinks=None
    )
    known = ActivationFunction("known", bent.value, bent.derivative, kinks=(place,))
    found = [kink.place for kink in Panels(bent).kinks(10.0)]
    assert min(abs(kink - place) for kink in found) < 1e-12
    for q in (0.3, 40.0):
        got, expected = kernel_of(bent).transfer(q, C, RHO), kernel_of(known).transfer(q, C, RHO)
        np.testing.assert_allclose(got[1:], expected[1:], rtol=1e-10)
    if place == 0:
        np.testing.assert_allclose(
            kernel_of(bent).transfer(2.0, C, RHO)[1:],
            kernel_of(activation("relu")).transfer(2.0, C, RHO)[1:],
            rtol=1e-10,
        )


@pytest.mark.parametrize("kinks", [(0.0,), None])
def test_a_jump_at_zero_has_the_arcsine_law(kinks):
    sign = ActivationFunction("sign", np.sign, np.zeros_like, kinks)
    theta = 2 * np.arcsin(np.sqrt(RHO / 2))
    for kernel in both(sign):
        got = kernel.transfer(4.0, C, RHO)
        np.testing.assert_allclose(got.spread_slope * C * 4, 1 - 2 / math.pi * theta, rtol=1e-9)
        np.testing.assert_allclose(got.data_slope * RHO * 4, 2 / math.pi * theta, rtol=1e-9)
        assert kernel.transfer(4.0, 1.0, 0.0).data_slope == math.inf


def test_a_jump_elsewhere_has_the_orthant_probability():
    place, q = 0.7, 1.5
    step = ActivationFunction("step", lambda u: np.where(u > place, 1.0, 0.0), np.zeros_like, None)
    top = stats.norm.sf(place / math.sqrt(q))
    for c in (0.2, 0.6, 0.9):
        both_above = stats.multivariate_normal(cov=[[1, c], [c, 1]]).cdf([-place / math.sqrt(q)] * 2)
        for kernel in both(step):
            got = kernel.transfer(q, c, 1 - c)
            assert got.mean == pytest.approx(top, rel=1e-12)
            assert got.spread_slope * c * q == pytest.approx(both_above - top**2, rel=1e-8)
            assert got.data_slope * (1 - c) * q == pytest.approx(top - both_above, rel=1e-8)


def test_polynomials_have_their_exact_averages():
    cube = ActivationFunction("cube", lambda u: u**3, lambda u: 3 * u**2)
    q = 2.0
    for kernel in [*both(cube), kernel_of(cube, method="hermite")]:
        got = kernel.transfer(q, C, RHO)
        np.testing.assert_allclose(got.spread_slope, q**2 * (9 + 6 * C**2), rtol=1e-12)
        np.testing.assert_allclose(got.data_slope, q**2 * (15 + 6 * C + 6 * C**2), rtol=1e-12)


def test_an_even_function_has_no_linear_part_to_the_last_bit():
    hump = ActivationFunction("hump", lambda u: 1 / (1 + u * u), lambda u: -2 * u / (1 + u * u) ** 2)
    slopes = kernel_of(hump).transfer(1.0, np.array([0.0, 1e-200, 1e-100]), 1.0).spread_slope
    assert slopes[0] == 0
    assert slopes[2] / slopes[1] == pytest.approx(1e100, rel=1e-12)  # B ∝ c²


def test_a_constant_far_above_the_function_costs_digits_not_sense():
    lifted = ActivationFunction("lifted", lambda u: 1e6 + np.tanh(u), activation("tanh").derivative)
    expected = kernel_of(activation("tanh")).transfer(1.0, C, RHO)
    got = kernel_of(lifted).transfer(1.0, C, RHO)
    np.testing.assert_allclose(got.spread_slope, expected.spread_slope, rtol=1e-9)
    np.testing.assert_allclose(got.data_slope, expected.data_slope, rtol=1e-9)


def test_an_exponential_has_its_exact_averages():
    kernel = AutomaticKernel(ActivationFunction("exp", np.exp, np.exp))
    for q in (0.1, 1.0, 20.0):
        got = kernel.transfer(q, C, RHO)
        np.testing.assert_allclose(got.mean, math.exp(q / 2), rtol=1e-12)
        np.testing.assert_allclose(got.spread_slope, math.exp(q) * np.expm1(C * q) / (C * q), rtol=1e-9)
        fallen = math.exp(2 * q) * -np.expm1(-np.maximum(RHO * q, 1e-300)) / np.maximum(RHO * q, 1e-300)
        np.testing.assert_allclose(got.data_slope, fallen, rtol=1e-9)


def test_growth_beyond_the_normal_density_is_refused():
    kernel = kernel_of(
        ActivationFunction("square_exp", lambda u: np.exp(u**2), lambda u: 2 * u * np.exp(u**2))
    )
    with pytest.raises(
        CouldNotError, match=r"'square_exp'.*(grows less than the normal density falls|finite values)"
    ):
        kernel.transfer(1.0, 0.5, 0.5)


def test_a_function_that_is_not_finite_is_refused():
    kernel = kernel_of(ActivationFunction("log", np.log, lambda u: 1 / u))
    with pytest.raises(CouldNotError, match=r"'log': expected finite values and derivatives, got -inf at 0"):
        kernel.transfer(1.0, 0.5, 0.5)


def test_a_pole_away_from_zero_is_refused():
    kernel = kernel_of(ActivationFunction("pole", lambda u: 1 / (u - 0.5), lambda u: -((u - 0.5) ** -2)))
    with pytest.raises(CouldNotError, match=r"'pole': expected"):
        kernel.transfer(1.0, 0.5, 0.5)


def test_noise_is_refused():
    def noise(u):
        return np.sin(1e9 * u * u) + u

    kernel = kernel_of(ActivationFunction("noise", noise, np.ones_like))
    with pytest.raises(CouldNotError, match=r"'noise': expected a function that is smooth between few kinks"):
        kernel.transfer(1.0, 0.9, 0.1)


def test_what_oscillates_too_fast_for_quadrature_is_refused_not_guessed():
    wave = ActivationFunction("wave", lambda u: np.sin(u), lambda u: np.cos(u))
    with pytest.raises(CouldNotError, match=r"'wave': expected a function that is smooth between few kinks"):
        kernel_of(wave).transfer(1e12, 0.5, 0.5)


def test_the_hermite_series_refuses_where_its_remainder_matters():
    kernel = kernel_of(activation("hardtanh"), method="hermite")
    with pytest.raises(
        CouldNotError, match=r"'hardtanh' at variance 1, correlation 0.9999: .* pass method='auto'"
    ):
        kernel.transfer(1.0, 0.9999, 1e-4)


def test_a_derivative_that_is_not_the_functions_does_not_go_unnoticed():
    wrong = ActivationFunction("wrong", lambda u: 2 * np.tanh(u), activation("tanh").derivative)
    with pytest.raises(CouldNotError, match=r"'wrong'.*derivative"):
        kernel_of(wrong).transfer(1.0, 0.9999, 1e-4)
