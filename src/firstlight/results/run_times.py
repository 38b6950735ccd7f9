"""When a curve settles, and the area under it, over recorded steps that need not lie evenly.

Enters: steps, ascending, and curves ``(init, step)`` with NaN where a run has no record. Leaves: one number a run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["area_over_steps", "settling_steps"]

Array = NDArray[np.float64]


def settling_steps(
    steps: NDArray[np.int64], values: Array, level: float, *, interpolate: bool = False
) -> Array:
    """The first recorded step from which each curve stays at or above ``level``; NaN where it does not.

    Args:
        steps: Recorded steps.
        values: Curves, ``(init, step)``.
        level: The level.
        interpolate: Return instead where the line in log(1 + step) from the record before meets the level.

    >>> steps = np.array([0, 1, 2, 4])
    >>> settling_steps(steps, np.array([[0.5, 0.7, 0.55, 0.8], [0.5, 0.5, 0.5, 0.5]]), 0.6).tolist()
    [4.0, nan]
    """
    found = np.full(len(values), np.nan)
    for run, curve in enumerate(values):
        known = np.flatnonzero(~np.isnan(curve))
        below = np.flatnonzero(curve[known] < level)
        first = 0 if not below.size else int(below[-1]) + 1
        if first == known.size:
            continue
        late = known[first]
        if not interpolate or first == 0:
            found[run] = steps[late]
            continue
        early = known[first - 1]
        share = (level - curve[early]) / (curve[late] - curve[early])
        begin, end = np.log1p(steps[early]), np.log1p(steps[late])
        found[run] = np.expm1(begin + share * (end - begin))
    return found


def area_over_steps(steps: NDArray[np.int64], values: Array) -> Array:
    """∫ value d(step) by the trapezoid rule over the records of each run.

    >>> area_over_steps(np.array([0, 2, 4]), np.array([[1.0, 1.0, 0.0], [1.0, np.nan, 0.0]])).tolist()
    [3.0, 2.0]
    """
    found = np.full(len(values), np.nan)
    for run, curve in enumerate(values):
        known = ~np.isnan(curve)
        if known.sum() > 1:
            found[run] = np.trapezoid(curve[known], steps[known])
    return found
