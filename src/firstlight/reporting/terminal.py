"""Any Document in a terminal: tables of at most 100 columns, in colour on a terminal only.

Enters: a Document. Leaves: text. Verdict first; the middle of a long table is left out, columns for which there is
no room are named, folded sections stay closed; ``--json`` has it all.
"""

from __future__ import annotations

import io
import os
import re
import sys
import textwrap
from typing import IO, TYPE_CHECKING, Any

from firstlight.reporting.document import Document, FindingText, Section, Table
from firstlight.reporting.documents import document_of
from firstlight.reporting.finding_pages import status_words

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_report", "text_report"]

WIDTH = 100
_ROWS = 24
_GAP = 3
"""Columns between two columns of a table: padding on either side of the box's divider."""
_EDGES = 2
_NAME = 24
"""Columns of text that the layers' names are left at least."""
_STYLES = {
    "good": "bold green",
    "note": "bold cyan",
    "warn": "bold yellow",
    "fail": "bold red",
    "unknown": "bold",
}


def print_report(noun: Any, *, file: IO[str] | None = None) -> None:
    """Print a noun for people, on stdout by default."""
    _print(_console(file or sys.stdout), document_of(noun))


def text_report(noun: Any) -> str:
    """The same as plain text."""
    buffer = io.StringIO()
    print_report(noun, file=buffer)
    return buffer.getvalue()


def _console(file: IO[str]) -> Console:
    from rich.console import Console

    terminal = file.isatty() and os.environ.get("TERM") != "dumb"
    console = Console(file=file, highlight=False, markup=False, no_color=True if not terminal else None)
    console.width = min(WIDTH, console.width) if terminal else WIDTH
    return console


def _print(console: Console, document: Document) -> None:
    console.print(document.title, style="bold")
    for line in (*document.origin.lines, *document.origin.notes):
        console.print(line)
    if document.verdict is not None:
        console.print()
        console.print(document.verdict.label, style=_STYLES[document.verdict.tone])
        for sentence in document.verdict.sentences:
            _paragraph(console, sentence)
    if document.verdict is not None and document.key_numbers:
        rows = tuple((item.name, item.text, item.remark) for item in document.key_numbers)
        _table(console, Table(("", "", ""), rows, 3, wraps=True))
    _findings(console, document)
    for table in document.prognoses:
        console.print("What training will look like", style="bold")
        _table(console, table)
    for column in document.columns:
        _column(console, column)
    for section in document.sections:
        if not section.folded:
            _section(console, section)


def _column(console: Console, column: Document) -> None:
    """One of several networks: its verdict; what it shares with the others stands in their common tables."""
    console.print()
    if column.verdict is None:
        console.print(column.title, style="bold")
        return
    console.print(f"{column.title}: {column.verdict.label}", style=_STYLES[column.verdict.tone])
    for sentence in column.verdict.sentences:
        _paragraph(console, sentence)
    if column.remedies:
        _paragraph(
            console, f"What would change it: {', '.join(remedy.name for remedy, _ in column.remedies)}"
        )


def _findings(console: Console, document: Document) -> None:
    """What was found or cannot be told, each with its meaning; the others in one line each kind."""
    shown = list(document.with_status("found", "undecided"))
    if shown:
        rows = tuple(
            (
                item.id,
                status_words(item),
                _shortened(item.layer, 0),
                item.amount,
                item.threshold.partition(":")[0],
            )
            for item in shown
        )
        _table(
            console,
            Table(("finding", "verdict", "where", "value (interval)", "threshold"), rows, 5, wraps=True),
        )
        for item in shown:
            _finding(console, item)
    if document.remedies:
        console.print("What would change it", style="bold")
        for remedy, ids in document.remedies:
            _paragraph(console, f"{remedy.title} ({', '.join(ids)})", more="      ")
            console.print(_continued(remedy.command, console.width - 6), style="cyan", soft_wrap=True)
        console.print()
    for status, words in (("absent", "looked for and not found"), ("unknown", "could not be looked at")):
        names = list(dict.fromkeys(item.id for item in document.with_status(status)))
        if names:
            _paragraph(console, f"{words}: {', '.join(names)}", indent="", more="  ")
    if document.findings:
        console.print()


def _finding(console: Console, item: FindingText) -> None:
    console.print(item.title, style="bold")
    _paragraph(console, " ".join(item.sentences))
    if item.because:
        source = f" ({item.reference})" if item.reference else ""
        _paragraph(console, f"Why: {item.because}{source}")
    console.print()


def _continued(command: str, width: int) -> str:
    r"""The command, on as many lines as it needs, so that all of them can be copied at once.

    >>> print(_continued("firstlight repair nets.py:make --data cifar10 --remedy seed_choice", 50))
          firstlight repair nets.py:make --data cifar10 \
            --remedy seed_choice
    """
    lines = [""]
    for word in re.split(r" (?=--)", command):  # an option stays with its value
        if lines[-1] and len(lines[-1]) + len(word) + 3 > width:
            lines[-1] += " \\"
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(f"      {line}" for line in lines)


def _section(console: Console, section: Section) -> None:
    if section.heading:
        console.print(section.heading, style="bold")
    for sentence in section.lead:
        _paragraph(console, sentence, indent="")
    for table in section.tables:
        _table(console, table)
    for sentence in section.sentences:
        _paragraph(console, sentence, indent="", more="    " if section.heading else "")


def _paragraph(console: Console, text: str, *, indent: str = "  ", more: str | None = None) -> None:
    further = indent if more is None else more
    console.print(textwrap.fill(text, console.width, initial_indent=indent, subsequent_indent=further))


def _table(console: Console, table: Table) -> None:
    """Print the rows without the middle of many and without the columns for which there is no room."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    shown = _fitting(table, console.width)
    heads, rows = list(table.heads[:shown]), [row[:shown] for row in table.rows]
    if not table.wraps and table.left:
        room = console.width - _EDGES - sum(_width(table, place) + _GAP for place in range(1, shown))
        rows = [(_shortened(row[0], room), *row[1:]) for row in rows]
    if len(rows) > _ROWS:
        half = _ROWS // 2
        gap = (f"… {len(rows) - 2 * half:,} more", *["…"] * (len(heads) - 1))
        rows = [*rows[:half], gap, *rows[-half:]]
    grid = RichTable(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_header=any(heads))
    for place, head in enumerate(heads):
        grid.add_column(head, justify="left" if place < table.left else "right", no_wrap=not table.wraps)
    for row in rows:
        grid.add_row(*row)
    console.print(grid)
    if shown < len(table.heads):
        names = (table.names or table.heads)[shown:]
        console.print(f"not shown, for want of width: {', '.join(names)}; --json has them")


def _fitting(table: Table, width: int) -> int:
    """How many columns leave room for the names in the first one; all words, and at least one column of numbers."""
    count = len(table.heads)
    if table.wraps or table.left == 0:
        return count
    while count > table.left + 1:
        if sum(_width(table, place) + _GAP for place in range(1, count)) <= width - _EDGES - _NAME:
            break
        count -= 1
    return count


def _width(table: Table, place: int) -> int:
    return max(len(row[place]) for row in (table.heads, *table.rows))


def _shortened(name: str, room: int) -> str:
    """The name without its middle where it is too long; its end says more than its beginning."""
    room = max(room, _NAME)
    if len(name) <= room:
        return name
    head = room // 3
    return f"{name[:head]}…{name[len(name) - (room - head - 1) :]}"
