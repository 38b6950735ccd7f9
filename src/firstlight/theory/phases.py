"""``phases``: where a layer map leads after many layers, over weight and bias variances.

The block (norm →) φ (→ norm) → dense maps (C, V) to (C', V'). Without a norm, with q = C + V and c = C/q
(theory.md, section 7)::

    q* = σ_w² E φ(√q* z)² + σ_b²          the mean square settles
    c* = [σ_w² E φ(u_a) φ(u_b) + σ_b²]/q*   the correlation settles;   γ* = c*/(1 − c*)
    χ_1 = slope of the correlation map at c = 1 (= σ_w² E φ'² at q*)

c = 1 is always a fixed point and the map is convex on [0, 1] (its power series in c has no negative
coefficient). So χ_1 ≤ 1 is the ordered phase, c* = 1, γ* = ∞: every input ends at one point; χ_1 > 1 is
chaotic, c* < 1 and γ* finite. Depth scales: ξ_c = −1/log(slope at c*), ξ_q = −1/log(dq'/dq at q*). A norm
replaces q by 1 (layer, RMS) or c by 0 (batch) wherever it stands, and the same definitions are used of the
map that results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.activations import activation as named_activation
from firstlight.architecture.layers import Norm
from firstlight.architecture.perceptron import number, whole_number
from firstlight.errors import UsageError, one_of
from firstlight.results.labelled import variable
from firstlight.results.phase_diagram import PhaseDiagram
from firstlight.results.provenance import Provenance
from firstlight.theory.kernels.kernel import Kernel, kernel_of
from firstlight.theory.kernels.table import tabulate
from firstlight.theory.logarithms import ZERO
from firstlight.theory.population import Population, population_of_inputs
from firstlight.theory.rules.activation import activate
from firstlight.theory.rules.normalization import normalize

__all__ = ["phases"]

Array = NDArray[np.float64]

CRITICAL = 1e-6
"""|χ_1 − 1| below which a point is called critical: a hundred times the interpolation error of the tables."""

FLAT = 1e-9
"""1 − slope below which a depth scale is called infinite: the slopes' own error."""

HUGE = 500.0
"""log q beyond which the mean square is called divergent (or, below −HUGE, dead)."""


def phases(
    activation: str | ActivationFunction | Callable[[Any], Any] = "relu",
    *,
    weight_variance: ArrayLike = 2.0,
    bias_variance: ArrayLike = 0.0,
    norm: str | None = None,
    placement: str | None = None,
    depth: int = 50,
    input_mean: float = 0.0,
    input_variance: float = 1.0,
    method: str = "auto",
) -> PhaseDiagram:
    """Map the phases of an infinitely wide network over weight and bias variances.

    Args:
        activation: Name or callable.
        weight_variance: σ_w², a number or a one-dimensional grid.
        bias_variance: σ_b², a number or a one-dimensional grid.
        norm: ``None``, ``"batch"``, ``"layer"`` or ``"rms"``.
        placement: ``"before"`` (default with a norm) or ``"after"`` the activation.
        depth: Hidden layers at whose output ``gamma_at_depth`` is taken.
        input_mean: Mean of the i.i.d. inputs.
        input_variance: Variance of the inputs.
        method: How Gaussian averages are taken, as in ``predict``.

    Returns:
        A PhaseDiagram over (weight_variance, bias_variance).

    >>> diagram = phases("relu", weight_variance=2.0, depth=1)
    >>> abs(float(diagram.gamma_at_depth[0, 0]) - 1 / (math.pi - 1)) < 1e-10
    True
    """
    weights, biases = (
        _axis("weight_variance", weight_variance, positive=True),
        _axis("bias_variance", bias_variance),
    )
    norm, placement = _placement(norm, placement)
    depth = whole_number("phases(depth)", depth, hint="depth counts hidden layers")
    input_mean = number("phases(input_mean)", input_mean)
    input_variance = number("phases(input_variance)", input_variance, above=0.0)
    function = named_activation(activation)
    grid = np.broadcast_arrays(weights[:, None], biases[None, :])
    block = _Block(
        _kernel(function, method, grid[0].size), norm, placement, *(np.ravel(part) for part in grid)
    )
    result = {
        **_fixed_point(block, input_mean, input_variance),
        "gamma_at_depth": _gamma_at(block, depth, input_mean, input_variance),
    }
    shape = grid[0].shape
    axes = ("weight_variance", "bias_variance")
    provenance = Provenance(
        engine="theory",
        model=f"{function.name}, {'no norm' if norm is None else f'{norm} norm {placement}'}, infinite width",
        data=f"i.i.d. inputs, mean {input_mean:g}, variance {input_variance:g}",
        settings={
            "theory": "population",
            "activation": function.name,
            "norm": norm,
            "placement": placement,
            "depth": depth,
            "method": method,
        },
    )
    return PhaseDiagram(
        {name: variable(axes, np.reshape(values, shape)) for name, values in result.items()},
        {
            "weight_variance": variable("weight_variance", weights),
            "bias_variance": variable("bias_variance", biases),
            "depth": variable((), depth),
        },
        provenance,
    )


