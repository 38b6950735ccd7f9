"""Document: what a report says, whichever form it takes; the one place between results and formats.

Enters: strings, with every number already rounded (``amounts.py``). Leaves: frozen values that the formats arrange.
A format never computes and never rounds; this is what makes the numbers in HTML, JSON, JUnit, Markdown and in the
terminal the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = [
    "TONES",
    "Document",
    "FindingText",
    "KeyNumber",
    "Origin",
    "RemedyText",
    "Section",
    "Table",
    "Verdict",
]

TONES = ("good", "note", "warn", "fail", "unknown")
"""How a verdict sounds; formats choose colours by it."""


@dataclass(frozen=True)
class Verdict:
    """The answer in one or two plain sentences.

    Attributes:
        tone: One of ``TONES``.
        label: Two or three words.
        sentences: The answer.
    """

    tone: str
    label: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class KeyNumber:
    """A number that matters most, with what it is and what it would be without prejudice.

    Attributes:
        name: What it is, in words.
        text: The number, rounded, with its interval.
        remark: What to compare it with.
    """

    name: str
    text: str
    remark: str = ""


@dataclass(frozen=True)
class RemedyText:
    """A remedy: its name, what it does, and the line to type."""

    name: str
    title: str
    command: str


@dataclass(frozen=True)
class FindingText:
    """One finding in words.

    Attributes:
        id: What policies call it.
        title: What it is, in plain words.
        status: ``"found"``, ``"absent"``, ``"undecided"`` or ``"unknown"``.
        severity: ``"info"``, ``"warn"`` or ``"fail"``.
        failed: Whether the policy is not met because of it.
        layer: Where, or "".
        amount: Quantity, value and interval: "γ 18.4 (16.2 to 20.8)"; "" where there is no number.
        threshold: What the value was compared with, and where that comes from.
        sentences: What it means; where it was not found, why that is known or why not.
        because: The mechanism.
        reference: The paper that explains it.
        remedies: What would change it.
        details: Further numbers, by name.
    """

    id: str
    title: str
    status: str
    severity: str
    failed: bool
    layer: str
    amount: str
    threshold: str
    sentences: tuple[str, ...]
    because: str = ""
    reference: str = ""
    remedies: tuple[RemedyText, ...] = ()
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Table:
    """Rows of strings.

    Attributes:
        heads: Heads of the columns.
        rows: The rows.
        left: How many columns are words; the others hold numbers, the most important first.
        caption: What the table shows.
        names: Names of the columns, for saying which of them had no room; the heads by default.
        wraps: Whether the words are sentences that may be broken into lines.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    caption: str = ""
    names: tuple[str, ...] = ()
    wraps: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a document: a heading ("" for none), tables, sentences.

    Attributes:
        heading: Its heading.
        sentences: What it says; each is a paragraph.
        tables: Its tables.
        lead: Sentences that stand before the tables.
        folded: Whether a page may show it closed, and a terminal leave it out.
    """

    heading: str = ""
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    lead: tuple[str, ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Origin:
    """What the numbers come from, in a few lines."""

    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        kind: Kind of the noun it speaks of.
        title: The model, or whatever it is about.
        origin: Where the numbers come from.
        verdict: The answer, for nouns that judge.
        key_numbers: What matters most.
        findings: What was looked for, the gravest first.
        prognoses: What training will look like: question, answer, reason.
        sections: Everything else.
        columns: Documents side by side, where several networks are compared.
    """

    kind: str
    title: str
    origin: Origin = Origin()
    verdict: Verdict | None = None
    key_numbers: tuple[KeyNumber, ...] = ()
    findings: tuple[FindingText, ...] = ()
    prognoses: tuple[Table, ...] = ()
    sections: tuple[Section, ...] = ()
    columns: tuple[Document, ...] = ()

    def with_status(self, *statuses: str) -> Iterator[FindingText]:
        """The findings of those statuses."""
        return (finding for finding in self.findings if finding.status in statuses)

    @property
    def remedies(self) -> tuple[tuple[RemedyText, tuple[str, ...]], ...]:
        """Each remedy once, with the ids of the findings that it would change."""
        answered: dict[RemedyText, dict[str, None]] = {}
        for finding in self.with_status("found"):
            for remedy in finding.remedies:
                answered.setdefault(remedy, {})[finding.id] = None
        return tuple((remedy, tuple(ids)) for remedy, ids in answered.items())

    def without_sections(self) -> Document:
        """The same without its closing sections."""
        return replace(self, sections=())

    def to_dict(self) -> dict[str, Any]:
        """Plain containers: the sentences and rounded numbers that every format shows."""
        return {
            "title": self.title,
            "verdict": None if self.verdict is None else asdict(self.verdict),
            "key_numbers": [asdict(item) for item in self.key_numbers],
            "findings": [asdict(item) for item in self.findings],
            "columns": [column.to_dict() for column in self.columns],
        }
