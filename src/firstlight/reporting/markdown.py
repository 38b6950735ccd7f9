"""Any Document as Markdown, for a comment on a pull request.

Enters: a Document. Leaves: GitHub-flavoured Markdown: the verdict, what matters most, a table of what was found,
everything else folded away. Text that came from outside (layers, models, labels) is escaped, so that it can neither
break a table nor become markup.
"""

from __future__ import annotations

import re
from typing import Any

from firstlight.reporting.document import Document, FindingText, Section, Table
from firstlight.reporting.documents import document_of
from firstlight.reporting.finding_pages import status_words

__all__ = ["markdown_report"]

_MARKS = {"good": "✅", "note": "ℹ️", "warn": "⚠️", "fail": "❌", "unknown": "❔"}
_ROWS = 60
"""Rows of a table that a comment still holds; the first and last of longer tables are shown."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&!])|^([+\-=])|^(\d+)([.)])(?=\s)", re.MULTILINE)


def markdown_report(noun: Any) -> str:
    """Markdown of a noun."""
    return "\n".join(_lines(document_of(noun), 2)).strip() + "\n"


def _lines(document: Document, level: int) -> list[str]:
    lines = [f"{'#' * level} {_escaped(document.title)}", ""]
    if document.verdict is not None:
        verdict = document.verdict
        lines += [
            f"{_MARKS[verdict.tone]} **{_escaped(verdict.label)}.** {_escaped(' '.join(verdict.sentences))}",
            "",
        ]
    lines += [line for text in document.origin.lines for line in (_escaped(text), "")]
    if document.key_numbers:
        rows = tuple((item.name, item.text, item.remark) for item in document.key_numbers)
        lines += _table(Table(("", "value", ""), rows, 3))
    lines += _findings(document)
    for table in document.prognoses:
        lines += [f"{'#' * (level + 1)} What training will look like", "", *_table(table)]
    for section in document.sections:
        lines += _section(section, level + 1)
    for note in document.origin.notes if document.kind != "diagnosis" else ():
        lines += [f"*{_escaped(note)}*", ""]
    for column in document.columns:
        lines += _lines(column.without_sections(), level + 1)
    return lines


def _findings(document: Document) -> list[str]:
    shown = tuple(document.with_status("found", "undecided"))
    rest = tuple(document.with_status("absent", "unknown"))
    lines: list[str] = []
    if shown:
        rows = tuple((f"**{item.id}**", *_row(item)) for item in shown)
        lines += _table(
            Table(("finding", "verdict", "where", "value (interval)", "threshold", "what it means"), rows, 6),
            raw=1,
        )
        lines += ["What would change it:", ""] if document.remedies else []
        for remedy, ids in document.remedies:
            lines.append(f"- {_escaped(remedy.title)} ({', '.join(ids)}): `{remedy.command}`")
        lines += [""] if document.remedies else []
    if rest:
        rows = tuple((f"**{item.id}**", *_row(item)) for item in rest)
        table = _table(
            Table(("looked for", "verdict", "where", "value (interval)", "threshold", ""), rows, 6), raw=1
        )
        lines += _folded(f"{len(rest)} more that were looked for", table)
    return lines


def _row(item: FindingText) -> tuple[str, ...]:
    return (
        status_words(item),
        item.layer,
        item.amount,
        item.threshold.partition(":")[0],
        " ".join(item.sentences),
    )


def _section(section: Section, level: int) -> list[str]:
    body = [line for text in section.lead for line in (_escaped(text), "")]
    for table in section.tables:
        body += _table(table)
    body += [line for text in section.sentences for line in (_escaped(text), "")]
    if section.folded:
        return _folded(section.heading, body)
    return ([f"{'#' * level} {_escaped(section.heading)}", ""] if section.heading else []) + body


def _folded(heading: str, body: list[str]) -> list[str]:
    return [f"<details><summary>{_escaped(heading)}</summary>", "", *body, "</details>", ""]


def _table(table: Table, *, raw: int = 0) -> list[str]:
    """A table; the first ``raw`` columns are Markdown already."""
    rows = list(table.rows)
    if len(rows) > _ROWS:
        gap = (f"… {len(rows) - _ROWS:,} more", *[""] * (len(table.heads) - 1))
        rows = [*rows[: _ROWS // 2], gap, *rows[-(_ROWS // 2) :]]
    rule = ["---" if place < table.left else "---:" for place in range(len(table.heads))]
    body = [[cell if place < raw else _escaped(cell) for place, cell in enumerate(row)] for row in rows]
    every = [[_escaped(head) for head in table.heads], rule, *body]
    return [*(f"| {' | '.join(cells)} |" for cells in every), ""]


def _escaped(text: str) -> str:
    r"""Text that shows as it is written.

    >>> _escaped("blocks.*|<b> 1 < 2")
    'blocks.\\*\\|\\<b\\> 1 \\< 2'
    """
    flat = " ".join(text.split())
    return _SPECIAL.sub(lambda found: f"{found[3] or ''}\\{found[1] or found[2] or found[4]}", flat)
