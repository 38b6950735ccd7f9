r"""Leading 1/width terms of the covariance on the data, for dense networks with homogeneous activations.

At width N the covariance that a layer passes on is an average over N units, and random. Two points have one
correlation after another, a Markov chain whose step has mean f(c) + b(c)/N and variance s(c)/N about it; so to first
order in 1/N its mean r and variance v follow

.. math:: r' = f(r) + ½ f''(r)\,v + b(r)/N,\qquad v' = f'(r)^2\,v + s(r)/N .

With x, y the activations of the two points over their root mean square (behind a layer norm: their deviations over the
standard deviation), m_jk = E x^j y^k and ρ = m_11 the average over units is a sample correlation, and by the delta
method

.. math:: s = m_{22} + ½ρ^2(m_{40} + m_{22}) - 2ρ\,m_{31},\qquad b = ¾ρ\,m_{40} + ¼ρ\,m_{22} - m_{31} .

Without a norm lengths are random too: what is averaged is K_ab = σ_a σ_b c, and under that weight
:math:`b = ¼ρ(m_{40} - m_{22})`, while :math:`⟨σ_aσ_b⟩` falls by :math:`(m_{40} - m_{22})/4N` a layer (two points
lose each other's scale; a point keeps its mean square).

Labels share the last hidden units. Given those, outputs are Gaussian with the random covariance; its spread v is that
of a linear layer of (1 + c²)/v units between, which is how guesses are drawn. Batch norm behind the activation takes
each unit's mean over the data where layer norm takes a point's over the units, and spreads correlations alike; C is 0
there at any width, and the covariance is left as it is in the limit.

All are functions of one angle and live on the grid of ``composed_gram``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.layers import Activation, Dense, Layer, Norm, Pass
from firstlight.errors import CouldNotError
from firstlight.theory.dataset.angles import AngleTable, angles_of_grid
from firstlight.theory.dataset.composed_gram import INTERVALS, Angles, ComposedGram
from firstlight.theory.dataset.gram import Gram

__all__ = ["WidthTerms", "width_terms"]

Array = NDArray[np.float64]

_KINDS = {None: "none", "layer": "over units", "rms": "over units", "batch": "over data"}
LARGEST_SPREAD = 0.5
"""Standard deviation of a correlation up to which terms of the next order are left out without a word."""


@dataclass(frozen=True)
class WidthTerms:
    """What finite width adds to each dense layer.

    Attributes:
        shifts: By address, what is added to 1 − K_ab/(σ_a σ_b), on the grid of angles of the inputs.
        correlation: r behind the last hidden layer, on that grid.
        variance: v there.
        batch: Whether the norms are batch norms.
    """

    shifts: dict[str, Array]
    correlation: Array
    variance: Array
    batch: bool = False

    def corrected(self, state: Gram, address: str) -> Gram:
        """The state behind a dense layer with its leading terms; behind batch norms as it is."""
        if self.batch:
            return state
        if not isinstance(state, ComposedGram):
            raise CouldNotError(
                f"{address}: leading terms of the width are known as long as the covariance is a function of the "
                "angle between two inputs; biases before the first norm, points that are 0 and landmarks end that; "
                "pass width='finite', which draws networks"
            )
        return replace(state, distances=np.clip(state.distances + self.shifts[address], 0.0, 2.0))

    def shared_units(self, angles: Angles) -> int | None:
        """Units of a linear layer that spreads the covariance as much, on average over pairs; none without spread."""
        spread = angles.even.total(AngleTable.through(self.variance))
        if spread <= 0:
            return None
        return max(1, round(angles.even.total(AngleTable.through(1 + self.correlation**2)) / spread))

    @property
    def spread(self) -> float:
        """Greatest standard deviation of a correlation behind the last hidden layer."""
        return float(np.sqrt(self.variance.max()))


def width_terms(layers: Sequence[Layer]) -> WidthTerms:
    """Follow a stack of dense layers, each before a homogeneous activation and perhaps a norm behind it.

    Raises:
        CouldNotError: Any other network, with the address where it leaves that form.

    >>> from firstlight.architecture.blueprint import Blueprint
    >>> terms = width_terms(Blueprint.mlp(depth=1, width=50).layers)
    >>> [float(abs(shift).max()) > 0 for shift in terms.shifts.values()]
    [False, True]
    """
    blocks, last = _blocks(layers)
    theta = angles_of_grid(INTERVALS)
    wide = mean = np.cos(theta)
    variance, scale = np.zeros_like(mean), np.ones_like(mean)
    shifts: dict[str, Array] = {}
    for block in blocks:
        shifts[block.dense.address] = wide - scale * mean
        width, kept = block.dense.fan_out, block.share_behind
        at_mean, at_wide = _Moments.at(mean, block), _Moments.at(wide, block)
        if block.norm is None:
            scale = scale * np.exp(-(at_mean.fourth - at_mean.squares) / (4 * width))
        bias = at_mean.weighted_bias if block.norm is None else at_mean.bias
        mean = at_mean.map + 0.5 * at_mean.curvature * variance + bias / width
        variance = at_mean.slope**2 * variance + at_mean.noise / width
        wide = at_wide.map
        mean, wide, variance = (
            1 - kept * (1 - np.clip(mean, -1, 1)),
            1 - kept * (1 - wide),
            kept**2 * variance,
        )
        mean[0] = wide[0] = scale[0] = 1.0  # a point and itself
        variance[0] = 0.0
    shifts[last.address] = wide - scale * mean
    return WidthTerms(shifts, mean, variance, any(block.norm == "batch" for block in blocks))


@dataclass(frozen=True)
class _Block:
    """A hidden layer; ``share_behind`` is what its signal is of the next layer's, the rest being biases."""

    dense: Dense
    slopes: tuple[float, float]
    norm: str | None
    share_behind: float


