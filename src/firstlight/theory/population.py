"""Population theory: the covariance of two generic points of i.i.d. data.

At fixed weights a unit's value over the data has a centre and a spread. Over the units of a wide layer
(theory.md, section 1)::

    value = M + m_i + v_i(data),   M common to all units,   ⟨m_i²⟩ = B,   ⟨v_i²⟩ = V

so that K_ab = M² + B and K_aa = M² + B + V. A pre-activation has M = 0; then B is the centre variance C of the papers.
M², B, V and D travel as logarithms (−∞ is an exact zero): they may leave float64 while their ratios stay
ordinary, and keeping B and V apart avoids every cancellation of K_aa against K_ab.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from firstlight.theory.covariance import Covariance
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.logarithms import ZERO, Number, exponential, log_add, log_subtract, logarithm
from firstlight.theory.minibatch import MinibatchLaw

__all__ = ["Population", "population_of_inputs"]

LIMIT = 600.0
"""|log K_aa| beyond which an activation is evaluated at the limit and continued by its behaviour at 0 or ∞."""


@dataclass(frozen=True)
class Population(Covariance):
    """Two generic data points in a wide layer; each field a number or an array over a phase diagram.

    Attributes:
        log_common: log M².
        log_spread: log B.
        log_data: log V.
        log_noise: log D.
        gaussian: Whether a unit is Gaussian over the data, so that an activation can be averaged.
        law: The law of a unit that was normalized over a mini-batch, which is bounded and not Gaussian.
    """

    log_common: Number
    log_spread: Number
    log_data: Number
    log_noise: Number
    gaussian: bool = False
    law: MinibatchLaw | None = None

    @property
    def log_center(self) -> Number:
        """Log of the mean square of the centres, log K_ab."""
        return log_add(self.log_common, self.log_spread)

    @property
    def log_total(self) -> Number:
        """Log of the mean square of one point, log K_aa."""
        return log_add(self.log_center, self.log_data)

    @property
    def log_noise_to_data(self) -> Number:
        """Log D/V: twice the logarithm of the sensitivity, up to the input's."""
        return self.log_noise - self.log_data

    def scale(self, log_factor: Number) -> Population:
        """All of M², B, V and D, by e^f."""
        return Population(
            self.log_common + log_factor,
            self.log_spread + log_factor,
            self.log_data + log_factor,
            self.log_noise + log_factor,
            self.gaussian,
            self.law,
        )

    def mix(self) -> Population:
        """New Gaussian units: M² becomes part of B."""
        return Population(ZERO, self.log_center, self.log_data, self.log_noise, gaussian=True)

    def shift(self, variance: Number) -> Population:
        """B + variance: each unit gets its own constant."""
        return replace(self, log_spread=log_add(self.log_spread, logarithm(variance)))

    def center_data(self) -> Population:
        """M = B = 0."""
        return replace(self, log_common=self.log_common + ZERO, log_spread=self.log_spread + ZERO)

    def center_units(self) -> Population:
        """M = 0."""
        return replace(self, log_common=ZERO)

    def normalize_points(self) -> Population:
        """M² + B + V = 1."""
        return self.scale(-self.log_total)

    def standardize_units(self, law: MinibatchLaw | None) -> Population:
        """M = B = 0 and V = 1; over mini-batches the noise meets 1/s², not 1/V, and V is the law's variance."""
        one = 0.0 if isinstance(self.log_data, float) else np.zeros_like(self.log_data)
        noise = self.log_noise - self.log_data
        if law is None:
            return Population(one + ZERO, one + ZERO, one, noise, self.gaussian)
        noise = noise + logarithm(float(law.inverse_variance_gain))
        size = one + logarithm(float(law.variance)) if self.gaussian else one
        return Population(one + ZERO, one + ZERO, size, noise, law=law if self.gaussian else None)

    def average(self, kernel: Kernel) -> Population:
        """B' = β(q, c)·B and V' = ν(q, c)·V with the kernel's slopes, so that neither cancels nor underflows."""
        if self.law is not None:
            return self._average_over(self.law, kernel)
        log_q = self.log_total
        inside = min(max(log_q, -LIMIT), LIMIT) if isinstance(log_q, float) else np.clip(log_q, -LIMIT, LIMIT)
        q = exponential(inside)
        if isinstance(log_q, float) and log_q == ZERO:  # a unit that is 0 on all data has neither c nor ρ
            parts: tuple[Number, Number] = (1.0, 0.0)
        else:
            parts = exponential(self.log_spread - log_q), exponential(self.log_data - log_q)
        mean, spread_slope, data_slope = kernel.transfer(q, *parts)
        log_common = logarithm(mean * mean)
        if not isinstance(log_q, float) or inside != log_q:
            log_common = _continued(log_common, log_q, inside, kernel)
        return Population(
            log_common,
            self.log_spread + logarithm(spread_slope),
            self.log_data + logarithm(data_slope),
            self.log_noise + logarithm(kernel.gain(q)),
        )

    def _average_over(self, law: MinibatchLaw, kernel: Kernel) -> Population:
        """Two generic points sit in different mini-batches: independent given the weights, so B = 0."""
        log_common = logarithm(float(law.mean(kernel.function)) ** 2)
        log_square = logarithm(float(law.mean_square(kernel.function)))
        gain = logarithm(float(law.gain(kernel.function)))
        return Population(log_common, ZERO, log_subtract(log_square, log_common), self.log_noise + gain)

    def add(self, branch: Population, log_weight: Number) -> Population:
        """Independent units add in every part."""
        return Population(
            log_add(self.log_common, log_weight + branch.log_common),
            log_add(self.log_spread, log_weight + branch.log_spread),
            log_add(self.log_data, log_weight + branch.log_data),
            log_add(self.log_noise, log_weight + branch.log_noise),
            self.gaussian and branch.gaussian,
        )

    def shrink(self, size: int) -> Population:
        """Average over K units with independent centres and values: M stays, B, V and D fall by K."""
        smaller = -math.log(size)
        return replace(self.scale(smaller), log_common=self.log_common)


def population_of_inputs(mean: float, variance: float) -> Population:
    """Coordinates i.i.d. with this mean and variance, perturbed by noise of mean square 1.

    Their law is not assumed to be Gaussian: an activation that reads the inputs directly has no population rule.
    """
    return Population(2 * logarithm(abs(float(mean))), ZERO, logarithm(float(variance)), 0.0)


def _continued(log_common: Number, log_q: Number, inside: Number, kernel: Kernel) -> Number:
    """M² beyond the limits: constant where φ(0) ≠ 0 (small q) or φ is bounded (large q), else proportional to q."""
    at_zero = float(kernel.function.value(np.zeros(1))[0])
    at_ends = np.abs(kernel.function.value(np.array([-1e150, 1e150]))).max()
    excess = np.asarray(log_q) - np.asarray(inside)
    power = np.where(excess < 0, float(at_zero == 0), float(at_ends > 1e100))
    with np.errstate(invalid="ignore"):
        moved = log_common + np.where(power == 0, 0.0, excess)
    return float(moved) if isinstance(log_q, float) else moved