@dataclass(frozen=True)
class _Block:
    """(norm →) φ (→ norm) → dense, at every point of the grid at once."""

    kernel: Kernel
    norm: str | None
    placement: str | None
    weights: Array
    biases: Array

    def apply(self, state: Population) -> Population:
        if self.norm is not None and self.placement == "before":
            state, _ = normalize(state, Norm("norm", self.norm, 0))
        state, _ = activate(state, self.kernel)
        if self.norm is not None and self.placement == "after":
            state, _ = normalize(state, Norm("norm", self.norm, 0))
        return self.dense(state)

    def dense(self, state: Population) -> Population:
        """σ_w² and σ_b² differ from point to point of the grid, so the dense rule's moves are made with arrays."""
        with np.errstate(divide="ignore"):
            return state.mix().scale(np.log(self.weights)).shift(self.biases)

    def at(self, points: NDArray[np.bool_]) -> _Block:
        return _Block(self.kernel, self.norm, self.placement, self.weights[points], self.biases[points])

    def correlated(self, log_q: Array, c: Array, rho: Array) -> Population:
        """Two points of mean square q and correlation c = 1 − ρ before the block."""
        with np.errstate(divide="ignore"):
            return Population(
                np.full_like(c, ZERO), np.log(c) + log_q, np.log(rho) + log_q, np.zeros_like(c), gaussian=True
            )

    def correlation(self, log_q: Array, c: Array, rho: Array) -> tuple[Array, Array]:
        """The correlation map: c', and 1 − c' to full relative precision."""
        after = self.apply(self.correlated(log_q, c, rho))
        total = np.asarray(after.log_total)
        return np.exp(after.log_spread - total), np.exp(after.log_data - total)


def _gamma_at(block: _Block, depth: int, mean: float, variance: float) -> Array:
    state = _inputs(block, mean, variance)
    for _ in range(depth):
        state = block.apply(state)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.exp(np.asarray(state.log_spread) - state.log_data))


def _inputs(block: _Block, mean: float, variance: float) -> Population:
    inputs = population_of_inputs(mean, variance)
    flat = np.zeros_like(block.weights)
    return block.dense(
        Population(flat + inputs.log_common, flat + ZERO, flat + inputs.log_data, flat + inputs.log_noise)
    )