def _blocks(layers: Sequence[Layer]) -> tuple[list[_Block], Dense]:
    work = [layer for layer in layers if not isinstance(layer, Pass)]
    found: list[_Block] = []
    position = 0
    while position < len(work) - 1:
        dense, behind, *rest = work[position : position + 4]
        if not isinstance(dense, Dense) or dense.centered:
            raise _unknown(dense, "a dense layer")
        slopes = _slopes(behind.function) if isinstance(behind, Activation) else None
        if slopes is None:
            raise _unknown(
                behind, "an activation that is a multiple of u on either side of 0 (relu, leaky_relu, abs)"
            )
        norm = rest[0].kind if rest and isinstance(rest[0], Norm) else None
        position += 2 if norm is None else 3
        following = work[position] if position < len(work) else None
        if not isinstance(following, Dense) or following.centered:
            raise _unknown(following or work[-1], "a dense layer")
        total = following.weight_variance + following.bias_variance
        if following.bias_variance and norm is None:
            raise _unknown(following, "a dense layer without biases, or a norm before it")
        found.append(_Block(dense, slopes, norm, following.weight_variance / total if total else 1.0))
    last = work[-1] if work else None
    if not isinstance(last, Dense):
        raise CouldNotError("predict(width='leading'): expected a network that ends in a dense layer")
    if len({_KINDS[block.norm] for block in found}) > 1:
        raise CouldNotError(
            "predict(width='leading'): expected norms over the units behind all activations, batch norms behind all, "
            "or none, got several of these; pass width='finite', which draws networks"
        )
    return found, last


def _slopes(function: ActivationFunction) -> tuple[float, float] | None:
    return function.slopes if function.slopes is not None and function.shift == 0 else None


def _unknown(layer: Layer, expected: str) -> CouldNotError:
    kind = getattr(layer, "kind", "")
    got = f"{kind} {type(layer).__name__.lower()}".strip()
    return CouldNotError(
        f"{layer.address}: leading terms of the width are known for {expected} here, got a {got}; "
        "pass width='finite', which draws networks"
    )


