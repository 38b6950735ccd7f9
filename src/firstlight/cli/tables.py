"""Results as tables of at most 100 columns, in colour on a terminal only.

Enters: a noun of ``results``. Leaves: text on stdout. A Profile has a row for each layer (the middle of a deep network
is left out; ``--json`` has it all), a PhaseDiagram a row for each point, or for each regime where the points are many.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from firstlight.results.guesses import Guesses
    from firstlight.results.labelled import Labelled
    from firstlight.results.phase_diagram import PhaseDiagram
    from firstlight.results.profile import Profile

__all__ = ["print_table"]

_WIDTH = 100
_ROWS = 24

_PROFILE_COLUMNS = (
    "gamma",
    "center_variance",
    "data_variance",
    "mean_square",
    "sensitivity",
    "gradient_scale",
)
_PHASE_COLUMNS = {
    "regime": "regime",
    "slope": "χ_1",
    "gamma_at_depth": "γ",
    "gamma_star": "γ*",
    "correlation_star": "c*",
    "mean_square_star": "q*",
    "depth_scale": "ξ_c",
}
_PHASE_SPANS = ("slope", "gamma_at_depth", "gamma_star", "correlation_star")


def print_table(result: Labelled) -> None:
    """Print a result for people; what has no table of its own prints itself."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, highlight=False, no_color=not terminal, soft_wrap=not terminal)
    console.width = min(_WIDTH, console.width) if terminal else _WIDTH
    match result.kind:
        case "profile":
            _print_profile(console, result)  # type: ignore[arg-type]  # the kind says so
        case "phase_diagram":
            _print_phases(console, result)  # type: ignore[arg-type]
        case _:
            console.print(repr(result), markup=False)


def _print_profile(console: Console, profile: Profile) -> None:
    from firstlight.results.quantities import QUANTITIES

    _print_origin(console, profile)
    names = [name for name in _PROFILE_COLUMNS if name in profile.variables]
    columns = [profile.variables[name].values for name in names]
    kinds = (
        profile.coordinates["kind"].values if "kind" in profile.coordinates else [""] * len(profile.layers)
    )
    rows = [
        (layer, str(kind), *(_number(column[index]) for column in columns))
        for index, (layer, kind) in enumerate(zip(profile.layers, kinds, strict=True))
    ]
    _print_rows(console, ["layer", "kind", *(QUANTITIES[name].symbol for name in names)], rows, left=2)
    for entry in profile.coverage.missing:
        console.print(f"not modelled: {entry.layer} ({entry.kind}): {entry.reason}", markup=False)
    if profile.guesses is not None:
        for line in _guess_lines(profile.guesses):
            console.print(line, markup=False)


def _print_phases(console: Console, diagram: PhaseDiagram) -> None:
    _print_origin(console, diagram)
    weights, biases = (diagram.coordinates[f"{kind}_variance"].values for kind in ("weight", "bias"))
    if weights.size * biases.size <= _ROWS:
        values = {name: diagram.variables[name].values for name in _PHASE_COLUMNS}
        rows = [
            (_number(weight), _number(bias), *(_cell(part[row, column]) for part in values.values()))
            for row, weight in enumerate(weights)
            for column, bias in enumerate(biases)
        ]
        _print_rows(console, ["σ_w²", "σ_b²", *_phase_heads(diagram, _PHASE_COLUMNS)], rows)
        return
    console.print(
        f"{weights.size * biases.size:,} points: σ_w² {_span(weights)}, σ_b² {_span(biases)}; "
        "smallest and largest values by regime",
        markup=False,
    )
    regimes = diagram.variables["regime"].values
    rows = [
        (
            str(regime),
            f"{(regimes == regime).sum():,}",
            *(_span(diagram.variables[name].values[regimes == regime]) for name in _PHASE_SPANS),
        )
        for regime in dict.fromkeys(regimes.ravel().tolist())
    ]
    _print_rows(console, ["regime", "points", *_phase_heads(diagram, _PHASE_SPANS)], rows, left=1)


def _phase_heads(diagram: PhaseDiagram, names: Iterable[str]) -> list[str]:
    depth = int(diagram.coordinates["depth"].values)
    return [f"γ({depth})" if name == "gamma_at_depth" else _PHASE_COLUMNS[name] for name in names]


def _print_origin(console: Console, result: Labelled) -> None:
    origin = result.provenance
    console.print(origin.model.splitlines()[0] if origin.model else result.kind, markup=False, style="bold")
    console.print(f"{origin.engine}; {origin.data}", markup=False)
    for note in origin.notes:
        console.print(note, markup=False)


def _guess_lines(guesses: Guesses) -> Iterator[str]:
    """The law of guesses in sentences."""
    law = guesses.law
    if law is None:
        yield repr(guesses)
        return
    yield f"guesses: γ = {_number(law.gamma)}, {law.regime}; {law.labels:,} labels"
    yield f"  expected share of the favourite label   {law.mean_max:.4g}"
    low, high = (float(value) for value in law.quantile([0.05, 0.95]))
    yield f"  share of one label, 5 % to 95 %         {low:.4g} to {high:.4g}"


def _print_rows(console: Console, heads: list[str], rows: list[tuple[str, ...]], *, left: int = 0) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, head in enumerate(heads):
        table.add_column(
            head, justify="left" if index < left else "right", overflow="ellipsis", no_wrap=index >= left
        )
    for row in _without_middle(rows, len(heads)):
        table.add_row(*row)
    console.print(table, soft_wrap=False)


def _without_middle(rows: list[tuple[str, ...]], width: int) -> Iterable[tuple[str, ...]]:
    if len(rows) <= _ROWS:
        return rows
    half = _ROWS // 2
    gap = (f"… {len(rows) - 2 * half:,} more", *["…"] * (width - 1))
    return [*rows[:half], gap, *rows[-half:]]


def _span(values: Any) -> str:
    """Smallest to largest, or the one value there is."""
    known = [float(value) for value in values.ravel() if not math.isnan(value)]
    if not known:
        return "–"
    low, high = _number(min(known)), _number(max(known))
    return low if low == high else f"{low} … {high}"


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    """Four digits, what is not a number as such.

    >>> [_number(value) for value in (0.0, 18.3905, 1e-7, float("inf"), float("nan"))]
    ['0', '18.39', '1e-07', '∞', '–']
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.4g}"
