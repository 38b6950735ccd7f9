"""Python callables as activations: what is recognised, how they are evaluated, and what is refused."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from firstlight.architecture.activation_callables import from_callable, identify
from firstlight.architecture.activation_derivatives import by_differences
from firstlight.architecture.activations import activation, activation_names
from firstlight.architecture.torch_activations import as_module
from firstlight.errors import CouldNotError, UsageError


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (nn.ReLU(), "relu"),
        (nn.ReLU(inplace=True), "relu"),
        (nn.GELU(), "gelu"),
        (nn.GELU(approximate="tanh"), "gelu_tanh"),
        (nn.LeakyReLU(0.2), "leaky_relu:negative_slope=0.2"),
        (nn.ELU(alpha=0.5), "elu:alpha=0.5"),
        (nn.Softplus(beta=2.0), "softplus:beta=2.0"),
        (nn.Hardtanh(-2.0, 2.0), "hardtanh:min_val=-2.0,max_val=2.0"),
        (nn.PReLU(), "leaky_relu:negative_slope=0.25"),
        (nn.PReLU(3, init=0.5), "leaky_relu:negative_slope=0.5"),
        (functional.gelu, "gelu"),
        (functools.partial(functional.gelu, approximate="tanh"), "gelu_tanh"),
        (functools.partial(functional.leaky_relu, negative_slope=0.2), "leaky_relu:negative_slope=0.2"),
        (functional.silu, "silu"),
        (torch.tanh, "tanh"),
        (torch.relu, "relu"),
        (Tensor.sigmoid, "sigmoid"),
        (torch.special.erf, "erf"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__),
)
def test_torch_is_recognised(spec: Callable[[Any], Any], words: str) -> None:
    assert activation(spec).spec == words
    assert activation(spec).source is None


@pytest.mark.parametrize("name", activation_names())
def test_the_module_of_a_registered_activation_is_recognised(name: str) -> None:
    assert activation(as_module(activation(name))) == activation(name)


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.sign(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


class Swish(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.beta * x)


U = np.array([-31.0, -2.5, -0.1, 0.5, 3.0, 17.0])


def logistic(u: Any) -> Any:
    return 1 / (1 + np.exp(-u))


CASES: dict[
    str, tuple[Callable[[Any], Any], tuple[float, ...], Callable[[Any], Any], Callable[[Any], Any]]
] = {
    "clamp": (
        lambda x: torch.clamp(x, -0.3, 0.7),
        (-0.3, 0.7),
        lambda u: np.clip(u, -0.3, 0.7),
        lambda u: (abs(u - 0.2) < 0.5) * 1.0,
    ),
    "where": (
        lambda x: torch.where(x > 0.37, x, 0.1 * x),
        (0.37,),
        lambda u: np.where(u > 0.37, u, 0.1 * u),
        lambda u: np.where(u > 0.37, 1.0, 0.1),
    ),
    "step": (lambda x: torch.sign(x - 0.2).double(), (0.2,), lambda u: np.sign(u - 0.2), np.zeros_like),
    "comparison": (lambda x: (x > 0).to(x.dtype), (0.0,), lambda u: (u > 0) * 1.0, np.zeros_like),
    "straight-through": (StraightThrough.apply, (0.0,), np.sign, np.zeros_like),
    "through numpy": (
        lambda x: torch.from_numpy(np.tanh(x.numpy())),
        (),
        np.tanh,
        lambda u: 1 / np.cosh(u) ** 2,
    ),
    "in place": (
        lambda x: x.mul_(2.0).clamp_(min=1.0),
        (0.5,),
        lambda u: np.maximum(2 * u, 1),
        lambda u: (u > 0.5) * 2.0,
    ),
    "module": (
        Swish(),
        (),
        lambda u: u * logistic(1.5 * u),
        lambda u: logistic(1.5 * u) * (1 + 1.5 * u * logistic(-1.5 * u)),
    ),
    "constant": (torch.ones_like, (), np.ones_like, np.zeros_like),
    "cube": (lambda x: x**3, (), lambda u: u**3, lambda u: 3 * u**2),
}


@pytest.mark.parametrize("name", CASES)
def test_value_derivative_and_kinks_of_callables(name: str) -> None:
    spec, kinks, value, derivative = CASES[name]
    function = activation(spec)
    away = U[~np.isin(U, kinks)]
    assert function.kinks == kinks
    assert function.source is spec
    np.testing.assert_allclose(function.value(away), value(away), rtol=1e-14)
    np.testing.assert_allclose(function.derivative(away), derivative(away), rtol=1e-9, atol=1e-9)


def test_derivative_at_kinks_is_the_mean_of_both_sides() -> None:
    bent = activation(lambda x: torch.where(x > 0.25, 3 * x, x - x**2))
    assert bent.kinks == (0.25,)
    expected = (3 + 1 - 2 * 0.25) / 2
    assert bent.derivative(np.array([0.25]))[0] == pytest.approx(expected, abs=1e-9)


def test_single_precision_inside_is_tolerated() -> None:
    function = activation(lambda x: torch.tanh(x.float()))
    np.testing.assert_allclose(
        function.derivative(np.array([-2.5, 0.5])), 1 / np.cosh([-2.5, 0.5]) ** 2, rtol=1e-4
    )


def test_differences_of_single_precision_take_wide_windows() -> None:
    single = activation(lambda x: torch.from_numpy(np.tanh(x.numpy().astype(np.float32))))
    u = np.linspace(-4, 4, 801)
    # half an ulp of 1, through the weights of nine points in a window of 0.05: absolute sum below 40/0.05
    bound = 0.5 * np.finfo(np.float32).eps * 40 / 0.05
    np.testing.assert_allclose(single.derivative(u), 1 / np.cosh(u) ** 2, rtol=0, atol=bound)


def test_two_slopes_are_seen() -> None:
    function = activation(lambda x: torch.where(x > 0, 2 * x, -0.5 * x) + 0.25)
    assert function.slopes == pytest.approx((-0.5, 2.0), abs=1e-15)
    assert function.shift == 0.25
    assert activation(lambda x: torch.where(x.abs() > 1e3, 0.0, x)).slopes is None


def test_a_written_out_formula_is_identified() -> None:
    assert identify(from_callable(lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)))) == activation("gelu")
    assert identify(from_callable(lambda x: x * torch.sigmoid(1.702 * x))).name == "<lambda>"


def test_the_users_module_and_random_state_stay_as_they_were() -> None:
    module = Swish()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    function = activation(module)
    function.derivative(np.array([1.0]))
    assert torch.equal(torch.get_rng_state(), before)
    assert module.beta.dtype == torch.float32
    assert module.beta.grad is None
    with torch.no_grad():
        module.beta.fill_(9.0)  # the copy was taken when it was read
    assert function.value(np.array([1.0]))[0] == pytest.approx(logistic(1.5))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            lambda x: x.softmax(-1),
            r"activation '<lambda>': expected each output to depend on its own input alone",
        ),
        (nn.Softmax(0), r"activation 'Softmax': expected each output to depend on its own input alone"),
        (lambda x: (x - x.mean()) / x.std(), r"expected each output to depend on its own input alone"),
        (lambda x: x.cumsum(0), r"expected each output to depend on its own input alone"),
        (lambda x: x[:3], r"expected the shape it was given, \(440,\), got \(3,\)"),
        (nn.GLU(), r"activation 'GLU': expected the shape it was given, \(440,\), got \(220,\)"),
        (torch.log, r"activation 'log': expected finite values for \|u\| ≤ 40, got nan at u = -40"),
        (lambda x: 1 / x, r"expected finite values for \|u\| ≤ 40, got inf at u = 0"),
        (lambda x: torch.exp(x * x), r"expected finite values for \|u\| ≤ 40, got inf at u = -40"),
        (functional.dropout, r"activation 'dropout': expected the same values for the same input"),
        (nn.RReLU(), r"activation 'RReLU': expected the same values .* call .eval\(\) on it first"),
        (lambda x: x > 0, r"expected real floating-point values, got torch.bool; add .to\(x.dtype\)"),
        (lambda x: torch.complex(x, x), r"expected real floating-point values, got torch.complex128"),
        (lambda x: None, r"expected a tensor back for a tensor, got NoneType"),
        (lambda x: x.nope, r"got AttributeError on shape \(440,\): 'Tensor' object has no attribute 'nope'"),
        (lambda x, y: x, r"got TypeError on shape \(440,\): .*missing 1 required positional argument"),
        (
            nn.Linear(3, 3),
            r"activation 'Linear': expected a function of a float64 tensor of any shape, got RuntimeError",
        ),
        (torch.floor, r"activation 'floor': expected at most 64 points"),
    ],
)
def test_what_is_no_activation_is_refused_in_a_sentence(spec: Callable[..., Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        activation(spec)
    assert "\n" not in str(caught.value)


def test_overflow_far_out_is_told_when_it_is_met() -> None:
    function = activation(lambda x: x * torch.exp(x) / (1 + torch.exp(x)))
    with pytest.raises(CouldNotError, match=r"expected finite values, got nan at u = 800"):
        function.value(np.array([1.0, 800.0]))


@pytest.mark.parametrize("name", ["tanh", "gelu", "sin", "softplus", "mish"])
def test_differences_reach_the_analytic_derivative(name: str) -> None:
    function = activation(name)
    u = np.linspace(-8, 8, 401)
    np.testing.assert_allclose(
        by_differences(function.value, u, ()), function.derivative(u), rtol=0, atol=1e-11
    )


def test_differences_are_one_sided_beside_kinks_and_follow_steep_places() -> None:
    relu = activation("relu")
    u = np.array([-1e-6, -1e-3, 1e-6, 1e-3, 2.0])
    np.testing.assert_allclose(by_differences(relu.value, u, (0.0,)), [0, 0, 1, 1, 1], atol=1e-9)
    steep = by_differences(lambda v: np.tanh(1e3 * v), np.array([0.0, 1e-3]), ())
    np.testing.assert_allclose(steep, 1e3 / np.cosh([0.0, 1.0]) ** 2, rtol=1e-8)


def test_no_warning_is_given_on_the_way() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        activation(lambda x: x.abs().sqrt()).derivative(np.array([-1.0, 0.0, 1.0]))
