"""Enough initializations? The one finding that is about the measurement.

Enters: how many there are. Leaves: one finding.
"""

from __future__ import annotations

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "judge"]

FEW = Subject(
    "few-initializations",
    "few initializations",
    "intervals over few initializations are wide and uncertain themselves: what is undecided may be decided by more",
)


def judge(evidence: Evidence) -> list[Finding]:
    """Fewer than the table asks for."""
    threshold = evidence.thresholds["initializations"]
    if not evidence.measured:
        return [FEW.unknown("theory has no initializations", threshold, quantity="initializations")]
    count = float(evidence.inits)
    status = "found" if count < threshold.value else "absent"
    return [
        FEW.finding(
            Interval(count, count, count), threshold, quantity="initializations", status=status, side="below"
        )
    ]


CHECK = Check("ensemble", (FEW,), judge)
