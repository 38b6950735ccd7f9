"""Findings as texts: the amount, what it was compared with, what it means, what would change it.

Enters: findings and how many initializations are behind them. Leaves: a ``FindingText`` each. What every status
means:

========= ==================================================================================
found     the network has it: what that is, and what follows
absent    it does not
undecided not enough initializations to tell, and how many would
unknown   why it could not be looked at
========= ==================================================================================
"""

from __future__ import annotations

import math

from firstlight.remedies.registry import REMEDIES
from firstlight.reporting.amounts import amount, inits_to_decide, plain
from firstlight.reporting.document import FindingText, RemedyText
from firstlight.reporting.finding_words import words_for
from firstlight.reporting.remedy_words import Typed, remedy_text
from firstlight.results.finding import Finding
from firstlight.results.quantities import QUANTITIES

__all__ = ["amount_of", "finding_text", "status_words"]

_SHARES = ("dead_units", "norms_before", "ties")
"""Quantities beside those named ``…_share`` that are written in percent."""

STATUS_WORDS = {
    "found": "found",
    "absent": "not found",
    "undecided": "cannot tell yet",
    "unknown": "not looked at",
}


def status_words(finding: FindingText) -> str:
    """The status for a table, with what the policy makes of it."""
    words = STATUS_WORDS[finding.status]
    if finding.failed:
        return f"{words} (fails)"
    return f"{words} (warning)" if finding.status == "found" and finding.severity == "warn" else words


def finding_text(
    finding: Finding, *, failed: bool = False, inits: int = 0, typed: Typed = ("MODEL", "DATA")
) -> FindingText:
    """One finding in words.

    Args:
        finding: The finding.
        failed: Whether the policy is not met because of it.
        inits: Initializations behind it, for saying how many would decide it.
        typed: What the user typed as model and data.
    """
    words = words_for(finding)
    return FindingText(
        id=finding.id,
        title=words.title if finding.found else words.question[:1].upper() + words.question[1:],
        status=finding.status,
        severity=finding.severity,
        failed=failed,
        layer=finding.layer,
        amount=amount_of(finding),
        threshold=_threshold_of(finding),
        sentences=_sentences(finding, inits),
        because=finding.because if finding.found else "",
        reference=finding.reference if finding.found else "",
        details=_details(finding),
        remedies=_remedies(finding, typed),
    )


def amount_of(finding: Finding) -> str:
    """Quantity, value and interval.

    >>> amount_of(Finding("deep-prejudice", "", "found", quantity="gamma", value=18.39, low=16.2, high=20.8))
    'γ = 18.4 (16.2 to 20.8)'
    """
    if math.isnan(finding.value):
        return ""
    number = amount(finding.value, finding.low, finding.high, share=_is_share(finding.quantity))
    measure = words_for(finding).measure or _symbol(finding.quantity)
    if not measure:
        return number
    return f"{measure}: {number}" if " " in measure else f"{measure} = {number}"


def _threshold_of(finding: Finding) -> str:
    if math.isnan(finding.threshold):
        return ""
    number = plain(finding.threshold, share=_is_share(finding.quantity))
    return f"{number}: {finding.derivation}" if finding.derivation else number


def _remedies(finding: Finding, typed: Typed) -> tuple[RemedyText, ...]:
    """What can be typed today; a remedy of somebody else's that is not installed is not."""
    if not finding.found:
        return ()
    return tuple(remedy_text(name, typed) for name in finding.remedies if name in REMEDIES)


def _sentences(finding: Finding, inits: int) -> tuple[str, ...]:
    words = words_for(finding)
    match finding.status:
        case "found":
            return tuple(sentence for sentence in (words.found, words.follows) if sentence)
        case "absent":
            return (words.absent,) if words.absent else ()
        case "undecided":
            return ("Not enough initializations to tell.", *_what_would_tell(finding, inits))
        case _:
            return (_sentence(finding.because),) if finding.because else ("Not measured.",)


def _what_would_tell(finding: Finding, inits: int) -> tuple[str, ...]:
    known = (finding.value, finding.low, finding.high, finding.threshold)
    if not all(math.isfinite(number) for number in known):
        return ("The interval has no end yet; type a larger --inits.",)
    share = _is_share(finding.quantity)
    if not finding.low <= finding.threshold <= finding.high:
        return ("It hangs on another layer or finding that cannot be told yet; type a larger --inits.",)
    inside = (
        f"The threshold {plain(finding.threshold, share=share)} lies inside the interval "
        f"{amount(finding.value, finding.low, finding.high, share=share)}."
    )
    needed = inits_to_decide(inits, *known) if inits else None
    if needed is None:
        return (inside, "The value sits on the threshold: both readings fit.") if inits else (inside,)
    return (inside, f"About {needed:,} initializations would tell: type --inits {needed}.")


def _symbol(quantity: str) -> str:
    return QUANTITIES[quantity].symbol if quantity in QUANTITIES else quantity.replace("_", " ")


def _details(finding: Finding) -> tuple[tuple[str, str], ...]:
    """Further numbers; the ends of their intervals are left to the archive."""
    return tuple(
        (name.replace("_", " "), plain(value, share=_is_share(name)))
        for name, value in finding.details.items()
        if not name.endswith(("_low", "_high", "_neutral"))
    )


def _is_share(quantity: str) -> bool:
    return quantity in _SHARES or quantity.endswith("_share")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
