"""Which remedies have something to work on: a norm that can be moved, data with a common part.

Enters: findings with all remedies that answer them, and the evidence. Leaves: the same findings without the remedies
that this network would refuse. What is not known (a module that nobody asked about) takes nothing away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from firstlight.diagnosis.evidence import Evidence
from firstlight.results.finding import Finding

__all__ = ["with_applicable_remedies"]

_OF_NORMS = {"norm_after_activation", "norm_before_activation", "convert_norm"}
_MOVES = {"norm_after_activation": "before", "norm_before_activation": "after"}
"""Which norms a remedy moves."""
_BLUEPRINT_NORMS = {"batch", "layer", "rms"}


def with_applicable_remedies(findings: Iterable[Finding], evidence: Evidence) -> list[Finding]:
    """Leave out what would find nothing to change."""
    every = list(findings)
    idle = _idle(every, evidence)
    return [
        replace(item, remedies=tuple(name for name in item.remedies if name not in idle)) for item in every
    ]


def _idle(findings: list[Finding], evidence: Evidence) -> set[str]:
    by_id = {item.id: item for item in findings}
    norms = _norms(evidence)
    idle = set(_OF_NORMS) if norms == 0 else set()
    places = by_id["norm-before-activation"].details if "norm-before-activation" in by_id else {}
    if places and sum(places.values()) == norms:  # it is known where every norm stands
        idle |= {name for name, there in _MOVES.items() if not places[there]}
    inputs = by_id.get("uncentred-data")
    if (
        inputs is not None
        and inputs.status == "absent"
        and inputs.value < evidence.thresholds["neutral-gamma"].value
    ):
        idle.add("data_centering")
    return idle


def _norms(evidence: Evidence) -> float | None:
    """How many norms the network has, where that is known."""
    if evidence.measured:
        return evidence.scalar("norms")
    return sum(entry.kind in _BLUEPRINT_NORMS for entry in evidence.profile.coverage)
