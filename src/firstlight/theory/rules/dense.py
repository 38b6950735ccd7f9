"""Dense layer: u = W x + b with W ~ N(0, σ_w²/fan_in), b ~ N(0, σ_b²).

Over weights, two data points whose mean product is K_ab come out jointly Gaussian with covariance σ_w² K_ab + σ_b².
For population theory: C' = σ_w² (M² + B) + σ_b², V' = σ_w² V, D' = σ_w² D. Squared gradients meet σ_w² fan_out/fan_in.
Where the biases are minus the means over the data (scale and bias, Luther & Seung), C' = 0 and K' = σ_w² H K H: a unit
is W times the centred x, and W is independent of the data.
"""

from __future__ import annotations

import math
from typing import TypeVar

from firstlight.architecture.layers import Dense
from firstlight.theory.covariance import Covariance
from firstlight.theory.logarithms import Number, logarithm

__all__ = ["dense"]

State = TypeVar("State", bound=Covariance)


def dense(state: State, layer: Dense) -> tuple[State, Number]:
    """The state after a dense layer, and the logarithm of its gain for squared gradients."""
    gain = logarithm(layer.weight_variance)
    after = state.mix().scale(gain)
    if layer.centered:
        after = after.center_data()
    elif layer.bias_variance:
        after = after.shift(layer.bias_variance)
    return after, gain + math.log(layer.fan_out / layer.fan_in)
