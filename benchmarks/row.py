"""One line of a benchmark: what was measured, how much, in which unit, and what was aimed at."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row", "median_seconds"]


@dataclass(frozen=True)
class Row:
    """A measured value; ``target`` is an upper limit in the same unit, or ``None`` where it is only reported."""

    name: str
    value: float
    unit: str
    target: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the value is within its target."""
        return None if self.target is None else self.value <= self.target


def median_seconds(work: Callable[[], object], *, repeats: int = 5) -> float:
    """Median wall time of several runs, after one that warms up."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
