"""Max-pooling against closed forms, one-dimensional integrals, sampled units and real wide networks."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from firstlight.architecture.activations import ActivationFunction, activation
from firstlight.errors import CouldNotError, UsageError
from firstlight.theory.kernels.joint_gain import bivariate_normal
from firstlight.theory.kernels.kernel import kernel_of
from firstlight.theory.kernels.max_pool import MaxPoolKernel

RISING = [
    "relu",
    "leaky_relu",
    "shifted_relu",
    "linear",
    "tanh",
    "erf",
    "sigmoid",
    "softplus",
    "elu",
    "selu",
    "hardtanh",
]
TURNING = ["gelu", "silu", "mish", "hardswish", "abs"]


def pooled(name: str, size: int) -> MaxPoolKernel:
    return MaxPoolKernel(activation(name), size)


def gamma_of_first_layer(kernel: MaxPoolKernel) -> float:
    mean, _, data_slope = kernel.transfer(2.0, 0.0, 1.0)
    return mean**2 / (2.0 * data_slope)


@pytest.mark.parametrize(
    ("name", "gammas"),
    [
        ("relu", {2: 1.041, 4: 2.429, 9: 6.187, 25: 14.941, 100: 34.099}),
        ("linear", {2: 0.467, 4: 2.155, 9: 6.171, 25: 14.941, 100: 34.099}),
    ],
)
def test_first_layer_bias(name, gammas):
    """Against the stated values, and to nine digits against moments of the order statistic by another integrator."""
    for size, stated in gammas.items():
        gamma = gamma_of_first_layer(pooled(name, size))
        assert gamma == pytest.approx(stated, abs=6e-4)
        low = 0.0 if name == "relu" else -10.0

        def moment(power, size=size, low=low):
            def integrand(z):
                return z**power * size * stats.norm.pdf(z) * stats.norm.cdf(z) ** (size - 1)

            return integrate.quad(integrand, low, 10, epsabs=1e-13, epsrel=1e-12, limit=200)[0]

        mean, square = moment(1), moment(2)
        assert gamma == pytest.approx(mean**2 / (square - mean**2), rel=1e-9)


def covariance_of_larger_of_two(c):
    """max(a, b) = (a + b)/2 + |a − b|/2, and E|D||D'| of two correlated Gaussians is known."""
    return c / 2 + (mpmath.sqrt(1 - c**2) + c * mpmath.asin(c) - 1) / mpmath.pi


@pytest.mark.parametrize("gamma", [1e-6, 1e-3, 0.3, 1.0, 20.0, 1e3, 1e6])
def test_larger_of_two_linear_units_in_closed_form(gamma):
    with mpmath.workdps(40):
        exact_c = mpmath.mpf(gamma) / (1 + mpmath.mpf(gamma))
        spread = covariance_of_larger_of_two(exact_c) / exact_c
        data = (covariance_of_larger_of_two(mpmath.mpf(1)) - covariance_of_larger_of_two(exact_c)) / (
            1 - exact_c
        )
        mean = mpmath.sqrt(3 / mpmath.pi)
    found = pooled("linear", 2).transfer(3.0, gamma / (1 + gamma), 1 / (1 + gamma))
    assert found.mean == pytest.approx(float(mean), rel=1e-12)
    assert found.spread_slope == pytest.approx(float(spread), rel=1e-11)
    assert found.data_slope == pytest.approx(float(data), rel=1e-11)


@pytest.mark.parametrize("r", [-1.0, -0.97, -0.5, -1e-5, 0.0, 0.4, 1.0])
def test_product_of_two_linear_units_at_any_correlation(r):
    expected = 1 / math.pi + float(covariance_of_larger_of_two(mpmath.mpf(r)))
    assert pooled("linear", 2).product(1.0, 1.0, r) == pytest.approx(expected, abs=1e-11)
    assert pooled("linear", 2).product(4.0, 9.0, r) == pytest.approx(6 * expected, abs=1e-10)


