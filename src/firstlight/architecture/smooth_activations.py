"""The smooth activations in float64, with exact derivatives.

Every formula is written so that it neither overflows for |u| ≤ 1e150 nor loses relative accuracy where the function is
tiny: near u = 0 and in the tails. What helps: ½(1 + tanh x) = σ(2x), so no difference of near-equal numbers is formed;
1 − σ(u) = σ(−u); Φ(u) = ½ erfc(−u/√2); and mish's tanh(log(1 + e^u)) is a ratio of sums of positive terms.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from firstlight.architecture.activation_registry import registered
from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import UsageError

__all__ = ["cos", "erf", "gelu", "gelu_tanh", "linear", "mish", "sigmoid", "silu", "sin", "softplus", "tanh"]

Array = NDArray[np.float64]


@registered
def linear() -> ActivationFunction:
    """Identity, u."""
    return ActivationFunction("linear", lambda u: 1.0 * u, np.ones_like, slopes=(1.0, 1.0))


@registered
def tanh() -> ActivationFunction:
    """Hyperbolic tangent; its derivative 1/cosh² = 4 σ(2u) σ(−2u)."""
    return ActivationFunction(
        "tanh", np.tanh, lambda u: 4.0 * special.expit(2.0 * u) * special.expit(-2.0 * u)
    )


@registered
def erf() -> ActivationFunction:
    """2/√π ∫₀^u exp(−t²) dt."""
    return ActivationFunction("erf", special.erf, lambda u: 2.0 / math.sqrt(math.pi) * np.exp(-u * u))


@registered
def sigmoid() -> ActivationFunction:
    """σ(u) = 1/(1 + e^−u)."""
    return ActivationFunction("sigmoid", special.expit, lambda u: special.expit(u) * special.expit(-u))


@registered
def softplus(beta: float = 1.0) -> ActivationFunction:
    """log(1 + e^(βu))/β."""
    if beta <= 0:
        raise UsageError(f"activation 'softplus', beta: expected a positive number, got {beta!r}")
    return ActivationFunction(
        "softplus", lambda u: _softplus(beta * u) / beta, lambda u: special.expit(beta * u)
    )


@registered
def silu() -> ActivationFunction:
    """Gate by the sigmoid, u σ(u)."""
    return ActivationFunction(
        "silu",
        lambda u: u * special.expit(u),
        lambda u: special.expit(u) * (1.0 + u * special.expit(-u)),
    )


@registered
def gelu() -> ActivationFunction:
    """Gate by the normal distribution, u Φ(u) with the exact normal distribution function."""
    return ActivationFunction(
        "gelu",
        lambda u: u * _normal_cdf(u),
        lambda u: _normal_cdf(u) + u * np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi),
    )


@registered
def gelu_tanh() -> ActivationFunction:
    """Gate by tanh, u·½(1 + tanh(√(2/π)(u + 0.044715 u³))), the approximation that many transformers use."""
    return ActivationFunction("gelu_tanh", _gelu_tanh, _gelu_tanh_derivative)


@registered
def mish() -> ActivationFunction:
    """Gate by tanh of softplus, u tanh(log(1 + e^u))."""
    return ActivationFunction("mish", _mish, _mish_derivative)


@registered
def sin() -> ActivationFunction:
    """Sine."""
    return ActivationFunction("sin", np.sin, np.cos)


@registered
def cos() -> ActivationFunction:
    """Cosine."""
    return ActivationFunction("cos", np.cos, lambda u: -np.sin(u))


def _softplus(u: Array) -> Array:
    return np.asarray(np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u))))


def _normal_cdf(u: Array) -> Array:
    return np.asarray(0.5 * special.erfc(-u * math.sqrt(0.5)))


_CUBIC = 0.044715
_TWICE = 2.0 * math.sqrt(2.0 / math.pi)


def _gelu_tanh(u: Array) -> Array:
    near = np.clip(u, -1e3, 1e3)  # the cube of 1e150 is no float; past 1e3 the gate is 0 or 1 to the last bit
    return np.asarray(u * special.expit(_TWICE * near * (1.0 + _CUBIC * near * near)))


def _gelu_tanh_derivative(u: Array) -> Array:
    near = np.clip(u, -1e3, 1e3)
    gate = _TWICE * near * (1.0 + _CUBIC * near * near)
    slope = _TWICE * (1.0 + 3.0 * _CUBIC * near * near)
    return np.asarray(special.expit(gate) * (1.0 + near * slope * special.expit(-gate)))


def _mish(u: Array) -> Array:
    # tanh(log(1 + e)) = e(e + 2)/(e² + 2e + 2) with e = e^u; for u > 0 divided through by e²
    q = np.exp(-np.abs(u))
    return np.asarray(
        u * np.where(u > 0, (1 + 2 * q) / (1 + 2 * q + 2 * q * q), q * (q + 2) / (q * q + 2 * q + 2))
    )


def _mish_derivative(u: Array) -> Array:
    # d/du tanh(log(1 + e)) = 4e(1 + e)/(e² + 2e + 2)²
    q = np.exp(-np.abs(u))
    right, left = 1 + 2 * q + 2 * q * q, q * q + 2 * q + 2
    gate = np.where(u > 0, (1 + 2 * q) / right, q * (q + 2) / left)
    slope = np.where(u > 0, 4 * q * q * (1 + q) / right**2, 4 * q * (1 + q) / left**2)
    return np.asarray(gate + u * slope)
