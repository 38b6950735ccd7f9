"""What every kernel promises, whatever its method."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.architecture.activation_registry import names
from firstlight.architecture.activations import ActivationFunction, activation
from firstlight.errors import CouldNotError, UsageError
from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.kernel import METHODS, kernel_of

CLOSED = {"abs", "cos", "erf", "gelu", "leaky_relu", "linear", "relu", "shifted_relu", "sin"}
KERNELS = {name: kernel_of(activation(name)) for name in names()}
OSCILLATING = {"cos", "sin"}

any_name = st.sampled_from(sorted(KERNELS))
any_variance = st.floats(-8, 4).map(lambda exponent: 10.0**exponent)
any_log_gamma = st.floats(-7, 7)


@pytest.mark.parametrize("name", names())
def test_the_method_that_was_used_is_recorded(name):
    assert KERNELS[name].method == ("closed_form" if name in CLOSED else "auto")
    assert kernel_of(activation(name), method="hermite").method == "hermite"
    assert kernel_of(activation(name), method="quadrature").method == "quadrature"


def test_an_unknown_method_is_refused_with_the_options():
    with pytest.raises(
        UsageError, match=r"method: expected one of 'auto', .*, got 'hermit'; did you mean 'hermite'"
    ):
        kernel_of(activation("relu"), method="hermit")
    assert METHODS == ("auto", "closed_form", "hermite", "quadrature")


def test_a_closed_form_that_is_not_known_is_refused():
    with pytest.raises(CouldNotError, match=r"'tanh': expected an activation with a known closed form"):
        kernel_of(activation("tanh"), method="closed_form")


def test_a_user_function_with_a_registered_name_gets_no_closed_form():
    other = ActivationFunction("sin", np.tanh, lambda u: 1 / np.cosh(u) ** 2)
    assert kernel_of(other).method == "auto"
    assert kernel_of(other).transfer(1.0, 0.5, 0.5) == kernel_of(activation("tanh")).transfer(1.0, 0.5, 0.5)


@settings(max_examples=150, deadline=None)
@given(name=any_name, q=any_variance, log_gamma=any_log_gamma)
def test_the_three_parts_add_up_to_the_mean_square(name, q, log_gamma):
    gamma = 10.0**log_gamma
    c, rho = gamma / (1 + gamma), 1 / (1 + gamma)
    kernel = KERNELS[name]
    mean, spread_slope, data_slope = kernel.transfer(q, c, rho)
    assert spread_slope >= 0
    assert data_slope >= 0
    total = mean**2 + spread_slope * c * q + data_slope * rho * q
    assert total == pytest.approx(kernel.mean_square(q), rel=1e-11)
    assert mean == pytest.approx(kernel.mean(q), rel=1e-12, abs=1e-300)


@settings(max_examples=80, deadline=None)
@given(name=any_name, q=any_variance, pair=st.lists(any_log_gamma, min_size=2, max_size=2))
def test_correlated_inputs_give_more_correlated_outputs(name, q, pair):
    low, high = (10.0**exponent for exponent in sorted(pair))
    kernel = KERNELS[name]
    slopes = [kernel.transfer(q, gamma / (1 + gamma), 1 / (1 + gamma)) for gamma in (low, high)]
    spread = [
        slope.spread_slope * gamma / (1 + gamma) for slope, gamma in zip(slopes, (low, high), strict=True)
    ]
    fallen = [slope.data_slope / (1 + gamma) for slope, gamma in zip(slopes, (low, high), strict=True)]
    assert spread[0] <= spread[1] * (1 + 1e-11)
    assert fallen[1] <= fallen[0] * (1 + 1e-11)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["relu", "leaky_relu", "abs", "linear"]),
    q=st.floats(-100, 100).map(lambda exponent: 10.0**exponent),
    scale=st.floats(-20, 20).map(lambda exponent: 10.0**exponent),
    log_gamma=any_log_gamma,
)
def test_homogeneous_activations_have_slopes_that_do_not_depend_on_the_variance(name, q, scale, log_gamma):
    gamma = 10.0**log_gamma
    c, rho = gamma / (1 + gamma), 1 / (1 + gamma)
    mean, *slopes = KERNELS[name].transfer(q, c, rho)
    scaled_mean, *scaled_slopes = KERNELS[name].transfer(q * scale, c, rho)
    assert slopes == scaled_slopes
    assert scaled_mean == pytest.approx(mean * math.sqrt(scale), rel=1e-14)
    numerical = AutomaticKernel(KERNELS[name].function).transfer(q, c, rho)
    assert numerical.data_slope == pytest.approx(slopes[1], rel=1e-10)
    assert numerical.spread_slope == pytest.approx(slopes[0], rel=1e-10)


@pytest.mark.parametrize("name", names())
def test_floats_and_arrays_give_the_same(name):
    kernel = KERNELS[name]
    q = np.array([[0.3], [2.0]])
    gamma = np.array([0.0, 0.2, 5.0, 1e5])
    c, rho = gamma / (1 + gamma), 1 / (1 + gamma)
    arrays = kernel.transfer(q, c, rho)
    for i in range(2):
        for j in range(4):
            one = kernel.transfer(float(q[i, 0]), float(c[j]), float(rho[j]))
            for single, several in zip(one, arrays, strict=True):
                assert isinstance(single, float)
                # a series is as long as the most correlated point of a call needs it: equal to its tolerance
                assert np.broadcast_to(several, (2, 4))[i, j] == pytest.approx(single, rel=2e-11, abs=1e-300)
    for average in ("mean", "mean_square", "gain", "fourth_moment"):
        several = getattr(kernel, average)(q)
        assert several.shape == (2, 1)
        assert several[1, 0] == pytest.approx(getattr(kernel, average)(2.0), rel=1e-13)


@pytest.mark.parametrize("name", sorted(set(names()) - OSCILLATING))
@pytest.mark.parametrize("q", [1e-280, 1e280])
def test_extreme_variances_are_answered_without_a_warning(name, q):
    kernel = KERNELS[name]
    for c, rho in ((0.0, 1.0), (1e-300, 1.0), (0.5, 0.5), (1.0, 1e-300), (1.0, 0.0)):
        transfer = kernel.transfer(q, c, rho)
        assert np.isfinite(transfer).all()
        assert min(transfer.spread_slope, transfer.data_slope) >= 0
    assert np.isfinite(kernel.mean_square(q))
    assert np.isfinite(kernel.gain(q))
    # at one point of the data there is nothing left to spread: V'/(ρq) is the gain; all is centre
    assert kernel.transfer(q, 1.0, 0.0).data_slope == pytest.approx(kernel.gain(q), rel=1e-9)


@pytest.mark.parametrize("name", names())
def test_slopes_settle_at_both_ends(name):
    kernel = KERNELS[name]
    for q in (0.02, 1.0, 30.0):
        gain = kernel.gain(q)
        assert kernel.transfer(q, 1.0, 1e-300).data_slope == pytest.approx(gain, rel=1e-9)
        assert kernel.transfer(q, 1.0, 1e-24).data_slope == pytest.approx(gain, rel=1e-9)
        ends = [kernel.transfer(q, c, 1.0).spread_slope for c in (0.0, 1e-300, 1e-30)]
        assert ends[0] == pytest.approx(ends[1], rel=1e-12, abs=1e-250)
        # Stein: the spread slope at c = 0 is (E φ')²; here by midpoints, which miss a kink by half a step
        z = (np.arange(-120_000, 120_000) + 0.5) * 1e-4
        derivative = (
            1e-4 * np.exp(-0.5 * z**2) @ kernel.function.derivative(math.sqrt(q) * z) / math.sqrt(2 * math.pi)
        )
        assert ends[0] == pytest.approx(derivative**2, rel=1e-3, abs=1e-20)