def _fixed_point(block: _Block, mean: float, variance: float) -> dict[str, Array]:
    log_q, regime_q, slope_q = _settled_mean_square(block, _inputs(block, mean, variance))
    one, zero = np.ones_like(log_q), np.zeros_like(log_q)
    tiny = np.full_like(log_q, 1e-200)
    merged = block.apply(block.correlated(log_q, one, tiny))
    slope = (
        np.exp(merged.log_data - log_q) / tiny if block.norm != "batch" else _batch_norm_slope(block, log_q)
    )
    slope_at_one = block.correlation(log_q, one, tiny)[1] / tiny
    c, rho = _settled_correlation(block, log_q, slope_at_one)
    if block.norm == "batch":
        c, rho = block.correlation(log_q, zero, one)
        slope_c = zero
    else:
        slope_c, apart = np.array(slope_at_one), rho > 0
        if apart.any():
            slope_c[apart] = _slope_at(block.at(apart), log_q[apart], c[apart], rho[apart])
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        regime = np.where(
            slope < 1 - CRITICAL, "ordered", np.where(slope > 1 + CRITICAL, "chaotic", "critical")
        )
        regime = np.where(regime_q == "", regime, regime_q)
        return {
            "mean_square_star": np.where(
                regime_q == "divergent", np.inf, np.where(regime_q == "dead", 0.0, np.exp(log_q))
            ),
            "correlation_star": c,
            "gamma_star": c / rho,
            "slope": slope,
            "correlation_slope": slope_c,
            "depth_scale": _depth_scale(slope_c),
            "variance_depth_scale": _depth_scale(slope_q),
            "regime": regime.astype(object),
        }


def _settled_mean_square(block: _Block, state: Population) -> tuple[Array, Any, Array]:
    """Log q*, whether q leaves for 0 or ∞, and the slope dq'/dq there; iterated with Aitken's acceleration in log q."""
    log_q = np.array(state.log_total, dtype=float)

    def step(x: Array, part: _Block) -> Array:
        after = part.apply(part.correlated(x, np.zeros_like(x), np.ones_like(x)))
        return np.asarray(after.log_total, dtype=float)

    active = np.ones(log_q.shape, dtype=bool)
    for _ in range(2000):
        part = block.at(active)
        x0 = log_q[active]
        x1 = step(x0, part)
        x2 = step(x1, part)
        x3 = _leap(x0, x1, x2)
        done = (np.abs(x2 - x1) < 1e-13 * np.maximum(1, np.abs(x2))) | (np.abs(x2) > HUGE)
        log_q[active] = np.where(done, x2, x3)
        active[np.flatnonzero(active)[done]] = False
        if not active.any():
            break
    if active.any():
        log_q[active] = _unsettled(log_q[active], lambda x: step(x, block.at(active)))
    lost = np.where(log_q > HUGE, "divergent", np.where(log_q < -HUGE, "dead", ""))
    small = 1e-4
    rise = (step(log_q + small, block) - step(log_q - small, block)) / (2 * small)
    return log_q, lost, rise


def _unsettled(log_q: Array, step: Callable[[Array], Array]) -> Array:
    """Where log q still moves after all iterations: beyond HUGE if it keeps its pace there too, else where it is."""
    far = np.full_like(log_q, HUGE)
    after = step(log_q)
    grows = (after > log_q) & (step(far) > far + 1e-9)
    shrinks = (after < log_q) & (step(-far) < -far - 1e-9)
    return np.where(grows, 1.01 * far, np.where(shrinks, -1.01 * far, log_q))