@pytest.mark.parametrize("name", [*RISING, *TURNING])
def test_variance_is_shared_out_without_remainder(name):
    """B + V' is Var y, which the winner's own law gives by a one-dimensional integral."""
    for size, q in ((2, 1.0), (9, 2.5)):
        kernel = pooled(name, size)
        variance = kernel.mean_square(q) - kernel.mean(q) ** 2
        found = kernel.transfer(q, 0.3, 0.7)
        assert q * (0.3 * found.spread_slope + 0.7 * found.data_slope) == pytest.approx(variance, rel=1e-8)


@pytest.mark.parametrize("name", ["relu", "tanh", "hardtanh", "gelu", "abs"])
def test_limits_at_no_spread_in_data_and_none_in_centers(name):
    kernel = pooled(name, 3)
    gain = kernel.gain(1.3)
    assert kernel.transfer(1.3, 1.0, 0.0).data_slope == pytest.approx(gain, rel=1e-8)
    near = kernel.transfer(1.3, 1.0 - 1e-12, 1e-12).data_slope
    assert near == pytest.approx(gain, rel=1e-5)  # approached like √ρ
    first, next_ = (
        kernel.transfer(1.3, 0.0, 1.0).spread_slope,
        kernel.transfer(1.3, 1e-9, 1 - 1e-9).spread_slope,
    )
    assert next_ == pytest.approx(first, rel=1e-7, abs=1e-8)
    assert first >= 0


def test_even_function_has_no_spread_at_first_order():
    spread = [pooled("abs", 3).transfer(1.0, c, 1 - c).spread_slope for c in (0.0, 1e-6, 2e-6)]
    assert spread[0] < 1e-12
    assert spread[2] / spread[1] == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "sin"])
def test_one_unit_is_no_pooling(name):
    plain, single = kernel_of(activation(name)), pooled(name, 1)
    assert single.transfer(1.7, 0.4, 0.6) == plain.transfer(1.7, 0.4, 0.6)
    assert single.mean(1.7) == plain.mean(1.7)
    assert single.mean_square(1.7) == plain.mean_square(1.7)
    assert single.gain(1.7) == plain.gain(1.7)
    assert single.fourth_moment(1.7) == plain.fourth_moment(1.7)
    assert single.product(1.7, 1.2, 0.3) == plain.product(1.7, 1.2, 0.3)


@pytest.mark.parametrize("size", [100, 1000, 100_000])
def test_many_units(size):
    """Var of the largest of K normals, against an integral in the level where the largest sits."""
    kernel = pooled("linear", size)

    def survival(x):
        return -np.expm1(size * stats.norm.logcdf(x))

    points = [0, 1, 2, 3, 4, 5, 6]
    mean = integrate.quad(survival, 0, 10, points=points, epsabs=1e-13, limit=400)[0]
    square = integrate.quad(lambda x: 2 * x * survival(x), 0, 10, points=points, epsabs=1e-13, limit=400)[0]
    found = kernel.transfer(1.0, 0.5, 0.5)
    assert found.mean == pytest.approx(mean, rel=1e-10)
    assert 0.5 * (found.spread_slope + found.data_slope) == pytest.approx(square - mean**2, rel=1e-8)
    assert kernel.gain(1.0) == pytest.approx(1.0, rel=1e-10)


@pytest.mark.parametrize("q", [1e-200, 1e-12, 1e12, 1e200])
def test_two_slopes_at_any_variance(q):
    one, other = (
        pooled("leaky_relu", 4).transfer(1.0, 0.3, 0.7),
        pooled("leaky_relu", 4).transfer(q, 0.3, 0.7),
    )
    assert other.mean == pytest.approx(one.mean * math.sqrt(q), rel=1e-12)
    assert other[1:] == one[1:]


@pytest.mark.parametrize("name", ["tanh", "softplus", "gelu"])
def test_small_variance_is_linear(name):
    """At q → 0 a smooth activation is its tangent at 0."""
    q = 1e-20
    slope = float(activation(name).derivative(np.zeros(1))[0]) ** 2
    found, linear = pooled(name, 4).transfer(q, 0.3, 0.7), pooled("linear", 4).transfer(q, 0.3, 0.7)
    assert found.spread_slope == pytest.approx(slope * linear.spread_slope, rel=1e-8)
    assert found.data_slope == pytest.approx(slope * linear.data_slope, rel=1e-8)


