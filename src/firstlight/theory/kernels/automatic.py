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

    def _slopes(self, moments: Moments, c: Array, rho: Array) -> tuple[Array, Array]:
        spread, data, error = hermite_slopes(moments, c, rho)
        for i in np.flatnonzero(~(error <= TOLERANCE)):
            spread[i], data[i] = nested_slopes(moments, float(c[i]), float(rho[i]))
        return spread, data
