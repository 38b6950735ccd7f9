"""The closed form for one kink at zero: ``φ(u) = s + l·min(u, 0) + r·max(u, 0)``.

Enters: ReLU, leaky ReLU, abs, linear, shifted ReLU. Leaves: their ``Kernel``.

With ``a = (l + r)/2``, ``b = (r − l)/2`` the function is ``s + a·u + b·|u|`` and only ``E|u_a||u_b|`` is not trivial
(the arc-cosine kernel; Cho & Saul 2009). With ``c = cos θ``, ``ρ = 1 − c = 2 sin²(θ/2)``::

    M  = s + b √(2q/π)
    B  = c q [a² + b² (2/π) (asin c − c/(1 + √(1 − c²)))]
    V' = ρ q [a² + b² (1 − (2/π) k(θ))],     k(θ) = (sin θ − θ cos θ)/(1 − cos θ) = ⅔ θ − θ³/90 − …

No bracket cancels: the first is a sum of positive terms but for a harmless ``asin c − c/2``, the second lies between
``1 − 2/π`` and 1.
"""

from __future__ import annotations

import math

import numpy as np

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import UsageError
from firstlight.theory.kernels.kernel import Array, Kernel, Number, Transfer

__all__ = ["PiecewiseLinearKernel"]

_TWO_OVER_PI = 2.0 / math.pi
_ROOT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)
_SERIES_BELOW = 0.4
_ROTATION = (
    2 / 3,
    -1 / 90,
    -1 / 2520,
    -1 / 75600,
    -4.1753513975736197958e-7,
    -1.2682056332849983644e-8,
    -3.7471102285917100732e-10,
)
_DEFECT = (1 / 3, -1 / 30, 1 / 840, -1 / 45360, 1 / 3991680, -1 / 518918400, 1 / 93405312000)


