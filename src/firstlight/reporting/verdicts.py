"""The verdict: one or two plain sentences that a reader takes away, and how they sound.

Enters: a Diagnosis (or a Profile, which is not judged). Leaves: a ``Verdict``. First how biased the start is, with
the favourite's share as the number that everybody understands; then what else was found; then what could not be
told.
"""

from __future__ import annotations

from firstlight.reporting.amounts import as_share
from firstlight.reporting.document import Verdict
from firstlight.reporting.finding_words import words_for
from firstlight.results.diagnosis import Diagnosis
from firstlight.results.finding import Finding
from firstlight.results.profile import Profile

__all__ = ["verdict_of"]

_REGIMES = ("deep-prejudice", "weak-prejudice", "neutral-start")
_BIAS = (*_REGIMES, "prejudice-grows-with-depth", "norm-before-activation")
_BETWEEN = {
    ("weak-prejudice", "neutral-start"): (
        "Starts with a mild favourite at most",
        "Before it has learned anything, this network favours no class or mildly favours one; there are not enough "
        "initializations to tell which.",
    ),
    ("deep-prejudice", "weak-prejudice"): (
        "Starts with a favourite",
        "Before it has learned anything, this network favours one class, mildly or strongly; there are not enough "
        "initializations to tell which.",
    ),
}
"""What is known where two regimes are still open: a label and a sentence."""
_NAMED = 3
"""Findings that the verdict names; it counts the others."""


def verdict_of(diagnosis: Diagnosis) -> Verdict:
    """The verdict of a Diagnosis."""
    found = {finding.id: finding for finding in reversed(diagnosis.found)}
    regime = next((name for name in _REGIMES if name in found), "")
    others = [finding for finding in found.values() if finding.id not in _BIAS]
    others = sorted(others, key=lambda finding: (not finding.failed, finding.severity != "warn"))
    told = {*found, *_REGIMES}
    open_questions = {finding.id: finding for finding in diagnosis.undecided if finding.id not in told}
    undecided = tuple(name for name in _REGIMES if any(item.id == name for item in diagnosis.undecided))
    sentences = [_start(diagnosis, regime, undecided), *_advice(diagnosis), *_rest(diagnosis, regime, others)]
    if open_questions:
        names = _listed([words_for(finding).question for finding in open_questions.values()])
        sentences.append(f"There are not enough initializations to tell about: {names}.")
    if diagnosis.failed:
        names = _listed([finding.id for finding in diagnosis.failed])
        return Verdict(
            "fail", "Does not meet the policy", (*sentences, f"The policy does not allow: {names}.")
        )
    return Verdict(*_sound(regime, others, undecided), tuple(sentences))


def _sound(regime: str, others: list[Finding], undecided: tuple[str, ...]) -> tuple[str, str]:
    if any(finding.severity == "warn" for finding in others):
        return "warn", "Worth a closer look"
    if regime == "neutral-start":
        return ("note", "Starts even") if others else ("good", "Starts even and healthy")
    if regime == "weak-prejudice":
        return "note", "Starts with a mild favourite"
    if regime == "deep-prejudice":
        return "note", "Starts with a strong favourite"
    if undecided in _BETWEEN:
        return "note", _BETWEEN[undecided][0]
    return ("unknown", "Not enough to tell") if undecided else ("unknown", "The bias is not known")


def _start(diagnosis: Diagnosis, regime: str, undecided: tuple[str, ...]) -> str:
    share = _favourite(diagnosis.profile)
    labels = None if diagnosis.profile.guesses is None else diagnosis.profile.guesses.labels
    amount = f" On average its favourite class gets {share} of the data" if share else ""
    even = (
        f"; an even split among {labels:,} classes would give {as_share(1 / labels)}."
        if labels and share
        else ""
    )
    match regime:
        case "deep-prejudice":
            head = "Before it has learned anything, this network puts most of the data into one class."
        case "weak-prejudice":
            head = "Before it has learned anything, this network mildly favours one class."
        case "neutral-start":
            head = "Before it has learned anything, this network favours no class."
        case _ if undecided in _BETWEEN:
            head = _BETWEEN[undecided][1]
        case _ if undecided:
            head = "How strongly this network favours a class before training cannot be told yet."
        case _:
            head = "How strongly this network favours a class before training was not determined."
    return f"{head}{amount}{even}"


def _favourite(profile: Profile) -> str:
    if profile.guesses is None:
        return ""
    return as_share(float(profile.guesses._glance.value[0]))


def _rest(diagnosis: Diagnosis, regime: str, others: list[Finding]) -> list[str]:
    if others:
        names = [_lower(words_for(finding).title) for finding in others]
        return [f"{'Beyond that' if regime else 'Found'}: {_listed(names)}."]
    looked = {finding.id: finding.status for finding in diagnosis.findings}
    travel = [
        "zero-dimensional-signal",
        "exploding-sensitivity",
        "exploding-gradients",
        "vanishing-gradients",
    ]
    if all(looked.get(name) == "absent" for name in travel):
        return ["Signal and gradients pass through all of its layers in good order."]
    return []


def _advice(diagnosis: Diagnosis) -> list[str]:
    """What a reader would do wrong first."""
    trusted = next((item.answer for item in diagnosis.prognoses if item.id == "early-validation"), "")
    if trusted == "no":
        return [
            "Until that has faded, early accuracy says more about the draw of the weights than about the model."
        ]
    return []


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _listed(names: list[str]) -> str:
    shown = names[:_NAMED]
    if len(names) > len(shown):
        shown.append(f"and {len(names) - len(shown)} more")
    return "; ".join(shown)
