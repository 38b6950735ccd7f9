"""Finite width: how the mean square of a layer differs between initializations.

Given the layer before, the kernel of one point is a mean over N independent units, σ_w² ⟨φ(u_i)²⟩ + σ_b²,
with relative variance κ/N, κ = E φ⁴/(E φ²)² − 1. In logarithms fluctuations add layer by layer, carried on
with the elasticity of the variance map::

    s²_{l+1} = ε² (λ² s²_l + κ/N_l)      λ = d log E φ²/d log q      ε = σ_w² E φ²/(σ_w² E φ² + σ_b²)

and the pre-activations' own mean square adds 2/N_{l+1}. The mean of ν2 is kept, so log ν2 ~ N(log ν2_∞ − s²/2, s²).
He ReLU: κ = 5, λ = 1, hence N(−5l/2N, 5l/N) (theory.md, section 6). A norm resets s² to 0, because what
enters the activation behind it has mean square 1. Leading order in depth/width; for data whose points agree
(c → 1), an upper bound for others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from firstlight.architecture.layers import Activation, Dense, Norm, Pool, Residual
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.logarithms import exponential
from firstlight.theory.population import LIMIT, Population
from firstlight.theory.propagation import Kernels, Step

__all__ = ["log_mean_square_variance"]


def log_mean_square_variance(steps: Sequence[Step[Population]], kernels: Kernels) -> dict[int, float]:
    """s² of log ν2 behind each dense layer and residual sum, by ``id(step)``."""
    variances: dict[int, float] = {}
    _follow(steps, 0.0, 0.0, kernels, variances)
    return variances


def _follow(
    steps: Sequence[Step[Population]], carried: float, fresh: float, kernels: Kernels, out: dict[int, float]
) -> tuple[float, float]:
    """Carry (s² of the kernel, κ that the next dense layer divides by its fan-in) through the steps."""
    pooled = 1
    for position, step in enumerate(steps):
        layer = step.layer
        if step.reason:
            carried = fresh = math.nan
        if isinstance(layer, Residual) and not step.reason:
            inner, _ = _follow(step.body, carried, fresh, kernels, out)
            own = _share(step.before, step.state)
            weight = 1 - own
            carried, fresh = (
                own**2 * carried + weight**2 * inner + 2 * own * weight * min(carried, inner),
                0.0,
            )
            out[id(step)] = carried
        elif isinstance(layer, Norm):
            carried = fresh = 0.0
        elif isinstance(layer, Activation) and not step.reason and step.before.law is None:
            behind = steps[position + 1].layer if position + 1 < len(steps) else None
            pooled = behind.size if isinstance(behind, Pool) and behind.kind == "max" else 1
            kernel = kernels(layer.function, pooled)
            carried *= _elasticity(kernel, step.before) ** 2
            fresh = _relative_variance(kernel, step.before)
        elif isinstance(layer, Pool) and layer.kind == "avg":
            fresh /= layer.size
        elif isinstance(layer, Dense):
            share = _weight_share(step)
            carried = share**2 * (carried + fresh / layer.fan_in)
            fresh = 0.0
            out[id(step)] = carried + 2 / layer.fan_out
    return carried, fresh


def _inside(state: Population) -> float:
    return float(exponential(min(max(float(state.log_total), -LIMIT), LIMIT)))


def _elasticity(kernel: Kernel, state: Population) -> float:
    """D log E φ²/d log q by a central difference; exactly 1 for a homogeneous activation."""
    q, step = _inside(state), 1e-4
    above, below = (
        float(kernel.mean_square(q * math.exp(step))),
        float(kernel.mean_square(q * math.exp(-step))),
    )
    return math.log(above / below) / (2 * step) if above > 0 and below > 0 else 0.0


def _relative_variance(kernel: Kernel, state: Population) -> float:
    q = _inside(state)
    square = float(kernel.mean_square(q))
    return float(kernel.fourth_moment(q)) / square**2 - 1 if square > 0 else 0.0


def _weight_share(step: Step[Population]) -> float:
    """The part of the new mean square that comes from the weights, not from the biases."""
    assert isinstance(step.layer, Dense)
    if step.layer.bias_variance == 0:
        return 1.0
    weights = step.layer.weight_variance * float(exponential(float(step.before.log_total)))
    return weights / (weights + step.layer.bias_variance) if math.isfinite(weights) else 1.0


def _share(before: Population, after: Population) -> float:
    return float(exponential(float(before.log_total) - float(after.log_total)))
