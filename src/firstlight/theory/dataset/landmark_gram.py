r"""A Gram state of many points that holds a few columns of its matrix.

Enters: K_ab for all n points a and for the landmarks b. Leaves: the same entries behind each move. Every move is
elementwise in (K_aa, K_bb, K_ab), hence exact, but for batch norm (``landmark_batch_norm.py``, and behind an activation
``landmark_unit_norm.py``). Memory: n × (m + q) numbers, twice while a layer is computed, a third time between an
activation and the norm behind it; never n × n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import DataError, UsageError
from firstlight.theory.dataset.dense_gram import absolute_variances
from firstlight.theory.dataset.drawn_units import source_of
from firstlight.theory.dataset.gram import Gram, Statistics, batches_of
from firstlight.theory.dataset.landmark_means import PairMeans, pair_means
from firstlight.theory.dataset.landmarks import Landmarks
from firstlight.theory.dataset.pairs import cores
from firstlight.theory.dataset.products import is_homogeneous, pair_averages
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.logarithms import Number, logarithm
from firstlight.theory.minibatch import MinibatchLaw
from firstlight.theory.propagation import NoRuleError

__all__ = ["LandmarkGram", "by_rows", "each_stripe", "landmark_gram_of_inputs"]

Array = NDArray[np.float64]

_DIRECTIONS = 32
"""Landmark directions among which the leading one is sought."""

_ROWS = 64
"""Points in a stripe: with a thousand columns it stays in a second-level cache."""


@dataclass(frozen=True, eq=False)
class LandmarkGram(Gram):
    """K_ab = e^s σ_a σ_b R_ab for the columns b of the landmarks.

    Attributes:
        entries: R (n, m + q); never changed in place.
        own: R_aa (n,).
        landmarks: Which points the columns are.
    """

    entries: Array = field(default_factory=lambda: np.empty((0, 0)))
    own: Array = field(default_factory=lambda: np.empty(0))
    landmarks: Landmarks = field(default_factory=lambda: Landmarks(np.empty(0, dtype=np.intp), 0))

    @property
    def diagonal(self) -> Array:
        """K_aa/e^s."""
        return np.asarray(self.scales**2 * self.own)

    @property
    def columns(self) -> NDArray[np.intp]:
        """Places of the landmarks and checks among the points."""
        return self.landmarks.columns

    @cached_property
    def means(self) -> PairMeans:
        """Averages over all pairs, over e^s."""
        return pair_means(self.entries, self.scales, self.diagonal, self.landmarks)

    def matrix(self) -> Array:
        """K/e^s, the columns that are carried (n, m + q)."""
        return self._entrywise(lambda rows, values: values)

    def among(self) -> Array:
        """K/e^s between the landmarks and checks."""
        at, scales = self.columns, self.scales[self.columns]
        return np.asarray(self.entries[at] * scales[:, None] * scales)

    def center_and_data(self) -> tuple[float, float]:
        """C/e^s and V/e^s."""
        return self.means.center, self.means.data

    def relative_error(self) -> float:
        """Standard error of V over V: of its average over pairs and of the layers before."""
        return math.hypot(self.error, self.means.stderr / self.means.data if self.means.data > 0 else 0.0)

    def statistics(
        self, *, matrix: Array | None = None, start: Array | None = None
    ) -> tuple[Statistics, Array | None]:
        """Averages over the data; given that a matrix was asked for, the leading direction as well."""
        found, _ = super().statistics()
        if math.isnan(self.log_scale):
            return found, start
        found = replace(found, log_error=self.log_scale + float(logarithm(self.means.stderr)))
        if matrix is None:
            return found, start
        roots = float(np.sqrt(self.diagonal).mean())
        mean_absolute = 0.5 * (math.log(2 / math.pi) + self.log_scale) + float(logarithm(roots))
        kurtosis = rank = math.nan
        if math.isfinite(found.log_data):
            own = self.means.own
            kurtosis = 3 * float(np.mean(own**2)) / float(np.mean(own)) ** 2
            rank = self.means.data * self.size / self._greatest_eigenvalue()
        return replace(found, kurtosis=kurtosis, log_mean_absolute=mean_absolute, effective_rank=rank), start

    def centered_times(self, vectors: Array) -> Array:
        """G times weights of the first columns, (column, …) → (point, …)."""
        means, at = self.means, self.columns[: len(vectors)]
        along = self.scales[:, None] * (self.entries[:, : len(at)] @ (self.scales[at, None] * vectors))
        along -= np.multiply.outer(means.rows - means.center, vectors.sum(axis=0))
        along -= means.rows[at] @ vectors
        return np.asarray(along)

    def leading_directions(self, count: int) -> tuple[Array, Array]:
        """Nyström's greatest eigenvalues of G, falling, and √λ times their vectors (n, count)."""
        means, first = self.means, self.columns[: self.landmarks.number]
        inner = self.entries[first, : len(first)] * self.scales[first, None] * self.scales[first]
        inner -= means.rows[first, None] + means.rows[first] - means.center
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
        values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
        kept = values > 1e-10 * values[0]
        half = self.centered_times(vectors[:, kept] / np.sqrt(values[kept]))
        found, turn = np.linalg.eigh(half.T @ half)
        return found[::-1], half @ turn[:, ::-1]

    def _greatest_eigenvalue(self) -> float:
        """λ_max(G): Nyström's, and what the checks say of what it leaves out."""
        eigenvalues, directions = self.leading_directions(_DIRECTIONS)
        value, vector = float(eigenvalues[0]), directions[:, 0] / math.sqrt(eigenvalues[0])
        checks, means = self.columns[self.landmarks.number :], self.means
        image = self.scales[checks] * ((self.scales * vector) @ self.entries[:, self.landmarks.number :])
        image -= float(means.rows @ vector) + (means.rows[checks] - means.center) * vector.sum()
        left = float(np.mean(vector[checks] * (image - value * vector[checks])))
        return value + left * (self.size - self.landmarks.number)

    def scale(self, log_factor: Number) -> Self:
        """Multiply by e^f."""
        return replace(
            self, log_scale=self.log_scale + float(log_factor), log_noise=self.log_noise + log_factor
        )

    def mix(self) -> LandmarkGram:
        """New Gaussian units."""
        return self.plain(common=None, gaussian=True, observed=False)

    def shift(self, variance: Number) -> LandmarkGram:
        """K + variance."""
        log_scale = max(self.log_scale, float(logarithm(float(variance))))
        ones, shrunk = math.exp(logarithm(float(variance)) - log_scale), math.exp(self.log_scale - log_scale)
        return self._with(
            self._entrywise(lambda rows, values: values * shrunk + ones),
            self.diagonal * shrunk + ones,
            log_scale=log_scale,
        )

    def center_units(self) -> LandmarkGram:
        """K − M Mᵀ."""
        if self.common is None:
            return self.plain()
        common, at = self.common, self.common[self.columns]
        diagonal = self.diagonal - common**2
        gone = (
            diagonal <= 1e-14 * self.diagonal
        )  # what is left of a point without spread over units is rounding
        diagonal[gone] = 0.0
        entries = self._entrywise(lambda rows, values: values - common[rows, None] * at)
        entries[gone] = 0.0
        entries[:, gone[self.columns]] = 0.0
        return self._with(entries, diagonal, common=None)

    def normalize_points(self) -> LandmarkGram:
        """Divide each point by its root mean square; a zero point passes as it is, noise and all."""
        diagonal = self.diagonal
        inverse = np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(diagonal), where=diagonal > 0)
        size = np.where(diagonal > 0, diagonal, 1.0)
        return self.plain(
            scales=self.scales * inverse,
            log_scale=0.0,
            log_noise=np.where(diagonal > 0, self.log_noise - np.log(size) - self.log_scale, self.log_noise),
            common=None if self.common is None else self.common * inverse,
        )

    def standardize_units(self, law: MinibatchLaw | None) -> Gram:  # type: ignore[override]
        """Batch norm over all the points."""
        from firstlight.theory.dataset.landmark_batch_norm import standardized
        from firstlight.theory.dataset.landmark_unit_norm import self_averaging, unit_by_unit

        if law is not None:
            raise UsageError("Gram.standardize_units: a data set has batches of its own, expected no law")
        if self.observed:
            raise NoRuleError("batch norm of the inputs themselves has no rule; standardize the data instead")
        if len(self.batches) > 1:
            raise NoRuleError(
                "batch norm over mini-batches has no rule for landmarks; take all points as one batch, "
                "or fewer points and landmarks=None"
            )
        if not self.means.data > 1e-12 * (self.means.center + self.means.data):
            raise NoRuleError(f"batch norm of {self.size} points that do not differ divides 0 by 0")
        if self.gaussian:
            return standardized(self)
        return self_averaging(self) if self.drawn is None else unit_by_unit(self)

    def average(self, kernel: Kernel) -> LandmarkGram:
        """F_ab = E φ(u_a) φ(u_b)."""
        diagonal = self.diagonal
        inverse = np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(diagonal), where=diagonal > 0)
        if is_homogeneous(kernel):
            top = float(diagonal.max(initial=0.0)) or 1.0
            q, log_scale = diagonal / top, self.log_scale + math.log(top)
        else:
            q, log_scale = absolute_variances(kernel, diagonal, self.log_scale)
        columns, at = self.columns, inverse[self.columns]
        pairs = pair_averages(kernel, q, greatest=lambda: self._greatest(inverse))

        def block(rows: slice, values: Array) -> Array:
            values *= inverse[rows, None]
            values *= at
            np.clip(values, -1.0, 1.0, out=values)
            return pairs.block(rows, columns, values)

        square = pairs.mean_square
        log_gain = np.log(np.maximum(pairs.gain, 1e-300))  # 0 only for a zero point where φ is flat
        return self._with(
            self._entrywise(block),
            np.broadcast_to(square, diagonal.shape).copy(),
            log_scale=log_scale,
            log_noise=self.log_noise + log_gain,
            common=np.broadcast_to(pairs.mean, diagonal.shape).copy(),
            gaussian=False,
            observed=False,
            drawn=source_of(self, kernel),
        )

    def _greatest(self, inverse: Array) -> float:
        """The greatest |c| between different points among those carried."""
        found = np.zeros(self.size)

        def look(rows: slice, values: Array) -> Array:
            values *= inverse[rows, None] * inverse[self.columns]
            np.abs(values, out=values)
            values[np.arange(rows.start, rows.stop)[:, None] == self.columns] = 0.0
            found[rows] = values.max(axis=1)
            return values

        self._entrywise(look)
        return min(float(found.max()), 1.0)

    def add(self, branch: Gram, log_weight: Number) -> LandmarkGram:
        """K + e^w K_branch."""
        assert isinstance(branch, LandmarkGram)
        weight = float(log_weight)
        log_scale = max(self.log_scale, branch.log_scale + weight)
        own, other = math.exp(self.log_scale - log_scale), math.exp(branch.log_scale + weight - log_scale)
        columns = self.columns

        def block(rows: slice, values: Array) -> Array:
            added = branch.entries[rows] * branch.scales[rows, None] * branch.scales[columns]
            return np.asarray(own * values + other * added)

        squares = [
            0.0 if common is None else factor * common**2
            for common, factor in ((self.common, own), (branch.common, other))
        ]
        either = self.common is not None or branch.common is not None
        return self._with(
            self._entrywise(block),
            own * self.diagonal + other * branch.diagonal,
            log_scale=log_scale,
            log_noise=np.logaddexp(self.log_noise, weight + branch.log_noise),
            common=np.sqrt(squares[0] + squares[1]) if either else None,
            gaussian=self.gaussian and branch.gaussian,
            observed=False,
            error=math.hypot(self.error, branch.error),
        )

    def shrink(self, size: int) -> LandmarkGram:
        """M M' + (K − M M')/k."""
        common = np.zeros(self.size) if self.common is None else self.common
        at = common[self.columns]
        return self._with(
            self._entrywise(lambda rows, values: values / size + (1 - 1 / size) * common[rows, None] * at),
            self.diagonal / size + (1 - 1 / size) * common**2,
            log_noise=self.log_noise - math.log(size),
            drawn=self.drawn and self.drawn.shrunk(size),
        )

    def plain(self, **changes: object) -> LandmarkGram:
        """A copy as plain columns, whatever made this one; it forgets how its units came about."""
        kept = (name for name in LandmarkGram.__dataclass_fields__ if name not in changes and name != "drawn")
        return LandmarkGram(**{**{name: getattr(self, name) for name in kept}, **changes})

    def _with(self, entries: Array, diagonal: Array, **changes: object) -> LandmarkGram:
        """A copy of these entries of K, its diagonal the same in both places."""
        entries[self.columns, np.arange(len(self.columns))] = diagonal[self.columns]
        return self.plain(entries=entries, own=diagonal, scales=np.ones(self.size), **changes)

    def _entrywise(self, function: Callable[[slice, Array], Array]) -> Array:
        """A function of stripes of K/e^s, which it may overwrite."""
        at = self.scales[self.columns]
        return by_rows(
            self.entries.shape,
            lambda rows: function(rows, self.entries[rows] * self.scales[rows, None] * at),
        )


