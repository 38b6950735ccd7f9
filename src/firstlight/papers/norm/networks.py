"""The perceptrons of the norm-placement paper: ReLU, no norm or batch or layer norm, before or after the ReLU.

Enters: a name and sizes. Leaves: a ``Blueprint`` (appendix G.1: SHLP has 1 hidden layer of 100 units, MHLP has 20).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firstlight.architecture.blueprint import Blueprint

__all__ = ["NORMED", "TITLES", "perceptron"]

_NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "batch-before": {"norm": "batch", "placement": "before"},
    "batch-after": {"norm": "batch", "placement": "after"},
    "layer-before": {"norm": "layer", "placement": "before"},
    "layer-after": {"norm": "layer", "placement": "after"},
}

TITLES: Mapping[str, str] = {
    "plain": "ReLU",
    "batch-before": "BN + ReLU",
    "batch-after": "ReLU + BN",
    "layer-before": "LN + ReLU",
    "layer-after": "ReLU + LN",
}
"""What the paper calls them."""

NORMED = tuple(name for name in _NETWORKS if name != "plain")
"""Those with a norm, in the order of the paper's columns."""


def perceptron(name: str, *, inputs: int, depth: int, width: int = 100) -> Blueprint:
    """The network of that name.

    >>> perceptron("layer-after", inputs=30, depth=1).describe().splitlines()[0]
    "Blueprint.mlp(inputs=30, depth=1, width=100, norm='layer', placement='after')"
    """
    return Blueprint.mlp(inputs=inputs, depth=depth, width=width, **_NETWORKS[name])
