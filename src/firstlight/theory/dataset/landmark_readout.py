r"""How a wide network guesses on many points, from a few columns of the covariance of its outputs.

Enters: K at the landmarks. Leaves: ``outputs_of_landmarks``, the Gaussian process that is drawn: O_a = (A ξ)_a +
√d_a ε_a less the mean of the last over the points, with A Aᵀ the part of K that the landmarks span and d_a what they
leave of K_aa, drawn for each point alone: of the points' mean they leave next to nothing (``landmark_means.py``). And a
check on points that are no landmarks, where K_ab is known: the chance that two points get one label,

    ⟨P(c_ab)⟩ = E Σ_c G_c²,      P(c) = ½ + asin(c)/π for two labels,

from the exact correlations and from those that are drawn. Labels are exchangeable, so E Σ G_c² = M (Var G_c + 1/M²):
the difference says by how much the deviation of G_c is off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.activations import activation
from firstlight.theory.dataset.angles import AngleTable
from firstlight.theory.dataset.landmark_gram import LandmarkGram
from firstlight.theory.kernels.joint_gain import JointGain
from firstlight.theory.kernels.panels import Panels
from firstlight.theory.kernels.winner import Winner

__all__ = ["GuessCheck", "LandmarkOutputs", "agreement_probability", "outputs_of_landmarks"]

Array = NDArray[np.float64]

_LEFT_OUT = 1e-8
"""Of (tr HKH)²: squares of the directions that are drawn for each point alone, besides what no landmark spans."""

_FEW_ANGLES = 64


@dataclass(frozen=True)
class GuessCheck:
    """Deviation of the fraction of one label, at fixed network over initializations.

    Attributes:
        deviation: √Var G_c from the exact correlations of the checks with all points.
        stderr: Its standard error over the checks.
        error: Deviation of the drawn law less this one, on the same pairs.
    """

    deviation: float
    stderr: float
    error: float


@dataclass(frozen=True, eq=False)
class LandmarkOutputs:
    """The Gaussian process that is drawn.

    Attributes:
        half: A (n, r).
        alone: √d_a (n,).
    """

    half: Array
    alone: Array

    def check(self, state: LandmarkGram, labels: int) -> GuessCheck:
        """Compare with the exact correlations of the checks."""
        number, columns = state.landmarks.number, state.columns[state.landmarks.number :]
        deviation = np.sqrt(state.diagonal)
        inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
        exact = state.entries[:, number:] * (state.scales * inverse)[:, None]
        exact *= (state.scales * inverse)[columns]
        drawn = self.half @ self.half[columns].T
        rest = self.alone**2
        drawn[columns, np.arange(len(columns))] += rest[columns]
        drawn -= (rest[:, None] + rest[columns] - rest.mean()) / len(rest)
        drawn *= inverse[:, None]
        drawn *= inverse[columns]
        chance = agreement_probability(labels)
        of_exact, of_drawn = (chance(np.clip(c, -1.0, 1.0)).mean(axis=0) for c in (exact, drawn))  # (check,)
        variance = _variance(float(of_exact.mean()), labels)
        found = math.sqrt(variance)
        spread = float(of_exact.std(ddof=1)) / labels / math.sqrt(len(columns))
        return GuessCheck(
            found,
            0.5 * spread / found if found else 0.0,
            math.sqrt(_variance(float(of_drawn.mean()), labels)) - found,
        )


def outputs_of_landmarks(state: LandmarkGram) -> LandmarkOutputs:
    """Split the outputs' covariance into what the landmarks span and what is each point's own."""
    number = state.landmarks.number
    first = state.columns[:number]
    inner = state.entries[first, :number] * state.scales[first, None] * state.scales[first]
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    values, vectors = values[::-1], vectors[:, ::-1]
    values = np.maximum(values, 0.0)
    spread = float(np.trace(inner) - inner.mean() * number)
    left = np.cumsum((values**2)[::-1])[::-1]  # squares of this direction and of those behind it
    kept = (left > _LEFT_OUT * spread**2) & (values > 1e-13 * values[0])
    kept[0] = True
    turned = vectors[:, kept] / np.sqrt(values[kept])
    half = (state.entries[:, :number] @ (state.scales[first, None] * turned)) * state.scales[:, None]
    diagonal = state.diagonal
    within = np.square(half).sum(axis=1)
    # rounding may give a landmark more than it has
    shrunk = np.sqrt(np.divide(diagonal, within, out=np.ones_like(within), where=within > diagonal))
    half *= shrunk[:, None]
    alone = np.sqrt(np.maximum(diagonal - within * shrunk**2, 0.0))
    alone[alone < 1e-7 * np.sqrt(diagonal)] = 0.0  # points that coincide get one label
    return LandmarkOutputs(half, alone)


def agreement_probability(labels: int) -> Callable[[Array], Array]:
    """P(c): the chance that two points of correlation c get one of M labels, the greatest output's.

    >>> chance = agreement_probability(3)
    >>> chance(np.array([0.0, 1.0])).round(6)
    array([0.333333, 1.      ])
    """
    if labels == 2:
        return lambda c: 0.5 + np.arcsin(c) / math.pi
    linear = activation("linear")
    winner = Winner(linear, Panels(linear), labels, 1.0)
    gain = JointGain(winner, winner)
    # an even grid in √θ: of many labels another is soon the greatest as θ grows from 0
    grid = np.linspace(0.0, math.sqrt(math.pi), _FEW_ANGLES + 1)
    values = gain(grid**2)
    values[0] = 1.0
    table = AngleTable.through(values)
    return lambda c: table(np.sqrt(np.arccos(c) * math.pi))


def _variance(agreement: float, labels: int) -> float:
    return max(agreement / labels - 1 / labels**2, 0.0)
