"""What all numerical kernels share: moments kept per variance, arrays grouped by variance.

Enters: an activation. Leaves: a ``Kernel`` whose ``transfer`` asks ``_slopes`` once per distinct variance with all the
correlations that go with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.activations import ActivationFunction
from firstlight.theory.kernels.kernel import Array, Kernel, Number, Transfer
from firstlight.theory.kernels.moments import Moments
from firstlight.theory.kernels.panels import Panels

__all__ = ["NumericalKernel"]

_KEPT = 512
_SMALLEST = 1e-300


class NumericalKernel(Kernel):
    """Gaussian averages by one-dimensional moments and a rule for the slopes."""

    def __init__(self, function: ActivationFunction, panels: Panels | None = None) -> None:
        self.function = function
        self.panels = panels or Panels(function)
        self._moments: dict[float, Moments] = {}

    def moments(self, q: float) -> Moments:
        """Return the one-dimensional averages at variance ``q``, kept for the next call."""
        q = max(float(q), _SMALLEST)
        found = self._moments.get(q)
        if found is None:
            if len(self._moments) >= _KEPT:
                self._moments.pop(next(iter(self._moments)))
            found = self._moments[q] = Moments(self.function, self.panels, q)
        return found

    def mean(self, q: Number) -> Number:
        """Return ``E φ(u)``."""
        return self._each(q, lambda moments: moments.mean)

    def mean_square(self, q: Number) -> Number:
        """Return ``E φ(u)²``."""
        return self._each(q, lambda moments: moments.mean_square)

    def gain(self, q: Number) -> Number:
        """Return ``E φ'(u)²``."""
        return self._each(q, lambda moments: moments.gain)

    def fourth_moment(self, q: Number) -> Number:
        """Return ``E φ(u)⁴``."""
        return self._each(q, lambda moments: moments.fourth)

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return mean and slopes, one set of moments per distinct ``q``."""
        if all(isinstance(x, float | int) for x in (q, c, rho)):
            moments = self.moments(float(q))
            spread, data = self._slopes(moments, np.array([c], dtype=float), np.array([rho], dtype=float))
            return Transfer(moments.mean, float(spread[0]), float(data[0]))
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (q, c, rho)))
        flat_q, flat_c, flat_rho = (x.ravel() for x in arrays)
        mean, spread, data = (np.empty_like(flat_q) for _ in range(3))
        for group, value in _groups(flat_q):
            moments = self.moments(value)
            mean[group] = moments.mean
            spread[group], data[group] = self._slopes(moments, flat_c[group], flat_rho[group])
        shape = arrays[0].shape
        return Transfer(mean.reshape(shape), spread.reshape(shape), data.reshape(shape))

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``E φ(u_a) φ(u_b)``; by the Hermite series where it converges, elsewhere by nested quadrature."""
        from firstlight.theory.kernels.product import product_of

        return product_of(self, q_a, q_b, correlation)

    @abstractmethod
    def _slopes(self, moments: Moments, c: Array, rho: Array) -> tuple[Array, Array]:
        """Return ``B/(c q)`` and ``V'/(ρ q)`` at one variance, for one-dimensional ``c`` and ``rho = 1 − c``."""

    def _each(self, q: Number, pick: Callable[[Moments], float]) -> Number:
        if isinstance(q, float | int):
            return pick(self.moments(q))
        array = np.asarray(q, dtype=np.float64)
        distinct, where = np.unique(array, return_inverse=True)
        picked: Array = np.array([pick(self.moments(float(value))) for value in distinct])
        return np.asarray(picked[where].reshape(array.shape))


def _groups(q: Array) -> list[tuple[NDArray[np.intp] | slice, float]]:
    """Return index sets of equal ``q``."""
    if q.size and (q == q[0]).all():
        return [(slice(None), float(q[0]))]
    distinct, where = np.unique(q, return_inverse=True)
    order: NDArray[np.intp] = np.argsort(where, kind="stable")
    counts = np.bincount(where)
    ends = np.cumsum(counts)
    return [
        (order[end - count : end], float(value))
        for value, end, count in zip(distinct, ends, counts, strict=True)
    ]