def test_large_variance_makes_a_soft_kink_a_kink():
    soft, hard = pooled("softplus", 4).transfer(1e6, 0.3, 0.7), pooled("relu", 4).transfer(1e6, 0.3, 0.7)
    np.testing.assert_allclose(soft, hard, rtol=3e-3)  # softplus differs from ReLU over 1/√q of the units


def test_arrays_broadcast():
    for name in ("relu", "tanh"):
        kernel = pooled(name, 2)
        q, c = np.array([[0.5], [2.0]]), np.array([0.1, 0.6, 0.95])
        found = kernel.transfer(q, c, 1 - c)
        assert found.mean.shape == found.spread_slope.shape == found.data_slope.shape == (2, 3)
        alone = kernel.transfer(2.0, 0.6, 0.4)
        np.testing.assert_allclose([part[1, 1] for part in found], alone, rtol=1e-12)
        assert kernel.product(q, 1.0, c).shape == (2, 3)
        assert kernel.gain(q).shape == (2, 1)


def test_product_agrees_with_transfer():
    kernel = pooled("tanh", 3)
    mean, spread, _ = kernel.transfer(0.8, 0.35, 0.65)
    assert kernel.product(0.8, 0.8, 0.35) == pytest.approx(mean**2 + spread * 0.35 * 0.8, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "size", "q", "gamma"),
    [
        ("relu", 4, 2.0, 1.0),
        ("tanh", 9, 1.5, 0.1),
        ("hardtanh", 2, 3.0, 30.0),
        ("gelu", 2, 2.0, 0.3),
        ("silu", 4, 5.0, 2.0),
        ("hardswish", 2, 4.0, 3.0),
        ("abs", 3, 1.0, 10.0),
        ("cos", 2, 0.3, 1.0),
    ],
)
def test_sampled_units(name, size, q, gamma):
    """Monte-Carlo twin: draw centres, then two replicas that share them; V' is half their mean squared difference."""
    rng = np.random.default_rng([size, int(10 * q), int(10 * gamma)])
    draws, c, rho = 150_000, gamma / (1 + gamma), 1 / (1 + gamma)
    kernel, value = pooled(name, size), activation(name).value
    centers = math.sqrt(c * q) * rng.standard_normal((draws, size))
    first, second = (
        value(centers + math.sqrt(rho * q) * rng.standard_normal((draws, size))).max(axis=1) for _ in range(2)
    )
    mean, spread_slope, data_slope = kernel.transfer(q, c, rho)
    for samples, expected in [
        (first, mean),
        (np.square(first), kernel.mean_square(q)),
        (first**4, kernel.fourth_moment(q)),
        (0.5 * np.square(first - second), data_slope * rho * q),
        ((first - mean) * (second - mean), spread_slope * c * q),
        (first * second, kernel.product(q, q, c)),
    ]:
        assert samples.mean() == pytest.approx(expected, abs=4.5 * samples.std() / math.sqrt(draws))


def test_sampled_gain_of_the_winner():
    rng = np.random.default_rng(5)
    for name in ("tanh", "gelu", "abs"):
        function = activation(name)
        u = 1.2 * rng.standard_normal((200_000, 3))
        winner = np.take_along_axis(u, function.value(u).argmax(axis=1)[:, None], axis=1)[:, 0]
        samples = np.square(function.derivative(winner))
        stderr = samples.std() / math.sqrt(len(samples))
        assert samples.mean() == pytest.approx(pooled(name, 3).gain(1.44), abs=4.5 * stderr + 1e-12)


