"""Plain words for what the findings mean for training: the question behind each prognosis.

Enters: a ``Prognosis``. Leaves: its question, answer with number, and reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firstlight.reporting.amounts import amount
from firstlight.results.finding import Prognosis

__all__ = ["QUESTIONS", "Question", "prognosis_row"]


@dataclass(frozen=True)
class Question:
    """What a reader wants to know.

    Attributes:
        text: The question.
        measure: What the number beside the answer is; "" where there is none.
        share: Whether it is written in percent.
    """

    text: str
    measure: str = ""
    share: bool = False


QUESTIONS: dict[str, Question] = {
    "guessing": Question("How biased is the start?", "γ"),
    "signal": Question("Does the signal survive the depth?"),
    "phase": Question("Do gradients grow or fade with depth?", "factor a layer, χ_1"),
    "bias-fades": Question("Will training remove the bias?"),
    "minority-delay": Question(
        "Where do the other classes start?", "share of the least guessed class", share=True
    ),
    "early-validation": Question("Can early validation accuracy choose between models?"),
}
"""Question by id; a prognosis that is not listed asks with its id."""


def prognosis_row(prognosis: Prognosis) -> tuple[str, str, str]:
    """Question, answer with its number, reason with its reference.

    >>> prognosis_row(Prognosis("phase", "chaotic", 1.21, 1.19, 1.23, "it multiplies", "a paper"))
    ('Do gradients grow or fade with depth?', 'chaotic; factor a layer, χ_1: 1.210 (1.190 to 1.230)', \
'it multiplies (a paper)')
    """
    question = QUESTIONS.get(prognosis.id, Question(f"{prognosis.id.replace('-', ' ').capitalize()}?"))
    reference = f"({prognosis.reference})" if prognosis.reference else ""
    reason = " ".join(part for part in (prognosis.because, reference) if part)
    if math.isnan(prognosis.value):
        return question.text, prognosis.answer, reason
    number = amount(prognosis.value, prognosis.low, prognosis.high, share=question.share)
    measure = (
        f"{question.measure}: "
        if " " in question.measure
        else f"{question.measure} = "
        if question.measure
        else ""
    )
    return question.text, f"{prognosis.answer}; {measure}{number}", reason
