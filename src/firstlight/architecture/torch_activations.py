"""Registered activations and their torch twins: which module or function is which name.

Enters: an ``ActivationFunction``, or a torch module or function. Leaves: the module, or the registered
name with parameters.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from firstlight.architecture.activation_registry import defaults, lookup
from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.shaped_activations import ShapedActivation, shaped
from firstlight.errors import ModelError

__all__ = ["Elementwise", "ShiftedReLU", "as_module", "recognise", "recognise_call"]


class Elementwise(nn.Module):
    """A module around a function of a tensor, for activations that ``torch.nn`` has no class for."""

    def __init__(self, function: Callable[[Tensor], Tensor], name: str) -> None:
        super().__init__()
        self.function = function
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        """Apply the function."""
        return self.function(x)

    def extra_repr(self) -> str:
        """The function's name."""
        return self.name


class ShiftedReLU(nn.Module):
    """max(x, 0) + shift."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        """Apply ReLU, then shift."""
        return torch.relu(x) + self.shift

    def extra_repr(self) -> str:
        """The shift."""
        return f"shift={self.shift:.6g}"


def _identity(x: Tensor) -> Tensor:
    return x


_MODULES: dict[str, Callable[..., nn.Module]] = {
    "abs": lambda: Elementwise(torch.abs, "abs"),
    "celu": nn.CELU,
    "cos": lambda: Elementwise(torch.cos, "cos"),
    "elu": nn.ELU,
    "erf": lambda: Elementwise(torch.erf, "erf"),
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "hardsigmoid": nn.Hardsigmoid,
    "hardswish": nn.Hardswish,
    "hardtanh": nn.Hardtanh,
    "leaky_relu": nn.LeakyReLU,
    "linear": lambda: Elementwise(_identity, "linear"),
    "mish": nn.Mish,
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "selu": nn.SELU,
    "shifted_relu": ShiftedReLU,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "sin": lambda: Elementwise(torch.sin, "sin"),
    "softplus": nn.Softplus,
    "softsign": nn.Softsign,
    "tanh": nn.Tanh,
}

# modules whose attributes are the registered parameters
_CLASSES: dict[type[nn.Module], str] = {
    maker: name for name, maker in _MODULES.items() if isinstance(maker, type)
}

_FUNCTIONS: dict[Callable[..., Any], str] = {
    _identity: "linear",
    **{
        getattr(torch, name): name
        for name in ("abs", "celu", "cos", "erf", "relu", "selu", "sigmoid", "sin", "tanh")
    },
    **{
        getattr(functional, name): name
        for name in (
            "celu",
            "elu",
            "gelu",
            "hardsigmoid",
            "hardswish",
            "hardtanh",
            "leaky_relu",
            "mish",
            "relu",
            "relu6",
            "selu",
            "sigmoid",
            "silu",
            "softplus",
            "softsign",
            "tanh",
        )
    },
    torch.absolute: "abs",
    torch.special.erf: "erf",
    torch.special.expit: "sigmoid",
    Tensor.relu: "relu",
    Tensor.tanh: "tanh",
    Tensor.sigmoid: "sigmoid",
    Tensor.sin: "sin",
    Tensor.cos: "cos",
    Tensor.erf: "erf",
    Tensor.abs: "abs",
}


def as_module(function: ActivationFunction) -> nn.Module:
    """The module that computes an activation; a user's module is copied, another callable wrapped.

    >>> from firstlight.architecture.activations import activation
    >>> as_module(activation("leaky_relu:negative_slope=0.2"))
    LeakyReLU(negative_slope=0.2)
    """
    if isinstance(function.source, nn.Module):
        return copy.deepcopy(function.source)
    if function.source is not None:
        return Elementwise(function.source, function.name)
    if function.name not in _MODULES:
        raise ModelError(
            f"activation {function.name!r}: expected a registered name or a callable on tensors to build a module "
            "from, got numpy functions only; make it with activation(<callable on tensors>)"
        )
    return _MODULES[function.name](**{**defaults(function.name), **dict(function.parameters)})


def recognise(spec: object) -> ActivationFunction | None:
    """The registered activation that a torch module or function is, or ``None``.

    >>> recognise(nn.ELU(alpha=0.5)).spec
    'elu:alpha=0.5'
    >>> recognise(torch.nn.functional.silu).name
    'silu'
    >>> recognise(nn.Softmax(dim=-1)) is None
    True
    """
    if isinstance(spec, nn.Module):
        return _recognise_module(spec)
    if isinstance(spec, functools.partial):
        return None if spec.args else recognise_call(spec.func, dict(spec.keywords))
    try:
        return recognise_call(spec, {})  # type: ignore[arg-type]
    except TypeError:  # an unhashable callable is none of torch's
        return None


def recognise_call(function: Callable[..., Any], keywords: dict[str, Any]) -> ActivationFunction | None:
    """The registered activation that a call of a torch function with those keywords is, or ``None``."""
    name = _FUNCTIONS.get(function)
    keywords = {key: value for key, value in keywords.items() if key != "inplace"}
    if name == "gelu" and keywords.pop("approximate", "none") == "tanh":
        name = "gelu_tanh"
    if name == "softplus":
        keywords.pop("threshold", None)  # where torch turns to the asymptote, already exact to 2e-9
    if name is None or set(keywords) - set(defaults(name)):
        return None
    return lookup(name, keywords)


def _recognise_module(module: nn.Module) -> ActivationFunction | None:
    if isinstance(module, Elementwise):
        return recognise(module.function)
    if isinstance(module, ShapedActivation):
        inner = _recognise_module(module.activation)
        if inner is None or module.shift.numel() > 1:
            return None
        numbers = {name: float(getattr(module, name)) for name in ("shift", "leak", "scale")}
        return replace(shaped(inner, **numbers), source=module)
    if isinstance(module, nn.PReLU):
        slopes = module.weight.detach().double()
        return (
            lookup("leaky_relu", {"negative_slope": float(slopes[0])})
            if (slopes == slopes[0]).all()
            else None
        )
    name = _CLASSES.get(type(module))
    if type(module) is nn.GELU and module.approximate == "tanh":
        name = "gelu_tanh"
    if name is None:
        return None
    return lookup(name, {key: float(getattr(module, key)) for key in defaults(name)})
