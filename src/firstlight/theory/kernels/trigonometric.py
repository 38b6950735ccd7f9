"""The closed forms for ``φ = sin`` and ``φ = cos``.

Enters: sin or cos. Leaves: its ``Kernel``. From ``E cos(u_a ± u_b) = exp(−(1 ± c) q)``::

    sin   M = 0            B = ½ e^(−ρq) (1 − e^(−2cq))        V' = ½ (1 − e^(−ρq)) (1 + e^(−(1+c)q))
    cos   M = e^(−q/2)     B = ½ e^(−ρq) (1 − e^(−cq))²        V' = ½ (1 − e^(−ρq)) (1 − e^(−(1+c)q))

Products of one-sided exponentials: nothing cancels and nothing overflows.
"""

from __future__ import annotations

import numpy as np

from firstlight.architecture.activations import ActivationFunction
from firstlight.theory.kernels.angles import library
from firstlight.theory.kernels.kernel import Kernel, Number, Transfer

__all__ = ["CosineKernel", "SineKernel"]


class SineKernel(Kernel):
    """Gaussian averages of the sine."""

    method = "closed_form"

    def __init__(self, function: ActivationFunction) -> None:
        self.function = function

    def mean(self, q: Number) -> Number:
        """Return 0: the function is odd."""
        return 0.0 * q

    def mean_square(self, q: Number) -> Number:
        """Return ``½ (1 − e^(−2q))``."""
        result: Number = -0.5 * library(q).expm1(-2 * q)
        return result

    def gain(self, q: Number) -> Number:
        """Return ``½ (1 + e^(−2q))``."""
        result: Number = 0.5 + 0.5 * library(q).exp(-2 * q)
        return result

    def fourth_moment(self, q: Number) -> Number:
        """Return ``(3 − 4e^(−2q) + e^(−8q))/8 = w² (6 − 4w + w²)/8`` with ``w = 1 − e^(−2q)``."""
        w = -library(q).expm1(-2 * q)
        result: Number = w * w * (6 - 4 * w + w * w) / 8
        return result

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return the slopes of the module's formulas."""
        m = library(q, c, rho)
        spread = m.exp(-rho * q) * _one_less_exponential_over(2 * c * q)
        data = 0.5 * _one_less_exponential_over(rho * q) * (1 + m.exp(-(1 + c) * q))
        return Transfer(0.0 * (q + c + rho), spread, data)

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``½ (e^(−½E(u_a − u_b)²) − e^(−½E(u_a + u_b)²))``, odd in the correlation."""
        r = np.asarray(correlation, dtype=np.float64)
        nearer, _ = _half_squares(q_a, q_b, np.abs(r))
        result: Number = (
            -0.5 * np.sign(r) * np.exp(-nearer) * np.expm1(-2 * np.abs(r) * np.sqrt(q_a) * np.sqrt(q_b))
        )
        return result


class CosineKernel(Kernel):
    """Gaussian averages of the cosine."""

    method = "closed_form"

    def __init__(self, function: ActivationFunction) -> None:
        self.function = function

    def mean(self, q: Number) -> Number:
        """Return ``e^(−q/2)``."""
        result: Number = library(q).exp(-0.5 * q)
        return result

    def mean_square(self, q: Number) -> Number:
        """Return ``½ (1 + e^(−2q))``."""
        result: Number = 0.5 + 0.5 * library(q).exp(-2 * q)
        return result

    def gain(self, q: Number) -> Number:
        """Return ``½ (1 − e^(−2q))``."""
        result: Number = -0.5 * library(q).expm1(-2 * q)
        return result

    def fourth_moment(self, q: Number) -> Number:
        """Return ``(3 + 4e^(−2q) + e^(−8q))/8``."""
        m = library(q)
        result: Number = (3 + 4 * m.exp(-2 * q) + m.exp(-8 * q)) / 8
        return result

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return the slopes of the module's formulas."""
        m = library(q, c, rho)
        spread = -0.5 * m.exp(-rho * q) * _one_less_exponential_over(c * q) * m.expm1(-c * q)
        data = -0.5 * _one_less_exponential_over(rho * q) * m.expm1(-(1 + c) * q)
        return Transfer(m.exp(-0.5 * q) + 0.0 * (c + rho), spread, data)

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``½ (e^(−½E(u_a − u_b)²) + e^(−½E(u_a + u_b)²))``."""
        same, opposite = _half_squares(q_a, q_b, correlation)
        result: Number = 0.5 * (np.exp(-same) + np.exp(-opposite))
        return result


def _one_less_exponential_over(x: Number) -> Number:
    """Return ``(1 − e^−x)/x``, 1 at 0."""
    if isinstance(x, float | int):
        return -library(x).expm1(-x) / x if x > 1e-300 else 1.0
    positive = np.maximum(x, 1e-300)
    result: Number = -np.expm1(-positive) / positive
    return result


def _half_squares(q_a: Number, q_b: Number, r: Number) -> tuple[Number, Number]:
    """Return ``½ E(u_a − u_b)²`` and ``½ E(u_a + u_b)²``."""
    deviation_a, deviation_b = np.sqrt(q_a), np.sqrt(q_b)
    joint = deviation_a * deviation_b
    same: Number = 0.5 * (deviation_a - deviation_b) ** 2 + joint * (1 - np.asarray(r))
    opposite: Number = 0.5 * (deviation_a - deviation_b) ** 2 + joint * (1 + np.asarray(r))
    return same, opposite
