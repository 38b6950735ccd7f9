"""A Comparison as a Document: γ by layer both ways; the other quantities and the guesses in words."""

from __future__ import annotations

import math

from firstlight.reporting.document import Document, Section, Table
from firstlight.results.comparison import Comparison
from firstlight.results.rounding import number, with_stderr

__all__ = ["comparison_page", "comparison_section"]


def comparison_page(comparison: Comparison) -> Document:
    """The Document of a Comparison."""
    return Document(comparison.kind, comparison.provenance.model, sections=(comparison_section(comparison),))


def comparison_section(comparison: Comparison, heading: str = "", *, folded: bool = False) -> Section:
    """γ by layer as a table, and a sentence for each quantity."""
    sentences = tuple(line.strip() for line in repr(comparison).splitlines()[1 if heading else 0 :])
    return Section(heading, sentences, _gamma_table(comparison), folded=folded)


def _gamma_table(comparison: Comparison) -> tuple[Table, ...]:
    if "gamma_z" not in comparison:
        return ()
    expected, measured, spread, z = (
        comparison.variables[f"gamma_{name}"].values for name in ("reference", "measured", "stderr", "z")
    )
    rows = tuple(
        (
            str(layer),
            number(float(expected[index])),
            with_stderr(float(measured[index]), float(spread[index])),
            f"{z[index]:+.2f}" if math.isfinite(z[index]) else number(float(z[index])),
        )
        for index, layer in enumerate(comparison.coordinates["layer"].values)
    )
    return (Table(("layer", "γ expected", "γ measured", "z"), rows),)
