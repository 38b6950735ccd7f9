"""The activations by name: what each one is as a function of a number, without torch.

Enters: a name with parameters, or any callable on tensors. Leaves: an ``ActivationFunction`` that theory evaluates in
float64 numpy, that ``building`` turns into a module, and that ``reading`` finds from one.

Kinks (points where the function or one of its first derivatives jumps) are listed, because every quadrature must break
there. The definitions are in ``smooth_activations`` and ``kinked_activations``; callables are examined in
``activation_callables``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import UsageError

__all__ = ["ActivationFunction", "activation", "activation_names"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ActivationFunction:
    """A scalar function with what integration needs to know of it.

    Attributes:
        name: Registered name, or the callable's own name.
        value: Elementwise on float64 arrays of any shape.
        derivative: Likewise; at a kink the mean of both sides.
        kinks: Points at which value or a low derivative jumps, ascending; ``None`` means "not known: find
            them".
        parameters: Named parameters that differ from the registered defaults (``negative_slope`` …).
        slopes: (left, right) when the function is ``shift + left·min(u, 0) + right·max(u, 0)`` exactly, else
            ``None``.
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

    @property
    def spec(self) -> str:
        """The words that ``activation`` reads back (a callable's own name where it is not registered).

        >>> activation("leaky_relu:negative_slope=0.2").spec
        'leaky_relu:negative_slope=0.2'
        """
        given = ",".join(f"{name}={value!r}" for name, value in self.parameters)
        return f"{self.name}:{given}" if given else self.name

    def __str__(self) -> str:
        return self.spec


def activation(spec: object) -> ActivationFunction:
    """Find the activation that a name, a module or a callable stands for.

    Args:
        spec: One of

            - a registered name, ``"relu"``; with parameters ``"leaky_relu:negative_slope=0.2"``;
            - a pair ``("leaky_relu", {"negative_slope": 0.2})``;
            - an ``ActivationFunction``, returned as it is;
            - an activation module (``nn.GELU(approximate="tanh")``) or function (``torch.tanh``): registered ones
              are recognised;
            - any other elementwise callable on tensors. It is examined (shape, finiteness, elementwise,
              deterministic), its kinks in ``|u| ≤ 40`` are found, and it is evaluated through torch in float64.

    Returns:
        The function with its derivative and kinks.

    Raises:
        UsageError: An unknown name or parameter, or a callable that is not an elementwise function.

    >>> activation("relu").kinks
    (0.0,)
    >>> activation(("elu", {"alpha": 0.5})).parameters
    (('alpha', 0.5),)
    >>> float(activation("gelu").value(np.array(-30.0))) < 0
    True
    """
    if isinstance(spec, ActivationFunction):
        return spec
    if isinstance(spec, str):
        return _from_words(spec)
    if isinstance(spec, tuple | list) and len(spec) == 2 and isinstance(spec[0], str):
        if not isinstance(spec[1], Mapping):
            raise UsageError(
                f"activation {spec[0]!r}: expected a pair (name, {{parameter: value}}), "
                f"got {type(spec[1]).__name__} in second place"
            )
        from firstlight.architecture.activation_registry import lookup

        return lookup(spec[0], spec[1])
    if callable(spec):
        from firstlight.architecture.activation_callables import from_callable

        return from_callable(spec)
    raise UsageError(
        "activation: expected a registered name, a pair (name, parameters), a module or a callable on "
        f"tensors, got {spec!r} of type {type(spec).__name__}; names: {', '.join(activation_names())}"
    )


def activation_names() -> list[str]:
    """All registered names, sorted."""
    from firstlight.architecture.activation_registry import names

    return names()


def _from_words(words: str) -> ActivationFunction:
    from firstlight.architecture.activation_registry import lookup

    name, colon, given = words.partition(":")
    parameters: dict[str, object] = {}
    for part in given.split(",") if colon else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(
                f"activation {words!r}: expected name:parameter=value with commas between parameters, "
                f"got {part!r}; for example 'leaky_relu:negative_slope=0.2'"
            )
        try:
            parameters[key.strip()] = float(value)
        except ValueError:
            parameters[key.strip()] = value.strip()
    return lookup(name.strip(), parameters)
