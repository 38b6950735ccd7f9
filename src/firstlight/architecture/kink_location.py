"""Where in a small gap a kink lies, from the two smooth pieces beside the gap.

Enters: a gap, and the function as a ``PolynomialFit``. Leaves: the place.

With p and q the polynomials to the left and right, extended into the gap, the lowest derivative in which they
differ at the kink is of some order m. For m ≥ 1 the difference of the (m−1)-th derivatives changes sign there,
with slope the jump: Newton finds the root. For m = 0 the value itself says on which side one is: bisection goes
down to neighbouring floats.
"""

from __future__ import annotations

import numpy as np

from firstlight.architecture.polynomial_fit import Piece, PolynomialFit

__all__ = ["locate"]


def locate(fit: PolynomialFit, gap: tuple[float, float], room: tuple[float, float]) -> float:
    """The kink inside the gap.

    Args:
        fit: The function.
        gap: Interval that holds one kink.
        room: Free lengths to the left and to the right of the gap.
    """
    low, high = gap
    left, right = fit.beside(low, -room[0]), fit.beside(high, room[1])
    middle, width = (low + high) / 2, high - low
    if min(left.half / min(room[0], width), right.half / min(room[1], width)) < 4:
        return _follow_error(
            fit, low, high
        )  # singular at the kink: a piece that shrinks with it extends nowhere
    jumps = [right(middle, order) - left(middle, order) for order in range(4)]
    for order in range(4):
        following = abs(jumps[order + 1]) * width if order < 3 else 0.0
        if abs(jumps[order]) > 4 * (following + left.noise(order) + right.noise(order)):
            break
    else:
        return _follow_error(fit, low, high)
    if order == 0:
        return _bisect(fit, low, high, left, right)
    place = middle
    for _ in range(4):
        difference = right(place, order - 1) - left(place, order - 1)
        place -= difference / (right(place, order) - left(place, order))
    if not low <= place <= high:
        return _follow_error(fit, low, high)
    return _shortest(place, 1e-12 + (left.noise(order - 1) + right.noise(order - 1)) / abs(jumps[order]))


def _bisect(fit: PolynomialFit, low: float, high: float, left: Piece, right: Piece) -> float:
    gap, height = (low, high), abs(right(high) - left(low))
    while low < (middle := (low + high) / 2) < high:
        seen = float(fit.value(np.array([middle]))[0])
        if abs(seen - left(middle)) <= abs(seen - right(middle)):
            low = middle
        else:
            high = middle
    below, above = fit.value(np.array([low, high]))
    # a steep root (√|u|) looks like a jump from afar; at neighbouring floats it does not
    return _shortest(high, 1e-12) if abs(above - below) > height / 2 else _follow_error(fit, *gap)


def _follow_error(fit: PolynomialFit, low: float, high: float) -> float:
    """Where no jump of a low derivative explains the gap (|u|^1.5): halve towards the largest error."""
    center, half = (low + high) / 2, (high - low) / 2
    while half > 1e-15 * max(1.0, abs(center)):
        centers, halves = center + half * np.array([-0.5, 0.0, 0.5]), np.full(3, half / 2)
        error, tolerance, _ = fit.errors(centers, halves)
        if not (error > 4 * tolerance).any():
            break
        center, half = float(centers[error.argmax()]), half / 2
    # that is good to a few per cent of the gap
    return _shortest(center, 2 * half + 0.05 * (high - low))


def _shortest(place: float, uncertainty: float) -> float:
    """The shortest decimal within the uncertainty: kinks are typed by people."""
    for digits in range(7):
        rounded = round(place, digits)
        if abs(rounded - place) <= uncertainty * max(1.0, abs(place)):
            return float(rounded) + 0.0
    return float(place)
