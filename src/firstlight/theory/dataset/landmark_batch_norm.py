r"""Batch norm over a whole data set of which a few columns of the covariance are carried.

Enters: K at the landmarks. Leaves: the same entries behind batch norm over all n points, and what an activation makes
of them. ``standardized_gram.py`` has the rules; here G = HKH is split into its leading directions, found from the
landmarks, and a bulk of others that share one eigenvalue b, as many as give the rest of its trace and, by what the
directions leave of the checks' columns, of Σ λ²:

    G_s,ab = (G_ab − Σ_i λ_i v_ia v_ib)/(1 + 2s b) + Σ_i v_ia v_ib λ_i/(1 + 2s λ_i)

At s = 0 this is G to the last bit. Directions are taken, 256 at most, until Σ λ² of the others is 1e-6 of (tr G)². The
mean of the rows is an average over all points (``landmark_means.py``) whose standard error, relative to V, is added in
quadrature to the error that the state carries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from firstlight.theory.dataset.landmark_gram import LandmarkGram, by_rows, each_stripe
from firstlight.theory.dataset.landmark_unit_norm import centered_columns
from firstlight.theory.dataset.norm_quadrature import LengthRule, inverse_square_length, length_rule
from firstlight.theory.dataset.products import is_homogeneous, pair_averages
from firstlight.theory.dataset.standardized_gram import UNITS_AT_ONCE, whitened
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.kernels.max_pool import MaxPoolKernel
from firstlight.theory.kernels.remembered import RememberedKernel
from firstlight.theory.propagation import NoRuleError

__all__ = ["LandmarkStandardizedGram", "Spectrum", "standardized"]

Array = NDArray[np.float64]

DRAWS = 8_192
_AT_ONCE = 128
_LEFT_OUT = 1e-6
_FIRST, _MOST = 32, 256


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Leading directions of G and the level of the rest.

    Attributes:
        eigenvalues: λ_i, falling (r,).
        directions: √λ_i v_i (n, r).
        bulk: Eigenvalue that each of the other directions is given.
        others: Their number.
    """

    eigenvalues: Array
    directions: Array
    bulk: float
    others: int

    @property
    def all(self) -> Array:
        """Every eigenvalue of G."""
        return np.concatenate([self.eigenvalues, np.full(self.others, self.bulk)])


