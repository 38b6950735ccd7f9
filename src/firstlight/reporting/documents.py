"""Any noun → its Document.

Enters: a noun, or several to be set side by side. Leaves: a Document. A kind's page is imported when it is asked
for, so that printing one result loads nothing that another needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from firstlight.errors import UsageError, one_of
from firstlight.reporting.document import Document

__all__ = ["PAGES", "document_of"]

PAGES: dict[str, str] = {
    "change": "firstlight.reporting.change_pages:change_page",
    "comparison": "firstlight.reporting.comparison_pages:comparison_page",
    "diagnosis": "firstlight.reporting.diagnosis_pages:diagnosis_page",
    "guesses": "firstlight.reporting.guess_pages:guess_page",
    "phase_diagram": "firstlight.reporting.phase_pages:phase_page",
    "profile": "firstlight.reporting.profile_pages:profile_page",
    "reproduction": "firstlight.reporting.reproduction_pages:reproduction_page",
    "trajectory": "firstlight.reporting.run_pages:run_page",
}
"""What makes the Document of each kind."""


def document_of(noun: Any) -> Document:
    """The Document of a noun, or of several side by side."""
    if isinstance(noun, Sequence) and not isinstance(noun, str):
        from firstlight.reporting.side_by_side import side_by_side

        return side_by_side(noun)
    kind = getattr(noun, "kind", None)
    if not isinstance(kind, str):
        raise UsageError(
            f"report: expected one of the results ({', '.join(PAGES)}) or a list of them, got {type(noun).__name__}; "
            "measure, predict or diagnose first"
        )
    if kind not in PAGES:
        raise one_of("report", kind, PAGES)
    module, _, name = PAGES[kind].partition(":")
    made: Document = getattr(import_module(module), name)(noun)
    return made
