r"""Covariance of pictures: a unit stands at a position, and so does each number of the state.

    K[(p, a), (q, b)] = e^s σ_pa σ_qb R      over positions p, q and points a, b

A convolution draws one weight for each offset of its kernel and uses it at every position, so it needs the pairs at
equal offsets only: K′_pq = σ_w²/|k| Σ_o K_{p+o, q+o}. Two states follow from that:

    all pairs of positions     what pooling over positions, batch norm (over points and positions) and C, V of a
                               convolution need: n² P(P + 1)/2 numbers
    the same position, p = q   closed under convolutions and activations, and all that flattening reads, for units
                               at different positions have weights of their own in the dense layer: n² P numbers

Rows (p, a) are what measurement calls samples: positions count as samples, channels as units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.layers import AdaptivePool, Convolution, Norm, PositionPool
from firstlight.errors import UsageError
from firstlight.theory.covariance import NoRuleError, Spread
from firstlight.theory.dataset.dense_gram import DenseGram, absolute_variances
from firstlight.theory.dataset.gram import RESOLUTION, Gram, Statistics, leading_eigenvalue, log_mean_exp
from firstlight.theory.dataset.position_pairs import (
    PairMatrix,
    PositionPairs,
    in_parallel,
    weighted,
    windowed,
)
from firstlight.theory.dataset.positions import NOTHING, axis_index, pool_matrix, pooled_shape, sources
from firstlight.theory.dataset.products import PairAverages, is_homogeneous, pair_averages
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.kernels.max_pool import MaxPoolKernel
from firstlight.theory.logarithms import Number, logarithm
from firstlight.theory.minibatch import MinibatchLaw

__all__ = ["ImageGram", "averaged_block"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_SHOWN = 1000
"""Rows between which correlations are looked at."""


@dataclass(frozen=True, eq=False)
class ImageGram(Gram):
    """See the module; the inherited arrays have one number for each row (p, a), in this order.

    Attributes:
        entries: R (pair, point, point); never changed in place.
        shape: Of the grid of positions.
        channels: Units at each position.
        everything: Whether all pairs of positions are held, else p = q only.
    """

    entries: Array = field(default_factory=lambda: np.empty((0, 0, 0)))
    shape: tuple[int, ...] = ()
    channels: int = 0
    everything: bool = True

    @property
    def points(self) -> int:
        """Number of pictures."""
        return int(self.entries.shape[1])

    @property
    def positions(self) -> int:
        """Number of positions."""
        return math.prod(self.shape)

    @cached_property
    def pairs(self) -> PositionPairs:
        """Which blocks ``entries`` holds."""
        return PositionPairs(self.positions, self.everything)

    @property
    def complete(self) -> bool:
        """Whether averages over all pairs of rows are known."""
        return self.everything or self.positions == 1

    @cached_property
    def diagonal(self) -> Array:
        """K/e^s of each row with itself."""
        return np.asarray(self.scales**2 * PairMatrix(self.pairs, self.entries).diagonal())

    @property
    def zero_points(self) -> Array:
        """Which pictures are nothing at every position."""
        return np.asarray((self.diagonal.reshape(-1, self.points) == 0).all(axis=0))

    def matrix(self) -> Array:
        """What a dense layer would read: the mean over positions, K/e^s (n, n)."""
        own = np.arange(self.positions)
        sigma = self.scales.reshape(-1, self.points)
        blocks = self.entries[self.pairs.index(own, own)]
        return np.asarray(np.einsum("pab,pa,pb->ab", blocks, sigma, sigma) / self.positions)

    def among(self) -> Array:
        """K/e^s between an even choice of rows; nothing where pairs of positions are not held."""
        if not self.complete:
            return np.empty((0, 0))
        rows = np.unique(np.linspace(0, self.size - 1, min(self.size, _SHOWN)).astype(np.intp))
        found = PairMatrix(self.pairs, self.entries).among(rows)
        found *= self.scales[rows, None]
        found *= self.scales[rows]
        return found

    def center_and_data(self) -> tuple[float, float]:
        """C/e^s and V/e^s over points and positions; NaN where pairs of positions are not held."""
        if not self.complete:
            return math.nan, math.nan
        center = float(self.row_means.mean())
        return max(center, 0.0), max(float(self.diagonal.mean()) - center, 0.0)

    @cached_property
    def row_means(self) -> Array:
        """Mean over all rows of K/e^s, for each row."""
        if np.ptp(self.scales) == 0:
            means = PairMatrix(self.pairs, self.entries).row_sums(np.ones((self.points, 1)))[:, :, 0].ravel()
            return np.asarray(means * self.scales[0] ** 2 / self.size)
        return np.asarray((PairMatrix(self.pairs, self.entries) @ self.scales) * self.scales / self.size)

    def statistics(
        self, *, matrix: Array | None = None, start: Array | None = None
    ) -> tuple[Statistics, Array | None]:
        """Averages over points and positions; with ``matrix`` given, of any size, those that cost more too."""
        if math.isnan(self.log_scale):
            return super().statistics()
        total = float(self.diagonal.mean())
        center, data = self.center_and_data()
        if data <= RESOLUTION * total:
            data = 0.0
        kurtosis = mean_absolute = rank = math.nan
        if matrix is not None:
            mean_absolute = math.log(2 / math.pi) / 2 + float(logarithm(float(np.sqrt(self.diagonal).mean())))
            mean_absolute += 0.5 * self.log_scale
            if data > 0:
                own = self.diagonal - 2 * self.row_means + self.row_means.mean()
                kurtosis = 3 * float(np.mean(own**2)) / float(np.mean(own)) ** 2
                plain = PairMatrix(self.pairs, self.plain_entries())
                greatest, _ = leading_eigenvalue(plain, None)  # type: ignore[arg-type]
                rank = data * self.size / greatest
        return (
            Statistics(
                self.log_scale + _log(center),
                self.log_scale + _log(data),
                log_mean_exp(self.log_noise),
                self.log_scale + _log(total),
                kurtosis,
                mean_absolute,
                rank,
                gaussian=self.gaussian,
                error=self.error,
            ),
            None,
        )

    def plain_entries(self) -> Array:
        """K/e^s by pairs; not to be changed where all σ are 1."""
        if np.all(self.scales == 1):
            return self.entries
        sigma = self.scales.reshape(-1, self.points)
        out = np.empty_like(self.entries)

        def fill(piece: tuple[int, slice]) -> None:
            p, place = piece
            q = self.pairs.second[place]
            np.multiply(self.entries[place], sigma[p][:, None], out=out[place])
            out[place] *= sigma[q][:, None, :]

        in_parallel(fill, self.pairs.pieces(self.points))
        return out

    def scale(self, log_factor: Number) -> Self:
        """Multiply by e^f."""
        return replace(
            self, log_scale=self.log_scale + float(log_factor), log_noise=self.log_noise + log_factor
        )

    def mix(self) -> Self:
        """New Gaussian units."""
        return replace(self, common=None, gaussian=True, observed=False)

    def shift(self, variance: Number) -> Self:
        """K + variance: a channel's bias is the same at all positions."""
        log_scale = max(self.log_scale, float(logarithm(float(variance))))
        ones, shrunk = math.exp(logarithm(float(variance)) - log_scale), math.exp(self.log_scale - log_scale)
        entries = self.plain_entries() * shrunk
        entries += ones
        return replace(self, entries=entries, scales=np.ones(self.size), log_scale=log_scale)

    def center_units(self) -> Self:
        """Subtract from each picture its mean over channels and positions."""
        if self.common is None:
            return self
        common = self.common.reshape(-1, self.points)
        mean = common.mean(axis=0)
        entries = self.plain_entries().copy()

        def fill(piece: tuple[int, slice]) -> None:
            p, place = piece
            q = self.pairs.second[place]
            part = entries[place]
            # (x_pa − m_a)(x_qb − m_b) over channels
            part -= common[p][:, None] * mean
            part -= mean[:, None] * common[q][:, None, :]
            part += np.multiply.outer(mean, mean)

        in_parallel(fill, self.pairs.pieces(self.points))
        left = np.ravel(common - mean)
        return replace(self, entries=entries, scales=np.ones(self.size), common=left if left.any() else None)

    def normalize_points(self) -> Self:
        """Divide each picture by its root mean square over channels and positions; an empty one passes as it is."""
        size = self.diagonal.reshape(-1, self.points).mean(axis=0)
        # what centring leaves of a picture without spread is rounding
        inverse = np.tile(
            np.divide(1.0, np.sqrt(size), out=np.zeros_like(size), where=size > 0), self.positions
        )
        log_size = np.tile(
            np.where(size > 0, np.log(np.where(size > 0, size, 1.0)) + self.log_scale, 0.0), self.positions
        )
        return replace(
            self,
            scales=self.scales * inverse,
            log_scale=0.0,
            log_noise=self.log_noise - log_size,
            common=None if self.common is None else self.common * inverse,
        )

    def against_norm(self, layer: Norm) -> str:
        """Batch norm by channel; layer and RMS norm over all of a picture."""
        units = self.channels * self.positions
        if layer.kind == "batch":
            if layer.width == self.channels:
                return ""
            return "batch norm of a flattened picture takes each position by itself; no rule describes it"
        if layer.whole or (math.prod(layer.shape) if layer.shape else layer.width) == units:
            return ""
        return (
            f"normalizes the last {max(len(layer.shape), 1)} axes of a picture; "
            "known is a norm over all its channels and positions"
        )

    def standardize_units(self, law: MinibatchLaw | None) -> Gram:  # type: ignore[override]
        """Batch norm over points and positions."""
        from firstlight.theory.dataset.image_batch_norm import self_averaging, standardized

        if law is not None:
            raise UsageError("Gram.standardize_units: a data set has batches of its own, expected no law")
        if self.observed:
            raise NoRuleError("batch norm of the inputs themselves has no rule; standardize the data instead")
        if not self.complete:
            raise NoRuleError(
                "batch norm takes positions together, and only pairs at the same position are held; "
                "pass positions='pairs'"
            )
        return standardized(self) if self.gaussian else self_averaging(self)

    def average(self, kernel: Kernel) -> Self:
        """F = E φ(u_pa) φ(u_qb)."""
        if isinstance(kernel, MaxPoolKernel) and kernel.size > 1 and self.positions > 1:
            raise NoRuleError(
                "max-pooling joins neighbouring positions, which depend on each other: no closed form"
            )
        diagonal = self.diagonal
        factor = np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(diagonal), where=diagonal > 0)
        factor *= self.scales
        if is_homogeneous(kernel):
            top = float(diagonal.max(initial=0.0)) or 1.0
            q, log_scale = diagonal / top, self.log_scale + math.log(top)
        else:
            q, log_scale = absolute_variances(kernel, diagonal, self.log_scale)
        averages = pair_averages(kernel, q, greatest=lambda: self._greatest(factor))
        entries = _averaged_entries(self, averages, factor)
        log_gain = np.log(np.maximum(averages.gain, 1e-300))  # 0 only for a row of zeros where φ is flat
        return replace(
            self,
            scales=np.ones(self.size),
            log_scale=log_scale,
            log_noise=self.log_noise + log_gain,
            common=averages.mean,
            gaussian=False,
            observed=False,
            entries=entries,
        )

    def _greatest(self, factor: Array) -> float:
        """The greatest |c| between different rows."""
        sigma = factor.reshape(-1, self.points)
        found = []

        def look(piece: tuple[int, slice]) -> None:
            p, place = piece
            q = self.pairs.second[place]
            c = np.abs(self.entries[place]) * sigma[p][:, None] * sigma[q][:, None, :]
            if q[0] == p:
                np.fill_diagonal(c[0], 0.0)
            found.append(float(c.max()))

        in_parallel(look, self.pairs.pieces(self.points))
        return min(max(found), 1.0)

    def add(self, branch: Gram, log_weight: Number) -> Self:
        """K + e^w K_branch."""
        if not isinstance(branch, ImageGram) or branch.shape != self.shape or branch.points != self.points:
            there = branch.shape if isinstance(branch, ImageGram) else "none"
            raise NoRuleError(
                f"adds branches with positions {self.shape} and {there}; known are sums at equal positions"
            )
        weight = float(log_weight)
        log_scale = max(self.log_scale, branch.log_scale + weight)
        own, other = math.exp(self.log_scale - log_scale), math.exp(branch.log_scale + weight - log_scale)
        entries = self.plain_entries() * own
        added = branch.plain_entries()
        for start in range(0, len(entries), 64):  # without a third matrix
            entries[start : start + 64] += other * added[start : start + 64]
        return replace(
            self,
            entries=entries,
            scales=np.ones(self.size),
            log_scale=log_scale,
            log_noise=np.logaddexp(self.log_noise, weight + branch.log_noise),
            common=None if self.common is None else self.common * math.sqrt(own),
            gaussian=self.gaussian and branch.gaussian,
            observed=False,
            error=math.hypot(self.error, branch.error),
        )

    def shrink(self, size: int) -> Self:
        """Units next to each other are positions of one channel."""
        raise NoRuleError(
            "pools neighbouring units of a flattened picture, which are positions of one channel"
        )

    def convolve(self, layer: Convolution) -> tuple[Self, Spread]:
        """Mean over the kernel's window, axis by axis."""
        if layer.in_channels != self.channels:
            raise NoRuleError(f"reads {layer.in_channels} channels, and there are {self.channels}")
        tables = sources(self.shape, layer)
        state, reads, shape = self, [], self.shape
        entries, noise = self.plain_entries(), np.exp(self.log_noise - _top(self.log_noise))
        noise = noise.reshape(-1, self.points)
        for axis, table in enumerate(tables):
            read = axis_index(shape, axis, table)
            before = PositionPairs(math.prod(shape), self.everything)
            shape = (*shape[:axis], table.shape[1], *shape[axis + 1 :])
            after = PositionPairs(math.prod(shape), self.everything)
            entries = windowed(entries, before, after, read)
            noise = _read(noise, read)
            reads.append(read)
        with np.errstate(divide="ignore"):
            log_noise = np.log(noise.ravel()) + _top(self.log_noise)
        after_state = replace(
            state,
            entries=entries,
            shape=shape,
            channels=layer.out_channels,
            scales=np.ones(len(log_noise)),
            log_noise=log_noise,
            common=None,
        )
        return after_state, _spread_of(reads, self.positions, self.points)

    def pool_positions(self, layer: PositionPool | AdaptivePool) -> tuple[Self, Spread]:
        """A K Aᵀ; the noise behind it would need the noise's own covariance between positions."""
        weights = pool_matrix(self.shape, layer)
        apart = bool((np.count_nonzero(weights, axis=1) == 1).all())
        if not (self.complete or apart):
            raise NoRuleError(
                "pooling reads pairs of positions, and only pairs at the same position are held; "
                "pass positions='pairs'"
            )
        shape = pooled_shape(self.shape, layer)
        after = PositionPairs(math.prod(shape), self.everything)
        entries = weighted(self.plain_entries(), self.pairs, after, weights)
        common = None if self.common is None else (weights @ self.common.reshape(-1, self.points)).ravel()
        log_noise = np.full(after.positions * self.points, math.nan)
        if apart:
            chosen = weights.argmax(axis=1)
            gain = np.log(weights.max(axis=1))[:, None]
            log_noise = (self.log_noise.reshape(-1, self.points)[chosen] + 2 * gain).ravel()
        pooled = replace(
            self,
            entries=entries,
            shape=shape,
            scales=np.ones(len(log_noise)),
            log_noise=log_noise,
            common=common,
        )
        return pooled, _spread_of_pool(weights, self.points)

    def flatten(self, width: int) -> tuple[Gram, Spread | None]:
        """All positions of all channels as units: the mean of K over p = q."""
        if width != self.channels * self.positions:
            raise NoRuleError(
                f"reads {width} inputs, and a picture has {self.channels} channels at {self.positions} positions; "
                "known is a dense layer behind the flattened picture"
            )
        points = self.points
        logs = self.log_noise.reshape(-1, points)
        with np.errstate(invalid="ignore"):
            log_noise = np.logaddexp.reduce(logs, axis=0) - math.log(self.positions)
        flat = DenseGram(
            scales=np.ones(points),
            log_scale=self.log_scale,
            log_noise=log_noise,
            common=None if self.common is None else self.common.reshape(-1, points).mean(axis=0),
            batches=self.batches,
            observed=self.observed,
            error=self.error,
            seed=self.seed,
            entries=self.matrix(),
        )

        def spread(log_gradient: Number) -> Number:
            return np.tile(np.broadcast_to(log_gradient, (points,)), self.positions)

        return flat, spread


