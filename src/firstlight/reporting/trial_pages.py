"""Remedies that were tried, as a section: what each did to γ and to the greatest guess; what the findings became."""

from __future__ import annotations

from collections.abc import Sequence

from firstlight.reporting.amounts import amount, plain, share_with_stderr
from firstlight.reporting.document import Section, Table
from firstlight.results.change import Difference
from firstlight.results.rounding import with_stderr
from firstlight.results.trial import Trial

__all__ = ["trial_section"]

_NOTHING = "–"


def trial_section(trials: Sequence[Trial]) -> Section:
    """The Section, the remedy that lowers γ most first."""
    done = [trial for trial in trials if trial.gamma is not None]
    refused = [trial for trial in trials if trial.gamma is None]
    tables = []
    if done:
        before = done[0].gamma
        assert before is not None
        tables.append(
            Table(
                ("remedy", "γ of the output", "γ after", "difference", "greatest guess"),
                tuple(_row(trial) for trial in done),
                2,
                f"remedies by what they did to γ, which was {with_stderr(before.before, before.before_stderr)}",
            )
        )
        tables.append(
            Table(
                ("remedy", "findings that are gone", "findings that are new"),
                tuple((trial.remedy, _listed(trial.gone), _listed(trial.new)) for trial in done),
                3,
                "what became of the findings",
                wraps=True,
            )
        )
    if refused:
        tables.append(
            Table(
                ("remedy", "why it was not tried"),
                tuple((trial.remedy, trial.refused) for trial in refused),
                2,
                "what could not be tried",
                wraps=True,
            )
        )
    said = (
        "Each was tried alone, over the same initializations, so the interval of a difference (95 %) is that of paired "
        "values. A smaller γ is what most of them aim at, and not what every network needs."
    )
    return Section("What the remedies did", lead=(said,), tables=tuple(tables))


def _row(trial: Trial) -> tuple[str, ...]:
    gamma = trial.gamma
    assert gamma is not None
    guess = next((item for item in trial.differences if item.quantity == "greatest fraction"), None)
    return (
        trial.remedy,
        trial.verdict,
        with_stderr(gamma.after, gamma.after_stderr),
        _difference(gamma),
        _NOTHING if guess is None else share_with_stderr(guess.after, guess.after_stderr),
    )


def _difference(difference: Difference) -> str:
    if difference.low == difference.high:
        return plain(difference.value)
    return amount(difference.value, difference.low, difference.high)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or _NOTHING