def by_rows(shape: tuple[int, ...], stripe: Callable[[slice], Array]) -> Array:
    """Fill a matrix stripe by stripe."""
    matrix = np.empty(shape)

    def fill(rows: slice) -> None:
        matrix[rows] = stripe(rows)

    each_stripe(shape[0], fill)
    return matrix


def each_stripe(size: int, work: Callable[[slice], None]) -> None:
    """Call ``work`` on every stripe of points, on all cores: numpy's elementwise functions release the lock."""
    stripes = [slice(start, min(start + _ROWS, size)) for start in range(0, size, _ROWS)]
    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(work, stripes):
            pass


def landmark_gram_of_inputs(
    inputs: ArrayLike, landmarks: Landmarks, *, batch_size: int | None = None, seed: int = 0
) -> LandmarkGram:
    """Columns of X Xᵀ/d, perturbed by noise of mean square 1.

    >>> state = landmark_gram_of_inputs([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], Landmarks(np.array([1, 2]), 1))
    >>> (state.matrix() * np.exp(state.log_scale)).round(12)
    array([[0. , 0.5],
           [2. , 1. ],
           [1. , 1. ]])
    """
    points = np.asarray(inputs, dtype=np.float64)
    points = points.reshape(len(points), -1)
    size, coordinates = points.shape
    greatest = max(float(points.max(initial=0.0)), -float(points.min(initial=0.0)))
    if not math.isfinite(greatest):
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise DataError(f"inputs: expected finite numbers, got NaN or infinity in point {row}")
    unit = greatest or 1.0
    entries = (points @ (points[landmarks.columns] / unit).T) / (unit * coordinates)
    lengths = np.concatenate(
        [np.mean(np.square(points[start : start + _ROWS] / unit), axis=1) for start in range(0, size, _ROWS)]
    )
    entries[landmarks.columns, np.arange(len(landmarks.columns))] = lengths[landmarks.columns]
    return LandmarkGram(
        scales=np.ones(size),
        log_scale=2 * math.log(unit),
        log_noise=np.zeros(size),
        common=points.mean(axis=1) / unit,
        batches=batches_of(size, batch_size),
        observed=True,
        seed=seed,
        entries=entries,
        own=lengths,
        landmarks=landmarks,
    )
