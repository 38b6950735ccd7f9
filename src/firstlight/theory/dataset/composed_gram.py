r"""A Gram state that is one function of the inputs' angles: K_ab = e^s σ_a σ_b (1 − ρ(θ_ab)), ρ(0) = 0.

A homogeneous activation maps correlations to correlations by the same function at every variance, and any
activation does so where all points have one variance (behind a layer norm or RMS norm). Such maps compose: twenty
layers are twenty operations on a grid of angles, and the n² pairs are visited once, when somebody asks for the
matrix. ρ is carried, not the correlation, so that points that a deep network has drawn together keep their
difference to full relative precision.

C and V come from a histogram of the angles, made once: V is the mean over pairs of ½(σ_a − σ_b)² + σ_a σ_b
ρ(θ_ab), no difference in it. Moves that leave this form (biases on points of different size, batch norm, …)
return a ``DenseGram``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Self

import numpy as np
from numpy.typing import NDArray

from firstlight.theory.dataset.angles import AngleTable, PairHistogram, angles_of_grid
from firstlight.theory.dataset.dense_gram import DenseGram, absolute_variances
from firstlight.theory.dataset.drawn_units import source_of
from firstlight.theory.dataset.gram import Gram
from firstlight.theory.dataset.pairs import each_block, symmetric
from firstlight.theory.dataset.products import is_homogeneous, pair_averages
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.kernels.piecewise_linear import PiecewiseLinearKernel
from firstlight.theory.logarithms import Number
from firstlight.theory.minibatch import MinibatchLaw

__all__ = ["INTERVALS", "Angles", "ComposedGram"]

Array = NDArray[np.float64]

INTERVALS = 4096
"""Of the grid of angles: a cubic spline on it leaves out less than 1e-12, at depth 1,000 too."""


@dataclass(frozen=True, eq=False)
class Angles:
    """The angles of all pairs of inputs, with their histograms.

    Attributes:
        theta: (n, n), 0 on the diagonal.
        lengths: Root mean square of each point (n,).
    """

    theta: Array
    lengths: Array

    @cached_property
    def even(self) -> PairHistogram:
        """All pairs alike."""
        return self._histogram(None)

    @cached_property
    def by_length(self) -> PairHistogram:
        """Pairs weighted by the product of their lengths."""
        return self._histogram(self.lengths)

    def _histogram(self, lengths: Array | None) -> PairHistogram:
        total, lock = PairHistogram.empty(INTERVALS), Lock()

        def count(rows: slice, columns: slice) -> None:
            part = PairHistogram.empty(INTERVALS)
            weights = None if lengths is None else np.multiply.outer(lengths[rows], lengths[columns])
            part.add(self.theta[rows, columns], weights)
            with lock:
                total.moments.__iadd__((1.0 if rows == columns else 2.0) * part.moments)

        each_block(len(self.lengths), count)
        return total


@dataclass(frozen=True, eq=False)
class ComposedGram(Gram):
    """See the module.

    Attributes:
        angles: Of the inputs.
        distances: ρ on the grid (N + 1,).
        uniform: Whether all σ_a are equal; else they are proportional to the inputs' lengths.
    """

    angles: Angles = field(default_factory=lambda: Angles(np.empty((0, 0)), np.empty(0)))
    distances: Array = field(default_factory=lambda: 1 - np.cos(angles_of_grid(INTERVALS)))
    uniform: bool = False

    @property
    def diagonal(self) -> Array:
        """K_aa/e^s."""
        return np.asarray(self.scales**2)

    def matrix(self) -> Array:
        """K/e^s."""
        table = AngleTable.through(1 - self.distances)

        def block(rows: slice, columns: slice) -> Array:
            values = table(self.angles.theta[rows, columns])
            if not self.uniform:
                values *= self.scales[rows, None]
                values *= self.scales[columns]
            elif self.scales[0] != 1:
                values *= self.scales[0] ** 2
            return values

        matrix = symmetric(self.size, block)
        np.fill_diagonal(matrix, self.diagonal)
        return matrix

    def center_and_data(self) -> tuple[float, float]:
        """C/e^s and V/e^s from the histogram."""
        table = AngleTable.through(self.distances)
        pairs = self.size**2
        if self.uniform:
            data = self.scales[0] ** 2 * self.angles.even.total(table) / pairs
            total = self.scales[0] ** 2
        else:
            ratio = self.scales.max() / self.angles.lengths.max() if self.scales.any() else 0.0
            data = float(np.var(self.scales)) + ratio**2 * self.angles.by_length.total(table) / pairs
            total = float(np.mean(self.scales**2))
        return max(float(total - data), 0.0), max(float(data), 0.0)

    def dense(self) -> DenseGram:
        """The same state with its matrix."""
        names = (
            name for name in Gram.__dataclass_fields__ if name not in ("scales", "batches")
        )  # kept as they are
        return DenseGram(
            scales=np.ones(self.size),
            batches=self.batches,
            entries=self.matrix(),
            **{name: getattr(self, name) for name in names},
        )

    def scale(self, log_factor: Number) -> Self:
        """Multiply by e^f."""
        return replace(
            self, log_scale=self.log_scale + float(log_factor), log_noise=self.log_noise + log_factor
        )

    def mix(self) -> Self:
        """New Gaussian units."""
        return replace(self, common=None, gaussian=True, observed=False, drawn=None)

    def shift(self, variance: Number) -> Gram:  # type: ignore[override]
        """K + variance: the same form where all points have one size."""
        if not self.uniform:
            return self.dense().shift(variance)
        added = float(variance)
        log_total = float(np.logaddexp(self.log_scale + 2 * math.log(self.scales[0]), math.log(added)))
        kept = math.exp(self.log_scale + 2 * math.log(self.scales[0]) - log_total)
        return replace(self, scales=np.ones(self.size), log_scale=log_total, distances=self.distances * kept)

    def center_data(self) -> Gram:  # type: ignore[override]
        """H K H mixes all pairs: continue with the matrix."""
        return self.dense().center_data()

    def center_units(self) -> Gram:  # type: ignore[override]
        """K − M Mᵀ: M_a is a multiple of σ_a, but for the inputs."""
        if self.common is None:
            return self
        if self.observed:
            return self.dense().center_units()
        left = 1 - self._common_part
        return replace(
            self,
            scales=self.scales * math.sqrt(left),
            distances=self.distances / left,
            common=None,
            drawn=None,
        )

    def normalize_points(self) -> Gram:  # type: ignore[override]
        """σ_a → 1; a zero point keeps the matrix, where it has no angle."""
        if self.zero_points.any():
            return self.dense().normalize_points()
        return replace(
            self,
            scales=np.ones(self.size),
            log_scale=0.0,
            log_noise=self.log_noise - np.log(self.diagonal) - self.log_scale,
            common=None if self.common is None else self.common / self.scales,
            uniform=True,
            drawn=None,
        )

    def standardize_units(self, law: MinibatchLaw | None) -> Gram:  # type: ignore[override]
        """Batch norm mixes all pairs: continue with the matrix."""
        return self.dense().standardize_units(law)

    def average(self, kernel: Kernel) -> Gram:  # type: ignore[override]
        """The map of one layer, on the grid of angles."""
        homogeneous = is_homogeneous(kernel)
        if not (homogeneous or self.uniform):
            return self.dense().average(kernel)
        if homogeneous:  # the factors σ_a stay, so that no depth can bring them to nothing
            q, log_scale, scales = 1.0, self.log_scale, self.scales
        else:
            variances, log_scale = absolute_variances(kernel, self.diagonal[:1], self.log_scale)
            q, scales = float(variances[0]), np.ones(self.size)
        square, distances = _mapped(kernel, q, self.distances)
        mean = float(kernel.mean(q)) / math.sqrt(square)
        log_gain = math.log(float(kernel.gain(q))) if float(kernel.gain(q)) > 0 else -math.inf
        return replace(
            self,
            scales=scales,
            log_scale=log_scale + math.log(square),
            log_noise=self.log_noise + log_gain,
            common=scales * mean,
            distances=distances,
            gaussian=False,
            drawn=source_of(self, kernel),
        )

    def add(self, branch: Gram, log_weight: Number) -> Gram:  # type: ignore[override]
        """K + e^w K_branch: the same form where both are of one form over the same angles."""
        alike = isinstance(branch, ComposedGram) and branch.angles is self.angles
        if not (
            alike
            and isinstance(branch, ComposedGram)
            and branch.uniform == self.uniform
            and self.common is None
            and branch.common is None
        ):
            return self.dense().add(branch, log_weight)
        weight = float(log_weight)
        positive = int(np.argmax(self.scales))
        own = self.log_scale + 2 * math.log(self.scales[positive])
        other = branch.log_scale + weight + 2 * math.log(branch.scales[positive])
        total = float(np.logaddexp(own, other))
        share = math.exp(own - total)
        return replace(
            self,
            scales=self.scales / self.scales[positive],
            log_scale=total,
            log_noise=np.logaddexp(self.log_noise, weight + branch.log_noise),
            distances=share * self.distances + (1 - share) * branch.distances,
            gaussian=self.gaussian and branch.gaussian,
            observed=False,
            error=math.hypot(self.error, branch.error),
            drawn=None,
        )

    def shrink(self, size: int) -> Gram:  # type: ignore[override]
        """M M' + (K − M M')/k: ρ falls by k, and so does what is not common."""
        if self.observed:
            return self.dense().shrink(size)
        part = self._common_part if self.common is not None else 0.0
        left = part + (1 - part) / size
        return replace(
            self,
            scales=self.scales * math.sqrt(left),
            log_noise=self.log_noise - math.log(size),
            distances=self.distances / (size * left),
            drawn=self.drawn and self.drawn.shrunk(size),
        )

    @property
    def _common_part(self) -> float:
        """M_a²/K_aa, the same for all points."""
        assert self.common is not None
        at = int(np.argmax(self.scales))
        if self.scales[at] == 0:
            return 0.0  # of points that are all nothing
        return float(self.common[at] / self.scales[at]) ** 2


def _mapped(kernel: Kernel, q: float, distances: Array) -> tuple[float, Array]:
    """E φ² and the new ρ: without a difference where one kink at 0 allows it, else by the pair average."""
    square = float(kernel.mean_square(q))
    if isinstance(kernel, PiecewiseLinearKernel):
        slope = kernel.transfer(np.full_like(distances, q), 1 - distances, distances).data_slope
        return square, np.asarray(slope * distances * (q / square))
    variances = np.full(len(distances), q)
    values = pair_averages(kernel, variances).block(
        slice(0, 1), slice(None), np.clip(1 - distances, -1, 1)[None, :].copy()
    )[0]
    moved = 1 - values / square
    moved[distances == 0] = 0.0
    return square, np.maximum(moved, 0.0)
