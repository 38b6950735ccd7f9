"""The method for an activation without a closed form.

Enters: an activation. Leaves: its ``Kernel``: the Hermite series where its remainder is negligible,
else quadrature.
"""

from __future__ import annotations

import numpy as np

from firstlight.theory.kernels.hermite import TOLERANCE, hermite_slopes
from firstlight.theory.kernels.kernel import Array
from firstlight.theory.kernels.moments import Moments
from firstlight.theory.kernels.numerical import NumericalKernel
from firstlight.theory.kernels.quadrature import nested_slopes

__all__ = ["AutomaticKernel"]


class AutomaticKernel(NumericalKernel):
    """Gaussian averages, each by the cheapest method that is accurate there."""

    method = "auto"

    def slopes(self, q: float, c: Array, rho: Array, *, check: bool = True) -> tuple[Array, Array]:
        """Return both slopes at one variance; without ``check`` by one order of quadrature alone."""
        moments = self.moments(q)
        spread, data, error = hermite_slopes(moments, c, rho)
        for i in np.flatnonzero(~(error <= TOLERANCE)):
            orders = {} if check else {"orders": (10,)}
            spread[i], data[i] = nested_slopes(moments, float(c[i]), float(rho[i]), **orders)
        return spread, data

    def _slopes(self, moments: Moments, c: Array, rho: Array) -> tuple[Array, Array]:
        return self.slopes(moments.q, c, rho)
