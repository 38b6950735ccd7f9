"""The list of checks, in the order in which findings are told."""

from __future__ import annotations

from firstlight.diagnosis.checks import (
    amplification,
    collapse,
    dead_units,
    ensemble,
    growth,
    guessing,
    inputs,
    labels,
    logits,
    modes,
    norms,
)
from firstlight.diagnosis.subjects import Check, Subject

__all__ = ["CHECKS", "every_subject"]

CHECKS: tuple[Check, ...] = tuple(
    module.CHECK
    for module in (
        guessing,
        amplification,
        norms,
        inputs,
        collapse,
        growth,
        dead_units,
        logits,
        labels,
        modes,
        ensemble,
    )
)


def every_subject() -> dict[str, Subject]:
    """All that can be found, by id."""
    return {subject.id: subject for check in CHECKS for subject in check.subjects}
