"""Several Diagnoses (or Profiles) as one Document: what is the same, what differs.

Enters: two results or more. Leaves: a Document whose ``columns`` are theirs, with a table of what matters most, a
column each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firstlight.errors import UsageError
from firstlight.reporting.document import Document, Origin, Section, Table
from firstlight.reporting.documents import document_of
from firstlight.reporting.finding_pages import status_words

__all__ = ["side_by_side"]


def side_by_side(nouns: Sequence[Any]) -> Document:
    """The Document of several results."""
    kinds = {getattr(noun, "kind", type(noun).__name__) for noun in nouns}
    if len(nouns) < 2 or len(kinds) > 1 or not kinds <= {"diagnosis", "profile"}:
        got = ", ".join(str(getattr(noun, "kind", type(noun).__name__)) for noun in nouns) or "nothing"
        raise UsageError(f"report: side by side stand two Diagnoses or more, or as many Profiles; got {got}")
    columns = tuple(document_of(noun) for noun in nouns)
    names = _names(nouns, columns)
    columns = tuple(
        Document(**{**vars(column), "title": name}) for column, name in zip(columns, names, strict=True)
    )
    heads = ("", *names)
    keys = dict.fromkeys(item.name for column in columns for item in column.key_numbers)
    numbers = tuple(
        (
            key,
            *(
                next((item.text for item in column.key_numbers if item.name == key), "–")
                for column in columns
            ),
        )
        for key in keys
    )
    if all(column.verdict for column in columns):
        labels = (column.verdict.label if column.verdict else "" for column in columns)
        numbers = (("verdict", *labels), *numbers)
    same = all(column.origin == columns[0].origin for column in columns)
    tables = [Table(heads, numbers, 1 + len(names), "what matters most", wraps=True)]
    tables += _finding_table(heads, columns)
    return Document(
        "side_by_side",
        f"{len(columns)} networks side by side",
        columns[0].origin if same else Origin(),
        sections=(Section(tables=tuple(tables)),),
        columns=columns,
    )


def _names(nouns: Sequence[Any], columns: tuple[Document, ...]) -> list[str]:
    """What the user called them, if that tells them apart; the model's description else."""
    typed = [str(getattr(noun, "extra", {}).get("typed", {}).get("name", "")) for noun in nouns]
    names = typed if all(typed) else [column.title for column in columns]
    return (
        names
        if len(set(names)) == len(names)
        else [f"{number}: {name}" for number, name in enumerate(names, start=1)]
    )


def _finding_table(heads: tuple[str, ...], columns: tuple[Document, ...]) -> list[Table]:
    """One row for each finding that some network has, or may have."""
    ids = dict.fromkeys(
        item.id for column in columns for item in column.findings if item.status in ("found", "undecided")
    )
    rows = []
    for identifier in ids:
        cells = []
        for column in columns:
            item = next((item for item in column.findings if item.id == identifier), None)
            cells.append(
                "–"
                if item is None
                else f"{status_words(item)}; {item.amount}"
                if item.amount
                else status_words(item)
            )
        rows.append((identifier, *cells))
    return [Table(heads, tuple(rows), 1 + len(columns), "findings", wraps=True)] if rows else []
