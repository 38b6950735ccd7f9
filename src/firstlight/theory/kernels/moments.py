"""One-dimensional Gaussian averages of an activation at one variance, and its Hermite coefficients.

Enters: an activation, resolved into panels, and ``q = σ²``. Leaves, for ``z ~ N(0, 1)`` and the excess
``ψ(z) = (φ(σz) − φ(0))/σ`` (divided by σ so that nothing under- or overflows)::

    mean   M = φ(0) + σ E ψ         variance  T = E (ψ − E ψ)² = Var φ/q
    gain   E φ'²                    coefficients  b_k = E ψ h_k = a_k/σ,  h_k the orthonormal Hermite polynomials

The line is folded: the even part of ψ meets the even polynomials, the odd part the odd ones, so that what vanishes by
symmetry is zero to the last bit. Where all that the Gaussian sees of φ lies within a small part of one panel, the
excess is the mean of φ' over ``(0, u)``, because the difference ``φ(u) − φ(0)`` would cancel.
"""

from __future__ import annotations

import math

import numpy as np

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import CouldNotError
from firstlight.theory.kernels.kernel import Array
from firstlight.theory.kernels.panels import Panels, legendre, on_panels

__all__ = ["MOST_COEFFICIENTS", "Moments", "disagreement"]

MOST_COEFFICIENTS = 400
_WIDTH = 0.75  # of a panel in z: the highest polynomial turns by √400·0.75 = 15 radians in it, 16 nodes resolve that
_REACHES = (12.0, 16.0, 21.0, 27.0, 36.0)
_NEGLIGIBLE = 1e-18
_TOLERANCE = 1e-10


