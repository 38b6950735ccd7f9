import math

import numpy as np
import pytest

from firstlight.architecture.activations import ActivationFunction, activation
from firstlight.errors import UsageError
from firstlight.theory.kernels.kernel import kernel_of
from firstlight.theory.kernels.table import TabulatedKernel, tabulate

TOLERANCE = 1e-8
FUNCTIONS = {
    **{name: activation(name) for name in ("tanh", "silu", "hardtanh", "selu", "softsign", "sigmoid")},
    "even": ActivationFunction("even", lambda u: np.exp(-u * u), lambda u: -2 * u * np.exp(-u * u)),
    "sign": ActivationFunction("sign", np.sign, np.zeros_like, (0.0,)),
    "step": ActivationFunction("step", lambda u: np.where(u > 0.4, 1.0, 0.0), np.zeros_like, (0.4,)),
    "steep": ActivationFunction(
        "steep", lambda u: np.tanh(30 * u), lambda u: 30 / np.cosh(np.clip(30 * u, -300, 300)) ** 2
    ),
}


@pytest.fixture(scope="module", params=sorted(FUNCTIONS))
def pair(request):
    kernel = kernel_of(FUNCTIONS[request.param])
    return kernel, tabulate(kernel, tolerance=TOLERANCE)


def points(seed, count=40):
    rng = np.random.default_rng(seed)
    q = np.exp(rng.uniform(-1.9, 1.9, count))  # one root column: the tests stay fast
    gamma = np.exp(rng.uniform(-16, 16, count))
    c, rho = gamma / (1 + gamma), 1 / (1 + gamma)
    ends = np.array([[0.0, 1.0], [1e-300, 1.0], [1.0, 1e-300], [1.0, 1e-30]])
    return q, np.concatenate([c[:-4], ends[:, 0]]), np.concatenate([rho[:-4], ends[:, 1]])


def test_interpolation_keeps_its_tolerance_at_points_of_the_tests_own(pair, seed):
    kernel, table = pair
    q, c, rho = points(seed)
    got, expected = table.transfer(q, c, rho), kernel.transfer(q, c, rho)
    np.testing.assert_allclose(got.spread_slope, expected.spread_slope, rtol=TOLERANCE, atol=1e-250)
    np.testing.assert_allclose(got.data_slope, expected.data_slope, rtol=TOLERANCE)
    root = np.sqrt(kernel.mean_square(q))
    np.testing.assert_allclose(got.mean / root, expected.mean / root, atol=TOLERANCE)
    np.testing.assert_allclose(table.mean_square(q), kernel.mean_square(q), rtol=TOLERANCE)
    if kernel.function.name not in ("sign", "step"):
        np.testing.assert_allclose(table.gain(q), kernel.gain(q), rtol=TOLERANCE)


def test_floats_and_arrays_are_interpolated_alike(pair, seed):
    _, table = pair
    q, c, rho = points(seed, 12)
    several = table.transfer(q, c, rho)
    for i in range(12):
        one = table.transfer(float(q[i]), float(c[i]), float(rho[i]))
        for single, array in zip(one, several, strict=True):
            assert isinstance(single, float)
            assert single == pytest.approx(array[i], rel=1e-11, abs=1e-300)


def test_outside_of_the_tables_the_kernel_itself_answers():
    kernel = kernel_of(activation("tanh"))
    table = tabulate(kernel, log_q=(-1.0, 1.0))
    for q in (0.0, 1e-5, math.e**2):
        assert table.transfer(q, 0.3, 0.7) == kernel.transfer(q, 0.3, 0.7)
        assert table.gain(q) == kernel.gain(q)
    mixed = table.transfer(np.array([1e-5, 1.0, 1e5]), 0.3, 0.7)
    np.testing.assert_allclose(mixed, kernel.transfer(np.array([1e-5, 1.0, 1e5]), 0.3, 0.7), rtol=1e-8)


def test_where_the_function_is_constant_the_kernel_itself_answers():
    kernel = kernel_of(FUNCTIONS["step"])
    table = tabulate(kernel)
    q = np.array([1e-6, 1e-5])
    for got, expected in zip(table.transfer(q, 0.3, 0.7), kernel.transfer(q, 0.3, 0.7), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_shapes_broadcast():
    table = tabulate(kernel_of(activation("tanh")))
    transfer = table.transfer(np.ones((3, 1)), np.array([0.2, 0.9]), np.array([0.8, 0.1]))
    assert [np.shape(part) for part in transfer] == [(3, 2)] * 3
    assert np.shape(table.mean(np.ones((2, 2)))) == (2, 2)


def test_a_closed_form_and_a_table_come_back_as_they_are():
    relu = kernel_of(activation("relu"))
    assert tabulate(relu) is relu
    table = tabulate(kernel_of(activation("tanh")))
    assert isinstance(table, TabulatedKernel)
    assert tabulate(table) is table
    assert table.method == "table"


def test_arguments_without_meaning_are_refused():
    kernel = kernel_of(activation("tanh"))
    with pytest.raises(UsageError, match=r"log_q: expected \(low, high\) with low < high, got \(1.0, 1.0\)"):
        tabulate(kernel, log_q=(1.0, 1.0))
    with pytest.raises(UsageError, match=r"tolerance: expected a number from 1e-9 to 1, got 1e-12"):
        tabulate(kernel, tolerance=1e-12)
