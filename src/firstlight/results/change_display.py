"""How a Change prints itself: the verdict in numbers, then a table of what was edited and what was left.

Enters: a ``Change``. Leaves: text of at most 100 columns, or self-contained HTML without scripts.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from firstlight.errors import CouldNotError, UsageError
from firstlight.results.rounding import number, with_stderr

if TYPE_CHECKING:
    from firstlight.results.change import Change, Difference

__all__ = ["change_html", "change_text", "outcome_lines"]

_WIDTH = 100
_FIRST, _LAST = 8, 4
"""Rows of a long table that are shown before and after the gap."""
_CELL = '<td style="text-align:left;padding:0 0.6em">{text}</td>'


def change_text(change: Change) -> str:
    """The change in lines of at most 100 columns."""
    lines = _wrapped(_headline(change), "")
    for fact in outcome_lines(change):
        lines += _wrapped(fact, "  ")
    for title, heads, rows in _tables(change):
        lines.append(f"  {title}")
        shown = _shortened([heads, *rows])
        widths = [max(len(row[place]) for row in shown) for place in range(len(heads))]
        for row in shown:
            line = "    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines += textwrap.wrap(
                line.rstrip(),
                _WIDTH,
                subsequent_indent=" " * 8,
                drop_whitespace=False,
                break_long_words=False,
            )
    for note in change.notes:
        lines += _wrapped(note, "  ")
    return "\n".join(line.rstrip() for line in lines)


def change_html(change: Change) -> str:
    """The change for notebooks."""
    pieces = [f"<strong>{escape(_headline(change))}</strong>"]
    pieces += [f"<div>{escape(fact)}</div>" for fact in outcome_lines(change)]
    for title, heads, rows in _tables(change):
        cells = "".join(
            "<tr>" + "".join(_CELL.format(text=escape(text)) for text in row) + "</tr>"
            for row in _shortened([heads, *rows])
        )
        pieces.append(f"<div>{escape(title)}</div><table>{cells}</table>")
    pieces += [f"<div><em>{escape(note)}</em></div>" for note in change.notes]
    return f"<div>{''.join(pieces)}</div>"


def outcome_lines(change: Change) -> list[str]:
    """γ of the output and the greatest guess before → after, each with its interval and verdict."""
    if change.before is None or change.after is None:
        return ["nothing was measured: a dry run lists the edits"]
    facts = []
    for quantity, symbol in (("gamma", "γ of the output"), ("greatest fraction", "greatest guess fraction")):
        try:
            facts.append(_outcome(symbol, change.difference(quantity)))
        except (CouldNotError, UsageError):  # the profiles were measured without it
            continue
    origin = change.before.provenance
    facts.append(
        f"{origin.settings['inits']:,} initializations each (seed {origin.seed}), {origin.mode} mode, on {origin.data}"
    )
    return facts


def _outcome(symbol: str, difference: Difference) -> str:
    before = with_stderr(difference.before, difference.before_stderr)
    after = with_stderr(difference.after, difference.after_stderr)
    interval = ""
    if math.isfinite(difference.low):
        interval = (
            f"; difference {number(difference.value)}, 95 % interval "
            f"{number(difference.low)} … {number(difference.high)}"
        )
    return f"{symbol} {before} → {after}{interval}: {difference.verdict}"


def _headline(change: Change) -> str:
    what = ", ".join(change.remedies) or "no remedy"
    return (
        f"Change of {change.provenance.model} by {what}: {len(change.edits)} edits, {len(change.left)} left"
    )


def _tables(change: Change) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    several = len(change.remedies) > 1
    found: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = []
    if change.edits:
        rows = [
            (
                *((edit.remedy,) if several else ()),
                edit.address or "the model",
                edit.what,
                f"{edit.before} → {edit.after}",
            )
            for edit in change.edits
        ]
        found.append(
            ("edited", (*(("remedy",) if several else ()), "address", "what", "before → after"), rows)
        )
    if change.left:
        found.append(
            (
                "left as it was",
                ("address", "because"),
                [(item.address or "the model", item.reason) for item in change.left],
            )
        )
    if change.refused:
        found.append(
            ("refused", ("remedy", "because"), [(item.remedy, item.reason) for item in change.refused])
        )
    return found


def _shortened(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    if len(rows) <= _FIRST + _LAST + 2:
        return list(rows)
    hidden = len(rows) - 1 - _FIRST - _LAST
    gap = (f"… {hidden:,} more", *[""] * (len(rows[0]) - 1))
    return [*rows[: _FIRST + 1], gap, *rows[-_LAST:]]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")