def _averaged_entries(state: ImageGram, averages: PairAverages, factor: Array) -> Array:
    """E φ φ for all stored pairs; ``factor`` turns R into correlations."""
    points, pairs = state.points, state.pairs
    sigma = factor.reshape(-1, points)
    mean_square = averages.mean_square.reshape(-1, points)
    out = np.empty_like(state.entries)

    def fill(piece: tuple[int, slice]) -> None:
        p, place = piece
        q = pairs.second[place]
        out[place] = averaged_block(averages, state.entries[place], p, q, sigma)
        if q[0] == p:
            np.fill_diagonal(out[place.start], mean_square[p])

    in_parallel(fill, pairs.pieces(points))
    return out


def averaged_block(averages: PairAverages, blocks: Array, p: int, q: Index, sigma: Array) -> Array:
    """E φ φ of the blocks (p, q); ``sigma`` (position, point) turns what they hold into correlations."""
    points = sigma.shape[1]
    c = blocks.transpose(1, 0, 2) * sigma[p][:, None, None]  # (a, q, b)
    c *= sigma[q]
    np.clip(c, -1.0, 1.0, out=c)
    rows = slice(p * points, (p + 1) * points)
    columns = slice(int(q[0]) * points, (int(q[-1]) + 1) * points)
    found = averages.block(rows, columns, c.reshape(points, -1))
    values = found.reshape(points, len(q), points).transpose(1, 0, 2)
    if q[0] == p:  # σ_a σ_b and σ_b σ_a differ in the last bit, depending on the order
        values[0] = 0.5 * (values[0] + values[0].T)
    return values


