"""Every average of every registered activation against a plain sample of correlated pairs."""

import math

import numpy as np
import pytest
from scipy import stats

from firstlight.architecture.activation_registry import names
from firstlight.architecture.activations import activation
from firstlight.theory.kernels.kernel import kernel_of

SAMPLES = 200_000
CASES = ((0.4, 0.3), (2.5, 0.9))
# all comparisons of this file together are wrong once in a thousand runs
LIMIT = stats.norm.isf(0.5e-3 / (8 * len(CASES) * len(names())))


def assert_within_error(sample, expected):
    error = sample.std(ddof=1) / math.sqrt(sample.size)
    assert abs(sample.mean() - expected) <= LIMIT * error + 1e-12 * abs(expected)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(("q", "c"), CASES)
def test_averages_meet_a_sample(name, q, c):
    function = activation(name)
    kernel = kernel_of(function)
    rng = np.random.default_rng([20260101, names().index(name), int(100 * c)])
    common, first, second = rng.standard_normal((3, SAMPLES))
    u, v = (math.sqrt(q) * (math.sqrt(c) * common + math.sqrt(1 - c) * own) for own in (first, second))
    a, b = function.value(u), function.value(v)
    mean, spread_slope, data_slope = kernel.transfer(q, c, 1 - c)
    assert_within_error(a, mean)
    assert_within_error(a**2, kernel.mean_square(q))
    assert_within_error(a**4, kernel.fourth_moment(q))
    assert_within_error(function.derivative(u) ** 2, kernel.gain(q))
    assert_within_error((a - mean) * (b - mean), spread_slope * c * q)
    assert_within_error((a - b) ** 2 / 2, data_slope * (1 - c) * q)
    assert_within_error(a * function.value(-1.3 * v), kernel.product(q, 1.69 * q, -c))
    assert_within_error(a * b, kernel.product(q, q, c))
