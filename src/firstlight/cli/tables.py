"""Results as tables of at most 100 columns, in colour on a terminal only.

Enters: a noun of ``results``. Leaves: text on stdout. A Profile has a row for each layer, and its law of guesses in
words (the middle of a deep network is left out; ``--json`` has it all). A PhaseDiagram of few points has a row for
each. Everything else prints itself.
"""

from __future__ import annotations

import math
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from firstlight.results.comparison import Comparison
    from firstlight.results.labelled import Labelled
    from firstlight.results.phase_diagram import PhaseDiagram
    from firstlight.results.profile import Profile
    from firstlight.results.reproduction import Reproduction

__all__ = ["print_reproduction", "print_table"]

_WIDTH = 100
_ROWS = 24
_GAP = 3
"""Columns between two columns of a table: padding on either side of the box's divider."""
_EDGES = 2
_NAME = 24
"""Columns of text that the layers' names are left at least."""

_PROFILE_COLUMNS = (
    "gamma",
    "center_variance",
    "data_variance",
    "mean_square",
    "sensitivity",
    "gradient_scale",
)
_PHASE_COLUMNS = (
    "regime",
    "slope",
    "gamma_at_depth",
    "gamma_star",
    "correlation_star",
    "mean_square_star",
    "depth_scale",
)


def print_table(result: Labelled) -> None:
    """Print a result for people."""
    from rich.console import Console

    from firstlight.results.comparison import Comparison
    from firstlight.results.phase_diagram import PhaseDiagram
    from firstlight.results.profile import Profile

    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, highlight=False, markup=False, no_color=not terminal)
    console.width = min(_WIDTH, console.width) if terminal else _WIDTH
    if isinstance(result, Profile):
        _print_profile(console, result)
    elif isinstance(result, PhaseDiagram) and result.variables["regime"].values.size <= _ROWS:
        _print_points(console, result)
    elif isinstance(result, Comparison):
        _print_comparison(console, result)
    else:
        console.print(repr(result))


def print_reproduction(made: Reproduction) -> None:
    """Print each statement of the paper with its verdict."""
    from firstlight.results.rounding import number, with_stderr

    click.echo(f"{made.key} ({made.scale}): {made.title}")
    for item in made.statements:
        verdict = "agrees" if item.agrees else "DIFFERS"
        got = with_stderr(item.measured, item.stderr)
        line = f"{verdict}: {item.says}: {got}, expected {item.relation} {number(item.expected)}"
        why = f"; {item.because}" if item.because else ""
        click.echo(textwrap.fill(line + why, _WIDTH, initial_indent="  ", subsequent_indent="      "))
    if made.folder is not None:
        click.echo(f"  {made.folder}")


def _print_profile(console: Console, profile: Profile) -> None:
    from firstlight.results.quantities import QUANTITIES
    from firstlight.results.rounding import with_stderr

    def cell(name: str, layer: int) -> str:
        log, spread = profile.variables.get(f"log_{name}"), profile.variables.get(f"{name}_stderr")
        return with_stderr(
            float(profile.variables[name].values[layer]),
            float("nan") if spread is None else float(spread.values[layer]),
            log=None if log is None else float(log.values[layer]),
        )

    _print_origin(console, profile)
    names = [name for name in _PROFILE_COLUMNS if name in profile.variables]
    kinds = (
        profile.coordinates["kind"].values if "kind" in profile.coordinates else [""] * len(profile.layers)
    )
    columns = [[cell(name, index) for index in range(len(profile.layers))] for name in names]
    free = console.width - _EDGES - max(map(len, [*map(str, kinds), "kind"])) - _GAP
    shown = _fitting(columns, free)
    room = free - sum(max(map(len, column)) + _GAP for column in columns[:shown])
    rows = [
        (_shortened(layer, room), str(kind), *(column[index] for column in columns[:shown]))
        for index, (layer, kind) in enumerate(zip(profile.layers, kinds, strict=True))
    ]
    heads = ["layer", "kind", *(QUANTITIES[name].symbol for name in names[:shown])]
    _print_rows(console, heads, rows, left=2)
    if shown < len(names):
        console.print(f"not shown, for want of width: {', '.join(names[shown:])}; --json has them")
    if not profile.coverage.complete:
        console.print(repr(profile.coverage))
    if profile.guesses is not None:
        low, middle, high = (
            f"{100 * float(share):.3g} %" for share in profile.guesses.quantile([0.05, 0.5, 0.95])
        )
        console.print(textwrap.fill(repr(profile.guesses)[1:-1], console.width))
        console.print(
            f"share of one label over initializations: 5 % below {low}, half below {middle}, 5 % above {high}"
        )