def _read(values: Array, read: Index) -> Array:
    """Mean over the offsets of what is read at each position, ``(position, point)``."""
    padded = np.concatenate([values, np.zeros((1, values.shape[1]))])  # -1 reads the zeros
    return np.asarray(padded[read].mean(axis=0))


def _spread_of(reads: Sequence[Index], positions: int, points: int) -> Spread:
    """Each gradient goes back to the positions that were read, axis by axis."""

    def spread(log_gradient: Number) -> Number:
        behind = reads[-1].shape[1]
        logs = np.broadcast_to(log_gradient, (behind * points,)).reshape(behind, points)
        top = _top(logs)
        values = np.exp(logs - top)
        sizes = [positions, *(read.shape[1] for read in reads[:-1])]
        for read, size in zip(reversed(reads), reversed(sizes), strict=True):
            gathered = np.zeros((size, points))
            for row in read:
                known = row != NOTHING
                np.add.at(gathered, row[known], values[known])
            values = gathered / len(read)
        with np.errstate(divide="ignore"):
            return np.log(values.ravel()) + top

    return spread


def _spread_of_pool(weights: Array, points: int) -> Spread:
    """A²ᵀ where each position is in one window; gradients of overlapping windows are not independent."""
    overlapping = bool((np.count_nonzero(weights, axis=0) > 1).any())

    def spread(log_gradient: Number) -> Number:
        if overlapping:
            return np.full(weights.shape[1] * points, math.nan)
        logs = np.broadcast_to(log_gradient, (len(weights) * points,)).reshape(-1, points)
        top = _top(logs)
        with np.errstate(divide="ignore"):
            return np.log((weights.T**2 @ np.exp(logs - top)).ravel()) + top

    return spread


def _top(logs: Array) -> float:
    top = float(np.max(logs))
    return top if math.isfinite(top) else 0.0


def _log(value: float) -> float:
    return math.nan if math.isnan(value) else float(logarithm(value))
