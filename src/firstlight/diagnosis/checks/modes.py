"""Batch statistics against running ones: an untrained batch norm is two different networks.

Enters: the same initializations in train and in eval mode. Leaves: one finding: the larger of two factors, of γ and of
the scale of the logits. Initializations are paired, so that what they share cancels; both intervals hold together.
"""

from __future__ import annotations

import math

import numpy as np

from firstlight.diagnosis.checks.logits import log_scales
from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval, of_logarithm, of_scale, scan, simultaneous
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "judge"]

DIFFER = Subject(
    "modes-differ",
    "train and eval mode differ",
    "running statistics start at mean 0 and variance 1, so that in eval mode an untrained batch norm does nothing: "
    "what is validated at the first steps is not what is trained",
    "Ioffe & Szegedy 2015",
    ("convert_norm",),
)


def judge(evidence: Evidence) -> list[Finding]:
    """The larger factor."""
    threshold = evidence.thresholds["mode-ratio"]
    other = evidence.other
    if other is None:
        reason = "the other mode was not measured; without batch norm there is none"
        return [DIFFER.unknown(reason, threshold, quantity="gamma")]
    level = simultaneous(evidence.level, 2)
    factors = {"logit_scale": _scales(evidence, other, level), "gamma": _gammas(evidence, other, level)}
    best, status = scan(list(factors.values()), threshold.value)
    if status == "unknown":
        reason = "the logits were not measured in both modes, or are not finite in one"
        return [DIFFER.unknown(reason, threshold, quantity="gamma")]
    quantity = list(factors)[best]
    return [DIFFER.finding(factors[quantity], threshold, quantity=quantity, status=status)]


def _scales(here: Evidence, there: Evidence, level: float) -> Interval:
    first, second = log_scales(here), log_scales(there)
    if first is None or second is None or len(first) != len(second):
        return _NOTHING
    with np.errstate(invalid="ignore"):
        return _either_way(of_scale(first - second, level))


def _gammas(here: Evidence, there: Evidence, level: float) -> Interval:
    columns = [
        item.by_init(f"logit_{part}_variance_init") for item in (here, there) for part in ("center", "data")
    ]
    if (
        any(column is None for column in columns)
        or len({len(column) for column in columns if column is not None}) > 1
    ):
        return _NOTHING

    def log_ratio(
        *averages: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        a, b, c, d = (np.log(np.maximum(average, 1e-300)) for average in averages)
        return np.asarray(a - b - c + d)

    return _either_way(
        of_logarithm(log_ratio, *[column for column in columns if column is not None], level=level)
    )


def _either_way(factor: Interval) -> Interval:
    """The factor or its inverse, whichever is above one."""
    if factor.missing:
        return factor
    value, low, high = (math.log(max(bound, 1e-300)) for bound in factor)
    ends = sorted((abs(low), abs(high)))
    nearest = 0.0 if low <= 0 <= high else ends[0]
    return Interval(*(math.exp(min(bound, 700.0)) for bound in (abs(value), nearest, ends[1])))


_NOTHING = Interval(math.nan, math.nan, math.nan)

CHECK = Check("modes", (DIFFER,), judge)