def _fitting(columns: list[list[str]], width: int) -> int:
    """How many of the columns leave room for the layers' names; never fewer than one."""
    count = len(columns)
    while count > 1 and sum(max(map(len, column)) + _GAP for column in columns[:count]) > width - _NAME:
        count -= 1
    return count


def _shortened(name: str, room: int) -> str:
    """The name without its middle where it is too long; its end says more than its beginning."""
    if len(name) <= max(room, _NAME):
        return name
    room = max(room, _NAME)
    head = room // 3
    return f"{name[:head]}…{name[len(name) - (room - head - 1) :]}"


def _print_comparison(console: Console, comparison: Comparison) -> None:
    """γ by layer, both ways; the other quantities and the guesses in words."""
    from firstlight.results.rounding import number, with_stderr

    if "gamma_z" in comparison:
        expected, measured, spread, z = (
            comparison.variables[f"gamma_{name}"].values for name in ("reference", "measured", "stderr", "z")
        )
        rows: list[tuple[str, ...]] = [
            (
                str(layer),
                number(float(expected[index])),
                with_stderr(float(measured[index]), float(spread[index])),
                f"{z[index]:+.2f}" if math.isfinite(z[index]) else number(float(z[index])),
            )
            for index, layer in enumerate(comparison.coordinates["layer"].values)
        ]
        _print_rows(console, ["layer", "γ expected", "γ measured", "z"], rows, left=1)
    for line in repr(comparison).splitlines():
        console.print(textwrap.fill(line, console.width, subsequent_indent="    "))


def _print_points(console: Console, diagram: PhaseDiagram) -> None:
    from firstlight.results.phase_diagram import PHASE_QUANTITIES
    from firstlight.results.rounding import number

    def cell(value: Any) -> str:
        return value if isinstance(value, str) else number(float(value))

    _print_origin(console, diagram)
    weights, biases = (diagram.coordinates[f"{kind}_variance"].values for kind in ("weight", "bias"))
    columns = [diagram.variables[name].values for name in _PHASE_COLUMNS]
    rows = [
        (cell(weight), cell(bias), *(cell(column[i, j]) for column in columns))
        for i, weight in enumerate(weights)
        for j, bias in enumerate(biases)
    ]
    symbols = (PHASE_QUANTITIES[name][0].replace("depth", str(diagram.depth)) for name in _PHASE_COLUMNS)
    _print_rows(console, ["σ_w²", "σ_b²", *symbols], rows)


def _print_origin(console: Console, result: Labelled) -> None:
    origin = result.provenance
    console.print(origin.model.splitlines()[0] if origin.model else result.kind, style="bold")
    console.print(f"{origin.engine}; {origin.data}")
    if origin.engine == "measurement" and "inits" in origin.settings:
        console.print(
            f"{origin.settings['inits']:,} initializations by {origin.settings.get('redraw')} (seed {origin.seed}) on "
            f"{origin.settings.get('samples'):,} samples, {origin.mode} mode"
        )
    for note in origin.notes:
        console.print(note)


def _print_rows(console: Console, heads: list[str], rows: list[tuple[str, ...]], *, left: int = 0) -> None:
    """Print the rows with ``left`` columns of words and the others of numbers, without the middle of many."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    if len(rows) > _ROWS:
        half = _ROWS // 2
        gap = (f"… {len(rows) - 2 * half:,} more", *["…"] * (len(heads) - 1))
        rows = [*rows[:half], gap, *rows[-half:]]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, head in enumerate(heads):
        table.add_column(head, justify="left" if index < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
