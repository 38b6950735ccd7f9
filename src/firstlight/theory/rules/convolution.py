"""Convolution: u(p) = Σ_o W_o x(s·p + o) + b with W ~ N(0, σ_w²/(C·|k|)), b ~ N(0, σ_b²), one b a channel.

Over weights, the outputs at positions p of point a and q of point b are jointly Gaussian with covariance

    σ_w²/|k| · Σ_o K[(a, s·p + o), (b, s·q + o)] + σ_b²,

one weight meets the same offset o in both; what lies beyond the edge is what the padding says (0 for zeros). Noise
goes like K at a = b, p = q. A squared gradient meets σ_w² · channels out/channels in, averaged the other way round.
"""

from __future__ import annotations

import math
from typing import TypeVar

from firstlight.architecture.layers import Convolution
from firstlight.theory.covariance import Covariance, NoRuleError, Spread
from firstlight.theory.logarithms import Number, logarithm

__all__ = ["convolve"]

State = TypeVar("State", bound=Covariance)


def convolve(state: State, layer: Convolution) -> tuple[State, Number, Spread]:
    """The state after a convolution, the logarithm of its gain for squared gradients, and how these spread."""
    if layer.groups != 1:
        raise NoRuleError(
            f"its {layer.groups} groups of channels do not mix, so a channel reads few others; the limit of many "
            "channels does not describe it; measure it"
        )
    averaged, spread = state.convolve(layer)
    gain = logarithm(layer.weight_variance)
    after = averaged.mix().scale(gain)
    if layer.centered:
        after = after.center_data()
    elif layer.bias_variance:
        after = after.shift(layer.bias_variance)
    return after, gain + math.log(layer.out_channels / layer.in_channels), spread
