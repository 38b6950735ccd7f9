r"""The guessing regime: neutral, weak or deep prejudice, and the layer that creates it.

Enters: γ of the logits with its interval, the share that the favourite label gets, γ by layer. Leaves: three findings
of which at most one is found.

For two labels :math:`G_0 = \Phi(\sqrt\gamma\,\xi)`: its density has a hill over ½ below γ = 1 and peaks at 0 and 1
above. The scatter of n data points, γ = 1/n, is taken off before anything is compared. The favourite's share is given
beside that of a neutral network counted on as many points. The layer is the first whose γ lies beyond the neutral
threshold with all layers' intervals holding together.
"""

from __future__ import annotations

import math

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval, of_mean, simultaneous, status_of
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "creating_layer", "favourite_share", "judge"]

_PAPERS = "Francazi, Lucchi & Baity-Jesi 2024; Francazi, Pinto, Lucchi & Baity-Jesi 2026"

NEUTRAL = Subject(
    "neutral-start",
    "neutral start",
    "the centres of the logits lie close together compared with how far the data move them, so every label gets its "
    "share; early accuracy speaks of all classes alike",
    _PAPERS,
)
WEAK = Subject(
    "weak-prejudice",
    "weak prejudice",
    "activations that are not odd about the centre of their inputs (or max-pooling, or biases, or data that are not "
    "centred) give every unit a centre of its own; the logits inherit it, and shares spread around the fair one",
    _PAPERS,
    ("norm_after_activation", "activation_shift", "data_centering", "seed_choice"),
)
DEEP = Subject(
    "deep-prejudice",
    "deep prejudice",
    "the centres of the logits lie farther apart than the data move them: a typical draw of the weights gives most "
    "data points one label, whatever they show; recall of the other classes starts near zero",
    _PAPERS,
    ("norm_after_activation", "activation_shift", "data_centering", "seed_choice"),
)


def judge(evidence: Evidence) -> list[Finding]:
    """One of the three regimes, or two undecided neighbours."""
    gamma = evidence.output_gamma
    neutral, deep = evidence.thresholds["neutral-gamma"], evidence.thresholds["deep-gamma"]
    if gamma.missing:
        reason = "γ of the output is not known: center_variance and data_variance were not measured"
        if not math.isnan(evidence.null_gamma) and evidence.table("center_variance") is not None:
            reason = "γ of the output is not defined: the output never varies, or is not finite"
        return [
            subject.unknown(reason, threshold, quantity="gamma")
            for subject, threshold in ((NEUTRAL, neutral), (WEAK, neutral), (DEEP, deep))
        ]
    below, above = status_of(gamma, neutral.value, side="below"), status_of(gamma, deep.value)
    edge = neutral if above == "absent" else deep  # the end of "weak" that decides
    between = "found"
    if "found" in (below, above):
        between = "absent"
    elif "undecided" in (below, above):
        between = "undecided"
    layer = creating_layer(evidence) if below != "found" else ""
    details = {f"favourite_share{name}": value for name, value in favourite_share(evidence).items()}
    return [
        NEUTRAL.finding(gamma, neutral, quantity="gamma", status=below, side="below", details=details),
        WEAK.finding(gamma, edge, quantity="gamma", status=between, layer=layer, details=details),
        DEEP.finding(gamma, deep, quantity="gamma", status=above, layer=layer, details=details),
    ]


def favourite_share(evidence: Evidence) -> dict[str, float]:
    """Share of the most guessed label: mean, ends of its interval, and that of a neutral network."""
    guesses = evidence.profile.guesses
    if guesses is None:
        return {}
    if guesses.counts is None:
        share = float(guesses.ranked.values[0])
        interval = Interval(share, share, share)
    else:
        interval = of_mean(guesses.max.values, evidence.level)
    clipped = (interval.value, max(interval.low, 0.0), min(interval.high, 1.0))
    return dict(zip(("", "_low", "_high", "_neutral"), (*clipped, guesses.null.mean_max), strict=True))


def creating_layer(evidence: Evidence) -> str:
    """The first layer whose γ rises above the neutral threshold by its interval; "" where none does for sure."""
    threshold = evidence.thresholds["neutral-gamma"].value
    level = simultaneous(evidence.level, len(evidence.layers))
    for place, name in enumerate(evidence.layers):
        if status_of(evidence.gamma_at(place, level), threshold) == "found":
            return name
    return ""


CHECK = Check("guessing", (NEUTRAL, WEAK, DEEP), judge)
