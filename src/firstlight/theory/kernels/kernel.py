"""What one activation does to two Gaussian numbers: the interface, and the choice of a method.

Enters: an activation ``φ``. Leaves: a ``Kernel`` that answers for ``u_a, u_b ~ N(0, q)`` of correlation ``c = 1 − ρ``::

    M  = E φ(u)            S2 = E φ(u)²           S1 = E φ(u_a) φ(u_b)
    B  = S1 − M²           spread of the centres: variance of E[φ | weights] between units
    V' = S2 − S1           spread over the data at fixed weights

``B`` and ``V'`` are differences of nearly equal numbers when ``c`` or ``ρ`` is small, therefore they are never computed
as differences: ``transfer`` returns the slopes ``B/(c·q)`` and ``V'/(ρ·q)`` to full relative precision. They stay
finite where ``B`` and ``V'`` vanish (for a continuous activation). ``M² + B + V' = S2``. Numerical methods are accurate
relative to each of ``B`` and ``V'``, or to the rounding of φ's own values (``10⁻¹⁶ S2``) where ``M²`` or ``B`` is less.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import CouldNotError, one_of

__all__ = ["METHODS", "Array", "Kernel", "Number", "Transfer", "closed_form_of", "kernel_of"]

Array = NDArray[np.float64]
Number = float | NDArray[np.float64]
"""A float or a float64 array; arguments of one call broadcast against each other."""

METHODS = ("auto", "closed_form", "hermite", "quadrature")


class Transfer(NamedTuple):
    """One layer's map of ``(q, c, ρ)``: ``B = spread_slope·(c·q)`` and ``V' = data_slope·(ρ·q)``."""

    mean: Number
    spread_slope: Number
    data_slope: Number


class Kernel(ABC):
    """Gaussian averages of one activation; ``method`` says how they are computed."""

    function: ActivationFunction
    method: str

    @abstractmethod
    def mean(self, q: Number) -> Number:
        """Return ``M = E φ(u)`` for ``u ~ N(0, q)``."""

    @abstractmethod
    def mean_square(self, q: Number) -> Number:
        """Return ``S2 = E φ(u)²``."""

    @abstractmethod
    def gain(self, q: Number) -> Number:
        """Return ``E φ'(u)²``, the factor by which one layer multiplies a small perturbation's variance."""

    @abstractmethod
    def fourth_moment(self, q: Number) -> Number:
        """Return ``E φ(u)⁴`` (infinite where it exceeds float64)."""

    @abstractmethod
    def transfer(self, q: Number, c: Number, rho: Number) -> Transfer:
        """Return mean and slopes at variance ``q`` and correlation ``c = 1 − rho``, both given to full precision."""

    @abstractmethod
    def product(self, q_a: Number, q_b: Number, correlation: Number) -> Number:
        """Return ``E φ(u_a) φ(u_b)`` for variances ``q_a, q_b`` and a correlation in [−1, 1], elementwise."""


def kernel_of(function: ActivationFunction, *, method: str = "auto") -> Kernel:
    """Return the Gaussian averages of an activation.

    Args:
        function: The activation.
        method: ``"closed_form"`` where one is known; ``"hermite"``, the series in powers of the correlation;
            ``"quadrature"``, right for any piecewise smooth activation; ``"auto"``, the first that is accurate.

    Raises:
        CouldNotError: A closed form was asked for and none is known.
    """
    from firstlight.theory.kernels.automatic import AutomaticKernel
    from firstlight.theory.kernels.hermite import HermiteKernel
    from firstlight.theory.kernels.quadrature import QuadratureKernel

    if method not in METHODS:
        raise one_of("method", method, METHODS)
    closed = closed_form_of(function) if method in ("auto", "closed_form") else None
    if closed is not None:
        return closed
    if method == "closed_form":
        raise CouldNotError(
            f"kernel of {function.name!r}: expected an activation with a known closed form, got one without; "
            f"pass method='auto' or method='quadrature'"
        )
    if method == "hermite":
        return HermiteKernel(function)
    return QuadratureKernel(function) if method == "quadrature" else AutomaticKernel(function)


def closed_form_of(function: ActivationFunction) -> Kernel | None:
    """Return the closed form of an activation, or ``None`` where none is known."""
    from firstlight.theory.kernels.error_function import ErrorFunctionKernel
    from firstlight.theory.kernels.gaussian_error_linear import GaussianErrorLinearKernel
    from firstlight.theory.kernels.piecewise_linear import PiecewiseLinearKernel
    from firstlight.theory.kernels.trigonometric import CosineKernel, SineKernel

    if function.slopes is not None:
        return PiecewiseLinearKernel(function)
    named: dict[str, tuple[Callable[[ActivationFunction], Kernel], Callable[[float], float]]] = {
        "cos": (CosineKernel, math.cos),
        "erf": (ErrorFunctionKernel, math.erf),
        "gelu": (GaussianErrorLinearKernel, lambda u: u * math.erfc(-u / math.sqrt(2)) / 2),
        "sin": (SineKernel, math.sin),
    }
    if function.name not in named:
        return None
    closed_form, expected = named[function.name]
    places = np.array([-1.7, -0.6, 0.3, 1.1, 2.9])
    is_it = np.allclose(function.value(places), [expected(u) for u in places], rtol=1e-12, atol=0)
    return closed_form(function) if is_it else None  # a user's function may bear the same name
