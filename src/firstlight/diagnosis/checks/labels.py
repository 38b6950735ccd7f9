r"""Labels over initializations: exchangeable unless the head is not, apart from each other, and untied.

Enters: guess fractions (init, label), ties, the distance of the closest two labels. Leaves: three findings.

Before training every label has the same law, so over N initializations the mean share of label c is 1/M up to
:math:`s_c/\sqrt N`. The greatest excess :math:`(\bar G_c - 1/M)/(1 - 1/M)` is looked for among M labels, whose
intervals hold together; the p-value of exchangeability, also corrected for M labels, goes with it.
"""

from __future__ import annotations

import math

import numpy as np

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval, of_mean, scan, simultaneous
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "judge"]

PREFERRED = Subject(
    "one-label-preferred",
    "one label is preferred by every initialization",
    "over draws of the weights labels should take turns; one that always leads is favoured by something that is not "
    "drawn: a bias set on the head, a constant added to a logit, or ties that fall to the first label",
    "Francazi et al. 2024, appendix I: symmetry between classes holds over the ensemble",
    ("output_bias_to_prior",),
    severity="warn",
)
ALIKE = Subject(
    "labels-guessed-alike",
    "two labels have the same logits",
    "two outputs agree on all data, so that no input can tell these labels apart: shared or copied rows of the head",
    "",
    (),
    severity="warn",
)
TIED = Subject(
    "tied-guesses",
    "guesses are ties",
    "several labels share the greatest logit, and the order of the labels decides: the signal has collapsed below the "
    "precision of the numbers, or outputs are equal by construction",
    "Labatie 2019",
    ("norm_after_activation", "lsuv_initialization"),
    severity="warn",
)


def judge(evidence: Evidence) -> list[Finding]:
    """Preference, likeness, ties."""
    return [_preferred(evidence), _alike(evidence), _tied(evidence)]


def _preferred(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["preferred-share"]
    guesses = evidence.profile.guesses
    if guesses is None or guesses.counts is None:
        return PREFERRED.unknown("guesses were not counted", threshold, quantity="label_share")
    labels = guesses.labels
    fractions = np.asarray(guesses.fractions.values, dtype=float)
    if guesses.top is not None:
        fractions = fractions[:, :-1]  # the column of all others is no label
    level = simultaneous(evidence.level, labels)
    fair = 1 / labels
    excess = [
        Interval(*((bound - fair) / (1 - fair) for bound in of_mean(column, level))) for column in fractions.T
    ]
    best, status = scan(excess, threshold.value)
    details = {
        "label": float(best if guesses.top is None else guesses.top.ids[best]),
        "label_share": float(fractions[:, best].mean()),
        "p_value": _p_value(fractions[:, best], fair, labels),
    }
    return PREFERRED.finding(excess[best], threshold, quantity="label_share", status=status, details=details)


def _p_value(column: np.ndarray[tuple[int, ...], np.dtype[np.float64]], fair: float, labels: int) -> float:
    """Two-sided, by Student's t, times the number of labels."""
    from scipy.special import stdtr

    count = len(column)
    if count < 2:
        return math.nan
    spread = float(column.std(ddof=1)) / math.sqrt(count)
    if spread == 0:
        return 1.0 if math.isclose(float(column.mean()), fair) else 0.0
    statistic = abs(float(column.mean()) - fair) / spread
    return min(1.0, 2 * labels * float(stdtr(count - 1, -statistic)))


def _alike(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["label-distance"]
    distances = evidence.by_init("label_distance_init")
    if distances is None or np.isnan(distances).all():
        reason = "the distance of labels was not measured: fewer than 3 of them, more than 256, or all logits equal"
        return ALIKE.unknown(reason, threshold, quantity="label_distance")
    details = {}
    for name in ("nearest_label", "nearest_other"):
        found = evidence.by_init(f"{name}_init")
        if found is not None and np.isfinite(found).any():
            values, often = np.unique(found[np.isfinite(found)], return_counts=True)
            details[name] = float(values[often.argmax()])
    interval = of_mean(distances, evidence.level)
    return ALIKE.finding(interval, threshold, quantity="label_distance", side="below", details=details)


def _tied(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["tie-share"]
    guesses = evidence.profile.guesses
    if guesses is None or guesses.tie_fractions is None:
        return TIED.unknown("ties were not counted", threshold, quantity="ties")
    return TIED.finding(of_mean(guesses.tie_fractions, evidence.level), threshold, quantity="ties")


CHECK = Check("labels", (PREFERRED, ALIKE, TIED), judge)
