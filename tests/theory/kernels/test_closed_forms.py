"""Closed forms against the numerical methods, to rounding, far beyond the variances of the reference."""

import math

import numpy as np
import pytest

from firstlight.architecture.activation_registry import names
from firstlight.architecture.activations import activation
from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.kernel import kernel_of

CLOSED = [name for name in names() if kernel_of(activation(name)).method == "closed_form"]
RHO = np.array([0.0, 1e-300, 1e-20, 1e-12, 1e-8, 1e-5, 1e-3, 0.02, 0.1, 0.5, 0.8, 0.999999, 1.0])
C = 1 - RHO


def variances(name):
    """Beyond q = 10, sin and cos have averages like exp(−q), less than what rounding of their values leaves."""
    return (
        [1e-280, 1e-6, 0.5, 1.0, 10.0]
        if name in ("sin", "cos")
        else [1e-280, 1e-6, 0.5, 3.0, 1e2, 1e8, 1e280]
    )


@pytest.mark.parametrize("name", CLOSED)
def test_slopes_agree_with_the_numerical_methods(name):
    function = activation(name)
    closed, numerical = kernel_of(function), AutomaticKernel(function)
    for q in variances(name):
        expected, got = numerical.transfer(q, C, RHO), closed.transfer(q, C, RHO)
        np.testing.assert_allclose(got.spread_slope, expected.spread_slope, rtol=1e-10, atol=1e-22)
        np.testing.assert_allclose(got.data_slope, expected.data_slope, rtol=1e-10)


@pytest.mark.parametrize("name", CLOSED)
def test_moments_agree_with_the_numerical_methods(name):
    function = activation(name)
    closed, numerical = kernel_of(function), AutomaticKernel(function)
    for q in variances(name):
        assert closed.mean_square(q) == pytest.approx(numerical.mean_square(q), rel=1e-12)
        assert closed.gain(q) == pytest.approx(numerical.gain(q), rel=1e-12)
        assert closed.mean(q) == pytest.approx(
            numerical.mean(q), rel=1e-9, abs=1e-15 * math.sqrt(closed.mean_square(q))
        )
        assert closed.fourth_moment(q) == pytest.approx(numerical.fourth_moment(q), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("name", CLOSED)
def test_products_agree_with_the_numerical_methods(name):
    function = activation(name)
    closed, numerical = kernel_of(function), AutomaticKernel(function)
    r = np.array([-1.0, -0.9999, -0.9, -0.2, 0.0, 0.3, 0.95, 0.999999, 1.0])
    for q_a, q_b in ((1.0, 1.0), (0.3, 5.0), (1e-6, 2e-6), (3.0, 1e-3)):
        size = math.sqrt(closed.mean_square(q_a)) * math.sqrt(closed.mean_square(q_b))
        assert np.abs(closed.product(q_a, q_b, r) - numerical.product(q_a, q_b, r)).max() < 1e-11 * size


def test_erf_and_sin_have_their_textbook_averages():
    q, c = 1.3, 0.4
    erf = kernel_of(activation("erf")).transfer(q, c, 1 - c)
    assert erf.spread_slope * c * q == pytest.approx(
        2 / math.pi * math.asin(2 * c * q / (1 + 2 * q)), rel=1e-14
    )
    sine = kernel_of(activation("sin")).transfer(q, c, 1 - c)
    assert sine.spread_slope * c * q == pytest.approx(math.exp(-q) * math.sinh(c * q), rel=1e-14)


def test_gelu_becomes_relu_at_large_variance_and_half_a_line_at_small():
    gelu, relu = (kernel_of(activation(name)) for name in ("gelu", "relu"))
    c = np.linspace(0, 1, 11)
    for got, expected in zip(gelu.transfer(1e30, c, 1 - c), relu.transfer(1e30, c, 1 - c), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-13)
    np.testing.assert_allclose(gelu.transfer(1e-30, c, 1 - c)[1:], np.full((2, 11), 0.25), rtol=1e-14)
