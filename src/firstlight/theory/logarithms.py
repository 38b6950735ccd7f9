"""Arithmetic on logarithms, for a number or for a whole phase diagram.

A network of 10,000 layers can scale its signal by e^±7000, so variances travel as natural logarithms and −∞
is an exact zero. Python floats take the ``math`` path: a thousand layers must not cost a thousand times the
overhead of numpy.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["ZERO", "Number", "exponential", "log_add", "log_subtract", "logarithm"]

Number = float | NDArray[np.float64]

ZERO = -math.inf
"""The logarithm of nothing."""


def logarithm(x: Number) -> Number:
    """Natural logarithm with log 0 = −∞ and no warning.

    >>> logarithm(0.0)
    -inf
    """
    if isinstance(x, float):
        return math.log(x) if x > 0 else (ZERO if x == 0 else math.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(x)


def exponential(x: Number) -> Number:
    """Exponential that saturates at ∞ and 0 without a warning."""
    if isinstance(x, float):
        return math.exp(x) if x < 709.0 else (math.nan if x != x else math.inf)
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(x)


def log_add(a: Number, b: Number) -> Number:
    """log(eᵃ + eᵇ).

    >>> round(log_add(math.log(2.0), math.log(3.0)), 12) == round(math.log(5.0), 12)
    True
    """
    if isinstance(a, float) and isinstance(b, float):
        if a == ZERO:
            return b
        if b == ZERO:
            return a
        return a + math.log1p(math.exp(b - a)) if a >= b else b + math.log1p(math.exp(a - b))
    return np.logaddexp(a, b)


def log_subtract(a: Number, b: Number) -> Number:
    """log(eᵃ − eᵇ) for a ≥ b."""
    if isinstance(a, float) and isinstance(b, float):
        if b == ZERO:
            return a
        return logarithm(-math.expm1(b - a)) + a
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isneginf(b), a, a + np.log(-np.expm1(b - a)))
