r"""What an activation does to pairs of data points: E φ(u_a) φ(u_b) for a whole matrix of correlations.

Enters: a kernel and the n variances q_a. Leaves: ``PairAverages``, with one number a point (E φ, E φ², E φ'²) and
blocks of the matrix F_ab for blocks of correlations c_ab. With σ = √q::

    one kink at 0     σ_a σ_b [(l²+r²) J(c) − 2lr J(−c)]/2π + shifts,    J(c) = √(1−c²) + c (π − arccos c)
    erf               (2/π) asin(c α_a α_b),                             α² = 2q/(1+2q)
    GELU              (K/2π)(π/2 + asin r) + [r²/√(1−r²) + q_a q_b √(1−r²)]/(2π√P),   K = c σ_a σ_b, P =
    (1+q_a)(1+q_b), r = K/√P sin, cos          e^{−(q_a+q_b)/2} sinh K, e^{−(q_a+q_b)/2} cosh K any other
    Σ_k a_k(q_a) a_k(q_b) c^k, a_k the Hermite coefficients: a polynomial in c, positive semi-definite term by
    term;
                      at one common variance a spline in θ = arccos c through the kernel's own product

The closed forms are those of Cho & Saul (2009), Williams (1998) and Tsuchida et al. (2021), in this project's
variables.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from firstlight.theory.dataset.angles import AngleTable
from firstlight.theory.dataset.one_variance import along_variances
from firstlight.theory.kernels.error_function import ErrorFunctionKernel
from firstlight.theory.kernels.gaussian_error_linear import GaussianErrorLinearKernel
from firstlight.theory.kernels.kernel import Kernel, Number
from firstlight.theory.kernels.numerical import NumericalKernel
from firstlight.theory.kernels.piecewise_linear import PiecewiseLinearKernel
from firstlight.theory.kernels.remembered import RememberedKernel
from firstlight.theory.kernels.trigonometric import CosineKernel, SineKernel
from firstlight.theory.propagation import NoRuleError

__all__ = ["PairAverages", "is_homogeneous", "pair_averages"]

Array = NDArray[np.float64]
Places = slice | NDArray[np.intp]

Average = Callable[[Number], Number]

_TERMS = (24, 48, 96, 192, 400)
_LEFT_OUT = 1e-11


class PairAverages(ABC):
    """Averages of one activation over a data set's Gaussian units.

    Attributes:
        kernel: The Gaussian averages of the activation.
        q: Variances (n,); a zero is a point that the layer sees as nothing.
    """

    def __init__(self, kernel: Kernel, q: Array) -> None:
        self.kernel, self.q = kernel, q
        self.deviation = np.sqrt(q)

    @property
    def mean(self) -> Array:
        """E φ(u_a)."""
        return self._along(self.kernel.mean, self.at_zero)

    @property
    def mean_square(self) -> Array:
        """E φ(u_a)²: the diagonal of F."""
        return self._along(self.kernel.mean_square, self.at_zero**2)

    @property
    def gain(self) -> Array:
        """E φ'(u_a)²."""
        return self._along(self.kernel.gain, float(self.kernel.gain(0.0)))

    @abstractmethod
    def block(self, rows: slice, columns: Places, c: Array) -> Array:
        """F for a block of correlations, which may be overwritten."""

    @property
    def at_zero(self) -> float:
        """φ(0): what a point that is nothing becomes, to the last bit."""
        return float(self.kernel.function.value(np.zeros(1))[0])

    def _along(self, function: Average, at_zero: float) -> Array:
        values = np.full_like(self.q, at_zero)
        positive = self.q > 0
        if positive.any():
            values[positive] = along_variances(lambda q: np.array(function(q)), self.q[positive])
        return values


