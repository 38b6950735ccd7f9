"""Means over simulations with their standard errors, and differences that a jackknife takes over simulations.

Enters: values by simulation. Leaves: a number and its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["jackknife", "mean_and_error"]

Array = NDArray[np.float64]


def mean_and_error(values: Array) -> tuple[float, float]:
    """Mean and its standard error.

    >>> mean_and_error(np.array([1.0, 3.0]))
    (2.0, 1.0)
    """
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def jackknife(statistic: Callable[[NDArray[np.intp]], float], count: int) -> tuple[float, float]:
    """A statistic of all of ``count`` simulations, and its standard error from leaving out one at a time.

    >>> values = np.array([1.0, 3.0])
    >>> jackknife(lambda chosen: float(values[chosen].mean()), 2)
    (2.0, 1.0)
    """
    everyone = np.arange(count)
    left = np.array([statistic(np.delete(everyone, number)) for number in range(count)])
    return statistic(everyone), float(np.sqrt((count - 1) / count * ((left - left.mean()) ** 2).sum()))
