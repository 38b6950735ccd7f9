"""What can be found: the name of a finding, its mechanism and paper, its remedies, and what it is judged by.

A check owns its subjects and registers them with itself; ``every_check()`` lists all. Titles and reasons are data
here, because they belong to the science; how they are shown is the business of ``reporting``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firstlight.diagnosis.intervals import Interval, status_of
from firstlight.diagnosis.thresholds import Threshold
from firstlight.results.finding import Finding

if TYPE_CHECKING:
    from firstlight.diagnosis.evidence import Evidence

__all__ = ["Check", "Subject"]


@dataclass(frozen=True)
class Subject:
    """One thing that a network may have.

    Attributes:
        id: What policies and reports call it.
        title: The same in a few words.
        because: The mechanism.
        reference: The paper.
        remedies: Names of remedies.
        severity: What the default policy makes of it.
    """

    id: str
    title: str
    because: str
    reference: str = ""
    remedies: tuple[str, ...] = ()
    severity: str = "info"

    def finding(
        self,
        interval: Interval,
        threshold: Threshold,
        *,
        quantity: str,
        status: str | None = None,
        side: str = "above",
        layer: str = "",
        because: str | None = None,
        details: Mapping[str, float] | None = None,
    ) -> Finding:
        """The verdict: that of the interval, unless a ``status`` is given."""
        return Finding(
            self.id,
            self.title,
            status or status_of(interval, threshold.value, side=side),
            severity=self.severity,
            quantity=quantity,
            layer=layer,
            value=interval.value,
            low=interval.low,
            high=interval.high,
            threshold=threshold.value,
            derivation=threshold.derivation,
            because=because or self.because,
            reference=self.reference,
            remedies=self.remedies,
            details=dict(details or {}),
        )

    def unknown(self, reason: str, threshold: Threshold | None = None, *, quantity: str = "") -> Finding:
        """There is nothing to judge, for this reason."""
        return Finding(
            self.id,
            self.title,
            "unknown",
            severity=self.severity,
            quantity=quantity,
            threshold=math.nan if threshold is None else threshold.value,
            derivation="" if threshold is None else threshold.derivation,
            because=reason,
            reference=self.reference,
            remedies=self.remedies,
        )


@dataclass(frozen=True)
class Check:
    """A pure function from evidence to findings, and the subjects that it speaks of.

    Attributes:
        name: Of its file.
        subjects: Each is found, absent, undecided or unknown whenever the check runs.
        judge: The function.
    """

    name: str
    subjects: tuple[Subject, ...]
    judge: Callable[[Evidence], list[Finding]]
