"""Averages over runs that say how many runs they are of.

Enters: values with runs along the first axis, NaN where a run has none. Leaves: the average, its standard error over
runs, and the number of runs behind each point.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["mean_and_stderr", "ratio_and_stderr"]

Array = NDArray[np.float64]
Average = tuple[Array, Array, NDArray[np.int64]]


def mean_and_stderr(values: Array) -> Average:
    """Mean, s/√n and n at each point.

    >>> [part.tolist() for part in mean_and_stderr(np.array([[1.0, 5.0], [3.0, np.nan]]))]
    [[2.0, 5.0], [1.0, nan], [2, 1]]
    """
    known = np.isfinite(values)
    count = known.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0.0).sum(0) / count
        square = (np.where(known, values - mean, 0.0) ** 2).sum(0)
        stderr = np.sqrt(square / np.where(count > 1, count - 1, np.nan) / count)
    return mean, stderr, count


def ratio_and_stderr(numerator: Array, denominator: Array) -> Average:
    """Ratio of the averages, its standard error √(Σ(a − r·b)²/(n(n − 1)))/b̄, and n.

    >>> ratio, stderr, count = ratio_and_stderr(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    >>> float(ratio), float(stderr), int(count)
    (2.0, 1.0, 2)
    """
    known = np.isfinite(numerator) & np.isfinite(denominator)
    count = known.sum(0)
    above, below = (np.where(known, item, 0.0) for item in (numerator, denominator))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = below.sum(0) / count
        ratio = above.sum(0) / below.sum(0)
        square = (np.where(known, above - ratio * below, 0.0) ** 2).sum(0)
        stderr = np.sqrt(square / np.where(count > 1, count - 1, np.nan) / count) / mean
    return ratio, stderr, count
