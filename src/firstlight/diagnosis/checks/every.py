"""The list of checks, in the order in which findings are told."""

from __future__ import annotations

from firstlight.diagnosis.checks import guessing
from firstlight.diagnosis.subjects import Check, Subject

__all__ = ["CHECKS", "every_subject"]

CHECKS: tuple[Check, ...] = (guessing.CHECK,)


def every_subject() -> dict[str, Subject]:
    """All that can be found, by id."""
    return {subject.id: subject for check in CHECKS for subject in check.subjects}
