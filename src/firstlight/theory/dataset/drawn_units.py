r"""Units that are drawn one by one, for a norm that looks at each of them.

An average over units is all that the other layers need; batch norm behind an activation divides each unit by its own
deviation over the data. So the state behind an activation remembers where it comes from: the Gaussian units before, the
activation, and the pool that has joined groups of units since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.activations import ActivationFunction
from firstlight.theory.kernels.kernel import Kernel
from firstlight.theory.kernels.max_pool import MaxPoolKernel
from firstlight.theory.kernels.remembered import RememberedKernel

__all__ = ["UnitSource", "source_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class UnitSource:
    """How one unit behind an activation comes about.

    Attributes:
        before: The state of the Gaussian units before the activation.
        function: The activation.
        greatest: A unit is the greatest of so many.
        averaged: And then the mean of so many of these.
    """

    before: Any
    function: ActivationFunction
    greatest: int = 1
    averaged: int = 1

    @property
    def size(self) -> int:
        """Gaussian units that go into one unit."""
        return self.greatest * self.averaged

    def shrunk(self, size: int) -> Self:
        """Behind one more average over so many units."""
        return type(self)(self.before, self.function, self.greatest, self.averaged * size)

    def units(self, gaussian: Array) -> tuple[Array, Array]:
        """Units (point, unit) from Gaussian ones (point, unit · size), and φ'², the winners' in a pool.

        A remainder of Gaussian units is left out.
        """
        filled = gaussian.shape[1] // self.size * self.size
        values = np.array(self.function.value(gaussian[:, :filled]))
        slopes = np.square(self.function.derivative(gaussian[:, :filled]))
        if self.size == 1:
            return values, slopes
        groups = (len(values), -1, self.averaged, self.greatest)
        values, slopes = values.reshape(groups), slopes.reshape(groups)
        winner = values.argmax(axis=3)[..., None]
        values, slopes = (
            np.take_along_axis(x, winner, axis=3)[..., 0].mean(axis=2) for x in (values, slopes)
        )
        return np.asarray(values), np.asarray(slopes)


def source_of(before: Any, kernel: Kernel) -> UnitSource:
    """What stands behind an activation, alone or with the max-pool that reads it."""
    asked = kernel.kernel if isinstance(kernel, RememberedKernel) else kernel
    return UnitSource(before, kernel.function, asked.size if isinstance(asked, MaxPoolKernel) else 1)
