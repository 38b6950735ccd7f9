"""Average-pooling over K neighbouring units of one layer (max-pooling is averaged with the activation before it).

The pooled unit is the mean of K units with independent centres and values. Its gradient reaches each of them
divided by K.
"""

from __future__ import annotations

import math
from typing import TypeVar

from firstlight.architecture.layers import Pool
from firstlight.theory.covariance import Covariance
from firstlight.theory.logarithms import Number

__all__ = ["average_pool"]

State = TypeVar("State", bound=Covariance)


def average_pool(state: State, layer: Pool) -> tuple[State, Number]:
    """The state after average-pooling, and the logarithm of its gain for squared gradients, K⁻²."""
    return state.shrink(layer.size), -2 * math.log(layer.size)
