r"""What the findings mean for training: five questions, answered only as far as theory or measurement carries.

Enters: the evidence and the findings of all checks. Leaves: prognoses.

``guessing``          neutral, weak prejudice, deep prejudice, or prejudiced (either); the number is γ
``signal``            well-behaved, or the pathology of Labatie that comes first
``phase``             ordered, critical, chaotic: the slope χ_1 of a layer, whose powers multiply gradients
``bias-fades``        whether the first prejudice is expected to be absorbed early in training
``minority-delay``    where the classes that are not guessed begin; the number is the share of the least guessed label
``early-validation``  whether accuracy in the first steps may choose between models

An answer is qualitative where the papers' is. Bassi et al. 2026 show that without normalization the most trainable
initialization, at the edge of chaos, is a biased one and that its bias is absorbed early; Francazi et al. 2026 that
behind batch norm before the activation it may persist, and that it dominates accuracy while it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from firstlight.diagnosis.checks.growth import growth
from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval, of_mean
from firstlight.results.finding import Finding, Prognosis

__all__ = ["prognosticate"]

_CANNOT = "cannot tell"
_EITHER = "prejudiced"
_DEEP_ENOUGH = 8
"""Hidden layers from which a factor of four over half of the depth means less than a factor of two in χ_1."""
_BASSI = "Bassi et al. 2026 (When bias meets trainability)"
_PLACEMENT = "Francazi et al. 2026 (Where you place the norm matters)"
_GUESSING = "Francazi et al. 2024 (Initial guessing bias)"


def prognosticate(evidence: Evidence, findings: Sequence[Finding]) -> tuple[Prognosis, ...]:
    """Answer every question."""
    status = {finding.id: finding.status for finding in findings}
    regime = _guessing(evidence, status)
    phase = _phase(evidence, status)
    return (
        regime,
        _signal(status),
        phase,
        _fading(regime.answer, phase.answer, evidence, stable=_stable(status)),
        _delay(evidence, regime.answer),
        _validation(regime.answer),
    )


def _guessing(evidence: Evidence, status: dict[str, str]) -> Prognosis:
    regimes = {
        "neutral-start": "neutral",
        "weak-prejudice": "weak prejudice",
        "deep-prejudice": "deep prejudice",
    }
    answer = next((words for name, words in regimes.items() if status.get(name) == "found"), _CANNOT)
    near = [words for name, words in regimes.items() if status.get(name) == "undecided"]
    because = "γ = C/V of the logits, beyond what so many data points scatter by themselves"
    if near:
        answer = _CANNOT if "neutral" in near else _EITHER
        because = f"between {' and '.join(near)}: there are not enough initializations to tell"
    return Prognosis("guessing", answer, *evidence.output_gamma, because=because, reference=_GUESSING)


def _signal(status: dict[str, str]) -> Prognosis:
    pathologies = {
        "non-finite-output": "not finite",
        "constant-output": "lost",
        "zero-dimensional-signal": "zero-dimensional",
        "one-dimensional-signal": "one-dimensional",
        "exploding-sensitivity": "exploding sensitivity",
    }
    found = [words for name, words in pathologies.items() if status.get(name) == "found"]
    open_ones = [words for name, words in pathologies.items() if status.get(name) in ("undecided", None)]
    answer = found[0] if found else _CANNOT if open_ones else "well-behaved"
    because = "signal is neither shrunk to a point or a line, nor drowned by noise that grows exponentially with depth"
    if found:
        because = (
            f"found: {', '.join(found)}; what the last layers see of the data differs from what was put in"
        )
    elif open_ones:
        because = f"undecided or not measured: {', '.join(open_ones)}"
    return Prognosis("signal", answer, because=because, reference="Labatie 2019")


def _phase(evidence: Evidence, status: dict[str, str]) -> Prognosis:
    """From the gradient, which multiplies by √χ_1 at each layer on its way to the input."""
    factor, reason = growth(evidence, "gradient_scale")
    reference = "Schoenholz et al. 2017; Yang et al. 2019 for batch norm"
    if factor.missing:
        return Prognosis("phase", _CANNOT, because=reason, reference=reference)
    layers = len(evidence.hidden) / 2
    slope = Interval(*(math.exp(2 * math.log(max(bound, 1e-300)) / layers) for bound in factor))
    grows, shrinks = status.get("exploding-gradients"), status.get("vanishing-gradients")
    if grows == "found":
        answer, because = (
            "chaotic",
            "the squared gradient multiplies by χ_1 > 1 at every layer towards the input",
        )
    elif shrinks == "found":
        answer, because = (
            "ordered",
            "the squared gradient multiplies by χ_1 < 1 at every layer towards the input",
        )
    elif "undecided" in (grows, shrinks):
        answer, because = _CANNOT, "there are not enough initializations to tell"
    elif len(evidence.hidden) < _DEEP_ENOUGH:
        answer = _CANNOT
        because = f"a phase shows in depth, and there are {len(evidence.hidden)} hidden layers; none of it hurts here"
    else:
        answer, because = (
            "critical",
            "χ_1 is so close to 1 that this depth does not make gradients explode or vanish",
        )
    return Prognosis("phase", answer, *slope, because=because, reference=reference)


def _stable(status: dict[str, str]) -> bool:
    """Whether gradients reach all layers alike, or there are too few layers for them not to."""
    return all(
        status.get(name) in ("absent", "unknown") for name in ("exploding-gradients", "vanishing-gradients")
    )


def _fading(regime: str, phase: str, evidence: Evidence, *, stable: bool) -> Prognosis:
    if regime == _CANNOT:
        return Prognosis(
            "bias-fades", _CANNOT, because="whether there is a bias is undecided", reference=_BASSI
        )
    if regime == "neutral":
        return Prognosis("bias-fades", "nothing to fade", because="the start is neutral", reference=_GUESSING)
    normed = "norm" in evidence.kinds
    if stable and not normed:
        because = (
            "without normalization the trainable initialization, at the edge of chaos, is a biased one, and its bias "
            "is absorbed early in training; expected for gradient descent with a learning rate that trains at all"
        )
        return Prognosis("bias-fades", "yes, early", because=because, reference=_BASSI)
    if phase == "ordered":
        because = (
            "gradients vanish, so the layers that make the bias hardly move: it fades as slowly as they learn"
        )
        return Prognosis("bias-fades", "slowly", because=because, reference=_BASSI)
    if normed:
        because = (
            "with norms the bias and the trainability of a start are no longer tied together, and the bias may "
            "persist; track max G_c over the first steps to see"
        )
        return Prognosis(
            "bias-fades", "it may persist", because=because, reference=f"{_PLACEMENT}; Yang et al. 2019"
        )
    because = "gradients explode or their phase is undecided, and no result speaks of the bias there"
    return Prognosis("bias-fades", _CANNOT, because=because, reference=_BASSI)


def _delay(evidence: Evidence, regime: str) -> Prognosis:
    """At birth a class's recall is the share that its label gets: guesses know nothing of targets."""
    share = _least_share(evidence)
    answer = {
        "neutral": "none expected",
        "weak prejudice": "some classes start behind",
        _EITHER: "some classes start behind",
        "deep prejudice": "most classes start near zero",
    }.get(regime, _CANNOT)
    because = (
        "before learning, recall of a class is the share of the data that its label gets; the least guessed class "
        "starts from this share, and its recall stays low for a time that the papers measure but do not predict"
    )
    return Prognosis(
        "minority-delay", answer, *share, because=because, reference=f"{_GUESSING}, appendix I.3"
    )


def _least_share(evidence: Evidence) -> Interval:
    """Mean share of the least guessed label."""
    guesses = evidence.profile.guesses
    if guesses is None or guesses.counts is None or guesses.top is not None:
        return Interval(math.nan, math.nan, math.nan)
    least = of_mean(np.asarray(guesses.fractions.values).min(1), evidence.level)
    return Interval(least.value, max(least.low, 0.0), min(least.high, 1.0))


def _validation(regime: str) -> Prognosis:
    unevenly = (
        "with care",
        "accuracy weighs the classes unevenly while the bias lasts: compare recalls by class, or the mean over several "
        "seeds",
    )
    answers = {
        "neutral": ("yes", "all classes start alike, so early accuracy speaks of all of them"),
        "weak prejudice": unevenly,
        _EITHER: unevenly,
        "deep prejudice": (
            "no",
            "early accuracy is the share of the class that was guessed from the start; selecting models, learning "
            "rates or stopping times by it selects draws: wait until max G_c is near the class shares, or use recalls "
            "by class",
        ),
    }
    answer, because = answers.get(regime, (_CANNOT, "the guessing regime is undecided"))
    return Prognosis("early-validation", answer, because=because, reference=_PLACEMENT)
