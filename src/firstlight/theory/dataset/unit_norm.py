r"""Batch norm behind an activation, of a data set: each unit is divided by its own deviation over the batch.

A unit x = φ(z), z ~ N(0, K), leaves as x̂ = √B x̃/|x̃| with x̃ = H x, and K' = E x̂ x̂ᵀ. Dividing by the mean variance
over units instead (``self_averaging``) makes units of great variance count for more than their share: on 512 images of
CIFAR-10 behind five layers the spread of G_0 comes out a third too great. K' is the mean over drawn units, and
thereby a covariance to the last bit. A unit that is the same on the whole batch (dead ReLU) leaves as 0.
Behind a pool a unit is drawn as what the pool makes of a group of them. Noise with the statistics held meets E φ'²/s²:
a mean over the same units, which rare units that are nearly dead rule where the points are few.

Enters: a state that remembers the Gaussian units before the activation. Leaves: the state behind the norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from firstlight.theory.dataset.dense_gram import LIMIT, DenseGram
from firstlight.theory.dataset.gram import Gram
from firstlight.theory.dataset.pairs import symmetric
from firstlight.theory.dataset.standardized_gram import DRAWS, self_averaging, whitened

__all__ = ["NoiseOfUnits", "centered_in_place", "deviation_of", "unit_by_unit"]

Array = NDArray[np.float64]

_ALIKE = 1e-12
"""Deviation below this part of a unit's greatest value is rounding."""


def unit_by_unit(state: DenseGram) -> DenseGram:
    """Batch norm of units that are not Gaussian but follow from Gaussian ones."""
    assert state.drawn is not None
    after = self_averaging(state)
    source = state.drawn
    values, vectors = np.linalg.eigh(source.before.matrix())
    kept = values > 1e-13 * values[-1]
    half = vectors[:, kept] * (np.sqrt(values[kept]) * deviation_of(source.before))
    generator = np.random.default_rng([state.seed, state.sampled])
    total, number = np.zeros((state.size, state.size)), 0
    noise = NoiseOfUnits.none(state.size)
    while number < DRAWS:
        units, slopes = source.units(half @ whitened(half.shape[1], generator))
        for place in state.batches:
            inverse = centered_in_place(units[place])
            units[place] *= inverse
            noise.add(place, slopes[place], inverse)
        total += units @ units.T
        number += units.shape[1]
    total /= number
    symmetric(
        state.size, lambda rows, columns: 0.5 * (total[rows, columns] + total[columns, rows].T), out=total
    )
    log_noise = after.log_noise + noise.log_ratio(number)
    return replace(after, entries=total, log_noise=log_noise, sampled=state.sampled + 1)


@dataclass(frozen=True, eq=False)
class NoiseOfUnits:
    """Noise divided by each unit's own variance, over noise divided by the mean variance: ⟨s²⟩ E φ'²/s² / E φ'².

    Attributes:
        divided: Σ φ'²/s² over units (point,).
        slopes: Σ φ'².
        variance: Σ s².
    """

    divided: Array
    slopes: Array
    variance: Array

    @classmethod
    def none(cls, size: int) -> Self:
        """No units yet."""
        return cls(np.zeros(size), np.zeros(size), np.zeros(size))

    def add(self, place: slice, slopes: Array, inverse: Array) -> None:
        """Count in units of one batch, φ'² (point, unit) and 1/s (unit,)."""
        self.divided[place] += slopes @ inverse**2
        self.slopes[place] += slopes.sum(axis=1)
        self.variance[place] += np.sum(
            np.divide(1.0, inverse**2, out=np.zeros_like(inverse), where=inverse > 0)
        )

    def log_ratio(self, number: int) -> Array:
        """Its logarithm (point,); 0 for a point at which no unit has a slope."""
        ratio = np.divide(self.divided, self.slopes, out=np.zeros_like(self.slopes), where=self.slopes > 0)
        ratio *= self.variance / number
        return np.log(np.where(ratio > 0, ratio, 1.0))


def deviation_of(before: Gram) -> float:
    """The unit in which the state's deviations are given, e^{s/2}, inside float64."""
    return math.exp(0.5 * min(max(before.log_scale, -LIMIT), LIMIT))


def centered_in_place(units: Array) -> Array:
    """Take each unit's mean off (point, unit); 1/deviation of each, 0 for one that is the same on all points."""
    greatest = np.abs(units).max(axis=0)
    units -= units.mean(axis=0)
    deviation = np.sqrt(np.mean(units**2, axis=0))
    alive = deviation > _ALIKE * greatest
    return np.asarray(np.divide(1.0, deviation, out=np.zeros_like(deviation), where=alive))
