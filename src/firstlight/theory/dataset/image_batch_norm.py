r"""Batch norm of pictures: each channel is standardized over points and positions together.

Rows (p, a) are the samples of the batch, so the algebra is that of ``standardized_gram.py`` over n·P rows: with G =
HKH and ẑ = √N z̃/|z̃|,

- φ → BN: the mean variance over channels stands for each channel's own;
- BN → φ, homogeneous φ: Σ_s w_s E φ(z_s) φ(z_s)ᵀ over the Gaussians of ``norm_quadrature.py``. Few directions carry
  the length of z̃. They are taken one by one (U, λ); the rest T = G − UΛUᵀ enters by its trace and its Frobenius norm:
  as if it were m = (tr T)²/‖T‖² directions of equal variance t, (I + 2sT)^{−1} ≈ 1/(1 + 2st).

That is wrong by about 5 ‖T‖²/(tr G)² of K at most (measured), so as many directions are taken as bring this ratio to
10⁻⁶.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from firstlight.theory.covariance import NoRuleError
from firstlight.theory.dataset.image_gram import ImageGram, averaged_block
from firstlight.theory.dataset.norm_quadrature import LengthRule, inverse_square_length, length_rule
from firstlight.theory.dataset.position_pairs import PairMatrix, in_parallel
from firstlight.theory.dataset.products import is_homogeneous, pair_averages
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.kernels.remembered import RememberedKernel

__all__ = ["StandardizedImages", "self_averaging", "standardized"]

Array = NDArray[np.float64]

LEFT_OUT = 1e-6
"""‖T‖²/(tr G)² of the directions that are not taken one by one."""

AGREEMENT = 1e-2
"""Of the rule over s, for every direction by itself, however small: 1e-2 there is 4·10⁻⁶ of K."""

_DIRECTIONS = (32, 96, 288, 864)


@dataclass(frozen=True, eq=False)
class StandardizedImages(ImageGram):
    """Units behind batch norm; ``entries`` are their covariance to leading order, which no activation reads.

    Attributes:
        eigenvalues: λ of the directions taken one by one, tr G = 1.
        vectors: U (row, direction).
        rest: (m, t) of the others.
        rule: Nodes and weights.
        centered: G by pairs of positions.
    """

    eigenvalues: Array = field(default_factory=lambda: np.empty(0))
    vectors: Array = field(default_factory=lambda: np.empty((0, 0)))
    rest: tuple[int, float] = (0, 0.0)
    rule: LengthRule | None = None
    centered: Array = field(default_factory=lambda: np.empty((0, 0, 0)))

    def average(self, kernel: Kernel) -> ImageGram:  # type: ignore[override]
        """E φ(ẑ) φ(ẑ)."""
        inner = kernel.kernel if isinstance(kernel, RememberedKernel) else kernel
        if not is_homogeneous(inner):
            raise NoRuleError(
                f"{inner.function.name} behind a batch norm over positions has no rule; known are homogeneous "
                "activations (ReLU, leaky ReLU, abs) there; measure it"
            )
        assert self.rule is not None
        own = PairMatrix(self.pairs, self.centered).diagonal()
        s, weights = self.rule.fine_nodes, self.rule.fine_weights
        deviations = np.empty(self.size)
        for start in range(0, self.size, 4096):
            place = slice(start, start + 4096)
            deviations[place] = np.sqrt(self._variances(s, place, own[place])) @ (
                weights / np.sqrt(math.pi * s)
            )
        return _plain(
            self,
            entries=self._averaged(inner, own),
            log_noise=self.log_noise + math.log(float(inner.gain(1.0))),
            common=float(inner.mean(1.0)) * deviations * math.sqrt(self.size),
            gaussian=False,
        )

    def _averaged(self, kernel: Kernel, own: Array) -> Array:
        """Σ_s w_s N E φ φ of the Gaussians z_s, piece by piece for all nodes."""
        assert self.rule is not None
        nodes = self.rule.nodes
        far = 1 / (1 + 2 * nodes * self.rest[1])
        spectra = self.eigenvalues[:, None] / (1 + 2 * np.multiply.outer(self.eigenvalues, nodes))
        change = spectra - np.multiply.outer(self.eigenvalues, far)
        vectors = self.vectors.reshape(self.positions, self.points, -1)
        variances = self._variances(nodes, slice(None), own) * self.size  # (row, node)
        averages = [pair_averages(kernel, np.ascontiguousarray(q)) for q in variances.T]
        with np.errstate(divide="ignore"):
            inverse = np.where(variances > 0, math.sqrt(self.size) / np.sqrt(variances), 0.0)
        sigma = inverse.T.reshape(len(nodes), self.positions, self.points)
        out = np.zeros_like(self.centered)

        def fill(piece: tuple[int, slice]) -> None:
            p, place = piece
            q = self.pairs.second[place]
            turned = vectors[q].transpose(0, 2, 1)
            for node, weight in enumerate(self.rule.weights if self.rule else ()):
                tilted = np.matmul(vectors[p] * change[:, node], turned)
                tilted += far[node] * self.centered[place]
                out[place] += weight * averaged_block(averages[node], tilted, p, q, sigma[node])

        in_parallel(fill, self.pairs.pieces(self.points))
        return out

    def _variances(self, s: Array, place: slice, own: Array) -> Array:
        """Variances of z_s, ``(row, node)``."""
        far = 1 / (1 + 2 * s * self.rest[1])
        spectra = self.eigenvalues[:, None] / (1 + 2 * np.multiply.outer(self.eigenvalues, s))
        square = np.square(self.vectors[place])
        left = np.maximum(own - square @ self.eigenvalues, 0.0)
        return np.asarray(square @ spectra + np.multiply.outer(left, far))


def standardized(state: ImageGram) -> StandardizedImages:
    """Batch norm of Gaussian channels, all points at once."""
    if len(state.batches) > 1:
        raise NoRuleError(
            "batch norm over positions in mini-batches, before an activation, has no rule; "
            "predict with all points in one batch, or measure it"
        )
    entries = _centered(state)
    matrix = PairMatrix(state.pairs, entries)
    trace = float(matrix.diagonal().sum())
    _check(trace, float(state.diagonal.sum()))
    entries /= trace
    eigenvalues, vectors, rest = _directions(matrix)
    spectrum = np.concatenate([eigenvalues, np.full(rest[0], rest[1])])
    rule = length_rule(spectrum, agreement=AGREEMENT) if rest[0] else length_rule(spectrum)
    log_noise = state.log_noise - state.log_scale - math.log(trace)
    log_noise = log_noise + math.log(state.size) + math.log(inverse_square_length(spectrum))
    fields = {name: getattr(state, name) for name in ImageGram.__dataclass_fields__}
    fields |= {
        "entries": entries,
        "scales": np.full(state.size, math.sqrt(state.size)),
        "log_scale": 0.0,
        "log_noise": log_noise,
        "common": None,
        "gaussian": True,
    }
    return StandardizedImages(
        **fields, eigenvalues=eigenvalues, vectors=vectors, rest=rest, rule=rule, centered=entries
    )


def self_averaging(state: ImageGram) -> ImageGram:
    """Batch norm of channels that are not Gaussian: the mean variance over channels stands for each one's own."""
    entries = _centered(state)
    own = PairMatrix(state.pairs, entries).diagonal().reshape(-1, state.points)
    total = state.diagonal.reshape(-1, state.points)
    scales, log_noise = (
        np.empty_like(own),
        (state.log_noise - state.log_scale).reshape(-1, state.points).copy(),
    )
    for place in state.batches:
        variance = float(own[:, place].mean())
        _check(variance, float(total[:, place].mean()))
        scales[:, place] = 1 / math.sqrt(variance)
        log_noise[:, place] -= math.log(variance)
    return _plain(
        state,
        entries=entries,
        scales=scales.ravel(),
        log_scale=0.0,
        log_noise=log_noise.ravel(),
        common=None,
    )


