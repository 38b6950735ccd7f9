"""Does depth amplify prejudice? γ at the last hidden layer over γ where it was created.

Enters: C and V by layer. Leaves: one finding, with the factor. Depth cannot create a bias, only amplify one (Francazi
et al. 2024, section 4.2), so the count begins at the layer that created it. Behind batch norm before the activation
γ = 0.467 at every depth; without it, and with layer norm there, it grows for ever.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firstlight.diagnosis.checks.guessing import creating_layer
from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval, of_logarithm, status_of
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "judge"]

GROWS = Subject(
    "prejudice-grows-with-depth",
    "depth amplifies the prejudice",
    "a layer turns centres into larger centres and shrinks what the data move: each layer multiplies γ, so a deeper "
    "network of this kind is more prejudiced still",
    "Francazi et al. 2024, section 4.2; Francazi et al. 2026, theorem on layer norm",
    ("norm_after_activation", "convert_norm", "activation_shift"),
)


def judge(evidence: Evidence) -> list[Finding]:
    """The factor between the layer that creates the prejudice and the last hidden one."""
    threshold = evidence.thresholds["depth-gain"]
    if evidence.output_gamma.missing or evidence.table("center_variance") is None:
        return [GROWS.unknown("γ by layer was not measured", threshold, quantity="gamma")]
    name = creating_layer(evidence)
    if not name:
        neutral = evidence.thresholds["neutral-gamma"].value
        if status_of(evidence.output_gamma, neutral, side="below") == "found":
            nothing = Interval(1.0, 1.0, 1.0)
            return [
                GROWS.finding(nothing, threshold, quantity="gamma", because="there is nothing to amplify")
            ]
        return [GROWS.unknown("no layer is prejudiced for sure", threshold, quantity="gamma")]
    first = evidence.layers.index(name)
    behind = [place for place in evidence.hidden if place >= first]
    if len(behind) < 2:
        reason = f"the prejudice begins at {name}, behind which no hidden layer is left to amplify it"
        return [GROWS.unknown(reason, threshold, quantity="gamma")]
    factor = _factor(evidence, behind[0], behind[-1])
    return [GROWS.finding(factor, threshold, quantity="gamma", layer=evidence.layers[behind[-1]])]


def _factor(evidence: Evidence, first: int, last: int) -> Interval:
    """γ of one layer over γ of another, both beyond the null."""
    if not evidence.measured:
        early, late = (evidence.gamma_at(place, evidence.level).value for place in (first, last))
        return Interval(*[late / early] * 3)
    centers, variances = evidence.table("center_variance"), evidence.table("data_variance")
    assert centers is not None
    assert variances is not None
    share = evidence.null_gamma

    def log_gamma(center: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(np.maximum(center / variance * (1 - share) - share, share or 1e-300)))

    def log_factor(*averages: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            return np.asarray(log_gamma(*averages[2:]) - log_gamma(*averages[:2]))

    return of_logarithm(
        log_factor,
        centers[:, first],
        variances[:, first],
        centers[:, last],
        variances[:, last],
        level=evidence.level,
    )


CHECK = Check("amplification", (GROWS,), judge)
