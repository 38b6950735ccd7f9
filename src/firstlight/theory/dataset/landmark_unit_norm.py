r"""Batch norm behind an activation, over a data set of which a few columns of the covariance are carried.

Enters: K at the landmarks, and how its units came about. Leaves: the same entries behind batch norm over all n points.
``unit_norm.py`` has the rule, K' = E x̂ x̂ᵀ with x̂ = x̃/s, s² = |x̃|²/n. With the mean variance V for s² it would be
known for every pair, so only what is left of that is a mean over drawn units:

    K' = β G/V + E x̃ x̃ᵀ (1/s² − β/V),      β = V²/E s⁴

β makes E (1 − β s²/V)² least, and so what a pair errs by: it is 1 where many directions make all units alike.

A unit is drawn on all n points: what the landmarks span of the Gaussian units before the activation together, what they
leave of each point alone (``landmark_readout.py``). tr K'/n is the part of units that differ at all, exactly, and K' is
brought to it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from firstlight.theory.dataset.landmark_gram import LandmarkGram, by_rows
from firstlight.theory.dataset.unit_norm import NoiseOfUnits, centered_in_place, deviation_of

__all__ = ["centered_columns", "self_averaging", "unit_by_unit"]

Array = NDArray[np.float64]

DRAWS = 4_096
_AT_ONCE = 128
_PILOTS = 4
"""Times so many units from which β is estimated."""


def unit_by_unit(state: LandmarkGram) -> LandmarkGram:
    """Batch norm of units that are not Gaussian but follow from Gaussian ones."""
    from firstlight.theory.dataset.landmark_readout import outputs_of_landmarks

    assert state.drawn is not None
    after, source = self_averaging(state), state.drawn
    process, unit = outputs_of_landmarks(source.before), deviation_of(source.before)
    variance = state.means.data * deviation_of(state) ** 2
    generator = np.random.default_rng([state.seed, state.sampled])

    def drawn() -> tuple[Array, Array, Array]:
        """Centred units (point, unit), φ'² and 1/s."""
        gaussian = process.half @ generator.standard_normal((process.half.shape[1], _AT_ONCE * source.size))
        gaussian += process.alone[:, None] * generator.standard_normal(gaussian.shape)
        units, slopes = source.units(unit * gaussian)
        return units, slopes, centered_in_place(units)

    spread = np.concatenate([np.mean(drawn()[0] ** 2, axis=0) for _ in range(_PILOTS)])
    share = float(np.mean(spread) ** 2 / np.mean(spread**2))
    entries, own = np.zeros_like(after.entries), np.zeros(state.size)
    number, alive, noise, everyone = 0, 0, NoiseOfUnits.none(state.size), slice(0, state.size)
    while number < DRAWS:
        units, slopes, inverse = drawn()
        weighted = units * (inverse**2 - share / variance)
        noise.add(everyone, slopes, inverse)
        entries += weighted @ units[state.columns].T
        own += np.einsum("ai,ai->a", weighted, units)
        number += units.shape[1]
        alive += int(np.count_nonzero(inverse))
    entries /= number
    entries += share * after.entries
    own = np.maximum(share * after.own + own / number, 0.0)
    level = alive / number / float(own.mean())
    entries *= level
    log_noise = after.log_noise + noise.log_ratio(number)
    return after._with(entries, level * own, log_noise=log_noise, sampled=state.sampled + 1)


def self_averaging(state: LandmarkGram) -> LandmarkGram:
    """Batch norm of units that are not Gaussian: the mean variance over units stands for each unit's own."""
    centered, own = centered_columns(state)
    return state._with(
        centered,
        own,
        log_scale=0.0,
        log_noise=state.log_noise - state.log_scale - math.log(state.means.data),
        common=None,
        error=state.relative_error(),
    )


def centered_columns(state: LandmarkGram) -> tuple[Array, Array]:
    """G at the columns and its diagonal, both at mean variance 1."""
    means, unit = state.means, state.means.data
    at, scales = state.columns, state.scales[state.columns]
    shifts = means.rows[at] - means.center

    def stripe(rows: slice) -> Array:
        values = state.entries[rows] * state.scales[rows, None] * scales
        values -= means.rows[rows, None]
        values -= shifts
        values /= unit
        return values

    own = means.own * (unit * state.size / means.own.sum()) / unit
    entries = by_rows(state.entries.shape, stripe)
    entries[at, np.arange(len(at))] = own[at]
    return entries, own
