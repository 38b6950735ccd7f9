"""Means over networks with their standard errors, and what a jackknife says of any other statistic of them.

Enters: values by network, or by simulation. Leaves: a number and its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from firstlight.results.reproduction import Statement

__all__ = ["bounded", "jackknife", "mean_and_error"]

Array = NDArray[np.float64]


def mean_and_error(values: Array) -> tuple[float, float]:
    """Mean and its standard error.

    >>> mean_and_error(np.array([1.0, 3.0]))
    (2.0, 1.0)
    """
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def jackknife(statistic: Callable[[NDArray[np.intp]], float], count: int) -> tuple[float, float]:
    """A statistic of all of ``count`` networks, and its standard error from leaving out one at a time.

    >>> values = np.array([1.0, 3.0])
    >>> jackknife(lambda chosen: float(values[chosen].mean()), 2)
    (2.0, 1.0)
    """
    everyone = np.arange(count)
    left = np.array([statistic(np.delete(everyone, number)) for number in range(count)])
    return statistic(everyone), float(np.sqrt((count - 1) / count * ((left - left.mean()) ** 2).sum()))


def bounded(says: str, relation: str, bound: float, values: Array, *, otherwise: str = "") -> Statement:
    """State that the mean over networks lies above or below a bound.

    Args:
        says: What the paper states.
        relation: ``">"`` or ``"<"``.
        bound: What the mean is compared with.
        values: By network.
        otherwise: The likely reason where the mean lies on the other side of the bound.

    >>> bounded("it grows", ">", 0.0, np.array([0.9, 1.1, 1.0]))
    <agrees: it grows: 1.000 ± 0.058 > 0>
    >>> bounded("it grows", ">", 0.0, np.array([-1.0, 2.0])).because
    'on the stated side, but by less than three standard errors of so few networks'
    """
    value, error = mean_and_error(values)
    stated = Statement(says, relation, bound, value, error)
    if stated.agrees:
        return stated
    near = value > bound if relation == ">" else value < bound
    because = "on the stated side, but by less than three standard errors of so few networks"
    return Statement(says, relation, bound, value, error, because=because if near else otherwise)
