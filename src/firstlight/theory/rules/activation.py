"""Activation, alone or with the max-pool that follows it: averages over two correlated Gaussians.

K_ab → E φ(u_a) φ(u_b), M_a → E φ(u_a), D → D·E φ'² (``kernels/``). With max-pooling over K units, φ(u) is
replaced by the maximum of K independent φ(u_i), φ' by the winner's, and a pooled unit's gradient reaches one
of K units: the gain for gradients is E φ'²/K.
"""

from __future__ import annotations

import math
from typing import TypeVar

from firstlight.theory.covariance import Covariance
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.logarithms import Number

__all__ = ["activate"]

State = TypeVar("State", bound=Covariance)


def activate(state: State, kernel: Kernel, pooled: int = 1) -> tuple[State, Number]:
    """The state after an activation of Gaussian units, and the logarithm of its gain for squared gradients."""
    after, gain = state.gained(lambda read: read.average(kernel))
    return after, gain - math.log(pooled)