class Moments:
    """Averages of ``φ`` over ``N(0, q)``."""

    def __init__(
        self, function: ActivationFunction, panels: Panels, q: float, *, order: int = 16, check: bool = True
    ) -> None:
        self.function, self.panels, self.q = function, panels, q
        self.deviation = math.sqrt(q)
        with np.errstate(all="ignore"):
            self.center = float(function.value(np.zeros(1))[0])
        if not math.isfinite(self.center):
            raise CouldNotError(
                f"kernel of {function.name!r}: expected finite values and derivatives, got {self.center} at 0; theory "
                f"needs a function that is finite on the whole line"
            )
        self._coefficients: list[float] = []
        self._previous: Array = np.zeros(0)
        self._current: Array = np.zeros(0)
        for reach in _REACHES:
            self.reach = reach
            with np.errstate(over="ignore", invalid="ignore"):
                self._evaluate(order)
            if self._edge_is_negligible(order):
                break
        else:
            raise CouldNotError(
                f"kernel of {function.name!r} at variance {q:.6g}: expected a function that grows less than the normal "
                f"density falls, got one whose square still matters {_REACHES[-1]:.0f} standard deviations out, or "
                f"overflows; ask for smaller variances"
            )
        if check:
            self._compare(Moments(function, panels, q, order=order - 4, check=False))

    def excess(self, u: Array) -> Array:
        """Return ``ψ = (φ(u) − φ(0))/σ``."""
        if not self._within_one_panel:
            return np.asarray((self.function.value(u) - self.center) / self.deviation)
        nodes, weights = legendre(8)
        slope = self.function.derivative(u[..., None] * nodes) @ weights
        return np.asarray((u / self.deviation) * slope + self._step(u))

    def coefficients(self, count: int) -> Array:
        """Return ``b_1 … b_count``."""
        count = min(count, MOST_COEFFICIENTS)
        while len(self._coefficients) < count:
            k = len(self._coefficients) + 1  # h_k = (z h_{k−1} − √(k−1) h_{k−2})/√k
            following = (self._z * self._current - math.sqrt(k - 1) * self._previous) / math.sqrt(k)
            self._previous, self._current = self._current, following
            part = self._odd if k % 2 else self._even
            self._coefficients.append(float(part @ following))
        return np.array(self._coefficients[:count])

    @property
    def jumps(self) -> bool:
        """Whether φ jumps within what the Gaussian sees."""
        return any(kink.jump for kink in self.panels.kinks(self.reach * self.deviation))

    @property
    def fourth(self) -> float:
        """``E φ⁴``, infinite where it exceeds float64."""
        with np.errstate(over="ignore", under="ignore"):
            left, right = self._values
            return float(self._weight @ (right**4 + left**4))

    @property
    def mean_square(self) -> float:
        """``E φ² = M² + q T``."""
        return self.mean * self.mean + self.q * self.variance

    def _evaluate(self, order: int) -> None:
        reach, deviation = self.reach, self.deviation
        breaks = np.abs(self.panels.breakpoints(reach * deviation))
        near = self.panels.breakpoints(2.0)
        nearest = np.min(np.abs(near[near != 0])) if np.any(near != 0) else 2.0
        self._within_one_panel = reach * deviation < 0.05 * nearest
        self._steps = tuple(
            float(self.function.value(np.array([side]))[0] - self.center) for side in (-1e-300, 1e-300)
        )
        edges = np.unique(np.concatenate([breaks / deviation, np.arange(0.0, reach, _WIDTH), [reach]]))
        z, weight = on_panels(edges, order)
        weight = weight * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        right, left = self.excess(deviation * z), self.excess(-deviation * z)
        self._z, self._weight = z, weight
        self._values = (self.center + deviation * left, self.center + deviation * right)
        even, odd = (right + left) / 2, (right - left) / 2
        self.mean_excess = 2 * float(weight @ even)
        even = even - self.mean_excess
        root = np.sqrt(weight)
        self.variance = 2 * float(((root * even) ** 2 + (root * odd) ** 2).sum())
        self.mean = self.center + deviation * self.mean_excess
        slopes = (self.function.derivative(-deviation * z), self.function.derivative(deviation * z))
        self.gain = float(((root * slopes[0]) ** 2 + (root * slopes[1]) ** 2).sum())
        self._even, self._odd = 2 * weight * even, 2 * weight * odd
        self._previous, self._current = np.zeros_like(z), np.ones_like(z)

    def _step(self, u: Array) -> Array:
        """Return what a jump of φ at zero adds to the excess."""
        if self._steps == (0.0, 0.0):
            return np.zeros(())
        return np.where(u > 0, self._steps[1], self._steps[0]) / self.deviation

    def _edge_is_negligible(self, order: int) -> bool:
        last = slice(-order, None)
        root = np.sqrt(self._weight[last])  # the weighted parts over this are root · part
        squares = (self._even[last] / root) ** 2 + (self._odd[last] / root) ** 2
        return bool(squares.sum() <= _NEGLIGIBLE * self.variance < math.inf)

    def _compare(self, coarse: Moments) -> None:
        """Refuse averages that a lower order does not confirm, or that break ``Var φ ≤ q E φ'²`` (Poincaré)."""
        scale = math.sqrt(self.variance)
        errors = {
            "mean": abs(self.mean_excess - coarse.mean_excess) / (scale or 1.0),
            "variance": abs(self.variance - coarse.variance) / (self.variance or 1.0),
            "gain": abs(self.gain - coarse.gain) / (self.gain or 1.0),
        }
        worst = max(errors, key=lambda name: errors[name])
        if not errors[worst] <= _TOLERANCE:
            raise CouldNotError(
                f"kernel of {self.function.name!r} at variance {self.q:.6g}: expected the {worst} of two orders to "
                f"agree within {_TOLERANCE:.0e}, got a relative difference of {errors[worst]:.1e}; the function is not "
                f"smooth between its kinks: list them in `kinks`"
            )
        if self.variance > self.gain * (1 + 1e-9) and not self.jumps:
            raise disagreement(self)


def disagreement(moments: Moments) -> CouldNotError:
    """Compose the error for a derivative that does not account for how the function varies."""
    return CouldNotError(
        f"kernel of {moments.function.name!r} at variance {moments.q:.6g}: expected a derivative that accounts for the "
        f"variance, got E φ'² = {moments.gain:.6g} for Var φ/q = {moments.variance:.6g}; give the function's own "
        f"derivative, and list in `kinks` where it changes within a short way"
    )
