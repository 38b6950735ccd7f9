"""The derivative of a callable on tensors: by automatic differentiation or by differences.

Enters: the callable, its float64 value and its kinks. Leaves: an elementwise derivative; at a kink the mean of both
sides.

Differences take the slope at u of the polynomial through 9 Chebyshev points around u, in a window that stops at the
kinks; of the widths 0.05/8^k the one is taken at which the slope moves least, beyond what the function's own rounding
does to it there (a function that computes in single precision needs wide windows). Automatic differentiation is
checked against them first: a function that leaves torch, or a straight-through estimator whose backward pass is
another function, gets differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from firstlight.architecture.activation_discovery import LIMIT
from firstlight.architecture.polynomial_fit import PolynomialFit

__all__ = ["by_differences", "derivative_of"]

Array = NDArray[np.float64]

_NODES = chebyshev.chebpts1(9)
_SLOPE = chebyshev.chebder(np.linalg.inv(chebyshev.chebvander(_NODES, 8)), axis=0)
"""From heights at the nodes to the coefficients of the slope, in units of the window's half."""
_PROBE = 5.0 * np.sin(np.arange(1, 65) * 2.399963)  # multiples of the golden angle: no regular spacing


def derivative_of(
    double: Callable[[Any], Any], value: Callable[[Array], Array], kinks: tuple[float, ...]
) -> Callable[[Array], Array]:
    """The derivative of an elementwise callable.

    Args:
        double: The callable on float64 tensors.
        value: The same on float64 arrays.
        kinks: Where the slope may jump.
    """
    fit = PolynomialFit(value, np.linspace(-LIMIT, LIMIT, 161))

    def rounding(u: Array) -> Array:
        return fit.noise * fit.scale(u)

    def differences(u: Array) -> Array:
        return by_differences(value, u, kinks, rounding=rounding)

    smooth = _automatic(double) if _automatic_is_right(double, differences, kinks) else differences
    corners = np.array(kinks)

    def derivative(u: Array) -> Array:
        u = np.asarray(u, dtype=np.float64)
        slope = smooth(u)
        at_kink = np.isin(u, corners)
        if at_kink.any():
            # each side extrapolated to the kink: error of second order in the step
            place = u[at_kink]
            step = 1e-5 * np.maximum(1.0, np.abs(place))
            sides = [2.0 * smooth(place + s * step) - smooth(place + 2.0 * s * step) for s in (-1.0, 1.0)]
            slope = slope.copy()
            slope[at_kink] = (sides[0] + sides[1]) / 2.0
        return slope

    return derivative


def by_differences(
    value: Callable[[Array], Array],
    u: Array,
    kinks: tuple[float, ...],
    *,
    rounding: Callable[[Array], Array] = np.zeros_like,
) -> Array:
    """Slope of the local polynomial, one-sided beside the kinks.

    Args:
        value: The function.
        u: Where.
        kinks: Where the slope may jump.
        rounding: Error of the function's values around a place.

    >>> float(by_differences(np.sin, np.array(0.0), ()).round(10))
    1.0
    """
    u = np.asarray(u, dtype=np.float64)
    flat = u.reshape(-1)
    half = np.maximum(0.05, 1e-6 * np.abs(flat))
    noise = rounding(flat)
    slope, gain = _slope(value, flat, half, kinks)
    coarser, shaken, least = slope.copy(), noise * gain, np.full(len(flat), np.inf)
    unsettled = np.arange(len(flat))
    for _ in range(6):
        half /= 8.0
        finer, gain = _slope(value, flat[unsettled], half[unsettled], kinks)
        moved = np.abs(finer - coarser[unsettled])
        error = moved + shaken[unsettled]
        better = error < least[unsettled]
        # the coarser of two that agree carries less rounding
        slope[unsettled[better]] = coarser[unsettled[better]]
        least[unsettled[better]] = error[better]
        coarser[unsettled], shaken[unsettled] = finer, noise[unsettled] * gain
        unsettled = unsettled[moved > 1e-9 * np.maximum(1.0, np.abs(finer))]
        if not len(unsettled):
            break
    return slope.reshape(u.shape)


def _slope(
    value: Callable[[Array], Array], u: Array, half: Array, kinks: tuple[float, ...]
) -> tuple[Array, Array]:
    """The slope in one window, and how far errors of size 1 of the heights move it."""
    corners = np.array([-np.inf, *kinks, np.inf])
    piece = np.searchsorted(corners, u, side="right")
    # a breath inside the corners, whose places are known to rounding only
    low = corners[piece - 1] + 1e-11 * np.maximum(1.0, np.abs(u))
    high = corners[np.minimum(piece, len(corners) - 1)] - 1e-11 * np.maximum(1.0, np.abs(u))
    left = np.maximum(u - half, low)
    right = np.minimum(u + half, high)
    # shift the window rather than halve it, where there is room on the other side
    right = np.minimum(np.maximum(right, left + 2.0 * half), high)
    left = np.maximum(np.minimum(left, right - 2.0 * half), low)
    center, reach = (left + right) / 2.0, (right - left) / 2.0
    values = value(center[:, None] + reach[:, None] * _NODES)
    weights = chebyshev.chebvander((u - center) / reach, len(_SLOPE) - 1) @ _SLOPE / reach[:, None]
    level = values[:, :1]  # taken off, so that a constant has slope 0 to the last bit
    slope = np.einsum("ij,ij->i", weights, values - level)
    return slope, np.abs(weights).sum(axis=1)


def _automatic(double: Callable[[Any], Any]) -> Callable[[Array], Array]:
    def slope(u: Array) -> Array:
        place = torch.from_numpy(np.ascontiguousarray(u, dtype=np.float64).reshape(-1).copy()).requires_grad_(
            True
        )
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(double(place * 1.0).sum(), place)
        return np.asarray(gradient.numpy().reshape(u.shape))

    return slope


def _automatic_is_right(
    double: Callable[[Any], Any], differences: Callable[[Array], Array], kinks: tuple[float, ...]
) -> bool:
    away = _PROBE[np.all(np.abs(_PROBE[:, None] - np.array([*kinks, np.inf])) > 1e-3, axis=1)]
    try:
        slope = _automatic(double)(away)
    except (RuntimeError, TypeError, NotImplementedError):  # it leaves torch, or torch has no rule for it
        return False
    expected = differences(away)
    return bool((np.abs(slope - expected) <= 1e-3 * np.maximum(1.0, np.abs(expected))).all())
