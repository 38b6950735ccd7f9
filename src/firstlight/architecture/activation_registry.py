"""The register of activations: a name stands for a maker, a maker's keyword arguments are the parameters.

Enters: a name and parameters. Leaves: the ``ActivationFunction``, with the parameters that differ from their
defaults. A new activation is one function under ``@registered`` in ``smooth_activations`` or
``kinked_activations``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from importlib import import_module
from numbers import Real

from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import UsageError, one_of

__all__ = ["ALIASES", "defaults", "lookup", "names", "registered"]

Maker = Callable[..., ActivationFunction]

_MAKERS: dict[str, Maker] = {}

ALIASES = {
    "identity": "linear",
    "swish": "silu",
    "gelu_exact": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "leakyrelu": "leaky_relu",
    "absolute": "abs",
    "logistic": "sigmoid",
    "sine": "sin",
    "cosine": "cos",
}
"""Second names; the function found carries the first one."""


def registered(maker: Maker) -> Maker:
    """Enter a maker under its own name (a trailing underscore, as in ``abs_``, is dropped).

    What it returns is the maker that goes by the register, so that a function made by hand carries its parameters too.
    """
    name = maker.__name__.rstrip("_")
    _MAKERS[name] = maker
    signature = inspect.signature(maker)

    @wraps(maker)
    def made(*values: float, **parameters: float) -> ActivationFunction:
        return lookup(name, signature.bind(*values, **parameters).arguments)

    return made


def names() -> list[str]:
    """All registered names, sorted, without the aliases."""
    return sorted(_makers())


def defaults(name: str) -> dict[str, float]:
    """Parameters of a registered activation with their default values.

    >>> defaults("leaky_relu")
    {'negative_slope': 0.01}
    """
    return {key: item.default for key, item in inspect.signature(_makers()[name]).parameters.items()}


def lookup(name: str, parameters: Mapping[str, object]) -> ActivationFunction:
    """The registered activation of that name with those parameters.

    >>> lookup("identity", {}).name
    'linear'
    """
    wanted = name.lower().replace("-", "_")
    wanted = ALIASES.get(wanted, wanted)
    makers = _makers()
    if wanted not in makers:
        raise one_of("activation", name, [*sorted(makers), *sorted(ALIASES)])
    known = defaults(wanted)
    chosen: dict[str, float] = {}
    for key, value in parameters.items():
        if key not in known:
            if not known:
                raise UsageError(f"activation {wanted!r}: takes no parameters, got {key!r}")
            raise one_of(f"activation {wanted!r}, parameter", key, known)
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise UsageError(f"activation {wanted!r}, {key}: expected a finite number, got {value!r}")
        chosen[key] = float(value)
    differing = tuple((key, chosen[key]) for key in known if key in chosen and chosen[key] != known[key])
    return replace(makers[wanted](**chosen), name=wanted, parameters=differing)


def _makers() -> dict[str, Maker]:
    # the definitions enter themselves when they are imported; they need ``registered``, so they come after it
    for home in ("smooth_activations", "kinked_activations"):
        import_module(f"firstlight.architecture.{home}")
    return _MAKERS