@dataclass(frozen=True, eq=False)
class LandmarkStandardizedGram(LandmarkGram):
    """Units ẑ behind batch norm, not Gaussian but known.

    Attributes:
        spectrum: Of G at mean variance 1 (tr G = n).
        rule: Of their length.
        centered: G at the columns, at mean variance 1 (n, m + q).
        centered_own: G_aa (n,).
    """

    spectrum: Spectrum = field(default_factory=lambda: Spectrum(np.empty(0), np.empty((0, 0)), 0.0, 0))
    rule: LengthRule | None = None
    centered: Array = field(default_factory=lambda: np.empty((0, 0)))
    centered_own: Array = field(default_factory=lambda: np.empty(0))

    def average(self, kernel: Kernel) -> LandmarkGram:  # type: ignore[override]
        """E φ(ẑ_a) φ(ẑ_b)."""
        if isinstance(kernel, RememberedKernel):
            kernel = kernel.kernel
        if isinstance(kernel, MaxPoolKernel) and kernel.size > 1:
            raise NoRuleError(
                "max-pooling behind batch norm has no rule for a data set: each unit has its own length"
            )
        return self._exact(kernel) if is_homogeneous(kernel) else self._sampled(kernel)

    def _exact(self, kernel: Kernel) -> LandmarkGram:
        """The integral over s."""
        assert self.rule is not None
        spectrum, size = self.spectrum, self.size
        total = np.zeros_like(self.centered)
        for s, weight in zip(self.rule.nodes, self.rule.weights, strict=True):
            self._add_node(total, kernel, float(s), float(weight))
        total *= size
        diagonal = float(kernel.mean_square(1.0)) * self.diagonal
        s, weights = self.rule.fine_nodes, self.rule.fine_weights
        deviations = np.sqrt(size * np.maximum(_variances(spectrum, self.centered_own, s), 0.0))
        mean = float(kernel.mean(1.0)) * (deviations @ (weights / np.sqrt(math.pi * s)))
        return self._behind(total, diagonal, mean, np.full(size, math.log(float(kernel.gain(1.0)))), 0.0)

    def _add_node(self, total: Array, kernel: Kernel, s: float, weight: float) -> None:
        """One Gaussian average of the integral over s."""
        spectrum, columns = self.spectrum, self.columns
        bulk = 1 / (1 + 2 * s * spectrum.bulk)
        change = 1 / (1 + 2 * s * spectrum.eigenvalues) - bulk
        variances = np.maximum(_variances(spectrum, self.centered_own, np.array([s]))[:, 0], 0.0)
        pairs = pair_averages(kernel, variances)
        inverse = np.divide(1.0, np.sqrt(variances), out=np.zeros_like(variances), where=variances > 0)
        right = (spectrum.directions[columns] * change).T * inverse[columns]  # (direction, column)
        level = bulk * inverse[columns]

        def stripe(rows: slice) -> None:
            c = self.centered[rows] * level
            c += spectrum.directions[rows] @ right
            c *= inverse[rows, None]
            np.clip(c, -1.0, 1.0, out=c)
            values = pairs.block(rows, columns, c)
            values *= weight
            total[rows] += values

        each_stripe(self.size, stripe)

    def _sampled(self, kernel: Kernel) -> LandmarkGram:
        """The Gaussian with the mean variance, plus what drawn lengths say of the difference."""
        spectrum, columns, size = self.spectrum, self.columns, self.size
        generator = np.random.default_rng(self.seed)
        function, q = kernel.function, self.centered_own
        rest = np.sqrt(np.maximum(q - np.square(spectrum.directions).sum(axis=1), 0.0))
        difference = np.zeros_like(self.centered)
        own, mean, gain = np.zeros(size), np.zeros(size), np.zeros(size)
        groups = []
        for _ in range(DRAWS // UNITS_AT_ONCE):
            draws = whitened(len(spectrum.eigenvalues), generator)
            others = generator.chisquare(spectrum.others, UNITS_AT_ONCE)
            length = np.sqrt((spectrum.eigenvalues @ draws**2 + spectrum.bulk * others) / size)
            loudness = np.sqrt(others / spectrum.others)  # of the bulk, which the length contains
            spread = []
            for start in range(0, UNITS_AT_ONCE, _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                gaussian = spectrum.directions @ draws[:, part]  # (sample, unit)
                gaussian += rest[:, None] * loudness[part] * generator.standard_normal(gaussian.shape)
                factor = 1 / length[part]
                normalized = gaussian * factor
                ours, theirs = function.value(normalized), function.value(gaussian)
                difference += ours @ ours[columns].T - theirs @ theirs[columns].T
                own += (ours**2 - theirs**2).sum(axis=1)
                mean += (ours - theirs).sum(axis=1)
                gain += (function.derivative(normalized) ** 2 * factor**2).sum(axis=1)
                spread.append(float(np.mean(ours.var(axis=0) - theirs.var(axis=0))))
            groups.append(np.mean(spread))
        pairs = pair_averages(kernel, q)
        inverse = np.divide(1.0, np.sqrt(q), out=np.zeros_like(q), where=q > 0)

        def stripe(rows: slice) -> Array:
            c = self.centered[rows] * inverse[rows, None]
            c *= inverse[columns]
            values = pairs.block(rows, columns, np.clip(c, -1.0, 1.0))
            values += difference[rows] / DRAWS
            return values

        total = by_rows(self.centered.shape, stripe)
        held = size * inverse_square_length(spectrum.all)
        log_gain = np.log(np.maximum(gain / DRAWS, 1e-300)) - math.log(held)
        diagonal = pairs.mean_square + own / DRAWS
        behind = self._behind(total, diagonal, pairs.mean + mean / DRAWS, log_gain, 0.0)
        data = behind.means.data
        error = float(np.std(groups, ddof=1)) / math.sqrt(len(groups)) / data if data > 0 else 0.0
        return behind.plain(error=math.hypot(behind.error, error))

    def _behind(
        self, entries: Array, diagonal: Array, mean: Array, log_gain: Array, error: float
    ) -> LandmarkGram:
        return self._with(
            entries,
            diagonal,
            log_scale=0.0,
            log_noise=self.log_noise + log_gain,
            common=mean,
            gaussian=False,
            error=math.hypot(self.error, error),
        )


def standardized(state: LandmarkGram) -> LandmarkStandardizedGram:
    """Batch norm of Gaussian units."""
    centered, own = centered_columns(state)
    spectrum = _spectrum(centered, own, state)
    eigenvalues = spectrum.all
    rule = length_rule(eigenvalues)
    s, weights = rule.fine_nodes, rule.fine_weights
    bulk = float((weights / (1 + 2 * s * spectrum.bulk)).sum())
    change = (weights / (1 + 2 * np.multiply.outer(spectrum.eigenvalues, s))).sum(axis=1) - bulk
    right = (spectrum.directions[state.columns] * change).T
    entries = by_rows(
        centered.shape,
        lambda rows: state.size * (bulk * centered[rows] + spectrum.directions[rows] @ right),
    )
    diagonal = state.size * (bulk * own + np.square(spectrum.directions) @ change)
    noise = math.log(state.size) + math.log(inverse_square_length(eigenvalues)) - math.log(state.means.data)
    plain = state._with(
        entries,
        np.maximum(diagonal, 0.0),
        log_scale=0.0,
        log_noise=state.log_noise - state.log_scale + noise,
        common=None,
        gaussian=True,
        error=state.relative_error(),
    )
    fields = {name: getattr(plain, name) for name in LandmarkGram.__dataclass_fields__}
    return LandmarkStandardizedGram(
        **fields, spectrum=spectrum, rule=rule, centered=centered, centered_own=own
    )


def _spectrum(centered: Array, own: Array, state: LandmarkGram) -> Spectrum:
    """As many leading directions of G, at mean variance 1, as the squares of the others ask for."""
    size, number, unit = state.size, state.landmarks.number, state.means.data
    checks = state.columns[number:]
    trace, count, most = float(own.sum()), min(_FIRST, number), min(_MOST, number)
    while True:
        eigenvalues, directions = state.leading_directions(count)
        eigenvalues, directions = eigenvalues / unit, directions / math.sqrt(unit)
        spanned = directions @ directions[checks].T
        left = float(np.mean(centered[:, number:] ** 2)) - float(np.mean(spanned**2))
        squares = (
            (1 - number / size) * size**2 * max(left, 0.0)
        )  # Σ λ² that the directions do not account for
        if squares <= _LEFT_OUT * trace**2 or len(eigenvalues) < count or count >= most:
            break
        count = min(2 * count, most)
    over = float(eigenvalues.sum()) / trace
    if over > 1:  # rounding: directions cannot hold more than there is
        eigenvalues, directions = eigenvalues / over, directions / math.sqrt(over)
    rest = max(trace - float(eigenvalues.sum()), 0.0)
    free = size - 1 - len(eigenvalues)
    others = free if squares * free <= rest**2 else max(round(rest**2 / squares), 1)
    return Spectrum(eigenvalues, directions, rest / others, others)


def _variances(spectrum: Spectrum, own: Array, s: Array) -> Array:
    """G_s,aa for each s (n, s)."""
    bulk = 1 / (1 + 2 * s * spectrum.bulk)
    change = 1 / (1 + 2 * np.multiply.outer(spectrum.eigenvalues, s)) - bulk
    return np.asarray(np.multiply.outer(own, bulk) + np.square(spectrum.directions) @ change)
