"""What a rule may do to a layer: the interface that two covariances share.

In a wide layer at initialization everything that matters is K_ab, the mean product over units of two data
points, with the part M_a M_b of it that is common to all units, and the mean square D of a first-order
perturbation of the input. A layer maps K to K, elementwise in (K_aa, K_bb, K_ab). Population theory holds two
generic points (``population.py``); dataset theory holds a Gram matrix.

Each rule in ``rules/`` is written once, in these moves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np

from firstlight.architecture.layers import AdaptivePool, Convolution, Norm, PositionPool
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.logarithms import Number
from firstlight.theory.minibatch import MinibatchLaw

__all__ = ["Covariance", "NoRuleError", "Spread"]

Spread = Callable[[Number], Number]
"""Log of squared gradients behind a layer → before it, where positions mix, but for the layer's gain."""


class NoRuleError(Exception):
    """A layer that cannot be followed, with the reason; caught by the fold, which marks the layer."""


class Covariance(ABC):
    """K with its common part M and the noise D that travels along."""

    gaussian: bool
    """Whether a unit is jointly Gaussian over weights, as after a dense layer; else no activation can be averaged."""

    log_noise: Number
    """log D, averaged over the data."""

    @abstractmethod
    def scale(self, log_factor: Number) -> Self:
        """K → e^f K, D → e^f D: multiply every unit by e^(f/2)."""

    @abstractmethod
    def mix(self) -> Self:
        """Draw new units as random combinations of the old: K stays, nothing is common, units are Gaussian."""

    @abstractmethod
    def shift(self, variance: Number) -> Self:
        """K_ab → K_ab + variance for all pairs: each unit gets its own constant."""

    def center_data(self) -> Self:
        """K → H K H: subtract from each unit its mean over the data."""
        raise NoRuleError("biases that centre each unit on the data have no rule here; measure it")

    @abstractmethod
    def center_units(self) -> Self:
        """K_ab → K_ab − M_a M_b: subtract from each point its mean over units."""

    @abstractmethod
    def normalize_points(self) -> Self:
        """K_ab → K_ab/√(K_aa K_bb): divide each point by its root mean square over units."""

    @abstractmethod
    def standardize_units(self, law: MinibatchLaw | None) -> Self:
        """Standardize each unit over the data, or over mini-batches with the law given."""

    @abstractmethod
    def average(self, kernel: Kernel) -> Self:
        """K_ab → E φ(u_a) φ(u_b), M_a → E φ(u_a), D → D E φ'²."""

    @abstractmethod
    def add(self, branch: Self, log_weight: Number) -> Self:
        """K → K + e^w K_branch for a branch whose units are independent of these and have no common part."""

    @abstractmethod
    def shrink(self, size: int) -> Self:
        """Average over K units of one layer: the common part stays, the rest of K and D fall by K."""

    def gained(self, move: Callable[[Self], Self]) -> tuple[Self, Number]:
        """The state after a move, and the logarithm of the factor by which the move multiplies noise.

        Batch norm of one or two directions of data makes noise infinite; what then follows is asked of unit noise.
        """
        after = move(self)
        noise = self.log_noise
        endless = noise == math.inf if isinstance(noise, float) else bool(np.isposinf(noise).any())
        if not endless:
            return after, after.log_noise - noise
        quiet: Self = replace(cast(Any, self), log_noise=np.zeros_like(noise))
        return after, move(quiet).log_noise

    # What follows concerns units that stand at positions (of a picture, of a sequence); most states have none.

    def convolve(self, layer: Convolution) -> tuple[Self, Spread]:
        """Average over the window that a convolution reads, pair by pair of positions of its output."""
        raise NoRuleError(
            "a convolution mixes positions, and population theory has none; measure it, or predict with data"
        )

    def pool_positions(self, layer: PositionPool | AdaptivePool) -> tuple[Self, Spread]:
        """Average over windows of positions."""
        raise NoRuleError(
            "pooling averages over neighbouring positions, and population theory has none; "
            "measure it, or predict with data"
        )

    def flatten(self, width: int) -> tuple[Any, Spread | None]:
        """What a dense layer of so many inputs reads: all positions as units."""
        return self, None

    def against_norm(self, layer: Norm) -> str:
        """Why this norm has no rule here, or nothing."""
        return ""
