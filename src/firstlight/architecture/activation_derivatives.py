"""The derivative of a callable on tensors: by automatic differentiation or by differences.

Enters: the callable, its float64 value and its kinks. Leaves: an elementwise derivative; at a kink the mean of both
sides.

Differences take the slope at u of the polynomial through 9 Chebyshev points around u, in a window that stops at the
kinks; of the widths 0.05/8^k the one is taken at which the slope moves least. Automatic differentiation is checked
against them first: a function that leaves torch, or a straight-through estimator whose backward pass is another
function, gets differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

__all__ = ["by_differences", "derivative_of"]

Array = NDArray[np.float64]

_NODES = chebyshev.chebpts1(9)
_FIT = np.linalg.inv(chebyshev.chebvander(_NODES, 8))


def derivative_of(
    double: Callable[[Any], Any], value: Callable[[Array], Array], kinks: tuple[float, ...]
) -> Callable[[Array], Array]:
    """The derivative of an elementwise callable.

    Args:
        double: The callable on float64 tensors.
        value: The same on float64 arrays.
        kinks: Where the slope may jump.
    """

    def differences(u: Array) -> Array:
        return by_differences(value, u, kinks)

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


def by_differences(value: Callable[[Array], Array], u: Array, kinks: tuple[float, ...]) -> Array:
    """Slope of the local polynomial, one-sided beside the kinks.

    >>> float(by_differences(np.sin, np.array(0.0), ()).round(10))
    1.0
    """
    u = np.asarray(u, dtype=np.float64)
    flat = u.reshape(-1)
    half = np.maximum(0.05, 1e-6 * np.abs(flat))
    slope = _slope(value, flat, half, kinks)
    coarser, least = slope.copy(), np.full(len(flat), np.inf)
    unsettled = np.arange(len(flat))
    for _ in range(6):
        half /= 8.0
        finer = _slope(value, flat[unsettled], half[unsettled], kinks)
        moved = np.abs(finer - coarser[unsettled])
        better = moved < least[unsettled]
        # the coarser of two that agree carries less rounding
        slope[unsettled[better]] = coarser[unsettled[better]]
        least[unsettled[better]] = moved[better]
        coarser[unsettled] = finer
        unsettled = unsettled[moved > 1e-9 * np.maximum(1.0, np.abs(finer))]
        if not len(unsettled):
            break
    return slope.reshape(u.shape)


def _slope(value: Callable[[Array], Array], u: Array, half: Array, kinks: tuple[float, ...]) -> Array:
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
    level = values[:, :1]  # taken off, so that a constant has slope 0 to the last bit
    series = chebyshev.chebder((values - level) @ _FIT.T, axis=1)
    powers = chebyshev.chebvander((u - center) / reach, series.shape[1] - 1)
    return np.asarray((powers * series).sum(1) / reach)


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
    probe = 5.0 * np.sin(np.arange(1, 65) * 2.399963)
    away = probe[np.all(np.abs(probe[:, None] - np.array([*kinks, np.inf])) > 1e-3, axis=1)]
    try:
        slope = _automatic(double)(away)
    except (RuntimeError, TypeError, NotImplementedError):  # it leaves torch, or torch has no rule for it
        return False
    expected = differences(away)
    return bool((np.abs(slope - expected) <= 1e-3 * np.maximum(1.0, np.abs(expected))).all())
