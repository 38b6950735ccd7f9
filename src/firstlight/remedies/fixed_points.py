r"""A fixed point :math:`z = G(z)` by Anderson's iteration: where plain repetition creeps or runs away.

Enters: pairs :math:`(z_k, G(z_k))`, one after the other. Leaves: the next :math:`z` to try. With residuals
:math:`r_k = G(z_k) - z_k`,

.. math:: z = z_k + β r_k - \sum_j θ_j \bigl(Δz_j + β Δr_j\bigr), \qquad θ = \arg\min ‖r_k - \sum_j θ_j Δr_j‖_2 .

References: Anderson 1965; Walker & Ni 2011.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["FixedPoint"]

Vector = NDArray[np.float64]


class FixedPoint:
    """The iteration and what it remembers.

    Args:
        depth: Steps that are remembered.
        mixing: β, the share of the residual that is added.
        longest: No step is longer than this in any component.

    >>> search, z = FixedPoint(), np.array([1.0])
    >>> for _ in range(6):
    ...     z = search.next(z, np.cos(z))
    >>> f"{z[0]:.6f}"
    '0.739085'
    """

    def __init__(self, *, depth: int = 10, mixing: float = 1.0, longest: float = 1.0) -> None:
        self.depth, self.mixing, self.longest = depth, mixing, longest
        self._points: list[Vector] = []
        self._residuals: list[Vector] = []

    def next(self, point: Vector, image: Vector) -> Vector:
        """Where to look next.

        Args:
            point: Where G was evaluated.
            image: Its value there.
        """
        residual = image - point
        self._points = [*self._points, point][-self.depth - 1 :]
        self._residuals = [*self._residuals, residual][-self.depth - 1 :]
        step = self.mixing * residual
        if len(self._points) > 1:
            moved = np.diff(np.stack(self._points, 1), axis=1)
            changed = np.diff(np.stack(self._residuals, 1), axis=1)
            theta = np.linalg.lstsq(changed, residual, rcond=1e-8)[0]
            step = step - (moved + self.mixing * changed) @ theta
        length = float(np.abs(step).max())
        return point + step * min(1.0, self.longest / length) if length else point
