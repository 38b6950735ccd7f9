"""The Hermite series of the two slopes, with a bound on what is left out.

Enters: the coefficients ``b_k = E ψ h_k = a_k/σ`` at one variance. Leaves (Mehler's formula, ``S1 = Σ a_k² c^k``)::

    B/(c q)  = Σ_{k≥1} b_k² c^(k−1)                        remainder after K terms: at most c^K R_K
    V'/(ρ q) = Σ_{j≥0} T_j c^j,  T_j = Σ_{k>j} b_k²        remainder: at most c^K min(R_K/ρ, H_K)

because ``(1 − c^k)/(1 − c) = 1 + c + … + c^(k−1)``: both are power series with positive coefficients, hence without
cancellation at any ``c``. Parseval gives the remainders from what is known: ``R_K = T − Σ_{k≤K} b_k²`` and
``H_K = E φ'² − Σ_{j<K} T_j`` (infinite when φ jumps). For ``c ≤ ½`` the series converges for every activation.
"""

from __future__ import annotations

import math

import numpy as np

from firstlight.errors import CouldNotError
from firstlight.theory.kernels.kernel import Array
from firstlight.theory.kernels.moments import MOST_COEFFICIENTS, Moments, disagreement
from firstlight.theory.kernels.numerical import NumericalKernel

__all__ = ["HermiteKernel", "hermite_slopes"]

TOLERANCE = 1e-11
_COUNTS = (24, 48, 96, 192, MOST_COEFFICIENTS)
_ROUNDING = 1e-15


class HermiteKernel(NumericalKernel):
    """Gaussian averages by the series alone; refuses where its remainder matters."""

    method = "hermite"

    def _slopes(self, moments: Moments, c: Array, rho: Array) -> tuple[Array, Array]:
        spread, data, error = hermite_slopes(moments, c, rho)
        worst = int(np.argmax(error))
        if not error[worst] <= TOLERANCE:
            raise CouldNotError(
                f"kernel of {self.function.name!r} at variance {moments.q:.6g}, correlation {c[worst]:.6g}: expected "
                f"{MOST_COEFFICIENTS} Hermite coefficients to leave out less than {TOLERANCE:.0e}, got up to "
                f"{error[worst]:.1e}; pass method='auto' or method='quadrature'"
            )
        return spread, data


def hermite_slopes(moments: Moments, c: Array, rho: Array) -> tuple[Array, Array, Array]:
    """Return both slopes and a bound of their relative error, with as many terms as they need."""
    gain = math.inf if moments.jumps else moments.gain
    top = float(c.max(initial=0.0))
    for count in _COUNTS:
        squares = moments.coefficients(count) ** 2
        rest = max(moments.variance - float(squares.sum()), _ROUNDING * moments.variance)
        tails = rest + np.cumsum(squares[::-1])[::-1]  # T_0 … T_{K−1}
        slope_rest = max(gain - float(tails.sum()), _ROUNDING * count * gain)
        left_out = top**count * min(rest / max(float(rho.min(initial=1.0)), 1e-300), slope_rest)
        if left_out <= TOLERANCE * float(tails[0]) and top**count * rest <= TOLERANCE * squares[0]:
            break
    if float(tails.sum()) - rest * count > gain * (
        1 + 1e-8
    ):  # Σ k b_k² over the terms at hand is part of E φ'²
        raise disagreement(moments)
    spread, data = _power_series(np.stack([squares, tails]), c)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        power = c**count
        spread_error = np.where(power * rest > 0, power * rest / spread, 0.0)
        data_error = power * np.minimum(rest / rho, slope_rest) / data
    error = np.maximum(np.nan_to_num(spread_error, nan=np.inf), np.nan_to_num(data_error, nan=np.inf))
    return spread, data, np.where(power == 0, 0.0, error)


def _power_series(coefficients: Array, c: Array) -> Array:
    """Evaluate the rows of ``coefficients`` as power series at ``c``."""
    if c.size <= 64:
        return np.asarray(coefficients @ (c ** np.arange(coefficients.shape[1])[:, None]))
    return np.asarray(np.polynomial.polynomial.polyval(c, coefficients.T))
