"""A Diagnosis as a Document: the verdict, what was found and what would change it, and what all that rests on.

Enters: a Diagnosis. Leaves: its Document. What the user typed as model and data, if the command line noted it in
``extra``, goes into the commands that a reader may copy.
"""

from __future__ import annotations

from firstlight.reporting.amounts import amount
from firstlight.reporting.comparison_pages import comparison_section
from firstlight.reporting.document import Document, KeyNumber, Section, Table
from firstlight.reporting.finding_pages import finding_text
from firstlight.reporting.layer_tables import layer_table
from firstlight.reporting.profile_pages import coverage_section, how_section, key_numbers, origin_of, title_of
from firstlight.reporting.prognosis_words import prognosis_row
from firstlight.reporting.remedy_words import Typed
from firstlight.reporting.trial_pages import trial_section
from firstlight.reporting.verdicts import verdict_of
from firstlight.results.diagnosis import Diagnosis
from firstlight.results.finding import SEVERITIES, STATUSES, Finding

__all__ = ["diagnosis_page"]

_REGIME_WORDS = {
    "neutral-start": "no favourite",
    "weak-prejudice": "a mild favourite",
    "deep-prejudice": "most guesses go to one class",
}
"""What the regimes of γ mean, in a few words."""


def diagnosis_page(diagnosis: Diagnosis) -> Document:
    """The Document of a Diagnosis."""
    inits = int(diagnosis.profile.provenance.settings.get("inits", 0) or 0)
    typed, failed = _typed(diagnosis), diagnosis.failed
    findings = tuple(
        finding_text(item, failed=item in failed, inits=inits, typed=typed)
        for item in sorted(diagnosis.findings, key=_rank)
    )
    prognoses = tuple(prognosis_row(prognosis) for prognosis in diagnosis.prognoses)
    return Document(
        diagnosis.kind,
        title_of(diagnosis.profile.provenance),
        origin_of(diagnosis.profile),
        verdict_of(diagnosis),
        _key_numbers(diagnosis),
        findings,
        (Table(("question", "answer", "why"), prognoses, 3, "what training will look like", wraps=True),)
        if prognoses
        else (),
        _sections(diagnosis),
    )


def _typed(diagnosis: Diagnosis) -> Typed:
    """What the user typed as MODEL and ``--data``."""
    typed = diagnosis.extra.get("typed", {})
    return str(typed.get("model", "MODEL")), str(typed.get("data", "DATA"))


def _key_numbers(diagnosis: Diagnosis) -> tuple[KeyNumber, ...]:
    """Those of the profile, with the γ that the regime was judged by, so that a page has one γ of the guesses."""
    judged = [
        finding
        for finding in diagnosis.findings
        if finding.id in _REGIME_WORDS and finding.quantity == "gamma"
    ]
    if not judged:
        return key_numbers(diagnosis.profile)
    finding = judged[0]
    found = [_REGIME_WORDS[item.id] for item in judged if item.status in ("found", "undecided")]
    samples = diagnosis.profile.provenance.settings.get("samples")
    counted = f"; the scatter of {samples:,} samples is taken off" if samples else ""
    own = KeyNumber(
        "γ of the output", amount(finding.value, finding.low, finding.high), f"{' or '.join(found)}{counted}"
    )
    return tuple(own if item.name == own.name else item for item in key_numbers(diagnosis.profile))


def _rank(finding: Finding) -> tuple[int, int]:
    """Failures first, then warnings; what was found before what could not be told, before what is absent."""
    order = ("found", "undecided", "absent", "unknown")
    assert set(order) == set(STATUSES)
    return order.index(finding.status), -SEVERITIES.index(finding.severity)


def _sections(diagnosis: Diagnosis) -> tuple[Section, ...]:
    sections = [
        *((trial_section(diagnosis.trials),) if diagnosis.trials else ()),
        coverage_section(diagnosis.profile),
        Section(
            "All numbers by layer",
            tables=(layer_table(diagnosis.profile, caption="statistics by layer"),),
            folded=True,
        ),
    ]
    origins = [("measurement", diagnosis.profile.provenance)]
    if diagnosis.theory is not None:
        origins.append(("theory", diagnosis.theory.provenance))
        if not diagnosis.theory.coverage.complete:
            sections.append(coverage_section(diagnosis.theory, heading="What theory speaks of"))
    if diagnosis.other_mode is not None:
        origins.append((f"{diagnosis.other_mode.provenance.mode} mode", diagnosis.other_mode.provenance))
    if diagnosis.comparison is not None:
        sections.append(comparison_section(diagnosis.comparison, "Measurement beside theory", folded=True))
    return (*sections, how_section(*origins))
