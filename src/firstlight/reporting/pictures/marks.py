"""Marks: SVG path data in a square of 1,000 by 1,000, its origin in the upper left corner.

Enters: places between 0 and 1. Leaves: the ``d`` of a path. A place that is None breaks a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["area", "dots", "line", "rules", "steps"]

Point = tuple[float, float | None]


def line(points: Iterable[Point]) -> str:
    """A line through the points.

    >>> line([(0.0, 0.0), (0.5, 1.0), (0.75, None), (1.0, 0.25)])
    'M0 1000L500 0M1000 750'
    """
    pieces, pen = [], "M"
    for x, y in points:
        if y is None:
            pen = "M"
        else:
            pieces.append(f"{pen}{_x(x)} {_y(y)}")
            pen = "L"
    return "".join(pieces)


def dots(points: Iterable[Point]) -> str:
    """Strokes of no length, which round caps turn into dots that no stretching deforms."""
    return "".join(f"M{_x(x)} {_y(y)}h0" for x, y in points if y is not None)


def area(lower: Sequence[Point], upper: Sequence[Point]) -> str:
    """The area between two lines over the same places, broken where either is."""
    pieces: list[str] = []
    run: list[tuple[float, float, float]] = []
    for (x, below), (_, above) in zip([*lower, (0.0, None)], [*upper, (0.0, None)], strict=True):
        if below is not None and above is not None:
            run.append((x, below, above))
            continue
        if len(run) > 1:
            there = "L".join(f"{_x(place)} {_y(high)}" for place, _, high in run)
            back = "L".join(f"{_x(place)} {_y(low)}" for place, low, _ in reversed(run))
            pieces.append(f"M{there}L{back}Z")
        run = []
    return "".join(pieces)


def steps(heights: Sequence[float]) -> str:
    """A histogram of equal bins, standing on the lower edge."""
    count = len(heights)
    walk = "".join(f"V{_y(height)}H{_x((index + 1) / count)}" for index, height in enumerate(heights))
    return f"M0 1000{walk}V1000Z"


def rules(places: Iterable[float]) -> str:
    """Horizontal lines across the square."""
    return "".join(f"M0 {_y(place)}H1000" for place in places)


def _x(place: float) -> str:
    return f"{1000 * place:.4g}"


def _y(place: float) -> str:
    return f"{1000 * (1 - place):.4g}"
