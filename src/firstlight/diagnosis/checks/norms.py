"""Where the norms stand: before the activation, which keeps prejudice, or after it, which removes it.

Enters: what reads each norm and what each norm reads. Leaves: one finding, which only matters while the network is
prejudiced: in a neutral one the placement is a habit.
"""

from __future__ import annotations

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval, status_of
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "judge"]

BEFORE = Subject(
    "norm-before-activation",
    "norms stand before the activation",
    "a norm before the activation standardizes what goes in, and the activation gives every unit a centre again; "
    "behind the activation batch norm removes the centres, and layer norm most of them (RMS norm only "
    "rescales: it does not)",
    "Francazi et al. 2026, theorems 4.1 to 4.4",
    ("norm_after_activation",),
)


def judge(evidence: Evidence) -> list[Finding]:
    """Share of norms before an activation, if the start is prejudiced."""
    threshold = evidence.thresholds["norm-before-share"]
    coordinates = evidence.profile.coordinates
    if "activation_behind" not in coordinates or "activation_normed" not in coordinates:
        return [BEFORE.unknown("what reads which layer was not measured", threshold, quantity="norms_before")]
    norms = [place for place, kind in enumerate(evidence.kinds) if kind == "norm"]
    before = sum(bool(coordinates["activation_behind"].values[place]) for place in norms)
    after = sum(bool(coordinates["activation_normed"].values[place]) for place in norms)
    if not before + after:
        reason = "no norm stands next to an activation that is a module"
        return [BEFORE.unknown(reason, threshold, quantity="norms_before")]
    share = before / (before + after)
    prejudiced = status_of(evidence.output_gamma, evidence.thresholds["neutral-gamma"].value)
    status = prejudiced if share > threshold.value else "absent"
    return [
        BEFORE.finding(
            Interval(share, share, share),
            threshold,
            quantity="norms_before",
            status=status,
            details={"before": float(before), "after": float(after)},
        )
    ]


CHECK = Check("norms", (BEFORE,), judge)