def test_wide_networks_with_two_pooled_layers():
    """γ of the read-out of real torch networks, twelve initializations, against the recursion of (C, V)."""
    import torch

    size, width, inputs, points, inits = 4, 600, 300, 300, 12
    kernel = pooled("relu", size)
    center, data = 0.0, 2.0
    for _ in range(2):
        q = center + data
        mean, spread, slope = kernel.transfer(q, center / q, data / q)
        center, data = 2 * (mean**2 + spread * center), 2 * slope * data
    ratios = []
    for init in range(inits):
        generator = torch.Generator().manual_seed(init)
        x = torch.randn(points, inputs, generator=generator)
        layers = []
        for fan_in, fan_out in ((inputs, width * size), (width, width * size), (width, width)):
            dense = torch.nn.Linear(fan_in, fan_out, bias=False)
            with torch.no_grad():
                dense.weight.normal_(0.0, math.sqrt(2 / fan_in), generator=generator)
            layers += [dense, torch.nn.ReLU(), torch.nn.MaxPool1d(size)]
        with torch.no_grad():
            output = torch.nn.Sequential(*layers[:-2])(x).double()  # (sample, unit)
        variance = output.var(dim=0).mean()
        ratios.append(float((output.mean(dim=0).square().mean() - variance / points) / variance))
    stderr = np.std(ratios, ddof=1) / math.sqrt(inits)
    assert np.mean(ratios) == pytest.approx(center / data, abs=4 * stderr)
    assert (
        stderr < 0.05 * center / data
    )  # tight enough to fail: without pooling γ would be 0.98, here it is about 6


@given(h=st.floats(-6, 6), k=st.floats(-6, 6), theta=st.floats(1e-3, math.pi - 1e-3))
def test_bivariate_normal_against_scipy(h, k, theta):
    found = bivariate_normal(np.array([h]), np.array([k]), theta)[0]
    c = math.cos(theta)
    inner = (
        integrate.quad(
            lambda t: math.exp(-(h * h + k * k - 2 * t * h * k) / (2 * (1 - t * t))) / math.sqrt(1 - t * t),
            0,
            c,
            epsabs=1e-12,
            epsrel=1e-10,
            limit=200,
        )[0]
        if abs(c) < 0.99
        else None
    )
    if inner is not None:
        assert found == pytest.approx(
            stats.norm.cdf(h) * stats.norm.cdf(k) + inner / (2 * math.pi), abs=1e-10
        )
    assert max(0.0, stats.norm.cdf(h) + stats.norm.cdf(k) - 1) - 1e-14 <= found
    assert found <= min(stats.norm.cdf(h), stats.norm.cdf(k)) + 1e-14


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["relu", "leaky_relu", "shifted_relu", "linear"]),
    size=st.integers(2, 200),
    q=st.floats(1e-6, 1e6),
    log_gamma=st.floats(-13, 13),
)
def test_parts_add_up_and_are_positive(name, size, q, log_gamma):
    gamma = math.exp(log_gamma)
    c, rho = gamma / (1 + gamma), 1 / (1 + gamma)
    kernel = pooled(name, size)
    mean, spread, data = kernel.transfer(q, c, rho)
    assert spread > 0
    assert data > 0
    assert spread <= data * (1 + 1e-9)  # g ascends in t
    assert mean**2 + q * (c * spread + rho * data) == pytest.approx(kernel.mean_square(q), rel=1e-9)
    assert kernel.mean_square(q) ** 2 <= kernel.fourth_moment(q) * (1 + 1e-9)
    assert mean >= MaxPoolKernel(activation(name), size - 1).mean(q)


def test_what_it_cannot_do_it_names():
    def step(u):
        return np.heaviside(u, 0.5)

    jump = ActivationFunction("step", step, np.zeros_like, (0.0,))
    with pytest.raises(
        CouldNotError,
        match=r"max-pooling of 'step': expected a continuous activation, got a jump of 1 at u = 0",
    ):
        MaxPoolKernel(jump, 2).mean(1.0)
    with pytest.raises(CouldNotError, match=r"max-pooling of 'sin': expected at most 8 monotone pieces"):
        pooled("sin", 2).mean(100.0)


@pytest.mark.parametrize(
    ("size", "message"), [(0, "expected 1 or more units, got 0"), (2.5, r"whole number of units, got 2\.5")]
)
def test_misuse_is_named(size, message):
    with pytest.raises(UsageError, match=message):
        MaxPoolKernel(activation("relu"), size)
