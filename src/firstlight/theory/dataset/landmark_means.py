r"""Averages over all pairs of n points from a few columns of their covariance.

Enters: K_ab for all a and for b among the landmarks and checks, and all K_aa. Leaves: the mean of every row, C and V
with the standard error of both, and what the centred matrix G = HKH is on those entries.

Let x_a be the points in the space of K, their origin moved to the mean of the landmarks, and x̄ their mean over all n.
Then |x_a|² is known for every point, and x̄·x_b exactly for every column b, as a mean over the column:

    V = ⟨|x_a|²⟩ − |x̄|²,      C + V = ⟨K_aa⟩

so only |x̄|² is estimated, which is about V/m for m random landmarks. x̄·x_a of the other points is predicted by the
landmarks, K_aL K_LL⁻¹ (x̄·x_L); the mean of what that leaves of the checks is added, and its standard error over the
checks is the standard error of C and of V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from firstlight.theory.dataset.landmarks import Landmarks

__all__ = ["PairMeans", "pair_means"]

Array = NDArray[np.float64]

_JITTER = 1e-10
"""Of the mean diagonal of K_LL: below this, directions among the landmarks are rounding."""


@dataclass(frozen=True, eq=False)
class PairMeans:
    """Averages of one layer, in the unit of the given entries.

    Attributes:
        rows: Mean of K_ab over all b (n,); exact at the columns.
        center: C.
        data: V.
        stderr: Standard error of both.
        own: G_aa (n,).
    """

    rows: Array
    center: float
    data: float
    stderr: float
    own: Array


def pair_means(entries: Array, scales: Array, diagonal: Array, landmarks: Landmarks) -> PairMeans:
    """Average K_ab = σ_a σ_b R_ab over all pairs.

    Args:
        entries: R (n, m + q).
        scales: σ (n,).
        diagonal: K_aa (n,).
        landmarks: Which points the columns are.
    """
    size, number, columns = len(entries), landmarks.number, landmarks.columns
    first = columns[:number]
    of_columns = scales[columns] * (scales @ entries) / size  # means over all points (column,)
    to_landmarks = scales * (entries[:, :number] @ scales[first]) / number  # means over landmarks (point,)
    grand = float(to_landmarks[first].mean())
    square = diagonal - 2 * to_landmarks + grand  # |x_a|²
    known = of_columns - to_landmarks.mean() - to_landmarks[columns] + grand  # x̄·x_b

    inner = entries[first, :number] * scales[first, None] * scales[first]
    inner -= to_landmarks[first, None] + to_landmarks[first] - grand
    weights = _solved(inner, known[:number], float(np.abs(diagonal[first]).max(initial=0.0)))
    predicted = scales * (entries[:, :number] @ (scales[first] * weights))
    predicted -= to_landmarks * weights.sum() + to_landmarks[first] @ weights - grand * weights.sum()

    left = known[number:] - predicted[columns[number:]]
    others = 1 - number / size
    correction = float(left.mean())
    predicted += correction
    predicted[columns] = known
    shift = float(predicted.mean())  # |x̄|²
    drawn = 1 - landmarks.checks / (size - number)
    stderr = others * float(left.std(ddof=1)) * math.sqrt(drawn / landmarks.checks)
    total = float(diagonal.mean())
    data = min(max(float(square.mean()) - shift, 0.0), total)
    rows = to_landmarks + to_landmarks.mean() - grand + predicted
    return PairMeans(rows, total - data, data, stderr, np.maximum(square - 2 * predicted + shift, 0.0))


def _solved(inner: Array, right: Array, greatest: float) -> Array:
    """K_LL⁻¹ right, for a matrix that is singular along the mean and wherever points coincide."""
    level = max(float(np.trace(inner)) / len(inner), 0.0)
    if level <= 1e-13 * greatest:
        return np.zeros(len(inner))
    jitter = _JITTER * level + 1e-14 * greatest
    while True:
        try:
            return np.asarray(linalg.solve(inner + jitter * np.eye(len(inner)), right, assume_a="pos"))
        except linalg.LinAlgError:
            jitter *= 100
