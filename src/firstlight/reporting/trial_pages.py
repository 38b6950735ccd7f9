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
_TOLD = {"helped": "smaller", "worse": "larger", "no difference": "the same", "unknown": "unknown"}
"""Verdicts as a word on γ; ``the same`` is within the interval."""


def trial_section(trials: Sequence[Trial]) -> Section:
    """The Section, the remedy that lowers γ most first."""
    done = [trial for trial in trials if trial.gamma is not None]
    refused = [trial for trial in trials if trial.gamma is None]
    tables = []
    if done:
        tables.append(
            Table(
                ("remedy", "γ is", "γ after", "difference", "favourite"),
                tuple(_row(trial) for trial in done),
                2,
                "γ of the output and share of the favourite class",
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
    was = f"{_before(done[0])} " if done else ""
    return Section("What the remedies did", lead=(f"{was}{said}",), tables=tuple(tables))


def _before(trial: Trial) -> str:
    """What all are compared with."""
    gamma, guess = trial.gamma, _favourite(trial)
    assert gamma is not None
    share = (
        ""
        if guess is None
        else (
            f", and the favourite class gets {share_with_stderr(guess.before, guess.before_stderr)} of the data"
        )
    )
    return f"As it is, γ of the output is {with_stderr(gamma.before, gamma.before_stderr)}{share}."


def _favourite(trial: Trial) -> Difference | None:
    return next((item for item in trial.differences if item.quantity == "greatest fraction"), None)


def _row(trial: Trial) -> tuple[str, ...]:
    gamma = trial.gamma
    assert gamma is not None
    guess = _favourite(trial)
    return (
        trial.remedy,
        _TOLD[trial.verdict],
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
