r"""Gaussian averages of ``y = max φ(u_i)`` over K units: an activation followed by max-pooling.

Enters: an activation and K. Leaves: a ``Kernel``. At one data point the units ``u_i = m_i + √V z_i`` are independent;
two points share the centres ``m_i ~ N(0, C)``, so each pair ``(u_i, u'_i)`` has variance ``q = C + V`` and
correlation ``c = 1 − ρ``.

``M = E y``, ``S2 = E y²`` and the gain ``E φ'(u*)²`` are averages over the winner (``winner.py``). With the joint gain
``g`` at correlation t (``joint_gain.py``)::

    B  = S1 − M² = c q · (1/c) ∫₀^c g dt,        V' = S2 − S1 = ρ q · (1/ρ) ∫_c^1 g dt

so that neither slope is a difference; the first tends to g at t = 0, the second to the gain. A gradient reaches the
winner alone. K = 1 is the activation's own kernel. An activation that turns costs ten times one that only rises: its
level sets are unions of intervals (``level_sets.py``).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import UsageError
from firstlight.theory.kernels.joint_gain import JointGain, TabulatedGain
from firstlight.theory.kernels.kernel import Array, Kernel, Number, Transfer, kernel_of
from firstlight.theory.kernels.panels import Panels, on_panels
from firstlight.theory.kernels.winner import Winner

__all__ = ["MaxPoolKernel"]

_KEPT = 64
_ANGLES = 12
_SMALLEST = 1e-200


class MaxPoolKernel(Kernel):
    """Gaussian averages of the largest of K independent activations.

    Args:
        function: The activation.
        size: K, 1 or more.

    >>> from firstlight.architecture.activations import activation
    >>> mean, _, data_slope = MaxPoolKernel(activation("relu"), 4).transfer(2.0, 0.0, 1.0)
    >>> print(f"{mean**2 / (2.0 * data_slope):.6f}")  # γ behind one layer of ReLU and 2×2 max-pooling
    2.429259
    """

    method = "quadrature"

    def __init__(self, function: ActivationFunction, size: int) -> None:
        try:
            self.size = operator.index(size)
        except TypeError:
            raise UsageError(f"max-pooling: expected a whole number of units, got {size!r}") from None
        if self.size < 1:
            raise UsageError(f"max-pooling: expected 1 or more units, got {self.size}")
        self.function = function
        self._panels = Panels(function)
        self._winners: dict[float, Winner] = {}
        self._table: TabulatedGain | None = None
        self._plain = kernel_of(function) if self.size == 1 else None

    def mean(self, q: Number) -> Number:
        """Return ``E y``."""
        return self._plain.mean(q) if self._plain else self._moment(q, 1)

    def mean_square(self, q: Number) -> Number:
        """Return ``E y²``."""
        return self._plain.mean_square(q) if self._plain else self._moment(q, 2)

    def fourth_moment(self, q: Number) -> Number:
        """Return ``E y⁴``."""
        return self._plain.fourth_moment(q) if self._plain else self._moment(q, 4)

    def gain(self, q: Number) -> Number:
        """Return ``E φ'(u*)²`` of the unit that wins."""
        return self._plain.gain(q) if self._plain else _each(q, lambda at: self._winner(at).gain)

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return mean and slopes of the pooled unit."""
        if self._plain:
            return self._plain.transfer(q, c, rho)
        if all(isinstance(x, float | int) for x in (q, c, rho)):
            joint = self._joint_gain(float(q))
            spread, data = _mean_up_to(joint, np.array(c)), _mean_beyond(joint, np.array(rho))
            return Transfer(self.mean(q), float(spread), float(data))
        q, c, rho = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (q, c, rho)))
        mean = self.mean(q)
        if self.function.slopes is not None:
            joint = self._joint_gain(1.0)
            return Transfer(mean, _mean_up_to(joint, c), _mean_beyond(joint, rho))
        spread, data = np.empty(q.shape), np.empty(q.shape)
        for at in np.ndindex(q.shape):
            joint = self._joint_gain(float(q[at]))
            spread[at], data[at] = _mean_up_to(joint, c[at]), _mean_beyond(joint, rho[at])
        return Transfer(mean, spread, data)

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``E y_a y_b = M_a M_b + σ_a σ_b ∫₀^r g dt`` at correlation ``r``.

        For one kink at zero g is the same function at all variances; otherwise each element costs milliseconds.
        """
        if self._plain:
            return self._plain.product(q_a, q_b, correlation)
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (q_a, q_b, correlation)))
        q_a, q_b, r = arrays
        if self.function.slopes is not None:
            slope = _mean_up_to(self._joint_gain(1.0), r)
        else:
            slope = np.empty(r.shape)
            for at in np.ndindex(r.shape):
                slope[at] = _mean_up_to(self._joint_gain(float(q_a[at]), float(q_b[at])), r[at])
        product = np.asarray(self.mean(q_a)) * self.mean(q_b) + np.sqrt(q_a) * np.sqrt(q_b) * r * slope
        return product if product.ndim else float(product)

    def _moment(self, q: Number, power: int) -> Number:
        if self.function.slopes is None:
            return _each(q, lambda at: self._winner(at).moment(power))
        total: Number = 0.0  # y = shift + √q y₁: binomial sum
        with np.errstate(over="ignore"):
            for k in range(power + 1):
                weight = math.comb(power, k) * self.function.shift ** (power - k)
                total = total + weight * self._winner(1.0).centered(k) * np.asarray(q, dtype=np.float64) ** (
                    0.5 * k
                )
        return float(total) if isinstance(q, float | int) else total

    def _winner(self, q: float) -> Winner:
        q = max(q, _SMALLEST)
        if q not in self._winners:
            if len(self._winners) >= _KEPT:
                self._winners.pop(next(iter(self._winners)))
            self._winners[q] = Winner(self.function, self._panels, self.size, math.sqrt(q))
        return self._winners[q]

    def _joint_gain(self, q_a: float, q_b: float | None = None) -> JointGain | TabulatedGain:
        if self.function.slopes is not None:
            if self._table is None:
                self._table = TabulatedGain(self._winner(1.0))
            return self._table
        return JointGain(self._winner(q_a), self._winner(q_a if q_b is None else q_b))