class PiecewiseLinearKernel(Kernel):
    """Gaussian averages of ``shift + left·min(u, 0) + right·max(u, 0)``.

    >>> import numpy as np
    >>> value, derivative = lambda u: np.maximum(u, 0), lambda u: np.heaviside(u, 0.5)
    >>> relu = ActivationFunction("relu", value, derivative, (0.0,), (), (0.0, 1.0))
    >>> kernel = PiecewiseLinearKernel(relu)
    >>> mean, _, data_slope = kernel.transfer(1.0, 0.0, 1.0)
    >>> round(mean**2 / data_slope, 8)  # 1/(π − 1)
    0.46694221
    """

    method = "closed_form"

    def __init__(self, function: ActivationFunction) -> None:
        if function.slopes is None:
            raise UsageError(
                f"kernel of {function.name!r}: expected an activation with `slopes`, got slopes=None"
            )
        self.function = function
        left, right = (float(slope) for slope in function.slopes)
        self._left, self._right, self._shift = left, right, float(function.shift)
        self._bend = (right - left) / 2
        self._gain = (left * left + right * right) / 2
        self._straight_square = ((left + right) / 2) ** 2
        self._bend_square = self._bend**2
        self._mean_per_deviation = self._bend * _ROOT_TWO_OVER_PI

    def mean(self, q: Number) -> Number:
        """Return ``s + b √(2q/π)``."""
        return self._shift + self._mean_per_deviation * _root(q)

    def mean_square(self, q: Number) -> Number:
        """Return ``M² + q (a² + b² (1 − 2/π))``, a sum of positive terms."""
        mean = self.mean(q)
        return mean * mean + q * (self._straight_square + self._bend_square * (1 - _TWO_OVER_PI))

    def gain(self, q: Number) -> Number:
        """Return ``(l² + r²)/2`` at every ``q``."""
        return self._gain if isinstance(q, float | int) else np.full(np.shape(q), self._gain)

    def fourth_moment(self, q: Number) -> Number:
        """Return the mean over both sides of ``E (s + r|u|)⁴`` and ``E (s − l|u|)⁴``."""
        with np.errstate(over="ignore"):
            deviation = _root(q)
            right, left = self._right * deviation, -self._left * deviation
            return (
                _fourth_moment_of_half(self._shift, right) + _fourth_moment_of_half(self._shift, left)
            ) / 2

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return the slopes of the module's formulas; floats take a path through ``math`` alone."""
        if isinstance(q, float) and isinstance(c, float) and isinstance(rho, float):
            theta = 2 * math.asin(math.sqrt(0.5 * rho))
            bend = self._bend_square
            angle = math.asin(c) if c < 0.5 else math.pi / 2 - theta  # near c = 1 only ρ is exact enough
            centered = angle - c / (1 + math.sqrt(rho * (1 + c)))
            if theta < _SERIES_BELOW:
                square = theta * theta
                rotation = 0.0
                for coefficient in reversed(_ROTATION):
                    rotation = rotation * square + coefficient
                rotation *= theta
            else:
                rotation = (math.sin(theta) - theta * c) / rho
            return Transfer(
                self._shift + self._mean_per_deviation * math.sqrt(q),
                self._straight_square + bend * _TWO_OVER_PI * centered,
                self._straight_square + bend * (1 - _TWO_OVER_PI * rotation),
            )
        return self._transfer_arrays(
            *np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (q, c, rho)))
        )

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``s² + s b √(2/π)(σ_a + σ_b) + σ_a σ_b [(l² + r²) J(r) − 2 l r J(−r)]/(2π)`` at correlation ``r``.

        ``J(r) = sin θ + (π − θ) cos θ`` is the arc-cosine kernel, positive, and accurate at both ends.
        """
        deviation_a, deviation_b = np.sqrt(q_a), np.sqrt(q_b)
        r = np.asarray(correlation, dtype=np.float64)
        same = (self._left**2 + self._right**2) * _arc_cosine(r)
        opposite = -2 * self._left * self._right * _arc_cosine(-r) if self._left * self._right else 0.0
        shifted = self._shift * (self._shift + self._mean_per_deviation * (deviation_a + deviation_b))
        return shifted + deviation_a * deviation_b * (same + opposite) / (2 * math.pi)

    def _transfer_arrays(self, q: Array, c: Array, rho: Array) -> Transfer:
        theta = 2 * np.arcsin(np.sqrt(0.5 * rho))
        angle = np.where(
            c < 0.5, np.arcsin(np.minimum(c, 0.5)), math.pi / 2 - theta
        )  # near c = 1 only ρ is exact enough
        centered = angle - c / (1 + np.sqrt(rho * (1 + c)))
        small = theta < _SERIES_BELOW
        rotation = theta * np.polynomial.polynomial.polyval(np.where(small, theta, 0.0) ** 2, _ROTATION)
        large = ~small
        if large.any():
            wide = theta[large]
            rotation = np.array(rotation)
            rotation[large] = (np.sin(wide) - wide * c[large]) / rho[large]
        return Transfer(
            self._shift + self._mean_per_deviation * np.sqrt(q),
            self._straight_square + self._bend_square * _TWO_OVER_PI * centered,
            self._straight_square + self._bend_square * (1 - _TWO_OVER_PI * rotation),
        )


def _root(q: Number) -> Number:
    return math.sqrt(q) if isinstance(q, float | int) else np.sqrt(q)


def _fourth_moment_of_half(shift: float, slope: Number) -> Number:
    """Return ``E (shift + slope·|z|)⁴`` for a standard normal ``z``."""
    moments = (1.0, _ROOT_TWO_OVER_PI, 1.0, 2 * _ROOT_TWO_OVER_PI, 3.0)
    terms: list[Number] = [math.comb(4, k) * shift ** (4 - k) * moments[k] for k in range(5)]
    result: Number = terms[4]
    for term in reversed(terms[:4]):
        result = result * slope + term
    return result


def _arc_cosine(r: Array) -> Array:
    """Return ``√(1 − r²) + r·acos(−r)``; near ``r = −1`` the series of ``sin δ − δ cos δ`` with ``δ = π − θ``."""
    sine = np.sqrt((1 - r) * (1 + r))
    delta = np.arctan2(sine, -r)  # π − θ
    square = np.minimum(delta, _SERIES_BELOW) ** 2
    series = delta * square * np.polynomial.polynomial.polyval(square, _DEFECT)
    return np.where(delta < _SERIES_BELOW, series, sine + r * delta)
