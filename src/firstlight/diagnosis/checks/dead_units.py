"""Dead units: how many of a layer's units say the same of all data.

Enters: the share of constant units behind each layer. Leaves: one finding, of the worst layer; the intervals of all
layers hold together.
"""

from __future__ import annotations

import numpy as np

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import scan, simultaneous
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "judge"]

DEAD = Subject(
    "dead-units",
    "dead units",
    "the centre of these units lies so far to one side that no data point reaches the other: they pass no signal and "
    "no gradient",
    "Lu et al. 2020 on dying ReLU; Maas et al. 2013",
    ("norm_before_activation", "lsuv_initialization", "scale_bias_initialization", "data_centering"),
    severity="warn",
)


def judge(evidence: Evidence) -> list[Finding]:
    """The layer with the most."""
    threshold = evidence.thresholds["dead-share"]
    table = evidence.table("dead_units")
    if table is None or not np.isfinite(table).any():
        reason = "no activation was seen: they were not measured, or are called as functions"
        return [DEAD.unknown(reason, threshold, quantity="dead_units")]
    places = [place for place in range(table.shape[1]) if np.isfinite(table[:, place]).any()]
    level = simultaneous(evidence.level, len(places))
    found = [evidence.interval_of(table[:, place], level) for place in places]
    best, status = scan(found, threshold.value)
    layer = evidence.layers[places[best]]
    return [DEAD.finding(found[best], threshold, quantity="dead_units", status=status, layer=layer)]


CHECK = Check("dead_units", (DEAD,), judge)