def _each(q: Number, average: Callable[[float], float]) -> Number:
    if isinstance(q, float | int):
        return average(float(q))
    distinct, where = np.unique(np.asarray(q, dtype=np.float64), return_inverse=True)
    return np.array([average(float(at)) for at in distinct])[where].reshape(np.shape(q))


def _mean_up_to(joint: JointGain | TabulatedGain, c: Array) -> Array:
    """(1/c) ∫₀^c g dt over ψ = asin t, for c in [−1, 1]; g at t = 0 for c = 0."""
    c = np.where(np.abs(c) < _SMALLEST, _SMALLEST, c)
    marks = 0.5 * math.pi - joint.angles[::-1]
    psi, weight = on_panels(_edges(np.arcsin(c), marks), _ANGLES)
    slope = (weight / c[..., None] * np.cos(psi) * joint(0.5 * math.pi - psi)).sum(axis=-1)  # (…, node) → (…)
    # a covariance function has no negative coefficient in c, so what is below 0 is rounding
    return np.asarray(np.where(c > 0, np.maximum(slope, 0.0), slope))


def _mean_beyond(joint: JointGain | TabulatedGain, rho: Array) -> Array:
    """(1/ρ) ∫_{1−ρ}^1 g dt over θ = acos t; the gain for ρ = 0."""
    half = np.asarray(np.sqrt(0.5 * np.maximum(rho, _SMALLEST)))
    theta, weight = on_panels(_edges(2.0 * np.arcsin(half), joint.angles), _ANGLES)
    share = np.sin(theta) / half[..., None] * (weight / half[..., None])
    return np.asarray(np.maximum(0.5 * (share * joint(theta)).sum(axis=-1), 0.0))


def _edges(end: Array, marks: Array) -> Array:
    """0, the marks in between, end."""
    inside = np.clip(
        np.broadcast_to(marks, (*end.shape, len(marks))),
        np.minimum(0, end)[..., None],
        np.maximum(0, end)[..., None],
    )
    return np.concatenate([np.zeros_like(end)[..., None], inside, end[..., None]], axis=-1)
