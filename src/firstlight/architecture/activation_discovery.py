"""Finding the kinks of an unknown function: where its value or one of its first derivatives jumps.

Enters: an elementwise function on float64 arrays. Leaves: the kinks in |u| ≤ 40, ascending.

On an interval of width h a smooth function is met by its interpolant of degree 16 up to O(h^17); a function
whose m-th derivative jumps inside, only up to O(h^m). So intervals are halved until the interpolant fits. Where
that takes no more than a few halvings once the error is small, the function is smooth; where the error keeps
falling like h^m with m ≤ 4, or the interval has shrunk to 1e-7 of its place, there is a kink.

Features narrower than about 0.01 (|u| < 8) or 0.03 can hide between the first samples (around 0, where thresholds are
often small, the look is closer); transitions steeper than 1e-7 count as jumps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.kink_location import locate
from firstlight.architecture.polynomial_fit import MARGIN, PolynomialFit
from firstlight.errors import UsageError

__all__ = ["LIMIT", "MOST_KINKS", "find_kinks"]

Array = NDArray[np.float64]

LIMIT = 40.0
"""Half-width of the searched range; a standard normal variable never leaves it."""

MOST_KINKS = 64
"""More kinks than that are refused: integration by pieces would no longer be a small rule."""

_MOST_INTERVALS = 4096
_NARROWEST = 1e-7
_MOST_NOISE = (
    1e-5  # single precision has 1e-7; what looks like more is a function that the samples do not resolve
)
_SMALL_ERROR = 1e-4


def find_kinks(value: Callable[[Array], Array], *, name: str = "function") -> tuple[float, ...]:
    """Find the points in |u| ≤ 40 at which the value or the first or second derivative jumps.

    Jumps of the third derivative are found where they stand out from the function's size.

    Args:
        value: Elementwise on float64 arrays.
        name: For messages.

    Returns:
        The kinks, ascending; to about 1e-12 where the value or first derivative jumps, 1e-10 for higher ones.

    Raises:
        UsageError: More than 64 kinks, or a function too irregular to tell.

    >>> find_kinks(lambda u: np.clip(u, -0.3, 0.7))
    (-0.3, 0.7)
    >>> find_kinks(np.tanh)
    ()
    """
    current = _first_intervals()
    fit = PolynomialFit(value, current.center)
    if fit.noise > _MOST_NOISE:
        raise _too_irregular(name)
    suspects: list[tuple[float, float]] = []
    parents_error = np.full(len(current.center), np.nan)
    while len(current.center):
        if len(current.center) > _MOST_INTERVALS:
            raise _too_irregular(name)
        error, tolerance, scale = fit.errors(current.center, current.half)
        fits = error <= tolerance
        # both halves fit although the error fell slowly: the kink is in their parent; a parent whose error was still
        # large had it in its margin only, and its neighbour is the one to follow
        lost = fits & _sibling(fits) & (parents_error < 1e3 * tolerance)
        slow = lost & _fell_slowly(current, parents_error)
        tiny = ~fits & (current.half < _NARROWEST * np.maximum(np.abs(current.center), 1e-3))
        for index in np.flatnonzero(slow | tiny):
            reach = current.half[index] * (3.0 if slow[index] else MARGIN)
            suspects.append((float(current.center[index] - reach), float(current.center[index] + reach)))
        open_ones = ~fits & ~tiny
        current = current.noting(error, error < _SMALL_ERROR * scale).keep(open_ones).halves()
        parents_error = np.repeat(error[open_ones], 2)
    gaps = _merge(suspects)
    if len(gaps) > MOST_KINKS:
        raise _too_irregular(name)
    places = [locate(fit, gap, _room(gaps, index)) for index, gap in enumerate(gaps)]
    return tuple(sorted({place for place in places if abs(place) <= LIMIT}))


@dataclass(frozen=True)
class _Intervals:
    """Intervals under examination, with the place on their path at which the error became small (NaN: not yet)."""

    center: Array
    half: Array
    first_half: Array
    first_error: Array

    def noting(self, error: Array, small: NDArray[np.bool_]) -> _Intervals:
        first = small & np.isnan(self.first_half)
        first_half = np.where(first, self.half, self.first_half)
        return _Intervals(self.center, self.half, first_half, np.where(first, error, self.first_error))

    def keep(self, chosen: NDArray[np.bool_]) -> _Intervals:
        return _Intervals(
            self.center[chosen], self.half[chosen], self.first_half[chosen], self.first_error[chosen]
        )

    def halves(self) -> _Intervals:
        half = np.repeat(self.half / 2, 2)
        center = np.repeat(self.center, 2) + half * np.tile([-1.0, 1.0], len(self.center))
        return _Intervals(center, half, np.repeat(self.first_half, 2), np.repeat(self.first_error, 2))


def _first_intervals() -> _Intervals:
    # no edge at a round number: people put their kinks there
    shift = 0.0123456789
    edges = np.concatenate([np.arange(-41.0, -8.0), np.arange(-8.0, 8.0, 0.25), np.arange(8.0, 42.0)]) + shift
    # thresholds are often small numbers: look again around 0 at every scale
    near = 0.25 * 0.5 ** np.arange(20.0)
    center = np.concatenate([(edges[1:] + edges[:-1]) / 2, near, -near])
    half = np.concatenate([np.diff(edges) / 2, near / 2, near / 2])
    blank = np.full(len(center), np.nan)
    return _Intervals(center, half, blank, blank)


def _sibling(fits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    # halves come in pairs; the intervals of the first round have no parent yet, and no error that fell
    return fits.reshape(-1, 2)[:, ::-1].reshape(-1)


def _fell_slowly(intervals: _Intervals, parents_error: Array) -> NDArray[np.bool_]:
    """Whether the error on the way here fell like a low power of the width, over at least four halvings."""
    # an analytic function that is met to 1e-4 is met to rounding three halvings later: its nearest singularity is then
    # eight times as far, seen from the interval, and the error falls like ρ^−16
    ratio = intervals.first_half / (2 * intervals.half)
    with np.errstate(invalid="ignore", divide="ignore"):
        order = np.log(intervals.first_error / parents_error) / np.log(ratio)
        return np.asarray((ratio >= 2.0**4) & (order < 4.5))


def _merge(suspects: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """One gap for each kink: the narrowest suspect, joined with neighbours of its own size.

    A much wider one close by saw the same kink in its margin.
    """
    gaps: list[tuple[float, float, float]] = []
    for low, high in sorted(suspects, key=lambda suspect: suspect[1] - suspect[0]):
        width = high - low
        for index, (first, last, narrowest) in enumerate(gaps):
            if low - 2 * width <= last and first <= high + 2 * width:
                if width <= 4 * narrowest:
                    gaps[index] = (min(low, first), max(high, last), narrowest)
                break
        else:
            gaps.append((low, high, width))
    return sorted((low, high) for low, high, _ in gaps)


def _room(gaps: list[tuple[float, float]], index: int) -> tuple[float, float]:
    """Free length to the left and to the right of a gap, at most one half."""
    low, high = gaps[index]
    before = gaps[index - 1][1] if index else -np.inf
    after = gaps[index + 1][0] if index + 1 < len(gaps) else np.inf
    return min(0.5, low - before), min(0.5, after - high)


def _too_irregular(name: str) -> UsageError:
    return UsageError(
        f"activation {name!r}: expected at most {MOST_KINKS} points at which it or its first derivatives jump in "
        f"|u| ≤ {LIMIT:g}, got more (or oscillations, or rounding noise, that look like them); "
        "use a coarser function, or pass an ActivationFunction whose kinks you list"
    )