@dataclass(frozen=True)
class _Moments:
    """Averages over two jointly Gaussian units of correlation c, as the module names them.

    Attributes:
        map: ρ = f(c).
        slope: f'(c).
        curvature: f''(c).
        squares: m_22.
        cubes: m_31.
        fourth: m_40.
    """

    map: Array
    slope: Array
    curvature: Array
    squares: Array
    cubes: Array
    fourth: float

    @classmethod
    def at(cls, c: Array, block: _Block) -> _Moments:
        """For φ = a u₊ − b u₋, by the moments of halves of Gaussians."""
        b, a = block.slopes
        c = np.clip(c, -1.0, 1.0)
        sine = np.sqrt((1 - c) * (1 + c))
        angle = np.arctan2(sine, c)
        same, other = _Halves(c, sine, angle), _Halves(-c, sine, math.pi - angle)
        mean, square, fourth = (a - b) / math.sqrt(2 * math.pi), (a * a + b * b) / 2, 1.5 * (a**4 + b**4)
        product = (a * a + b * b) * same.products - 2 * a * b * other.products
        slope = ((a * a + b * b) * (math.pi - angle) + 2 * a * b * angle) / (2 * math.pi)
        curvature = (a - b) ** 2 / (2 * math.pi * np.maximum(sine, 1e-9))
        squares = (a**4 + b**4) * same.squares + 2 * (a * b) ** 2 * other.squares
        cubes = (a**4 + b**4) * same.cubes - a * b * (a * a + b * b) * other.cubes
        if block.norm in ("layer", "batch"):  # about the mean
            third = (a**3 - b**3) * math.sqrt(2 / math.pi)
            mixed = (a**3 - b**3) * same.squares_products - a * b * (a - b) * other.squares_products
            cubes = cubes - mean * third - 3 * mean * mixed + 3 * mean**2 * (square + product) - 3 * mean**4
            squares = squares - 4 * mean * mixed + 2 * mean**2 * (square + 2 * product) - 3 * mean**4
            fourth = fourth - 4 * mean * third + 6 * mean**2 * square - 3 * mean**4
            product, square = product - mean**2, square - mean**2
        return cls(
            product / square,
            slope / square,
            curvature / square,
            squares / square**2,
            cubes / square**2,
            fourth / square**2,
        )

    @property
    def noise(self) -> Array:
        """S."""
        found = self.squares + 0.5 * self.map**2 * (self.fourth + self.squares) - 2 * self.map * self.cubes
        return np.maximum(found, 0.0)

    @property
    def bias(self) -> Array:
        """B of a sample correlation."""
        return self.map * (0.75 * self.fourth + 0.25 * self.squares) - self.cubes

    @property
    def weighted_bias(self) -> Array:
        """B under the weight of both lengths."""
        return 0.25 * self.map * (self.fourth - self.squares)


@dataclass(frozen=True)
class _Halves:
    """Moments of u₊ = max(u, 0) and w₊ of two Gaussians at an angle (Cho & Saul 2009 for the first and third)."""

    cosine: Array
    sine: Array
    angle: Array

    @property
    def products(self) -> Array:
        """E u₊ w₊."""
        return (self.sine + (math.pi - self.angle) * self.cosine) / (2 * math.pi)

    @property
    def squares_products(self) -> Array:
        """E u₊² w₊."""
        return (1 + self.cosine) ** 2 / (2 * math.sqrt(2 * math.pi))

    @property
    def squares(self) -> Array:
        """E u₊² w₊²."""
        c = self.cosine
        return (3 * self.sine * c + (math.pi - self.angle) * (1 + 2 * c * c)) / (2 * math.pi)

    @property
    def cubes(self) -> Array:
        """E u₊³ w₊."""
        c = self.cosine
        return (3 * c * (math.pi - self.angle) + self.sine * (2 + c * c)) / (2 * math.pi)
