"""Plain words for what the findings mean for training: the question behind each prognosis.

Enters: a ``Prognosis``. Leaves: its question and answer in words.
"""

from __future__ import annotations

from firstlight.reporting.amounts import amount
from firstlight.results.finding import Prognosis

__all__ = ["QUESTIONS", "prognosis_row"]

QUESTIONS: dict[str, str] = {}
"""Question by id; a prognosis that is not listed asks with its id."""


def prognosis_row(prognosis: Prognosis) -> tuple[str, str, str]:
    """Question, answer with its number, reason with its reference."""
    question = QUESTIONS.get(prognosis.id, f"{prognosis.id.replace('-', ' ').capitalize()}?")
    value = (
        "" if prognosis.value != prognosis.value else amount(prognosis.value, prognosis.low, prognosis.high)
    )
    reason = " ".join(
        part
        for part in (prognosis.because, f"({prognosis.reference})" if prognosis.reference else "")
        if part
    )
    return question, f"{prognosis.answer}: {value}" if value else prognosis.answer, reason
