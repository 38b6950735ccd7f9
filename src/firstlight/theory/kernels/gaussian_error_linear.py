"""The closed form for the Gaussian error linear unit, ``φ(u) = u Φ(u)``.

Enters: gelu. Leaves: its ``Kernel``. Gaussian integration by parts (Stein's identity) ends in three Gaussian integrals.
With ``κ = c q``, ``t = κ/(1 + q)``, ``w = √(1 − t²)``, and ``T, W`` the same at ``c = 1``::

    M  = q/√(2π(1 + q))
    S1 = κ/4 + κ asin(t)/2π + [q² + κ² (1 − q)/(1 + q)]/(2π(1 + q) w)

The same kernel in another form: Tsuchida, Pearce, van der Heide, Roosta & Gallagher 2021. The slopes follow by taking
differences term by term, with the angle ``A = asin T − asin t``, ``sin A = ρ N``, ``N = (1 + c) T/(w + c W)``::

    B/(c q)  = 1/4 + asin(t)/2π + t/(2π(1 + w)) · [1/(w (1 + q)²) + (1 − q)/(1 + q)]
    V'/(ρ q) = 1/4 + asin(T)/2π + [c N (A/sin A − 1) − (1 + c) T ρ w/((w + c W)(w + W))
               + 2 (1 + c) T/((1 + q)(w + W)) + (1 + c) T/((1 + q)² (w + W) w W)]/2π

in which the terms of order ``√q`` that cancel at large ``q`` have been cancelled by hand.
"""

from __future__ import annotations

import math

import numpy as np

from firstlight.architecture.activations import ActivationFunction
from firstlight.theory.kernels.angles import angle_over_sine_less_one, library
from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.kernel import Kernel, Number, Transfer

__all__ = ["GaussianErrorLinearKernel"]

_TAU = 2 * math.pi


class GaussianErrorLinearKernel(Kernel):
    """Gaussian averages of ``u Φ(u)``."""

    method = "closed_form"

    def __init__(self, function: ActivationFunction) -> None:
        self.function = function
        self._numerical = AutomaticKernel(function)

    def mean(self, q: Number) -> Number:
        """Return ``q/√(2π(1 + q))``."""
        root = library(q).sqrt(_TAU * (1 + q))
        result: Number = q / root
        return result

    def mean_square(self, q: Number) -> Number:
        """Return ``M² + q·(B/(c q) at c = 1)``."""
        mean, spread, _ = self.transfer(q, 1.0, 0.0)
        return mean * mean + q * spread

    def gain(self, q: Number) -> Number:
        """Return the limit of the data slope at ``c = 1``."""
        return self.transfer(q, 1.0, 0.0).data_slope

    def fourth_moment(self, q: Number) -> Number:
        """Return ``E φ⁴`` by quadrature."""
        return self._numerical.fourth_moment(q)

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return the slopes of the module's formulas."""
        m = library(q, c, rho)
        scale = 1 + q
        T, t = q / scale, c * q / scale
        W = m.sqrt(1 + 2 * q) / scale
        w = m.sqrt(1 + rho * q) * m.sqrt(1 + q + c * q) / scale
        turned = (1 - q) / scale
        spread = 0.25 + m.atan2(t, w) / _TAU + t / (_TAU * (1 + w)) * (1 / (w * scale) / scale + turned)
        half = (1 + c) * T / (w + W)
        steepness = (1 + c) * T / (w + c * W)  # sin A/ρ
        bend = angle_over_sine_less_one(rho * steepness, w * W + t * T)
        data = (
            c * steepness * bend
            - half * rho * w / (w + c * W)
            + 2 * half / scale
            + half / (scale * w) / (scale * W)
        )
        mean = q / m.sqrt(_TAU * scale) + 0.0 * (c + rho)
        return Transfer(mean, spread, 0.25 + (m.atan2(T, W) + data) / _TAU)

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``κ/4 + κ asin(t)/2π + [q_a q_b (1 − r²)/s + κ t (1/A + 1/B)]/(2π w)``.

        Here ``A = 1 + q_a``, ``B = 1 + q_b``, ``s = √(AB)``, ``κ = r √(q_a q_b)``, ``t = κ/s``.
        """
        r = np.asarray(correlation, dtype=np.float64)
        scale_a, scale_b = 1 + q_a, 1 + q_b
        unlike = (1 - r) * (1 + r)
        share = np.sqrt(q_a / scale_a) * np.sqrt(q_b / scale_b)
        joint = np.sqrt(q_a) * np.sqrt(q_b)
        kappa, t = r * joint, r * share
        ends = 1 / scale_a + 1 / scale_b
        w = np.sqrt(ends - 1 / scale_a / scale_b + share**2 * unlike)
        result: Number = kappa * (0.25 + np.atan2(t, w) / _TAU) + (
            joint * share * unlike + kappa * t * ends
        ) / (_TAU * w)
        return result
