"""Functions on tensors by what they are to a blueprint: sums, views, elementwise functions, pools, and the others.

Enters: nothing. Leaves: tables that ``unfolding`` looks calls up in; methods stand under their names.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

__all__ = [
    "COPIES",
    "DIFFERENCES",
    "DROPOUTS",
    "ELEMENTWISE",
    "POOLS",
    "POSITIONAL",
    "PRODUCTS",
    "QUOTIENTS",
    "REASONS",
    "SUMS",
    "VIEWS",
    "function_name",
]

SUMS: set[Any] = {operator.add, operator.iadd, torch.add, "add", "add_"}
DIFFERENCES: set[Any] = {operator.sub, operator.isub, torch.sub, "sub", "sub_"}
PRODUCTS: set[Any] = {operator.mul, operator.imul, torch.mul, "mul", "mul_"}
QUOTIENTS: set[Any] = {operator.truediv, operator.itruediv, torch.div, "div", "div_"}

COPIES: set[Any] = {"clone", "contiguous", "double", "float", "to", "type_as"}
"""Calls that change neither number nor shape."""

VIEWS: set[Any] = {
    torch.flatten,
    torch.reshape,
    torch.squeeze,
    torch.unsqueeze,
    "flatten",
    "reshape",
    "squeeze",
    "unsqueeze",
    "view",
}
"""Calls that change the shape only."""

DROPOUTS: set[Any] = {
    functional.alpha_dropout,
    functional.dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    torch.dropout,
}

_TORCH = (
    "abs",
    "atan",
    "clamp",
    "clip",
    "cos",
    "cosh",
    "erf",
    "exp",
    "expm1",
    "floor",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "neg",
    "pow",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tanh",
    "where",
)
_FUNCTIONAL = (
    "celu",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
)
_IN_PLACE = ("abs_", "clamp_", "relu_", "sigmoid_", "tanh_")

ELEMENTWISE: set[Any] = {
    operator.neg,
    operator.pow,
    *(getattr(torch, name) for name in _TORCH),
    *(getattr(functional, name) for name in _FUNCTIONAL),
    *_TORCH,
    *_IN_PLACE,
}
"""Calls that act on each number by itself, apart from the four of arithmetic."""

POOLS: dict[str, type[nn.Module]] = {
    f"{adaptive}{kind}_pool{dimensions}d": getattr(
        nn, f"{adaptive.title().strip('_')}{kind.title()}Pool{dimensions}d"
    )
    for adaptive in ("", "adaptive_")
    for kind in ("max", "avg")
    for dimensions in (1, 2, 3)
}
"""The module that does what a functional pool does, by the function's name."""

POSITIONAL: dict[str, tuple[str, ...]] = {
    "leaky_relu": ("negative_slope", "inplace"),
    "elu": ("alpha", "inplace"),
    "celu": ("alpha", "inplace"),
    "hardtanh": ("min_val", "max_val", "inplace"),
    "softplus": ("beta", "threshold"),
    **dict.fromkeys(("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid"), ("inplace",)),
}
"""Names of the positional arguments after the input, for functions that are registered activations."""

_SIDE_BY_SIDE = "no rule describes units of different statistics side by side"
_TIES = "softmax ties the units together; no rule describes it"
_POSITIONS = "joins positions, whose covariance the description does not hold"

REASONS: dict[str, str] = {
    **dict.fromkeys(
        ("cat", "concat", "concatenate", "stack", "hstack", "vstack"), f"joins branches; {_SIDE_BY_SIDE}"
    ),
    **dict.fromkeys(("chunk", "split", "getitem", "narrow", "select"), f"takes units apart; {_SIDE_BY_SIDE}"),
    **dict.fromkeys(("matmul", "bmm", "einsum", "baddbmm"), "multiplies two signals; no rule describes it"),
    **dict.fromkeys(
        ("permute", "transpose", "movedim", "swapaxes"), "exchanges axes: units become positions"
    ),
    **dict.fromkeys(("softmax", "log_softmax"), _TIES),
    **dict.fromkeys(("mean", "sum", "max", "amax", "interpolate"), _POSITIONS),
    "scaled_dot_product_attention": "attention weighs its inputs by themselves; no rule describes it",
}
"""Why a function has no description, by its name."""


def function_name(node: fx.Node) -> str:
    """Name of the function or method that a node calls."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "function")
    return str(name).strip("_")
