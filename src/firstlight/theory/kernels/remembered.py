"""A kernel that remembers its last answers: a deep network that has settled asks one question at every layer.

Enters: a kernel. Leaves: the same kernel, where a scalar ``transfer`` or ``gain`` that was asked before
costs a look-up. Near the fixed point of a layer map the arguments repeat to the last bit after some tens of
layers, so a thousand layers cost as much as a hundred.

Where they do not repeat, because γ creeps or the scale grows for ever, ten thousand layers would be ten thousand
quadratures. Then ``ManyLayersKernel`` goes over to interpolation tables, as a phase diagram does.
"""

from __future__ import annotations

from functools import lru_cache

from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.kernel import Kernel, Number, Transfer
from firstlight.theory.kernels.table import tabulate

__all__ = ["ManyLayersKernel", "RememberedKernel"]

MEMORY = 4096

MANY = 128
"""Different questions after which tables are cheaper: a table costs about as much as so many quadratures."""

INTERPOLATION = 1e-9
"""Largest relative error of an interpolated slope; what ten thousand layers can make of it stays below 1e-5."""


class RememberedKernel(Kernel):
    """The kernel given, with the answers for scalar arguments kept."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.function = kernel.function
        self.method = kernel.method
        self._transfer = lru_cache(maxsize=MEMORY)(kernel.transfer)
        self._gain = lru_cache(maxsize=MEMORY)(kernel.gain)

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """As the kernel's; remembered for three floats."""
        if isinstance(q, float) and isinstance(c, float) and isinstance(rho, float):
            return self._transfer(q, c, rho)
        return self.kernel.transfer(q, c, rho)

    def gain(self, q: Number) -> Number:
        """As the kernel's; remembered for a float."""
        return self._gain(q) if isinstance(q, float) else self.kernel.gain(q)

    def mean(self, q: Number) -> Number:
        """As the kernel's."""
        return self.kernel.mean(q)

    def mean_square(self, q: Number) -> Number:
        """As the kernel's."""
        return self.kernel.mean_square(q)

    def fourth_moment(self, q: Number) -> Number:
        """As the kernel's."""
        return self.kernel.fourth_moment(q)

    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """As the kernel's."""
        return self.kernel.product(q_a, q_b, correlation)


class ManyLayersKernel(RememberedKernel):
    """A remembered kernel that goes over to interpolation tables after ``MANY`` different questions."""

    kernel: Kernel

    def __init__(self, kernel: AutomaticKernel) -> None:
        super().__init__(kernel)
        self._direct = True

    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """As the kernel's, or as its table's."""
        if self._direct and self._transfer.cache_info().misses >= MANY:
            self._direct = False
            self.kernel = tabulate(self.kernel, tolerance=INTERPOLATION)
            self._transfer = lru_cache(maxsize=MEMORY)(self.kernel.transfer)
            self._gain = lru_cache(maxsize=MEMORY)(self.kernel.gain)
        return super().transfer(q, c, rho)
