"""A Trajectory as a Document: training runs step by step, for each data set that was evaluated."""

from __future__ import annotations

from firstlight.reporting.document import Document, Section, Table
from firstlight.reporting.profile_pages import title_of
from firstlight.results.run_display import step_table
from firstlight.results.trajectory import Trajectory

__all__ = ["run_page"]


def run_page(trajectory: Trajectory) -> Document:
    """The Document of a Trajectory."""
    lines = repr(trajectory).splitlines()
    facts = tuple(
        line.strip() for line in lines[1:] if line.startswith("  ") and not line.strip().startswith("step")
    )
    tables: tuple[Table, ...] = ()
    if len(trajectory.steps) and not trajectory.diverged.all():
        tables = tuple(_table(trajectory, split) for split in trajectory.splits)
    return Document(
        trajectory.kind,
        title_of(trajectory.provenance),
        sections=(
            Section(
                "Training runs", tables=tables, lead=facts[:3], sentences=tuple(trajectory.provenance.notes)
            ),
        ),
    )


def _table(trajectory: Trajectory, split: str) -> Table:
    heads, rows = step_table(trajectory, split)
    return Table(heads, tuple(rows), 0, f"on the {split} data, averaged over runs")
