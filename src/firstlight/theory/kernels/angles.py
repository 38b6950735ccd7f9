"""An angle over its sine, and one formula for floats and arrays alike.

Enters: sine and cosine of an angle ``A`` in [0, π/2]. Leaves: ``A/sin A`` and ``A/sin A − 1``, the latter by its series
where the difference would cancel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firstlight.theory.kernels.kernel import Number

__all__ = ["angle_over_sine", "angle_over_sine_less_one", "library"]

_SERIES = (
    1 / 6,
    7 / 360,
    31 / 15120,
    127 / 604800,
    73 / 3421440,
    1414477 / 653837184000,
    8191 / 37362124800,
    16931177 / 762187345920000,
)
_BELOW = 0.4


def library(*arguments: Number) -> Any:
    """Return ``math`` when every argument is a float, ``numpy`` otherwise; both name their functions alike."""
    return math if all(isinstance(argument, float | int) for argument in arguments) else np


def angle_over_sine(sine: Number, cosine: Number) -> Number:
    """Return ``A/sin A``, 1 at 0."""
    return 1 + angle_over_sine_less_one(sine, cosine)


def angle_over_sine_less_one(sine: Number, cosine: Number) -> Number:
    """Return ``A/sin A − 1 = A²/6 + 7A⁴/360 + …`` to full relative precision.

    >>> round(angle_over_sine_less_one(1.0, 0.0), 12) == round(math.pi / 2 - 1, 12)
    True
    """
    if isinstance(sine, float | int) and isinstance(cosine, float | int):
        angle = math.atan2(sine, cosine)
        return angle / sine - 1 if angle >= _BELOW else _series(angle * angle)
    angles = np.atan2(sine, cosine)
    small = angles < _BELOW
    # the other branch is kept away from 0/0 where it is not used
    return np.where(small, _series(np.minimum(angles, _BELOW) ** 2), angles / np.where(small, 1.0, sine) - 1)


def _series(square: Number) -> Number:
    result: Number = 0.0
    for coefficient in reversed(_SERIES):
        result = (result + coefficient) * square
    return result
