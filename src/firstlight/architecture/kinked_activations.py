"""The activations with kinks, in float64, with exact derivatives and the kinks listed.

A kink is a point where the value or one of the first derivatives jumps: ReLU's first derivative at 0, but also the
second derivative of ELU (α = 1) and of softsign at 0. At a kink ``derivative`` is the mean of both sides.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.activation_registry import registered
from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import UsageError

__all__ = [
    "abs_",
    "celu",
    "elu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "relu",
    "relu6",
    "selu",
    "shifted_relu",
    "softsign",
]

Array = NDArray[np.float64]

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
"""Klambauer et al. 2017, equation 14: the values that make mean 0 and variance 1 a fixed point."""


@registered
def relu() -> ActivationFunction:
    """max(u, 0)."""
    return _two_slopes("relu", 0.0, 1.0)


@registered
def leaky_relu(negative_slope: float = 0.01) -> ActivationFunction:
    """Identity for u > 0, negative_slope·u below."""
    return _two_slopes("leaky_relu", negative_slope, 1.0)


@registered
def abs_() -> ActivationFunction:
    """|u|."""
    return _two_slopes("abs", -1.0, 1.0)


@registered
def shifted_relu(shift: float = -1.0 / math.sqrt(2.0 * math.pi)) -> ActivationFunction:
    """max(u, 0) + shift; the default takes away ReLU's mean over u ~ N(0, 1), 1/√(2π)."""
    return _two_slopes("shifted_relu", 0.0, 1.0, shift)


@registered
def elu(alpha: float = 1.0) -> ActivationFunction:
    """Identity for u > 0, α(e^u − 1) below."""
    return _exponential_left("elu", 1.0, alpha, 1.0)


@registered
def selu() -> ActivationFunction:
    """ELU with the self-normalizing α and scale."""
    return _exponential_left("selu", _SELU_SCALE, _SELU_SCALE * _SELU_ALPHA, 1.0)


@registered
def celu(alpha: float = 1.0) -> ActivationFunction:
    """Identity for u > 0, α(e^(u/α) − 1) below: continuously differentiable for every α."""
    if alpha <= 0:
        raise UsageError(f"activation 'celu', alpha: expected a positive number, got {alpha!r}")
    return _exponential_left("celu", 1.0, alpha, alpha)


@registered
def hardtanh(min_val: float = -1.0, max_val: float = 1.0) -> ActivationFunction:
    """Identity clipped to [min_val, max_val]."""
    if not min_val < max_val:
        raise UsageError(
            f"activation 'hardtanh': expected min_val < max_val, got {min_val!r} and {max_val!r}"
        )
    return _ramp("hardtanh", min_val, max_val)


@registered
def relu6() -> ActivationFunction:
    """Identity clipped to [0, 6]."""
    return _ramp("relu6", 0.0, 6.0)


@registered
def hardsigmoid() -> ActivationFunction:
    """(u + 3)/6 clipped to [0, 1]."""
    return ActivationFunction(
        "hardsigmoid",
        lambda u: np.clip(u + 3.0, 0.0, 6.0) / 6.0,
        lambda u: _inside(u, -3.0, 3.0) / 6.0,
        (-3.0, 3.0),
    )


@registered
def hardswish() -> ActivationFunction:
    """u·(u + 3)/6 between −3 and 3; 0 below, u above."""
    return ActivationFunction(
        "hardswish",
        lambda u: u * np.clip(u + 3.0, 0.0, 6.0) / 6.0,
        lambda u: np.clip(u + 3.0, 0.0, 6.0) / 6.0 + np.clip(u, -3.0, 3.0) * _inside(u, -3.0, 3.0) / 6.0,
        (-3.0, 3.0),
    )


@registered
def softsign() -> ActivationFunction:
    """u/(1 + |u|); its second derivative jumps from 2 to −2 at 0."""
    return ActivationFunction(
        "softsign", lambda u: u / (1.0 + np.abs(u)), lambda u: (1.0 + np.abs(u)) ** -2.0, (0.0,)
    )


def _two_slopes(name: str, left: float, right: float, shift: float = 0.0) -> ActivationFunction:
    def value(u: Array) -> Array:
        bent = np.where(u >= 0, right * u, left * u)
        return bent + shift if shift else bent

    def derivative(u: Array) -> Array:
        return _sides(u, left, right)

    return ActivationFunction(name, value, derivative, (0.0,), slopes=(left, right), shift=shift)


def _exponential_left(name: str, right: float, left: float, length: float) -> ActivationFunction:
    """right·u for u > 0, left·(e^(u/length) − 1) below."""

    def value(u: Array) -> Array:
        return np.where(u > 0, right * u, left * np.expm1(np.minimum(u, 0.0) / length))

    def derivative(u: Array) -> Array:
        return _sides(u, left / length * np.exp(np.minimum(u, 0.0) / length), right)

    return ActivationFunction(name, value, derivative, (0.0,))


def _ramp(name: str, low: float, high: float) -> ActivationFunction:
    return ActivationFunction(
        name, lambda u: np.clip(u, low, high), lambda u: _inside(u, low, high), (low, high)
    )


def _sides(u: Array, left: Array | float, right: float) -> Array:
    """``left`` below 0, ``right`` above, their mean at 0; NaN stays NaN."""
    weight = np.heaviside(u, 0.5)
    return np.asarray((1.0 - weight) * left + weight * right)


def _inside(u: Array, low: float, high: float) -> Array:
    """1 between low and high, 0 outside, ½ at both ends."""
    return np.asarray(np.heaviside(u - low, 0.5) * np.heaviside(high - u, 0.5))