def pair_averages(kernel: Kernel, q: Array, *, greatest: Callable[[], float] = lambda: 1.0) -> PairAverages:
    """Choose how the pairs of a data set are averaged.

    Args:
        kernel: The Gaussian averages of the activation.
        q: Variances (n,).
        greatest: The greatest |c_ab| between different points, asked for where a series may end the earlier for
            it.
    """
    if isinstance(kernel, RememberedKernel):
        kernel = kernel.kernel
    closed = _CLOSED.get(type(kernel))
    if closed is not None:
        return closed(kernel, q)
    if is_homogeneous(kernel) or _is_one(q):
        return _AtOneVariance(kernel, q)
    if isinstance(kernel, NumericalKernel):
        return _Series(kernel, q, greatest())
    raise NoRuleError(
        f"max-pooling of {kernel.function.name} over points of different variance has no rule; "
        "a layer norm or RMS norm before it makes the variances equal"
    )


def is_homogeneous(kernel: Kernel) -> bool:
    """Whether φ(λu) = λ φ(u) for λ > 0, so that the correlation map is the same at every variance."""
    return kernel.function.slopes is not None and kernel.function.shift == 0


def _is_one(q: Array) -> bool:
    positive = q[q > 0]
    return positive.size == q.size and bool(np.ptp(positive) <= 1e-12 * positive.max())


class _ClosedForm(PairAverages):
    def _along(self, function: Average, at_zero: float) -> Array:
        return np.asarray(function(self.q), dtype=np.float64)


class _OneKink(_ClosedForm):
    def __init__(self, kernel: Kernel, q: Array) -> None:
        super().__init__(kernel, q)
        assert kernel.function.slopes is not None
        self.left, self.right = kernel.function.slopes
        self.shift = kernel.function.shift
        self.shifted = np.asarray(self.shift * (kernel.mean(q) - self.shift)) if self.shift else None

    def block(self, rows: slice, columns: Places, c: Array) -> Array:
        same, opposite = (self.left**2 + self.right**2) / (2 * math.pi), self.left * self.right / math.pi
        sine = c * c
        np.subtract(1.0, sine, out=sine)
        np.sqrt(sine, out=sine)
        angle = np.arccos(c)
        # same·(sine + c(π − angle)) − opposite·(sine − c·angle)
        angle *= opposite - same
        angle += same * math.pi
        angle *= c
        sine *= same - opposite
        angle += sine
        angle *= self.deviation[rows, None]
        angle *= self.deviation[columns]
        if self.shifted is not None:
            angle += self.shifted[rows, None]
            angle += self.shifted[columns] + self.shift**2
        return np.asarray(angle)


class _Erf(_ClosedForm):
    def __init__(self, kernel: Kernel, q: Array) -> None:
        super().__init__(kernel, q)
        self.ratio = np.sqrt(2 * q / (1 + 2 * q))

    def block(self, rows: slice, columns: Places, c: Array) -> Array:
        c *= self.ratio[rows, None]
        c *= self.ratio[columns]
        np.arcsin(c, out=c)
        c *= 2 / math.pi
        return c


class _Gelu(_ClosedForm):
    def __init__(self, kernel: Kernel, q: Array) -> None:
        super().__init__(kernel, q)
        self.ratio = np.sqrt(q / (1 + q))
        self.inverse = 1 / np.sqrt(1 + q)

    def block(self, rows: slice, columns: Places, c: Array) -> Array:
        # with r = c β_a β_b:  (σσ/2π)·c·(π/2 + asin r) + [r²/√(1−r²)]·ιι/2π + √(1−r²)·(qι)(qι)/2π
        ratio = c * self.ratio[rows, None]
        ratio *= self.ratio[columns]
        square = ratio * ratio
        np.arcsin(ratio, out=ratio)
        ratio += math.pi / 2
        c *= self.deviation[rows, None] * (1 / (2 * math.pi))
        c *= self.deviation[columns]
        c *= ratio
        cosine = np.subtract(1.0, square, out=ratio)
        np.sqrt(cosine, out=cosine)
        square /= cosine
        square *= self.inverse[rows, None] * (1 / (2 * math.pi))
        square *= self.inverse[columns]
        c += square
        weight = self.q * self.inverse
        cosine *= weight[rows, None] * (1 / (2 * math.pi))
        cosine *= weight[columns]
        c += cosine
        return c


class _Wave(_ClosedForm):
    sign = 1.0

    def block(self, rows: slice, columns: Places, c: Array) -> Array:
        c *= self.deviation[rows, None]
        c *= self.deviation[columns]
        damping = 0.5 * np.add.outer(self.q[rows], self.q[columns])
        with np.errstate(under="ignore"):
            return np.asarray(0.5 * (np.exp(c - damping) + self.sign * np.exp(-c - damping)))


