import math

import numpy as np
import pytest

from firstlight.architecture.activations import activation
from firstlight.errors import UsageError
from firstlight.theory.kernels.kernel import kernel_of
from firstlight.theory.kernels.piecewise_linear import PiecewiseLinearKernel

RELU = kernel_of(activation("relu"))


def test_one_hidden_layer_of_relu_has_the_known_ratio():
    mean, spread_slope, data_slope = RELU.transfer(1.0, 0.0, 1.0)
    assert mean**2 / data_slope == pytest.approx(1 / (math.pi - 1), rel=1e-15)
    assert spread_slope == 0.25


def test_iterating_relu_gives_the_ratios_known_from_simulations():
    known = {1: 0.46694221, 2: 0.9752, 5: 2.7871, 10: 6.7843, 20: 18.3905}
    center, data = 0.0, 2.0
    for depth in range(1, 21):
        q = center + data
        mean, spread_slope, data_slope = RELU.transfer(q, center / q, data / q)
        center, data = 2 * (mean**2 + spread_slope * center), 2 * data_slope * data
        if depth in known:
            assert center / data == pytest.approx(known[depth], abs=6e-5)
    assert center + data == pytest.approx(2.0, rel=1e-14)  # He's initialization keeps E u²


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "abs", "linear", "shifted_relu"])
def test_averages_meet_the_direct_formula_where_it_does_not_cancel(name):
    function = activation(name)
    left, right = function.slopes
    c = np.linspace(0.05, 0.95, 19)
    q = 1.7
    straight, bend = (left + right) / 2, (right - left) / 2
    mean = function.shift + bend * math.sqrt(2 * q / math.pi)
    joint = straight**2 * c * q + bend**2 * (2 * q / math.pi) * (np.sqrt(1 - c**2) + c * np.arcsin(c))
    joint += function.shift**2 + 2 * function.shift * bend * math.sqrt(2 * q / math.pi)
    square = function.shift * (2 * mean - function.shift) + (straight**2 + bend**2) * q
    transfer = kernel_of(function).transfer(q, c, 1 - c)
    np.testing.assert_allclose(transfer.mean, mean, rtol=1e-15)
    np.testing.assert_allclose(transfer.spread_slope * c * q, joint - mean**2, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(transfer.data_slope * (1 - c) * q, square - joint, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(kernel_of(function).product(q, q, c), joint, rtol=1e-13)
    assert kernel_of(function).mean_square(q) == pytest.approx(square, rel=1e-14)


def test_slopes_keep_their_digits_at_both_ends():
    # data slope ½ − θ/(3π) + O(θ³) as θ → 0, spread slope ¼ + c/(4π) + O(c³) as c → 0
    for rho in (1e-300, 1e-24, 1e-12):
        theta = math.sqrt(2 * rho)
        assert RELU.transfer(1.0, 1.0 - rho, rho).data_slope == pytest.approx(
            0.5 - theta / (3 * math.pi), rel=1e-15
        )
    for c in (0.0, 1e-300, 1e-9):
        assert RELU.transfer(1.0, c, 1.0).spread_slope == pytest.approx(0.25 + c / (4 * math.pi), rel=1e-15)


def test_the_series_meets_the_formula():
    below, above = (2 * math.sin(theta / 2) ** 2 for theta in (0.4 * (1 - 1e-9), 0.4 * (1 + 1e-9)))
    slopes = [RELU.transfer(1.0, 1 - rho, rho).data_slope for rho in (below, above)]
    assert slopes[0] - slopes[1] == pytest.approx(0.8e-9 / (3 * math.pi), rel=0.1, abs=1e-15)


def test_the_product_keeps_its_digits_near_opposite_points():
    r = np.array([-1.0, -1 + 1e-10, -1 + 1e-6])
    delta = np.arccos(-r)
    np.testing.assert_allclose(RELU.product(2.0, 8.0, r), 4 * delta**3 / (6 * math.pi), rtol=1e-6)


def test_the_fourth_moment_is_five_times_the_square_for_relu():
    # Var of (√2·relu(z))² is 5
    assert 4 * RELU.fourth_moment(1.0) - (2 * RELU.mean_square(1.0)) ** 2 == pytest.approx(5.0, rel=1e-14)


def test_a_function_without_slopes_is_refused():
    with pytest.raises(UsageError, match=r"expected an activation with `slopes`, got slopes=None"):
        PiecewiseLinearKernel(activation("tanh"))
