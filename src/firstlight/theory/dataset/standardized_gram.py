r"""Batch norm of a data set: the one layer that is not elementwise.

For Gaussian units z ~ N(0, K) a unit that was normalized over a batch of B points is ẑ = √B z̃/|z̃|, z̃ = H z,
whatever its scale. What an activation makes of it:

- homogeneous φ, one batch: exactly, as an integral over Gaussian averages (``norm_quadrature.py``);
- all else (another φ; two points in different batches, each normalized by the length of its own): E φ(y_a) φ(y_b)
of the Gaussian y with the
  mean variance, in closed form, plus the mean of φ(ẑ_a) φ(ẑ_b) − φ(y_a) φ(y_b) over drawn units. The difference
  is small where many directions carry the variance, and its standard error is kept in the state.

Units that are not Gaussian (φ → BN) are taken one by one in ``unit_norm.py``. Where the Gaussian units before them are
not at hand (another norm between), each unit's variance is replaced by the mean over units: exact as
the number of directions grows. Noise meets 1/s² with the statistics held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from firstlight.errors import DataError
from firstlight.theory.dataset.dense_gram import DenseGram
from firstlight.theory.dataset.norm_quadrature import LengthRule, inverse_square_length, length_rule
from firstlight.theory.dataset.pairs import symmetric
from firstlight.theory.dataset.products import PairAverages, is_homogeneous, pair_averages
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.kernels.max_pool import MaxPoolKernel
from firstlight.theory.kernels.remembered import RememberedKernel
from firstlight.theory.propagation import NoRuleError

__all__ = ["DRAWS", "UNITS_AT_ONCE", "StandardizedGram", "self_averaging", "standardized", "whitened"]

Array = NDArray[np.float64]

DRAWS = 16_384
UNITS_AT_ONCE = 2048
"""Units of one layer that are drawn and whitened together."""
_NEGLIGIBLE = 1e-13


@dataclass(frozen=True)
class _Batch:
    """One batch of centred Gaussian units: G = U λ Uᵀ."""

    place: slice
    eigenvalues: Array
    vectors: Array
    rule: LengthRule

    @property
    def size(self) -> int:
        return int(self.place.stop - self.place.start)

    def tilted(self, s: float) -> Array:
        """B·G_s."""
        half = self.vectors * np.sqrt(self.size * self.eigenvalues / (1 + 2 * s * self.eigenvalues))
        return np.asarray(half @ half.T)

    @cached_property
    def covariance(self) -> Array:
        """E ẑẑᵀ."""
        s, weights = self.rule.fine_nodes, self.rule.fine_weights
        spectrum = (self.eigenvalues[:, None] / (1 + 2 * np.multiply.outer(self.eigenvalues, s))) @ weights
        half = self.vectors * np.sqrt(self.size * spectrum)
        return np.asarray(half @ half.T)


@dataclass(frozen=True, eq=False)
class StandardizedGram(DenseGram):
    """Units ẑ behind batch norm, not Gaussian but known exactly: ``entries`` are their covariance.

    Attributes:
        parts: The batches.
        centered: Covariance of z̃ over all points, each batch scaled to mean variance 1.
    """

    parts: tuple[_Batch, ...] = ()
    centered: Array = field(default_factory=lambda: np.empty((0, 0)))

    def average(self, kernel: Kernel) -> DenseGram:  # type: ignore[override]
        """E φ(ẑ_a) φ(ẑ_b)."""
        if isinstance(kernel, RememberedKernel):
            kernel = kernel.kernel
        if isinstance(kernel, MaxPoolKernel) and kernel.size > 1:
            raise NoRuleError(
                "max-pooling behind batch norm has no rule for a data set: each unit has its own length"
            )
        if is_homogeneous(kernel):
            exact = [self._exact(part, kernel) for part in self.parts]
            if len(exact) == 1:
                matrix, mean = exact[0]
                return self._after(matrix, mean, np.log(np.asarray(kernel.gain(np.ones(self.size)))), 0.0)
            matrix, mean, log_gain, error = self._sampled(kernel)
            for part, (block, of_block) in zip(self.parts, exact, strict=True):
                matrix[part.place, part.place] = block
                mean[part.place] = of_block
            return self._after(matrix, mean, log_gain, error)
        return self._after(*self._sampled(kernel))

    def _after(self, matrix: Array, mean: Array, log_gain: Array, error: float) -> DenseGram:
        return self.plain(
            entries=matrix,
            scales=np.ones(self.size),
            log_scale=0.0,
            log_noise=self.log_noise + log_gain,
            common=mean,
            gaussian=False,
            error=math.hypot(self.error, error),
        )

    def _exact(self, part: _Batch, kernel: Kernel) -> tuple[Array, Array]:
        """The integral over s, for one batch."""
        total = np.zeros((part.size, part.size))
        for s, weight in zip(part.rule.nodes, part.rule.weights, strict=True):
            tilted = part.tilted(float(s))
            variances = tilted.diagonal().copy()
            pairs = pair_averages(kernel, variances)
            inverse = np.divide(1.0, np.sqrt(variances), out=np.zeros_like(variances), where=variances > 0)

            def block(
                rows: slice,
                columns: slice,
                tilted: Array = tilted,
                inverse: Array = inverse,
                pairs: PairAverages = pairs,
                weight: float = float(weight),
            ) -> Array:
                c = tilted[rows, columns] * inverse[rows, None]
                c *= inverse[columns]
                np.clip(c, -1.0, 1.0, out=c)
                values = pairs.block(rows, columns, c)
                values *= weight
                return values

            total += symmetric(part.size, block)
        np.fill_diagonal(total, float(kernel.mean_square(1.0)) * part.covariance.diagonal())
        s, weights = part.rule.fine_nodes, part.rule.fine_weights
        spectra = part.eigenvalues[:, None] / (1 + 2 * np.multiply.outer(part.eigenvalues, s))
        deviations = np.sqrt(part.size * (np.square(part.vectors) @ spectra))
        mean = float(kernel.mean(1.0)) * (deviations @ (weights / np.sqrt(math.pi * s)))
        return total, np.asarray(mean)

    def _sampled(self, kernel: Kernel) -> tuple[Array, Array, Array, float]:
        """The Gaussian with the mean variance, plus what the drawn units say of the difference."""
        values, vectors = np.linalg.eigh(self.centered)
        kept = values > _NEGLIGIBLE * values[-1]
        half = vectors[:, kept] * np.sqrt(values[kept])
        generator = np.random.default_rng(self.seed)
        function, q = kernel.function, self.centered.diagonal().copy()
        difference = np.zeros((self.size, self.size))
        mean, gain = np.zeros(self.size), np.zeros(self.size)
        sums = []
        for _ in range(DRAWS // UNITS_AT_ONCE):
            gaussian = half @ whitened(half.shape[1], generator)  # (sample, unit)
            factor = np.empty_like(gaussian)
            for part in self.parts:
                mean_square = np.mean(gaussian[part.place] ** 2, axis=0)
                factor[part.place] = 1 / np.sqrt(mean_square)
            normalized = gaussian * factor
            ours, theirs = function.value(normalized), function.value(gaussian)
            difference += ours @ ours.T - theirs @ theirs.T
            mean += (ours - theirs).sum(axis=1)
            gain += (function.derivative(normalized) ** 2 * factor**2).sum(axis=1)
            spread = ours.var(axis=0) - theirs.var(axis=0)
            sums.append(spread)
        pairs = pair_averages(kernel, q)
        inverse = np.divide(1.0, np.sqrt(q), out=np.zeros_like(q), where=q > 0)

        def block(rows: slice, columns: slice) -> Array:
            c = self.centered[rows, columns] * inverse[rows, None]
            c *= inverse[columns]
            return pairs.block(rows, columns, np.clip(c, -1.0, 1.0))

        matrix = symmetric(self.size, block)
        np.fill_diagonal(matrix, pairs.mean_square)
        matrix += difference / DRAWS
        data = float(matrix.diagonal().mean() - matrix.mean())
        groups = np.array(
            [chunk.mean() for chunk in sums]
        )  # whitened draws are dependent inside a chunk only
        error = float(groups.std(ddof=1)) / math.sqrt(len(groups)) / data if data > 0 else 0.0
        held = np.empty(self.size)  # what log_noise already carries: E 1/s² in units of the mean variance
        for part in self.parts:
            held[part.place] = part.eigenvalues.sum() * inverse_square_length(part.eigenvalues)
        with np.errstate(divide="ignore"):
            log_gain = np.log(gain / DRAWS) - np.log(held)
        if not np.isfinite(held).all():
            log_gain = np.log(np.asarray(pairs.gain))
        return matrix, pairs.mean + mean / DRAWS, log_gain, error


def whitened(directions: int, generator: np.random.Generator) -> Array:
    """Standard normal units ``(direction, unit)``; mean 0 and covariance 1 exactly where units are many.

    What remains of the error is then of second order in the length's fluctuations.
    """
    draws = generator.standard_normal((directions, UNITS_AT_ONCE))
    if directions > UNITS_AT_ONCE // 4:
        return draws
    draws -= draws.mean(axis=1, keepdims=True)
    root = np.linalg.cholesky(draws @ draws.T / UNITS_AT_ONCE)
    return np.asarray(solve_triangular(root, draws, lower=True, overwrite_b=True, check_finite=False))


def standardized(state: DenseGram) -> StandardizedGram:
    """Batch norm of Gaussian units."""
    matrix = state.matrix()
    _center(matrix, state.batches)
    log_noise = state.log_noise - state.log_scale
    covariance = np.zeros_like(matrix)
    parts = []
    for place in state.batches:
        block = matrix[place, place]
        _check(place, float(np.trace(block)), float(state.diagonal[place].sum()))
        values, vectors = np.linalg.eigh(block)
        kept = values > _NEGLIGIBLE * values[-1]
        part = _Batch(place, values[kept], vectors[:, kept], length_rule(values[kept]))
        log_noise[place] += math.log(part.size) + math.log(inverse_square_length(part.eigenvalues))
        covariance[place, place] = part.covariance
        parts.append(part)
    factor = np.empty(state.size)
    for part in parts:
        factor[part.place] = math.sqrt(part.size / part.eigenvalues.sum())
    matrix *= factor[:, None]
    matrix *= factor
    if len(parts) > 1:  # between batches to leading order in 1/directions; no activation reads it
        within = covariance
        covariance = matrix.copy()
        for part in parts:
            covariance[part.place, part.place] = within[part.place, part.place]
    plain = state.plain(
        entries=covariance,
        scales=np.ones(state.size),
        log_scale=0.0,
        log_noise=log_noise,
        common=None,
        gaussian=True,
    )
    fields = {name: getattr(plain, name) for name in DenseGram.__dataclass_fields__}
    return StandardizedGram(**fields, parts=tuple(parts), centered=matrix)


def self_averaging(state: DenseGram) -> DenseGram:
    """Batch norm of units that are not Gaussian: the mean variance over units stands for each unit's own."""
    matrix = state.matrix()
    _center(matrix, state.batches)
    log_noise = state.log_noise - state.log_scale
    factor = np.empty(state.size)
    for place in state.batches:
        trace = float(np.trace(matrix[place, place]))
        _check(place, trace, float(state.diagonal[place].sum()))
        variance = trace / (place.stop - place.start)
        factor[place] = 1 / math.sqrt(variance)
        log_noise[place] -= math.log(variance)
    matrix *= factor[:, None]
    matrix *= factor
    return state.plain(
        entries=matrix, scales=np.ones(state.size), log_scale=0.0, log_noise=log_noise, common=None
    )


def _center(matrix: Array, batches: tuple[slice, ...]) -> None:
    """H K H with H block by block, in place; symmetric to the last bit."""
    for place in batches:
        matrix[place] -= matrix[place].mean(axis=0)
    for place in batches:
        matrix[:, place] -= matrix[:, place].mean(axis=1, keepdims=True)
    symmetric(
        len(matrix), lambda rows, columns: 0.5 * (matrix[rows, columns] + matrix[columns, rows].T), out=matrix
    )


def _check(place: slice, trace: float, total: float) -> None:
    size = place.stop - place.start
    if size == 1:
        raise DataError(
            "batch norm: the last batch has one point, which is 0 whatever the point; "
            "choose a batch size that leaves no single point"
        )
    if not trace > 1e-12 * total:
        raise NoRuleError(f"batch norm of {size} points that do not differ divides 0 by 0")
