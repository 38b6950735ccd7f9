"""A Reproduction as a Document: each statement of the paper beside what came out."""

from __future__ import annotations

from firstlight.reporting.document import Document, Origin, Section, Table, Verdict
from firstlight.results.reproduction import Reproduction
from firstlight.results.rounding import number, with_stderr

__all__ = ["reproduction_page"]


def reproduction_page(made: Reproduction) -> Document:
    """The Document of a Reproduction."""
    rows = tuple(
        (
            "agrees" if item.agrees else "DIFFERS",
            f"{item.says}; {item.because}" if item.because else item.says,
            with_stderr(item.measured, item.stderr),
            f"{item.relation} {number(item.expected)}",
        )
        for item in made.statements
    )
    agreeing = sum(item.agrees for item in made.statements)
    agreed = agreeing == len(rows)
    verdict = Verdict(
        "good" if agreed else "warn",
        "The paper's statements hold" if agreed else "Not all statements hold",
        (f"{agreeing} of {len(rows)} statements agree with what came out.",),
    )
    table = Table(("verdict", "statement", "came out", "paper"), rows, 2, wraps=True)
    where = () if made.folder is None else (str(made.folder),)
    return Document(
        made.kind,
        f"{made.key} ({made.scale}): {made.title}",
        Origin(where),
        verdict,
        sections=(Section(tables=(table,)),),
    )
