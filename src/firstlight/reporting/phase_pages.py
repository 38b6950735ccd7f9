"""A PhaseDiagram as a Document: a row for each point, or for each regime where points are many."""

from __future__ import annotations

from typing import Any

from firstlight.reporting.document import Document, Section, Table
from firstlight.reporting.profile_pages import origin_of, title_of
from firstlight.results.phase_diagram import PHASE_QUANTITIES, PhaseDiagram
from firstlight.results.rounding import number

__all__ = ["phase_page"]

_COLUMNS = (
    "regime",
    "slope",
    "gamma_at_depth",
    "gamma_star",
    "correlation_star",
    "mean_square_star",
    "depth_scale",
)
_POINTS = 24
"""Points that are still listed one by one."""


def phase_page(diagram: PhaseDiagram) -> Document:
    """The Document of a PhaseDiagram."""
    title = title_of(diagram.provenance, diagram.kind)
    if "regime" not in diagram or diagram.variables["regime"].values.size > _POINTS:
        lines = tuple(line.strip() for line in repr(diagram).splitlines())
        return Document(diagram.kind, title, sections=(Section(sentences=lines),))
    return Document(diagram.kind, title, origin_of(diagram), sections=(Section(tables=(_points(diagram),)),))


def _points(diagram: PhaseDiagram) -> Table:
    weights, biases = (diagram.coordinates[f"{kind}_variance"].values for kind in ("weight", "bias"))
    columns = [diagram.variables[name].values for name in _COLUMNS]
    rows = tuple(
        (_cell(weight), _cell(bias), *(_cell(column[i, j]) for column in columns))
        for i, weight in enumerate(weights)
        for j, bias in enumerate(biases)
    )
    symbols = (PHASE_QUANTITIES[name][0].replace("depth", str(diagram.depth)) for name in _COLUMNS)
    return Table(("σ_w²", "σ_b²", *symbols), rows, left=0)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else number(float(value))
