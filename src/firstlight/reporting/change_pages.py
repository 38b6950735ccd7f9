"""A Change as a Document: whether it helped, in numbers; what was edited, what was left and why."""

from __future__ import annotations

from firstlight.reporting.document import Document, Origin, Section, Table, Verdict
from firstlight.reporting.layer_tables import layer_table
from firstlight.results.change import Change
from firstlight.results.change_display import outcome_lines

__all__ = ["change_page"]

_OUTCOMES = {
    "helped": ("good", "It helped", "The bias of the untrained network is smaller than before."),
    "worse": ("warn", "It made things worse", "The bias of the untrained network is larger than before."),
    "no difference": ("note", "No difference to be seen", "The bias is the same within its interval."),
    "unknown": ("unknown", "Not measured", "Nothing was measured, so nothing is known of what it does."),
}


def change_page(change: Change) -> Document:
    """The Document of a Change."""
    tone, label, sentence = _OUTCOMES[change.verdict]
    tables = (
        Table(
            ("remedy", "where", "what", "before", "after"),
            tuple(
                (edit.remedy, edit.address or "the model", edit.what, edit.before, edit.after)
                for edit in change.edits
            ),
            5,
            "what was changed",
            wraps=True,
        ),
        Table(
            ("where", "why it was left"),
            tuple((item.address or "the model", item.reason) for item in change.left),
            2,
            "what was left as it was",
            wraps=True,
        ),
        Table(
            ("remedy", "why it was refused"),
            tuple((item.remedy, item.reason) for item in change.refused),
            2,
            "what was refused",
            wraps=True,
        ),
    )
    layers = tuple(
        Section(heading, tables=(layer_table(profile, caption="statistics by layer"),), folded=True)
        for heading, profile in (("Before, by layer", change.before), ("After, by layer", change.after))
        if profile is not None
    )
    return Document(
        change.kind,
        f"{change.provenance.model.splitlines()[0]}, changed by {', '.join(change.remedies) or 'nothing'}",
        Origin(notes=change.notes),
        Verdict(tone, label, (sentence, *outcome_lines(change))),
        sections=(Section("What was done", tables=tuple(table for table in tables if table.rows)), *layers),
    )
