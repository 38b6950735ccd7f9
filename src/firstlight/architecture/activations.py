"""The activations by name: what each one is as a function of a number, without torch.

Enters: a name with parameters, or any callable on tensors. Leaves: an ``ActivationFunction`` that theory evaluates in float64
numpy, that ``building`` turns into a module, and that ``reading`` finds from one.

Kinks (points where the function or one of its first derivatives jumps) are listed, because every quadrature must break there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ActivationFunction"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ActivationFunction:
    """A scalar function with what integration needs to know of it.

    Attributes:
        name: Registered name, or the callable's own name.
        value: Elementwise on float64 arrays of any shape.
        derivative: Likewise; at a kink the mean of both sides.
        kinks: Points at which value or a low derivative jumps, ascending; ``None`` means "not known: find them".
        parameters: Named parameters that differ from the registered defaults (``negative_slope`` …).
        slopes: (left, right) when the function is ``shift + left·min(u, 0) + right·max(u, 0)`` exactly, else ``None``.
        shift: The constant of that form.
        source: The user's callable on tensors, for a function that is not registered.
    """

    name: str
    value: Callable[[Array], Array] = field(compare=False, repr=False)
    derivative: Callable[[Array], Array] = field(compare=False, repr=False)
    kinks: tuple[float, ...] | None = ()
    parameters: tuple[tuple[str, float], ...] = ()
    slopes: tuple[float, float] | None = None
    shift: float = 0.0
    source: Callable[[Any], Any] | None = field(default=None, repr=False)
