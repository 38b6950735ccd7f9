r"""Batch norm behind an activation, of a data set: each unit is divided by its own deviation over the batch.

A unit x = φ(z), z ~ N(0, K), leaves as x̂ = √B x̃/|x̃| with x̃ = H x, and K' = E x̂ x̂ᵀ. Dividing by the mean variance
over units instead (``self_averaging``) makes units of great variance count for more than their share: on 512 images of
CIFAR-10 behind five layers the spread of G_0 comes out a third too great. K' is the mean over drawn units, and
thereby a covariance to the last bit. A unit that is the same on the whole batch (dead ReLU) leaves as 0.

Enters: a state that remembers the Gaussian units before the activation. Leaves: the state behind the norm.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from firstlight.theory.dataset.dense_gram import LIMIT, DenseGram
from firstlight.theory.dataset.pairs import symmetric
from firstlight.theory.dataset.standardized_gram import DRAWS, UNITS_AT_ONCE, self_averaging, whitened

__all__ = ["unit_by_unit"]

_ALIKE = 1e-12
"""Deviation below this part of a unit's greatest value is rounding."""


def unit_by_unit(state: DenseGram) -> DenseGram:
    """Batch norm of units that are not Gaussian but follow from Gaussian ones; noise meets the mean variance."""
    assert state.drawn is not None
    after = self_averaging(state)
    before, function = state.drawn
    values, vectors = np.linalg.eigh(before.matrix())
    kept = values > 1e-13 * values[-1]
    size = math.exp(0.5 * min(max(before.log_scale, -LIMIT), LIMIT))
    half = vectors[:, kept] * (np.sqrt(values[kept]) * size)
    generator = np.random.default_rng([state.seed, state.sampled])
    total = np.zeros((state.size, state.size))
    for _ in range(DRAWS // UNITS_AT_ONCE):
        units = np.array(function.value(half @ whitened(half.shape[1], generator)))
        for place in state.batches:
            batch = units[place]
            greatest = np.abs(batch).max(axis=0)
            batch -= batch.mean(axis=0)
            deviation = np.sqrt(np.mean(batch**2, axis=0))
            alive = deviation > _ALIKE * greatest
            batch *= np.divide(1.0, deviation, out=np.zeros_like(deviation), where=alive)
        total += units @ units.T
    total /= DRAWS
    symmetric(
        state.size, lambda rows, columns: 0.5 * (total[rows, columns] + total[columns, rows].T), out=total
    )
    return replace(after, entries=total, sampled=state.sampled + 1)