def _leap(x0: Array, x1: Array, x2: Array) -> Array:
    """Where three iterates of log q lead: the fixed point of the line through them, or on along geometric growth."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first = np.expm1(x1 - x0)  # the steps of q, in units of the first q
        second = np.exp(x1 - x0) * np.expm1(x2 - x1)
        slope = second / first
        limit = 1 + first / (1 - slope)  # exact where q' is linear in q
        settles = (np.abs(slope) < 1) & (limit > 0) & (np.abs(np.log(np.abs(limit))) < 30)
        # equal steps of log q: q grows or shrinks geometrically; follow the line until it bends or leaves
        steady = np.abs(x2 - 2 * x1 + x0) < 1e-9 * np.abs(x2 - x1)
        # equal steps of q upwards: it grows for ever, though too slowly to see it leave
        ramps = (np.abs(slope - 1) < 1e-9) & (first > 1e-12)
        leap = np.where(steady, x2 + np.clip(256 * (x2 - x1), -60, 60), x2)
        leap = np.where(settles & ~steady, x0 + np.log(np.where(settles, limit, 1.0)), leap)
        return np.where(ramps & ~steady, HUGE + 60.0, leap)


def _settled_correlation(block: _Block, log_q: Array, slope: Array) -> tuple[Array, Array]:
    """c* and 1 − c*: 1 where χ_1 ≤ 1, else the root below 1 of the convex map, by bisection in log(1 − c)."""
    c, rho = np.ones_like(log_q), np.zeros_like(log_q)
    chaotic = slope > 1 + CRITICAL
    if block.norm == "batch" or not chaotic.any():
        return c, rho
    part, at = block.at(chaotic), log_q[chaotic]
    low, high = np.full(at.shape, math.log(1e-14)), np.zeros(at.shape)
    start = part.correlation(at, np.zeros(at.shape), np.ones(at.shape))[0]
    for _ in range(60):
        middle = 0.5 * (low + high)
        here = np.exp(middle)
        there = part.correlation(at, -np.expm1(middle), here)[1]
        above = there > here  # the map moves away from c = 1: the fixed point has a larger 1 − c
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    found = 0.5 * (low + high)
    c[chaotic] = np.where(start == 0, 0.0, -np.expm1(found))
    rho[chaotic] = np.where(start == 0, 1.0, np.exp(found))
    return c, rho


def _slope_at(block: _Block, log_q: Array, c: Array, rho: Array) -> Array:
    """dc'/dc by a one-sided difference of fourth order, stepping away from the nearer of c = 0 and c = 1."""
    h = 0.02 * np.where(c > 0.5, rho, 1.0)
    sign = np.where(c > 0.5, 1.0, -1.0)
    weights = (-25 / 12, 4.0, -3.0, 4 / 3, -1 / 4)
    moved = (block.correlation(log_q, c - sign * k * h, rho + sign * k * h)[1] for k in range(5))
    total = sum((weight * value for weight, value in zip(weights, moved, strict=True)), np.zeros_like(c))
    return np.asarray(total / (h * sign))


def _batch_norm_slope(block: _Block, log_q: Array) -> Array:
    """Growth of noise over signal in one block: batch norm forgets the correlation, this takes χ_1's place."""
    state = block.correlated(log_q, np.zeros_like(log_q), np.ones_like(log_q))
    settled = block.apply(state)
    after = block.apply(settled)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.exp(after.log_noise_to_data - settled.log_noise_to_data))


def _depth_scale(slope: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(
            np.abs(slope) > 1 - FLAT, np.inf, np.where(slope == 0, 0.0, -1 / np.log(np.abs(slope)))
        )


def _kernel(function: ActivationFunction, method: str, points: int) -> Kernel:
    """A closed form; else direct averages for a few points, and interpolated ones for a diagram."""
    kernel = kernel_of(function, method=method)
    if kernel.method == "closed_form" or points <= 16:
        return kernel
    return tabulate(kernel)


def _axis(name: str, values: ArrayLike, *, positive: bool = False) -> Array:
    try:
        grid = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        raise UsageError(f"phases({name}): expected a number or a list of numbers, got {values!r}") from None
    if grid.ndim != 1 or grid.size == 0:
        raise UsageError(
            f"phases({name}): expected a number or a one-dimensional grid, got shape {np.shape(values)}"
        )
    bad = ~np.isfinite(grid) | ((grid <= 0) if positive else (grid < 0))
    if bad.any():
        limit = "above 0" if positive else "at least 0"
        raise UsageError(
            f"phases({name}): expected finite numbers {limit}, got {grid[bad][0]:g}; "
            f"{'weights are N(0, weight_variance/fan_in)' if positive else 'biases are N(0, bias_variance)'}"
        )
    return grid


def _placement(norm: str | None, placement: str | None) -> tuple[str | None, str | None]:
    if norm is None:
        if placement is not None:
            raise UsageError(
                f"phases(placement): {placement!r} was given without a norm; pass norm='batch', 'layer' or 'rms'"
            )
        return None, None
    if norm not in ("batch", "layer", "rms"):
        raise one_of("phases(norm)", norm, ("batch", "layer", "rms"))
    if placement not in (None, "before", "after"):
        raise one_of("phases(placement)", placement, ("before", "after"))
    return norm, placement or "before"
