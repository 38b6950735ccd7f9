r"""Dataset theory's state: the covariance of n given points in a wide layer.

    K_ab = e^s σ_a σ_b R_ab,      M_a = e^{s/2} m_a,      D_a

One logarithm s for all keeps a thousand layers inside float64, and the factors σ_a make dividing a point by its
size cost n, not n². R is a matrix (``dense_gram.py``) or one function of the inputs' correlations
(``composed_gram.py``).

The data are fixed, so the averages over them are plain: with H = I − 11ᵀ/n and G = HKH

    C = mean(K),  V = tr(G)/n,  kurtosis 3 ⟨G_aa²⟩/⟨G_aa⟩²,  ν1 = ⟨√(2K_aa/π)⟩,  r_eff = tr(G)/λ_max(G)

for Gaussian units; C and V for all.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.layers import AdaptivePool, Convolution, PositionPool
from firstlight.theory.covariance import Covariance, NoRuleError, Spread
from firstlight.theory.dataset.drawn_units import UnitSource
from firstlight.theory.logarithms import logarithm

__all__ = ["RESOLUTION", "Gram", "Statistics", "batches_of", "leading_eigenvalue", "log_mean_exp"]

Array = NDArray[np.float64]

RESOLUTION = 1e-13
"""V below this part of C + V is rounding of K and counts as 0."""


@dataclass(frozen=True)
class Statistics:
    """What remains of a layer once its matrix has gone.

    Attributes:
        log_center: log C.
        log_data: log V.
        log_noise: log D, averaged over the data.
        kurtosis: μ4/μ2² of Gaussian units.
        mean_absolute: log ν1 of Gaussian units.
        effective_rank: tr(HKH)/λ_max(HKH).
        law: Always None; population theory's word for units that are not Gaussian.
        gaussian: Whether units are Gaussian.
        error: Relative standard error that layers before have left in V where they had to be estimated.
        log_error: Logarithm of the standard error of C and of V from their own average over pairs.
    """

    log_center: float
    log_data: float
    log_noise: float
    log_total: float
    kurtosis: float = math.nan
    log_mean_absolute: float = math.nan
    effective_rank: float = math.nan
    law: None = None
    gaussian: bool = False
    error: float = 0.0
    log_error: float = -math.inf

    @property
    def log_noise_to_data(self) -> float:
        """Log D/V."""
        return self.log_noise - self.log_data


@dataclass(frozen=True, eq=False)
class Gram(Covariance):
    """Covariance of n points; see the module.

    Attributes:
        scales: σ_a (n,).
        log_scale: s.
        log_noise: log D_a (n,): one number a point.
        common: m_a (n,), or None where nothing is common to all units.
        gaussian: Whether units are Gaussian, so that an activation can be averaged.
        batches: What batch norm takes together.
        observed: Whether the units are the input coordinates themselves.
        error: Relative standard error of V that layers have left which had to be estimated, in quadrature.
        seed: Names the draws of sampled layers.
        sampled: Number of layers that were sampled so far, each by draws of its own.
        drawn: How a unit comes about, behind an activation and pools; for a norm that needs each unit.
    """

    scales: Array
    log_scale: float
    log_noise: Array
    common: Array | None = None
    gaussian: bool = False
    batches: tuple[slice, ...] = field(default=())
    observed: bool = False
    error: float = 0.0
    seed: int = 0
    sampled: int = 0
    drawn: UnitSource | None = None

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.scales)

    @property
    @abstractmethod
    def diagonal(self) -> Array:
        """K_aa/e^s (n,)."""

    @abstractmethod
    def matrix(self) -> Array:
        """K/e^s (n, n), for the caller to change."""

    def among(self) -> Array:
        """K/e^s between the points that are looked at one by one: all of them."""
        return self.matrix()

    @abstractmethod
    def center_and_data(self) -> tuple[float, float]:
        """C/e^s and V/e^s."""

    @property
    def zero_points(self) -> Array:
        """Which points this layer sees as nothing; they have no correlation with any other."""
        return np.asarray(self.diagonal == 0)

    def convolve(self, layer: Convolution) -> tuple[Self, Spread]:
        """Points have no positions here."""
        raise NoRuleError(
            "a convolution reads positions, and what comes here has none; expected (n, channels, …)"
        )

    def pool_positions(self, layer: PositionPool | AdaptivePool) -> tuple[Self, Spread]:
        """Points have no positions here."""
        raise NoRuleError(
            "a pool over positions reads what comes here without any; expected (n, channels, …)"
        )

    def statistics(
        self, *, matrix: Array | None = None, start: Array | None = None
    ) -> tuple[Statistics, Array | None]:
        """Averages over the data; given the matrix, also kurtosis, mean absolute value and effective rank.

        Args:
            matrix: What ``matrix()`` returned.
            start: Where the search for the leading direction begins.

        Returns:
            The statistics, and the leading direction of HKH.
        """
        if math.isnan(self.log_scale):
            return Statistics(math.nan, math.nan, math.nan, math.nan, gaussian=self.gaussian), start
        center, data = self.center_and_data()
        total = center + data
        if data <= RESOLUTION * total:
            data = 0.0
        kurtosis = mean_absolute = rank = math.nan
        direction = start
        if matrix is not None:
            mean_absolute = math.log(2 / math.pi) / 2 + float(logarithm(float(np.sqrt(self.diagonal).mean())))
            mean_absolute += 0.5 * self.log_scale
            if data > 0:
                row = matrix.mean(axis=1)
                own = matrix.diagonal() - 2 * row + row.mean()
                kurtosis = 3 * float(np.mean(own**2)) / float(np.mean(own)) ** 2
                greatest, direction = leading_eigenvalue(matrix, start)
                rank = data * self.size / greatest
        found = Statistics(
            self.log_scale + float(logarithm(center)),
            self.log_scale + float(logarithm(data)),
            log_mean_exp(self.log_noise),
            self.log_scale + float(logarithm(total)),
            kurtosis,
            mean_absolute,
            rank,
            gaussian=self.gaussian,
            error=self.error,
        )
        return found, direction


def batches_of(size: int, batch_size: int | None) -> tuple[slice, ...]:
    """Consecutive batches; the last may be smaller."""
    step = size if batch_size is None else batch_size
    return tuple(slice(start, min(start + step, size)) for start in range(0, size, step))


def log_mean_exp(logs: Array | Sequence[float]) -> float:
    """Logarithm of ⟨e^x⟩, with exact zeros."""
    values = np.asarray(logs, dtype=np.float64)
    top = float(values.max())
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.mean(np.exp(values - top))))


def leading_eigenvalue(matrix: Array, start: Array | None, *, most: int = 60) -> tuple[float, Array]:
    """Greatest eigenvalue of HKH by Lanczos with full orthogonalization, and its vector.

    Stops where two more steps change the value by less than 1e-9.
    """
    size = len(matrix)
    if start is None:
        start = np.zeros(size)
    # never a multiple of one eigenvector alone, from which there would be no way to a greater one
    vector = start + 0.03 * np.random.default_rng(size).standard_normal(size) / math.sqrt(size)
    vector -= vector.mean()
    vector /= np.linalg.norm(vector)
    basis = [vector]
    off: list[float] = []
    on: list[float] = []
    former = 0.0
    for step in range(min(most, size)):
        image = matrix @ basis[-1]
        image -= image.mean()
        on.append(float(image @ basis[-1]))
        stacked = np.array(basis)
        image -= stacked.T @ (stacked @ image)
        image -= stacked.T @ (stacked @ image)
        if step % 2 or step + 1 == min(most, size):
            values, vectors = np.linalg.eigh(np.diag(on) + np.diag(off, 1) + np.diag(off, -1))
            if abs(values[-1] - former) <= 1e-9 * abs(values[-1]):
                break
            former = float(values[-1])
        norm = float(np.linalg.norm(image))
        if norm <= 1e-13 * max(abs(on[0]), 1e-300):
            break
        off.append(norm)
        basis.append(image / norm)
    count = len(on)
    values, vectors = np.linalg.eigh(
        np.diag(on) + np.diag(off[: count - 1], 1) + np.diag(off[: count - 1], -1)
    )
    return float(values[-1]), np.asarray(np.array(basis[:count]).T @ vectors[:, -1])