class _Sin(_Wave):
    sign = -1.0


class _AtOneVariance(PairAverages):
    """One spline for all pairs; for a homogeneous activation at variance 1, scaled."""

    def __init__(self, kernel: Kernel, q: Array) -> None:
        super().__init__(kernel, q)
        self.scaled = is_homogeneous(kernel)
        at = 1.0 if self.scaled else float(q.mean())
        self.table = AngleTable.of(lambda c: np.asarray(kernel.product(at, at, c)))

    def block(self, rows: slice, columns: Places, c: Array) -> Array:
        values = self.table(np.arccos(c, out=c))
        if self.scaled:
            values *= self.deviation[rows, None]
            values *= self.deviation[columns]
        return values


class _Series(PairAverages):
    """The Hermite series up to the term that no correlation can make count.

    A kinked φ has coefficients that fall like a power, so that for correlations near 1 hundreds of terms still
    leave something out. That rest is √(R_a R_b)/R times the rest at the variance that leaves out the most, which a
    table knows exactly. Kinks away from 0 stand elsewhere in points of other size, and what their terms make
    together is less than that: for c = 0.999 between a point and one of half its size hardtanh is off by 1e-5.
    """

    def __init__(self, kernel: NumericalKernel, q: Array, greatest: float) -> None:
        super().__init__(kernel, q)
        positive = q > 0
        square = self.mean_square
        for count in _TERMS:
            table = np.zeros((len(q), count + 1))
            table[~positive, 0] = self.at_zero
            table[positive] = along_variances(partial(_coefficients, kernel, count), q[positive])
            rest = np.maximum(square - (table**2).sum(axis=1), 0.0)
            rest[~positive] = 0.0  # the first term holds all of a point that is nothing
            left_out = greatest**count * float(np.max(rest / np.where(square > 0, square, 1.0)))
            if left_out <= _LEFT_OUT:
                break
        size = np.abs(table).max(axis=0)
        self.parity = next((p for p in (0, 1) if size[1 - p :: 2].max() <= 1e-15 * size.max()), None)
        kept = table if self.parity is None else table[:, self.parity :: 2]
        self.table = np.ascontiguousarray(kept.T)  # (term, point)
        self.rest: AngleTable | None = None
        if left_out > _LEFT_OUT:
            at = float(q[np.argmax(rest / np.where(square > 0, square, 1.0))])  # what leaves out the most
            own = _coefficients(kernel, count, at)
            whole = float(kernel.mean_square(at)) - float(np.sum(own**2))
            self.share = np.sqrt(rest / whole)
            self.rest = AngleTable.of(
                lambda c: np.asarray(kernel.product(at, at, c)) - np.polynomial.polynomial.polyval(c, own**2),
                size=float(kernel.mean_square(at)),
            )

    def block(self, rows: slice, columns: Places, c: Array) -> Array:
        power = c if self.parity is None else c * c
        last = self.table[-1]
        total = np.multiply.outer(last[rows], last[columns])
        term = np.empty_like(total)
        for coefficients in self.table[-2::-1]:
            total *= power
            np.multiply.outer(coefficients[rows], coefficients[columns], out=term)
            total += term
        if self.parity == 1:
            total *= c
        if self.rest is not None:
            rest = self.rest(np.arccos(c, out=c))
            rest *= self.share[rows, None]
            rest *= self.share[columns]
            total += rest
        return np.asarray(total)


_CLOSED: dict[type[Kernel], type[PairAverages]] = {
    PiecewiseLinearKernel: _OneKink,
    ErrorFunctionKernel: _Erf,
    GaussianErrorLinearKernel: _Gelu,
    SineKernel: _Sin,
    CosineKernel: _Wave,
}


def _coefficients(kernel: NumericalKernel, count: int, q: float) -> Array:
    """a_0 = E φ and a_k = E φ h_k."""
    moments = kernel.moments(q)
    return np.concatenate([[moments.mean], moments.deviation * moments.coefficients(count)])
