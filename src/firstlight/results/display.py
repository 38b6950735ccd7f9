"""How the nouns print themselves: at most 100 columns of text, or self-contained HTML without scripts.

Enters: a noun of this room. Leaves: a string. Both forms show the same pages: a headline, a few facts, a
table of rows with the middle left out. Text that came from outside (addresses, models, labels) is escaped
in HTML and cut in text.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from firstlight.results.guess_law import regime
from firstlight.results.quantities import QUANTITIES
from firstlight.results.rounding import number, with_stderr

if TYPE_CHECKING:
    from firstlight.results.guesses import Guesses
    from firstlight.results.phase_diagram import PhaseDiagram
    from firstlight.results.profile import Profile
    from firstlight.results.provenance import Provenance

__all__ = [
    "Page",
    "ends",
    "guesses_html",
    "guesses_text",
    "page_html",
    "page_text",
    "phase_diagram_html",
    "phase_diagram_text",
    "profile_html",
    "profile_text",
]

_WIDTH = 100
_FIRST, _LAST = 4, 3
_ORDER = ("gamma", "center_variance", "data_variance", "sensitivity", "effective_rank", "gradient_scale")
_ADDRESS = 28
_CELL = '<td style="text-align:{align};padding:0 0.6em;font-variant-numeric:tabular-nums">{text}</td>'


@dataclass(frozen=True)
class Page:
    """What is shown, whichever form it takes.

    Attributes:
        headline: One line.
        facts: Sentences below it.
        heads: Heads of the table.
        rows: Its rows.
        left: How many columns of the table are words; the others hold numbers.
        notes: Sentences at the end.
    """

    headline: str
    facts: tuple[str, ...]
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: int = 1
    notes: tuple[str, ...] = field(default=())


def profile_text(profile: Profile) -> str:
    """The profile in lines of at most 100 columns."""
    return page_text(_profile_page(profile))


def profile_html(profile: Profile) -> str:
    """The profile for notebooks."""
    return page_html(_profile_page(profile))


def guesses_text(guesses: Guesses) -> str:
    """The guesses in a sentence."""
    return "\n".join(_wrapped(f"<Guesses: {_guesses_line(guesses)}>", ""))


def guesses_html(guesses: Guesses) -> str:
    """The guesses for notebooks: the line, and the leading ranks."""
    ranked = guesses._glance
    shown = range(min(10, len(ranked.value)))
    rows = tuple(
        (str(rank + 1), with_stderr(float(ranked.value[rank]), float(ranked.stderr[rank]))) for rank in shown
    )
    more = (f"{guesses.labels - len(rows):,} further labels",) if guesses.labels > len(rows) else ()
    return page_html(Page("Guesses", (_guesses_line(guesses),), ("rank", "fraction"), rows, 1, more))


def phase_diagram_text(diagram: PhaseDiagram) -> str:
    """The diagram in a few lines: a row for each regime."""
    return page_text(_phase_page(diagram))


def phase_diagram_html(diagram: PhaseDiagram) -> str:
    """The diagram for notebooks."""
    return page_html(_phase_page(diagram))


def _profile_page(profile: Profile) -> Page:
    origin = profile.provenance
    facts = [f"data: {origin.data}"]
    run = []
    guesses = profile.guesses
    inits = origin.settings.get("inits")
    if inits is None and guesses is not None and guesses.source == "measurement":
        inits = guesses.draws
    if inits is not None:
        run.append(f"{inits:,} initializations" if isinstance(inits, int) else f"{inits} initializations")
    if origin.seed is not None:
        run.append(f"seed {origin.seed}")
    if origin.mode is not None:
        run.append(f"mode {origin.mode}")
    if run:
        facts.append(", ".join(run))
    if "gamma" in profile and len(profile.layers):
        facts.append(_output_gamma(profile))
    if guesses is not None:
        facts.append(f"guesses: {_guesses_line(guesses, gamma=False)}")
    heads, rows, left_out = _layer_table(profile)
    notes = [f"not shown: {', '.join(left_out)}"] if left_out else []
    if not profile.coverage.complete:
        notes.append(repr(profile.coverage)[1:-1])
    notes.extend(origin.notes)
    left = 2 if "kind" in profile.coordinates else 1
    return Page(_headline("Profile", origin), tuple(facts), heads, rows, left, tuple(notes))


def _headline(noun: str, origin: Provenance) -> str:
    first = origin.model.splitlines()[0] if origin.model else "a model without description"
    return f"{noun} by {origin.engine}: {first}"


def _output_gamma(profile: Profile) -> str:
    value = float(profile.variables["gamma"].values[-1])
    shown = _value(profile, "gamma", len(profile.layers) - 1, gap=" ")
    named = f" ({regime(value)})" if value >= 0 else ""
    median = ""
    if "gamma_median" in profile:
        median = (
            f"; median of the initializations {number(float(profile.variables['gamma_median'].values[-1]))}"
        )
    return f"output γ = {shown}{named}{median}"


def _layer_table(profile: Profile) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], list[str]]:
    """Heads, rows with the middle left out, and the quantities for which 100 columns have no room."""
    layers = profile.layers
    kinds = (
        [str(kind) for kind in profile.coordinates["kind"].values] if "kind" in profile.coordinates else None
    )
    shown = ends(len(layers))
    skipped = f"… {len(layers) - len(shown) + 1:,} more"
    columns: list[list[str]] = [
        ["layer", *(skipped if i is None else _cut(layers[i], _ADDRESS) for i in shown)]
    ]
    if kinds is not None:
        columns.append(["kind", *("" if i is None else _cut(kinds[i], 12) for i in shown)])
    room = _WIDTH - 2 - sum(_width(column) + 2 for column in columns)
    left_out: list[str] = []
    order = (*_ORDER, *(name for name in QUANTITIES if name not in _ORDER))
    for name in (name for name in order if name in profile.variables):
        cells = ["" if i is None else _value(profile, name, i, gap="") for i in shown]
        column = [QUANTITIES[name].symbol, *cells]
        if _width(column) + 2 <= room and not left_out:
            columns.append(column)
            room -= _width(column) + 2
        else:
            left_out.append(name)
    heads, *rows = zip(*columns, strict=True)
    return heads, tuple(rows), left_out


def _value(profile: Profile, name: str, layer: int, *, gap: str) -> str:
    log = profile.variables.get(f"log_{name}")
    spread = profile.variables.get(f"{name}_stderr")
    return with_stderr(
        float(profile.variables[name].values[layer]),
        math.nan if spread is None else float(spread.values[layer]),
        gap=gap,
        log=None if log is None else float(log.values[layer]),
    )


def _guesses_line(guesses: Guesses, *, gamma: bool = True) -> str:
    ranked = guesses._glance
    greatest = with_stderr(float(ranked.value[0]), float(ranked.stderr[0]))
    if guesses.source == "measurement":
        what = f"measured on {guesses.draws:,} initializations × {guesses.samples:,} data points"
    else:
        what = "theory" if guesses.law is not None else f"{guesses.draws:,} draws"
        if guesses.samples is not None:
            what += f", counted on {guesses.samples:,} data points"
    parts = [f"{guesses.labels:,} labels, {what}"]
    if guesses.law is not None and gamma:
        parts.append(repr(guesses.law).partition(": ")[2].partition(",")[0])
    neutral = f" (neutral: {number(guesses.null.mean_max)})" if guesses.samples is not None else ""
    rounded = greatest if "±" in greatest else f"{float(ranked.value[0]):.3g}"
    parts.append(f"greatest fraction {rounded} on average{neutral}")
    if guesses.tie_fractions is not None and guesses.tie_fractions.any():
        parts.append(f"ties on {100 * float(guesses.tie_fractions.mean()):.2g} % of the data")
    return "; ".join(parts)


def _phase_page(diagram: PhaseDiagram) -> Page:
    weights, biases = (diagram.coordinates[axis].values for axis in ("weight_variance", "bias_variance"))
    axes = (("σ_w²", weights), ("σ_b²", biases))
    facts = (
        ", ".join(
            f"{name} {_span(values)}" + (f" ({values.size} values)" if values.size > 1 else "")
            for name, values in axes
        ),
    )
    names = {
        "slope": "χ_1",
        "gamma_at_depth": f"γ({diagram.depth})",
        "gamma_star": "γ*",
        "depth_scale": "ξ_c",
    }
    known = [name for name in names if name in diagram]
    if "regime" not in diagram or not known:
        return Page(_headline("PhaseDiagram", diagram.provenance), facts)
    regimes = diagram.variables["regime"].values
    rows = tuple(
        (
            str(found),
            f"{int((regimes == found).sum()):,}",
            *(_span(diagram.variables[name].values[regimes == found]) for name in known),
        )
        for found in dict.fromkeys(regimes.ravel().tolist())
    )
    heads = ("regime", "points", *(names[name] for name in known))
    return Page(_headline("PhaseDiagram", diagram.provenance), facts, heads, rows)


def _span(values: np.ndarray) -> str:
    """Smallest to largest."""
    known = values[~np.isnan(values)]
    if not known.size:
        return "–"
    low, high = number(float(known.min())), number(float(known.max()))
    return low if low == high else f"{low} … {high}"


def ends(count: int) -> list[int | None]:
    """The first and last indices, None for the gap between them."""
    if count <= _FIRST + _LAST + 1:
        return list(range(count))
    return [*range(_FIRST), None, *range(count - _LAST, count)]


def page_text(page: Page) -> str:
    """Lines of at most 100 columns."""
    lines = [_cut(page.headline, _WIDTH)]
    for fact in page.facts:
        lines.extend(_wrapped(fact, "  "))
    if page.rows:
        widths = [_width(column) for column in zip(page.heads, *page.rows, strict=True)]
        lines.extend(_cut(_row(row, widths, page.left), _WIDTH) for row in (page.heads, *page.rows))
    for note in page.notes:
        lines.extend(_wrapped(note, "  "))
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _row(row: Sequence[str], widths: Sequence[int], left: int) -> str:
    cells = [
        cell.ljust(width) if place < left else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return ("  " + "  ".join(cells)).rstrip()


def page_html(page: Page) -> str:
    """Self-contained HTML without scripts."""
    pieces = [
        f"<strong>{escape(page.headline)}</strong>",
        *(f"<div>{escape(fact)}</div>" for fact in page.facts),
    ]
    if page.rows:
        cells = [
            "<tr>"
            + "".join(
                _CELL.format(align="left" if place < page.left else "right", text=escape(text))
                for place, text in enumerate(row)
            )
            + "</tr>"
            for row in (page.heads, *page.rows)
        ]
        pieces.append(f"<table>{''.join(cells)}</table>")
    pieces.extend(f"<div><em>{escape(note)}</em></div>" for note in page.notes)
    return f"<div>{''.join(pieces)}</div>"


def _width(column: Sequence[str]) -> int:
    return max(len(cell) for cell in column)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
