"""A Gram state that holds its matrix.

Enters: K of n points. Leaves: K behind each move; only ``average``, ``shift``, ``center_units``, ``add`` and
``shrink`` touch the n² entries, the other moves touch the n factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import UsageError
from firstlight.theory.dataset.drawn_units import source_of
from firstlight.theory.dataset.gram import Gram
from firstlight.theory.dataset.pairs import blocks, symmetric
from firstlight.theory.dataset.products import PairAverages, is_homogeneous, pair_averages
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.logarithms import Number, logarithm
from firstlight.theory.minibatch import MinibatchLaw
from firstlight.theory.propagation import NoRuleError

__all__ = ["DenseGram", "absolute_variances", "averaged_along"]

Array = NDArray[np.float64]

LIMIT = 300.0
"""|log K_aa| beyond which an activation is evaluated at the limit and continued by its behaviour there."""


@dataclass(frozen=True, eq=False)
class DenseGram(Gram):
    """K_ab = e^s σ_a σ_b R_ab with R stored.

    Attributes:
        entries: R (n, n), symmetric; never changed in place.
    """

    entries: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def diagonal(self) -> Array:
        """K_aa/e^s."""
        return np.asarray(self.scales**2 * self.entries.diagonal())

    def matrix(self) -> Array:
        """K/e^s."""
        return symmetric(
            self.size,
            lambda rows, columns: (
                self.entries[rows, columns] * self.scales[rows, None] * self.scales[columns]
            ),
        )

    def center_and_data(self) -> tuple[float, float]:
        """C/e^s and V/e^s."""
        if np.ptp(self.scales) == 0:
            center = float(self.entries.mean()) * float(self.scales[0]) ** 2
        else:
            center = float(self.scales @ (self.entries @ self.scales)) / self.size**2
        return max(center, 0.0), max(float(self.diagonal.mean()) - center, 0.0)

    def scale(self, log_factor: Number) -> Self:
        """Multiply by e^f."""
        return replace(
            self, log_scale=self.log_scale + float(log_factor), log_noise=self.log_noise + log_factor
        )

    def mix(self) -> DenseGram:
        """New Gaussian units."""
        return self.plain(common=None, gaussian=True, observed=False)

    def shift(self, variance: Number) -> DenseGram:
        """K + variance."""
        log_scale = max(self.log_scale, float(logarithm(float(variance))))
        ones, shrunk = math.exp(logarithm(float(variance)) - log_scale), math.exp(self.log_scale - log_scale)
        matrix = self.matrix()
        matrix *= shrunk
        matrix += ones
        return self.plain(entries=matrix, scales=np.ones(self.size), log_scale=log_scale)

    def center_data(self) -> DenseGram:
        """H K H."""
        matrix = self.matrix()
        means = matrix.mean(axis=0)
        matrix -= means
        matrix -= (means - means.mean())[:, None]
        gone = matrix.diagonal() <= 1e-14 * self.diagonal  # what is left is rounding
        matrix[gone] = 0.0
        matrix[:, gone] = 0.0
        return self.plain(entries=matrix, scales=np.ones(self.size))

    def center_units(self) -> DenseGram:
        """K − M Mᵀ."""
        if self.common is None:
            return self.plain()
        common = self.common
        matrix = symmetric(
            self.size,
            lambda rows, columns: (
                self.entries[rows, columns] * self.scales[rows, None] * self.scales[columns]
                - common[rows, None] * common[columns]
            ),
        )
        # what is left of a point without spread over units is rounding
        gone = matrix.diagonal() <= 1e-14 * self.diagonal
        matrix[gone] = 0.0
        matrix[:, gone] = 0.0
        return self.plain(entries=matrix, scales=np.ones(self.size), common=None)

    def normalize_points(self) -> DenseGram:
        """Divide each point by its root mean square; a zero point passes as it is, noise and all."""
        diagonal = self.diagonal
        inverse = np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(diagonal), where=diagonal > 0)
        common = None if self.common is None else self.common * inverse
        size = np.where(diagonal > 0, diagonal, 1.0)
        return self.plain(
            scales=self.scales * inverse,
            log_scale=0.0,
            log_noise=np.where(diagonal > 0, self.log_noise - np.log(size) - self.log_scale, self.log_noise),
            common=common,
        )

    def standardize_units(self, law: MinibatchLaw | None) -> Gram:  # type: ignore[override]
        """Batch norm over ``batches``: of Gaussian units exactly, of others unit by unit or by their mean variance."""
        from firstlight.theory.dataset.standardized_gram import self_averaging, standardized

        if law is not None:
            raise UsageError("Gram.standardize_units: a data set has batches of its own, expected no law")
        if self.observed:
            raise NoRuleError("batch norm of the inputs themselves has no rule; standardize the data instead")
        if self.gaussian:
            return standardized(self)
        if self.drawn is None:
            return self_averaging(self)
        from firstlight.theory.dataset.unit_norm import unit_by_unit

        return unit_by_unit(self)

    def average(self, kernel: Kernel) -> Gram:  # type: ignore[override]
        """F_ab = E φ(u_a) φ(u_b)."""
        diagonal = self.diagonal
        inverse = np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(diagonal), where=diagonal > 0)
        factor = inverse * self.scales
        if is_homogeneous(kernel):
            top = float(diagonal.max(initial=0.0)) or 1.0
            q, log_scale = diagonal / top, self.log_scale + math.log(top)
        else:
            q, log_scale = absolute_variances(kernel, diagonal, self.log_scale)
        pairs = pair_averages(kernel, q, greatest=lambda: self._greatest(factor))

        def block(rows: slice, columns: slice) -> Array:
            c = self.entries[rows, columns] * factor[rows, None]
            c *= factor[columns]
            np.clip(c, -1.0, 1.0, out=c)
            return pairs.block(rows, columns, c)

        matrix = symmetric(self.size, block)
        np.fill_diagonal(matrix, pairs.mean_square)
        return replace(averaged_along(self, pairs, matrix, log_scale), drawn=source_of(self, kernel))

    def _greatest(self, factor: Array) -> float:
        """The greatest |c| between different points."""
        found = 0.0
        for rows, columns in blocks(self.size):
            c = np.abs(self.entries[rows, columns]) * factor[rows, None] * factor[columns]
            if rows == columns:
                np.fill_diagonal(c, 0.0)
            found = max(found, float(c.max()))
        return min(found, 1.0)

    def add(self, branch: Gram, log_weight: Number) -> DenseGram:
        """K + e^w K_branch."""
        weight = float(log_weight)
        log_scale = max(self.log_scale, branch.log_scale + weight)
        own, other = math.exp(self.log_scale - log_scale), math.exp(branch.log_scale + weight - log_scale)
        matrix = self.matrix()
        matrix *= own
        added = branch.matrix()
        added *= other
        matrix += added
        common = _common_sum(self.common, branch.common, own, other)
        return self.plain(
            entries=matrix,
            scales=np.ones(self.size),
            log_scale=log_scale,
            log_noise=np.logaddexp(self.log_noise, weight + branch.log_noise),
            common=common,
            gaussian=self.gaussian and branch.gaussian,
            observed=False,
            error=math.hypot(self.error, branch.error),
        )

    def shrink(self, size: int) -> DenseGram:
        """M M' + (K − M M')/k."""
        matrix = self.matrix()
        matrix /= size
        if self.common is not None:
            matrix += (1 - 1 / size) * np.multiply.outer(self.common, self.common)
        return self.plain(
            entries=matrix,
            scales=np.ones(self.size),
            log_noise=self.log_noise - math.log(size),
            drawn=self.drawn and self.drawn.shrunk(size),
        )

    def plain(self, **changes: object) -> DenseGram:
        """A copy as a plain matrix, whatever made this one; it forgets the units before an activation."""
        kept = (name for name in DenseGram.__dataclass_fields__ if name not in changes and name != "drawn")
        fields = {name: getattr(self, name) for name in kept}
        return DenseGram(**{**fields, **changes})


def averaged_along(before: Gram, pairs: PairAverages, matrix: Array, log_scale: float) -> DenseGram:
    """The state behind an activation, given its matrix."""
    log_gain = np.log(np.maximum(pairs.gain, 1e-300))  # 0 only for a zero point where φ is flat
    return DenseGram(
        scales=np.ones(before.size),
        log_scale=log_scale,
        log_noise=before.log_noise + log_gain,
        common=pairs.mean,
        batches=before.batches,
        error=before.error,
        seed=before.seed,
        sampled=before.sampled,
        entries=matrix,
    )


def absolute_variances(kernel: Kernel, diagonal: Array, log_scale: float) -> tuple[Array, float]:
    """q_a inside float64, and the logarithm that the result must be multiplied by where they were not.

    Beyond the limits φ is proportional to u (φ(0) = 0 below, unbounded above) or constant.
    """
    positive = diagonal[diagonal > 0]
    if not positive.size:
        return diagonal, 0.0
    top = log_scale + math.log(float(positive.max()))
    excess = top - min(max(top, -LIMIT), LIMIT)
    q = diagonal * math.exp(log_scale - excess) if abs(log_scale - excess) < 700 else np.zeros_like(diagonal)
    if excess == 0:
        return q, 0.0
    if excess < 0:
        proportional = float(kernel.function.value(np.zeros(1))[0]) == 0
    else:
        proportional = float(np.abs(kernel.function.value(np.array([-1e150, 1e150]))).max()) > 1e100
    return q, excess if proportional else 0.0


def _common_sum(own: Array | None, other: Array | None, weight: float, branch_weight: float) -> Array | None:
    if own is None and other is None:
        return None
    parts = [0.0 if x is None else np.square(x) * w for x, w in ((own, weight), (other, branch_weight))]
    return np.asarray(np.sqrt(parts[0] + parts[1]))
