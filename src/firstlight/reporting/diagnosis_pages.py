"""A Diagnosis as a Document: the verdict, what was found and what would change it, and what all that rests on.

Enters: a Diagnosis. Leaves: its Document. What the user typed as model and data, if the command line noted it in
``extra``, goes into the commands that a reader may copy.
"""

from __future__ import annotations

from firstlight.reporting.comparison_pages import comparison_section
from firstlight.reporting.document import Document, FindingText, Section, Table
from firstlight.reporting.finding_pages import finding_text, status_words
from firstlight.reporting.layer_tables import layer_table
from firstlight.reporting.profile_pages import coverage_section, how_section, key_numbers, origin_of, title_of
from firstlight.reporting.prognosis_words import prognosis_row
from firstlight.reporting.remedy_words import Typed
from firstlight.reporting.verdicts import verdict_of
from firstlight.results.diagnosis import Diagnosis
from firstlight.results.finding import SEVERITIES, STATUSES, Finding

__all__ = ["diagnosis_page", "finding_rows", "typed_of"]


def diagnosis_page(diagnosis: Diagnosis) -> Document:
    """The Document of a Diagnosis."""
    inits = int(diagnosis.profile.provenance.settings.get("inits", 0) or 0)
    typed = typed_of(diagnosis)
    findings = tuple(
        finding_text(finding, inits=inits, typed=typed) for finding in sorted(diagnosis.findings, key=_rank)
    )
    prognoses = tuple(prognosis_row(prognosis) for prognosis in diagnosis.prognoses)
    return Document(
        diagnosis.kind,
        title_of(diagnosis.profile.provenance),
        origin_of(diagnosis.profile),
        verdict_of(diagnosis),
        key_numbers(diagnosis.profile),
        findings,
        (Table(("question", "answer", "why"), prognoses, 3, "what training will look like", wraps=True),)
        if prognoses
        else (),
        _sections(diagnosis),
    )


def typed_of(diagnosis: Diagnosis) -> Typed:
    """What the user typed as MODEL and ``--data``."""
    typed = diagnosis.extra.get("typed", {})
    return str(typed.get("model", "MODEL")), str(typed.get("data", "DATA"))


def finding_rows(findings: tuple[FindingText, ...]) -> Table:
    """Findings as a table: what, how it stands, where, how much, against what."""
    rows = tuple(
        (
            item.id,
            status_words(item),
            item.layer,
            item.amount,
            item.threshold.partition(":")[0],
        )
        for item in findings
    )
    return Table(("looked for", "verdict", "layer", "value (interval)", "threshold"), rows, 5)


def _rank(finding: Finding) -> tuple[int, int]:
    """Failures first, then warnings; what was found before what could not be told, before what is absent."""
    order = ("found", "undecided", "absent", "unknown")
    assert set(order) == set(STATUSES)
    return order.index(finding.status), -SEVERITIES.index(finding.severity)


def _sections(diagnosis: Diagnosis) -> tuple[Section, ...]:
    sections = [
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
