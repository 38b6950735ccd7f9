"""Every registered activation against mpmath (tails included) and against its torch twin."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from firstlight.architecture.activations import activation, activation_names
from firstlight.architecture.torch_activations import as_module

EPSILON = np.finfo(np.float64).eps

mp = mpmath.mp.clone()
mp.dps = 60


def _relu6(u: Any) -> Any:
    return min(max(u, mp.mpf(0)), mp.mpf(6))


SELU_ALPHA = mp.mpf("1.6732632423543772848170429916717")
SELU_SCALE = mp.mpf("1.0507009873554804934193349852946")

REFERENCES: dict[str, Callable[[Any], Any]] = {
    "abs": abs,
    "celu": lambda u: u if u > 0 else mp.expm1(u),
    "celu:alpha=0.5": lambda u: u if u > 0 else mp.expm1(2 * u) / 2,
    "cos": mp.cos,
    "elu": lambda u: u if u > 0 else mp.expm1(u),
    "elu:alpha=0.5": lambda u: u if u > 0 else mp.expm1(u) / 2,
    "erf": mp.erf,
    "gelu": lambda u: u * mp.erfc(-u / mp.sqrt(2)) / 2,
    "gelu_tanh": lambda u: u / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (u + mp.mpf(0.044715) * u**3))),
    "hardsigmoid": lambda u: _relu6(u + 3) / 6,
    "hardswish": lambda u: u * _relu6(u + 3) / 6,
    "hardtanh": lambda u: min(max(u, mp.mpf(-1)), mp.mpf(1)),
    "leaky_relu": lambda u: u if u > 0 else mp.mpf(0.01) * u,
    "linear": lambda u: u,
    "mish": lambda u: u * (1 - 2 / ((1 + mp.exp(u)) ** 2 + 1)) if u > -20 else u * _tanh_softplus(u),
    "relu": lambda u: max(u, mp.mpf(0)),
    "relu6": _relu6,
    "selu": lambda u: SELU_SCALE * (u if u > 0 else SELU_ALPHA * mp.expm1(u)),
    "shifted_relu": lambda u: max(u, mp.mpf(0)) - 1 / mp.sqrt(2 * mp.pi),
    "sigmoid": lambda u: 1 / (1 + mp.exp(-u)),
    "silu": lambda u: u / (1 + mp.exp(-u)),
    "sin": mp.sin,
    "softplus": lambda u: mp.log1p(mp.exp(u)),
    "softplus:beta=2": lambda u: mp.log1p(mp.exp(2 * u)) / 2,
    "softsign": lambda u: u / (1 + abs(u)),
    "tanh": mp.tanh,
}


def _tanh_softplus(u: Any) -> Any:
    e = mp.exp(u)
    return e * (e + 2) / (e * e + 2 * e + 2)


_MAGNITUDES = [
    0.0,
    1e-300,
    1e-200,
    1e-100,
    1e-30,
    1e-12,
    1e-6,
    1e-3,
    0.1,
    0.5,
    0.7517,
    0.99,
    1.27,
    2.0,
    2.99,
    3.01,
]
_MAGNITUDES += [5.0, 5.99, 6.01, 8.0, 12.5, 19.0, 25.0, 30.0, 36.9, 100.0, 500.0]
POINTS = np.array([sign * size for size in _MAGNITUDES for sign in (-1.0, 1.0)])


def test_every_registered_name_has_a_reference() -> None:
    assert {name.partition(":")[0] for name in REFERENCES} == set(activation_names())


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_value_to_full_relative_accuracy(name: str) -> None:
    function, reference = activation(name), REFERENCES[name]
    for u, got, slope in zip(POINTS, function.value(POINTS), function.derivative(POINTS), strict=True):
        exact = reference(mp.mpf(float(u)))
        # what one rounding of the argument may do, and a few roundings of the result: relative, in the tails too
        allowed = 8 * EPSILON * (abs(exact) + abs(float(u) * float(slope)))
        assert abs(mp.mpf(float(got)) - exact) <= max(allowed, mp.mpf(1e-307)), (name, u)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_derivative_to_full_relative_accuracy(name: str) -> None:
    function, reference = activation(name), REFERENCES[name]
    apart = np.array(
        [u for u in POINTS if abs(u) >= 1e-12 and min((abs(u - k) for k in function.kinks or ()), default=1)]
    )
    for u, got in zip(apart, function.derivative(apart), strict=True):
        # difference steps far below the distance to a kink and far above the working precision of 10^-60
        step = mp.mpf(10) ** -18 * abs(mp.mpf(float(u)))
        x = mp.mpf(float(u))
        ahead, here, behind = reference(x + step), reference(x), reference(x - step)
        first, second = (ahead - behind) / (2 * step), (ahead - 2 * here + behind) / step**2
        allowed = 8 * EPSILON * (abs(first) + abs(x * second)) + abs(here) * mp.mpf(10) ** -40 / step
        assert abs(mp.mpf(float(got)) - first) <= max(allowed, mp.mpf(1e-306)), (name, u)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_nothing_overflows_up_to_1e150(name: str) -> None:
    function = activation(name)
    u = np.array([-1e150, -1e80, -1e10, -800.0, 800.0, 1e10, 1e80, 1e150])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value, slope = function.value(u), function.derivative(u)
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    # none of them grows faster than 2|u|, and where it grows it does so with its slope
    assert (np.abs(value) <= 2 * np.abs(u) + 1).all()
    grows = np.abs(slope) > 0.001
    if name not in ("sin", "cos"):
        np.testing.assert_allclose(
            (value / u)[grows & (np.abs(u) > 1e9)], slope[grows & (np.abs(u) > 1e9)], rtol=1e-9
        )


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_value_and_derivative_keep_nan_and_shape(name: str) -> None:
    function = activation(name)
    u = np.array([[0.3, np.nan], [-0.2, 2.0]])
    for values in (function.value(u), function.derivative(u)):
        assert values.shape == u.shape
        assert values.dtype == np.float64
        if name != "linear" or values is not function.derivative(u):
            assert np.isfinite(values[~np.isnan(u)]).all()
    assert np.isnan(function.value(u)[0, 1])
    assert function.value(np.array(0.5)).shape == ()


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_value_and_derivative_agree_with_the_torch_twin(name: str) -> None:
    function = activation(name)
    module = as_module(function).double()
    u = np.linspace(-30, 30, 1213)
    u = u[np.all([np.abs(u - kink) > 1e-9 for kink in function.kinks or (99.0,)], axis=0)]
    x = torch.tensor(u, requires_grad=True)
    y = module(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    # torch's softplus turns to its asymptote at 20, where it is off by 2e-9, and its gelu cancels in the left tail
    absolute = 3e-9 if name.startswith("softplus") else 1e-13
    np.testing.assert_allclose(function.value(u), y.detach().numpy(), rtol=1e-12, atol=absolute)
    # and the backward pass of its hardsigmoid holds 1/6 in single precision
    absolute = 1e-8 if name == "hardsigmoid" else absolute
    np.testing.assert_allclose(function.derivative(u), slope.numpy(), rtol=1e-12, atol=absolute)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_derivative_at_a_kink_is_the_mean_of_both_sides(name: str) -> None:
    function = activation(name)
    for kink in function.kinks or ():
        step = 1e-9 * max(1.0, abs(kink))
        sides = function.derivative(np.array([kink - step, kink + step]))
        assert function.derivative(np.array(kink)) == pytest.approx(sides.mean(), abs=1e-8)
