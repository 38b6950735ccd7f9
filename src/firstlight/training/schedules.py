"""When to look: a schedule is a function of the step that answers yes or no.

Enters: a step, the number of updates made so far. Leaves: whether to record it. The bias goes in the first steps or
over decades of them, so the default looks at every one of the first eight and then at evenly spaced logarithms, as
the papers' programs do: of 3,200 steps they record 0–7, 9, 23, 63, 169, 451, 1202 and 3199.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from firstlight.errors import UsageError

__all__ = ["Schedule", "at", "every", "log_spaced", "schedule_named"]

_DENSE = 8
"""Steps at the beginning that are all recorded, as in the papers' programs."""
_POINTS = 7
"""Records after those, as in the papers' programs."""
_GROWTH = 1.25
"""Ratio of two records of a log-spaced schedule without an end: ten in each decade."""


@dataclass(frozen=True)
class Schedule:
    """Steps to record, with the words that say which; callable with a step.

    Attributes:
        description: One line for provenance.
        contains: Whether a step is recorded.
    """

    description: str
    contains: Callable[[int], bool]

    def __call__(self, step: int) -> bool:
        """Whether to record this step."""
        return self.contains(step)

    def upto(self, last: int) -> list[int]:
        """All steps up to and including ``last``."""
        return [step for step in range(last + 1) if self.contains(step)]


def every(number: int) -> Schedule:
    """Every ``number``-th step, the first included.

    >>> every(3).upto(7)
    [0, 3, 6]
    """
    if number < 1:
        raise UsageError(f"every(number): expected at least 1, got {number!r}")
    return Schedule(f"every {number} steps", lambda step: step % number == 0)


def at(steps: Iterable[int]) -> Schedule:
    """Just these steps."""
    chosen = frozenset(int(step) for step in steps)
    if not chosen or min(chosen) < 0:
        raise UsageError(f"at(steps): expected at least one step, none negative, got {sorted(chosen)}")
    return Schedule(f"at {len(chosen)} given steps", chosen.__contains__)


def log_spaced(total: int | None = None, *, dense: int = _DENSE, points: int = _POINTS) -> Schedule:
    """All of the first steps, then steps whose logarithms lie evenly.

    Args:
        total: Updates of the whole run; the last record is then ``total − 1``, before the last update. Without it the
            schedule has no end and ten records in each decade.
        dense: How many of the first steps are all recorded.
        points: How many records follow; where ``total`` is given.

    >>> log_spaced(3200).upto(3200)
    [0, 1, 2, 3, 4, 5, 6, 7, 9, 23, 63, 169, 451, 1202, 3199]
    >>> log_spaced().upto(40)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30, 38]
    """
    if dense < 1 or points < 1:
        raise UsageError(f"log_spaced: expected dense and points of at least 1, got {dense!r} and {points!r}")
    if total is None:
        return Schedule(f"steps 0–{dense - 1}, then 10 in each decade", _Endless(dense))
    if total < 1:
        raise UsageError(f"log_spaced(total): expected at least 1 step, got {total!r}")
    chosen = {step for step in range(dense) if step < total}
    if total - 1 > dense:
        # a hair above, so that rounding does not floor a whole number to the one before
        chosen |= {min(int(step + 1e-9), total - 1) for step in np.geomspace(dense + 1, total, points)}
    chosen.add(total - 1)
    return Schedule(f"log-spaced over {total} steps", frozenset(chosen).__contains__)


def schedule_named(given: Any, total: int | None = None) -> Schedule:
    """What users pass as a schedule: nothing (log-spaced), a number n (every n), steps, or a function of the step."""
    if given is None:
        return log_spaced(None if total is None else max(total, 1))
    if isinstance(given, Schedule):
        return given
    if isinstance(given, bool | str):
        raise UsageError(f"schedule: expected a number, steps or a function of the step, got {given!r}")
    if isinstance(given, int | np.integer):
        return every(int(given))
    if callable(given):
        return Schedule(getattr(given, "__name__", type(given).__name__), lambda step: bool(given(step)))
    return at(given)


class _Endless:
    """Whether a step is one of floor(dense · growthᵏ); what is asked in order is answered in constant time."""

    def __init__(self, dense: int) -> None:
        self.dense = dense
        self.known: set[int] = set()
        self.reached = dense - 1
        self.exponents = count(0)

    def __call__(self, step: int) -> bool:
        if step < self.dense:
            return step >= 0
        while self.reached < step:
            self.reached = int(self.dense * _GROWTH ** next(self.exponents))
            self.known.add(self.reached)
        return step in self.known