def _plain(state: ImageGram, **changes: object) -> ImageGram:
    """A copy as a plain state, whatever made this one."""
    fields = {name: getattr(state, name) for name in ImageGram.__dataclass_fields__}
    if "entries" in changes and "scales" not in changes:
        changes = {**changes, "scales": np.ones(state.size), "log_scale": 0.0}
    return ImageGram(**{**fields, **changes})


def _centered(state: ImageGram) -> Array:
    """H K H, H block by block: each row loses its mean over the points and positions of a batch."""
    points, positions = state.points, state.positions
    entries = state.plain_entries().copy()
    of_batch = np.zeros((points, len(state.batches)))
    batch = np.zeros(points, dtype=np.intp)
    for number, place in enumerate(state.batches):
        of_batch[place, number] = 1 / ((place.stop - place.start) * positions)
        batch[place] = number
    means = PairMatrix(state.pairs, entries).row_sums(of_batch)  # (position, point, batch)
    grand = np.einsum("paj,ai->ij", means, of_batch)[np.ix_(batch, batch)]
    means = means[:, :, batch]  # (position, point, point): of row (p, a) over the batch of point b

    def fill(piece: tuple[int, slice]) -> None:
        p, place = piece
        part = entries[place]
        part -= means[p]
        part -= means[state.pairs.second[place]].transpose(0, 2, 1)
        part += grand

    in_parallel(fill, state.pairs.pieces(points))
    return entries


def _directions(matrix: PairMatrix) -> tuple[Array, Array, tuple[int, float]]:
    """The leading eigenvalues and vectors of a matrix of trace 1, and (m, t) of what they leave."""
    square = matrix.squares()
    size = len(matrix)
    generator = np.random.default_rng(size)
    for count in _DIRECTIONS:
        if count >= size // 3:
            break
        # subspace iteration; what it misses of the smallest directions stays in the rest
        block = generator.standard_normal((size, count + 16))
        for _ in range(4):
            block = np.linalg.qr(matrix @ block)[0]
        values, turn = np.linalg.eigh(block.T @ (matrix @ block))
        kept = np.arange(len(values))[::-1][:count]
        values, vectors = values[kept], block @ turn[:, kept]
        values, vectors = values[values > 0], vectors[:, values > 0]
        left, left_square = 1 - float(values.sum()), max(square - float(np.sum(values**2)), 0.0)
        if left_square <= LEFT_OUT:
            return values, vectors, _equal_directions(left, left_square)
    whole = matrix.among(np.arange(size))
    values, vectors = np.linalg.eigh(whole)
    kept = values > 1e-13 * values[-1]
    return values[kept][::-1], vectors[:, kept][:, ::-1], (0, 0.0)


def _equal_directions(trace: float, square: float) -> tuple[int, float]:
    """M directions of variance t with this trace and, but for rounding m, this sum of squares."""
    if trace <= 0 or square <= 0:
        return 0, 0.0
    count = max(1, round(trace**2 / square))
    return count, trace / count


def _check(left: float, total: float) -> None:
    if not left > 1e-12 * total:
        raise NoRuleError("batch norm of points and positions that do not differ divides 0 by 0")
