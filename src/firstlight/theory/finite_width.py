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
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.layers import (
    Activation,
    AdaptivePool,
    Convolution,
    Dense,
    Norm,
    Pool,
    PositionPool,
    Residual,
)
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.logarithms import exponential
from firstlight.theory.population import Population
from firstlight.theory.propagation import Kernels, Step

__all__ = ["log_mean_square_variance"]

Array = NDArray[np.float64]

LIMIT = 150.0
"""|log q| beyond which the ratio of moments is taken at the limit: φ⁴ must stay inside float64."""


def log_mean_square_variance(steps: Sequence[Step[Population]], kernels: Kernels) -> dict[int, float]:
    """s² of log ν2 behind each dense layer and residual sum, by ``id(step)``."""
    variances: dict[int, float] = {}
    _follow(steps, 0.0, 0.0, _moments(steps, kernels), variances)
    return variances


def _follow(
    steps: Sequence[Step[Population]],
    carried: float,
    fresh: float,
    moments: Mapping[int, tuple[float, float]],
    out: dict[int, float],
) -> tuple[float, float]:
    """Carry (s² of the kernel, κ that the next dense layer divides by its fan-in) through the steps."""
    for step in steps:
        layer = step.layer
        if step.reason:
            carried = fresh = math.nan
        if isinstance(layer, Residual) and not step.reason:
            inner, _ = _follow(step.body, carried, fresh, moments, out)
            own = _share(step.before, step.state)
            weight = 1 - own
            carried, fresh = (
                own**2 * carried + weight**2 * inner + 2 * own * weight * min(carried, inner),
                0.0,
            )
            out[id(step)] = carried
        elif isinstance(layer, Norm):
            carried = fresh = 0.0
        elif isinstance(layer, Convolution | PositionPool | AdaptivePool):
            carried = fresh = math.nan  # a kernel averages over positions too, which depend on each other
        elif id(step) in moments:
            elasticity, fresh = moments[id(step)]
            carried *= elasticity**2
        elif isinstance(layer, Pool) and layer.kind == "avg":
            fresh /= layer.size
        elif isinstance(layer, Dense):
            share = _weight_share(step)
            carried = share**2 * (carried + fresh / layer.fan_in)
            fresh = 0.0
            out[id(step)] = carried + 2 / layer.fan_out
    return carried, fresh


def _moments(steps: Sequence[Step[Population]], kernels: Kernels) -> dict[int, tuple[float, float]]:
    """(λ, κ) of every activation, by ``id(step)``; all layers of one kernel in one call."""
    groups: dict[Kernel, list[Step[Population]]] = defaultdict(list)
    for part in _sequences(steps):
        for step, behind in zip_longest(part, part[1:]):
            if isinstance(step.layer, Activation) and not step.reason and step.before.law is None:
                pool = behind.layer if behind is not None else None
                size = pool.size if isinstance(pool, Pool) and pool.kind == "max" else 1
                groups[kernels(step.layer.function, size)].append(step)
    found: dict[int, tuple[float, float]] = {}
    for kernel, members in groups.items():
        log_q, where = np.unique([_log_inside(step.before) for step in members], return_inverse=True)
        elasticity, relative = _elasticity(kernel, log_q)[where], _relative_variance(kernel, log_q)[where]
        found.update(
            (id(step), (float(slope), float(kappa)))
            for step, slope, kappa in zip(members, elasticity, relative, strict=True)
        )
    return found


def _sequences(steps: Sequence[Step[Population]]) -> Iterator[Sequence[Step[Population]]]:
    yield steps
    for step in steps:
        yield from _sequences(step.body)


def _log_inside(state: Population) -> float:
    return min(max(float(state.log_total), -LIMIT), LIMIT)


def _elasticity(kernel: Kernel, log_q: Array) -> Array:
    """Take d log E φ²/d log q by a central difference; exactly 1 for a homogeneous activation."""
    step = 1e-4
    above, below = (np.asarray(kernel.mean_square(np.exp(log_q + move))) for move in (step, -step))
    alive = (above > 0) & (below > 0)
    above, below = np.where(alive, above, 1.0), np.where(alive, below, 1.0)
    return np.asarray(np.log(above / below) / (2 * step))


def _relative_variance(kernel: Kernel, log_q: Array) -> Array:
    square = np.asarray(kernel.mean_square(np.exp(log_q)))
    fourth = np.asarray(kernel.fourth_moment(np.exp(log_q)))
    alive = square > 0
    return np.where(alive, fourth / np.where(alive, square, 1.0) ** 2 - 1, 0.0)


def _weight_share(step: Step[Population]) -> float:
    """The part of the new mean square that comes from the weights, not from the biases."""
    assert isinstance(step.layer, Dense)
    if step.layer.bias_variance == 0:
        return 1.0
    weights = step.layer.weight_variance * float(exponential(float(step.before.log_total)))
    return weights / (weights + step.layer.bias_variance) if math.isfinite(weights) else 1.0


def _share(before: Population, after: Population) -> float:
    return float(exponential(float(before.log_total) - float(after.log_total)))
