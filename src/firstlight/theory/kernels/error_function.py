"""The closed form for ``φ(u) = erf(u)`` (Williams 1997).

Enters: erf. Leaves: its ``Kernel``. With ``s = 2q/(1 + 2q)``, ``M = 0`` and ``S1 = (2/π) asin(c s)``::

    B  = (2/π) asin(c s)
    V' = (2/π) (asin s − asin c s) = (2/π) A,    sin A = ρ s (1 + c)/(√(1 − c²s²) + c √(1 − s²))

The angle ``A`` is taken from its sine and its cosine, which are sums of positive terms.
"""

from __future__ import annotations

import math

import numpy as np

from firstlight.architecture.activations import ActivationFunction
from firstlight.theory.kernels.angles import angle_over_sine, library
from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.kernel import Kernel, Number, Transfer

__all__ = ["ErrorFunctionKernel"]

_TWO_OVER_PI = 2 / math.pi


class ErrorFunctionKernel(Kernel):
    """Gaussian averages of the error function."""

    method = "closed_form"

    def __init__(self, function: ActivationFunction) -> None:
        self.function = function
        self._numerical = AutomaticKernel(function)

    def mean(self, q: Number) -> Number:
        """Return 0: the function is odd."""
        return 0.0 * q

    def mean_square(self, q: Number) -> Number:
        """Return ``(2/π) asin s``."""
        m = library(q)
        sine, cosine = 2 * q / (1 + 2 * q), m.sqrt(1 + 4 * q) / (1 + 2 * q)
        result: Number = _TWO_OVER_PI * m.atan2(sine, cosine)
        return result

    def gain(self, q: Number) -> Number:
        """Return ``(4/π)/√(1 + 4q)``."""
        result: Number = 2 * _TWO_OVER_PI / library(q).sqrt(1 + 4 * q)
        return result

    def fourth_moment(self, q: Number) -> Number:
        """Return ``E φ⁴`` by quadrature."""
        return self._numerical.fourth_moment(q)

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return the slopes of the module's formulas."""
        m = library(q, c, rho)
        scale = 1 + 2 * q
        s = 2 * q / scale
        t = c * s
        cos_s = m.sqrt(1 + 4 * q) / scale
        cos_t = m.sqrt(1 + 2 * q * rho) * m.sqrt(1 + 2 * q * (1 + c)) / scale  # 1 − t², factor by factor
        per_rho = (1 + c) / (cos_t + c * cos_s)  # sin A/(ρ s)
        sine = rho * s * per_rho
        spread = angle_over_sine(t, cos_t)
        data = per_rho * angle_over_sine(sine, cos_t * cos_s + t * s)
        return Transfer(
            0.0 * (q + c + rho), 2 * _TWO_OVER_PI * spread / scale, 2 * _TWO_OVER_PI * data / scale
        )

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``(2/π) asin(2 r σ_a σ_b/√((1 + 2q_a)(1 + 2q_b)))``."""
        r = np.asarray(correlation, dtype=np.float64)
        scale_a, scale_b = 1 + 2 * q_a, 1 + 2 * q_b
        share_a, share_b = 2 * q_a / scale_a, 2 * q_b / scale_b
        square = 1 / scale_a + share_a / scale_b + share_a * share_b * (1 - r) * (1 + r)  # 1 − sine²
        result: Number = _TWO_OVER_PI * np.atan2(np.sqrt(share_a) * np.sqrt(share_b) * r, np.sqrt(square))
        return result
