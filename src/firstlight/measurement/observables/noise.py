"""Mean square of a propagated perturbation, in log scale.

Enters: tangents, each with the power of two that was taken off it on the way. Leaves: log Σ dx² and the
number of values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["NoiseState", "finalize", "init", "merge", "update"]

_LOG2 = float(np.log(2.0))
_SMALLEST = 1e-24
"""Mean square down to which no square that counts is lost to the end of float32."""
_PIECE = 1 << 10
"""Elements whose squares are summed in the tensor's precision, in one pass and call for all pieces; the pieces' sums in
float64."""


@dataclass(frozen=True)
class NoiseState:
    """log Σ dx² (−∞ for nothing) and the number of values."""

    log_sum: float = -np.inf
    count: int = 0


def init() -> NoiseState:
    """Nothing seen yet."""
    return NoiseState()


def update(
    state: NoiseState, tangent: Tensor | None, exponent: int = 0, *, count: int | None = None
) -> NoiseState:
    """Take in ``tangent · 2^exponent``; without a tangent, ``count`` zeros.

    >>> finalize(update(init(), torch.full((10,), 1e-30), exponent=100)) / 2
    0.2371...
    """
    if tangent is None or not tangent.numel():
        return merge(state, NoiseState(count=count or 0))
    if tangent.dtype in (torch.float16, torch.bfloat16):
        tangent = tangent.float()
    total = _sum_of_squares(tangent)
    if _SMALLEST * tangent.numel() < total < np.inf:
        return merge(state, NoiseState(float(np.log(total)) + 2 * exponent * _LOG2, tangent.numel()))
    largest = float(tangent.abs().amax())
    if largest == 0:
        return merge(state, NoiseState(count=tangent.numel()))
    if not np.isfinite(largest):
        return merge(state, NoiseState(np.nan, tangent.numel()))
    shift = int(np.frexp(largest)[1])  # squares and their sum leave float32
    total = _sum_of_squares(tangent.double() * 2.0**-shift)
    return merge(state, NoiseState(float(np.log(total)) + 2 * (shift + exponent) * _LOG2, tangent.numel()))


def merge(first: NoiseState, second: NoiseState) -> NoiseState:
    """The state after seeing what both have seen."""
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        total = float(np.logaddexp(first.log_sum, second.log_sum))
    return NoiseState(total, first.count + second.count)


def finalize(state: NoiseState) -> float:
    """Logarithm of μ2(dx), the mean square about zero."""
    if not state.count:
        return float("nan")
    return state.log_sum - float(np.log(state.count))


def _sum_of_squares(values: Tensor) -> float:
    flat = values.reshape(-1)
    whole = len(flat) // _PIECE * _PIECE
    norms = torch.linalg.vector_norm(flat[:whole].view(-1, _PIECE), dim=1)
    rest = torch.linalg.vector_norm(flat[whole:])
    return float(norms.double().square().sum() + rest.double().square())
