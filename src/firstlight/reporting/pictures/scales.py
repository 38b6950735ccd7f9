"""Scales: numbers → places between 0 and 1, with ticks.

Enters: the range of the data. Leaves: a ``Scale``. Logarithmic scales take common logarithms, because in deep
networks the numbers themselves do not fit into float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

__all__ = ["Scale", "Tick", "linear_scale", "log_scale"]

_TICKS = 5
"""Ticks that a small plot has room for."""
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Tick:
    """A labelled place between 0 and 1."""

    place: float
    label: str


@dataclass(frozen=True)
class Scale:
    """From ``low`` to ``high``."""

    low: float
    high: float
    ticks: tuple[Tick, ...]

    def place(self, value: float) -> float:
        """Where a value stands, kept between 0 and 1."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def log_scale(
    exponents: Iterable[float], *, floor: float = -math.inf, include: tuple[float, ...] = ()
) -> Scale:
    """A scale over common logarithms, of at least one decade.

    Args:
        exponents: log₁₀ of the data; what is not finite is ignored.
        floor: The scale begins no lower.
        include: Exponents that must be on it.

    >>> scale = log_scale([-0.2, 2.3])
    >>> [tick.label for tick in scale.ticks], round(scale.place(0.0), 2)
    (['1', '10', '100'], 0.11)
    >>> [tick.label for tick in log_scale([0.0, 263.0]).ticks]
    ['1', '10¹⁰⁰', '10²⁰⁰']
    """
    known = [max(value, floor) for value in (*exponents, *include) if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    if high - low < 1:
        middle = (low + high) / 2
        low, high = max(middle - 0.5, floor), max(middle - 0.5, floor) + 1
    margin = 0.04 * (high - low)
    low, high = low - margin, high + margin
    decades = math.floor(high) - math.ceil(low) + 1
    stride = next(size for size in _strides() if decades <= _TICKS * size)
    first = math.ceil(low / stride) * stride
    marks = [(float(exponent), _power(exponent)) for exponent in range(first, math.floor(high) + 1, stride)]
    if len(marks) < 3 and stride == 1:
        marks += [
            (exponent + math.log10(step), f"{step * 10.0**exponent:.3g}")
            for exponent in range(math.floor(low), math.ceil(high))
            for step in ((2, 5) if high - low < 1.8 else (3,))
            if low <= exponent + math.log10(step) <= high and -4 < exponent < 4
        ]
    span = high - low
    return Scale(low, high, tuple(Tick((value - low) / span, label) for value, label in sorted(marks)))


def linear_scale(high: float, *, percent: bool = True) -> Scale:
    """From 0 to a round number above ``high``.

    >>> [tick.label for tick in linear_scale(0.37).ticks]
    ['0 %', '10 %', '20 %', '30 %', '40 %']
    """
    high = high if high > 0 and math.isfinite(high) else 1.0
    step = 10 ** math.floor(math.log10(high))
    step = next(
        size
        for size in (step / 5, step / 2, step, 2 * step, 5 * step)
        if math.ceil(high / size - 1e-9) <= _TICKS
    )
    steps = math.ceil(high / step - 1e-9)
    top = steps * step
    labels = (
        f"{100 * index * step:.3g} %" if percent else f"{index * step:.3g}" for index in range(steps + 1)
    )
    return Scale(0.0, top, tuple(Tick(index / steps, label) for index, label in enumerate(labels)))


def _strides() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50 … decades between ticks."""
    for ten in count():
        yield from (digit * 10**ten for digit in (1, 2, 5))


def _power(exponent: int) -> str:
    if -3 <= exponent <= 4:
        return f"{10.0**exponent:,.{max(0, -exponent)}f}"
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"
