"""Are the data centred? C/V of their coordinates is γ behind a first linear layer.

Enters: the mean square of the coordinates' means, and their mean variance. Leaves: one finding. The data are what they
are, so its interval has no width; the scatter 1/n of the mean of n points is taken off.
"""

from __future__ import annotations

import math

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "judge"]

UNCENTRED = Subject(
    "uncentred-data",
    "data are not centred",
    "the coordinates have a mean that all data share; the first layer turns it into a centre for every unit, so the "
    "bias is there before any activation",
    "Francazi et al. 2024, section 4.1; Francazi et al. 2026, figure G.11",
    ("data_centering",),
    severity="warn",
)


def judge(evidence: Evidence) -> list[Finding]:
    """C/V of the inputs beyond counting scatter."""
    threshold = evidence.thresholds["uncentred-ratio"]
    center, data = evidence.scalar("input_center_variance"), evidence.scalar("input_data_variance")
    if center is None or data is None:
        reason = "the inputs were not measured, or are tokens, which have no centre"
        return [UNCENTRED.unknown(reason, threshold, quantity="input_gamma")]
    if center == 0 and data == 0:
        return [UNCENTRED.unknown("all inputs are zero", threshold, quantity="input_gamma")]
    ratio = center / data if data > 0 else math.inf
    found = evidence.beyond_null(Interval(ratio, ratio, ratio))
    return [UNCENTRED.finding(found, threshold, quantity="input_gamma", layer="input")]


CHECK = Check("inputs", (UNCENTRED,), judge)
