"""Words: every finding has its own, every remedy exists, undecided and unknown say why, nobody is blamed."""

from __future__ import annotations

import math
import re
from dataclasses import astuple, replace

import pytest

import firstlight as fl
from firstlight.diagnosis.checks.every import every_subject
from firstlight.remedies.registry import REMEDIES
from firstlight.reporting.amounts import amount, as_share, inits_to_decide, plain
from firstlight.reporting.documents import document_of
from firstlight.reporting.finding_pages import finding_text
from firstlight.reporting.finding_words import WORDS
from firstlight.reporting.prognosis_words import QUESTIONS
from firstlight.reporting.remedy_words import remedy_text
from firstlight.results.finding import Finding, Prognosis

SUBJECTS = every_subject()


@pytest.mark.parametrize("identifier", SUBJECTS)
def test_every_finding_of_every_check_has_words(identifier):
    words = WORDS[identifier]
    assert all(text.strip() for text in astuple(words))
    assert all(
        text[0].isupper() and text.endswith(".") for text in (words.found, words.absent, words.follows)
    )


def test_every_prognosis_has_its_question(diagnosis):
    assert [item.id for item in diagnosis.prognoses] == list(QUESTIONS)


def test_no_words_without_a_check():
    assert set(WORDS) <= set(SUBJECTS)


@pytest.mark.parametrize("identifier", SUBJECTS)
def test_every_remedy_of_a_finding_exists(identifier):
    for name in SUBJECTS[identifier].remedies:
        assert name in REMEDIES
        assert remedy_text(name).title == REMEDIES[name].title


def test_nothing_blames():
    blame = re.compile(r"\b(bad|wrong|mistake|poor|flaw|you should|must not|fault)\b", re.IGNORECASE)
    said = [text for words in WORDS.values() for text in astuple(words)]
    assert [text for text in said if blame.search(text.replace("not a fault", ""))] == []


def test_undecided_says_how_many_initializations_would_tell():
    finding = Finding("dead-units", "", "undecided", "warn", "dead_units", "1", 0.24, 0.2, 0.28, 0.25)
    said = " ".join(finding_text(finding, inits=30).sentences)
    assert said.startswith("Not enough initializations to tell.")
    needed = int(re.search(r"type --inits (\d+)", said)[1])
    # an interval of half-width 0.04 at 30 initializations has one of 0.04 √(30/N) at N
    assert 0.24 + 0.04 * math.sqrt(30 / needed) < 0.25
    assert 0.24 + 0.04 * math.sqrt(30 / (needed / 2)) > 0.25


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (1.0, 0.5, 1.5, None),
        (1.001, 0.5, 1.5, None),
        (2.0, 1.5, 2.5, None),
        (math.nan, 0, 1, None),
        (1.0, 0.5, math.inf, None),
    ],
)
def test_what_no_number_of_initializations_decides(value, low, high, expected):
    assert inits_to_decide(50, value, low, high, 1.0) is expected


def test_unknown_says_why():
    said = finding_text(Finding("modes-differ", "", "unknown", because="the other mode was not measured"))
    assert said.sentences == ("The other mode was not measured.",)
    assert said.remedies == ()


def test_the_command_to_type_quotes_what_needs_it():
    assert remedy_text("norm_after_activation", ("my nets.py:make", "x;rm")).command == (
        "firstlight repair 'my nets.py:make' --data 'x;rm' --remedy norm_after_activation"
    )


@pytest.mark.parametrize(
    ("numbers", "share", "expected"),
    [
        ((18.3905, 16.21, 20.83), False, "18.4 (16.2 to 20.8)"),
        ((0.9274, 0.9011, 0.9502), True, "92.7 % (90.1 to 95.0 %)"),
        ((3.0, -math.inf, math.inf), False, "3 (−∞ to ∞)"),
        ((math.inf, 12.0, math.inf), False, "∞ (12 to ∞)"),
        ((0.5, 0.5, 0.5), False, "0.5"),
        ((math.nan, math.nan, math.nan), False, "–"),
        ((-3.2, -4.1, -2.2), False, "-3.20 (-4.10 to -2.20)"),
        ((123456.0, 120000.0, 130000.0), False, "1.2e+05 (1.2e+05 to 1.3e+05)"),
    ],
)
def test_amounts(numbers, share, expected):
    assert amount(*numbers, share=share) == expected


def test_numbers_without_intervals():
    assert (plain(2.302585), as_share(0.5), as_share(math.nan), plain(0.05, share=True)) == (
        "2.303",
        "50 %",
        "–",
        "5 %",
    )


REGIMES = ("deep-prejudice", "weak-prejudice", "neutral-start")


def verdict(planted: fl.Diagnosis, statuses: dict[str, str], extra: tuple[Finding, ...] = ()):
    findings = tuple(
        Finding(name, name, status, "info", "gamma", "", 1.0, 0.5, 1.5, 1.0)
        for name, status in statuses.items()
    )
    return document_of(replace(planted, findings=(*findings, *extra))).verdict


@pytest.mark.parametrize(
    ("statuses", "tone", "label"),
    [
        (("found", "absent", "absent"), "note", "Starts with a strong favourite"),
        (("absent", "found", "absent"), "note", "Starts with a mild favourite"),
        (("absent", "absent", "found"), "good", "Starts even and healthy"),
        (("absent", "undecided", "undecided"), "note", "Starts with a mild favourite at most"),
        (("undecided", "undecided", "absent"), "note", "Starts with a favourite"),
        (("undecided", "undecided", "undecided"), "unknown", "Not enough to tell"),
        (("unknown", "unknown", "unknown"), "unknown", "The bias is not known"),
    ],
)
def test_the_verdict_names_the_regime(planted, statuses, tone, label):
    found = verdict(planted, dict(zip(REGIMES, statuses, strict=True)))
    assert (found.tone, found.label) == (tone, label)
    assert 1 <= len(found.sentences) <= 3


def test_a_deep_prejudice_warns_of_early_accuracy(planted):
    distrusted = replace(planted, prognoses=(Prognosis("early-validation", "no"),))
    assert any(
        "early accuracy says more about the draw" in text
        for text in document_of(distrusted).verdict.sentences
    )
    assert not any("early accuracy" in text for text in document_of(planted).verdict.sentences)


def test_the_verdict_puts_a_failed_policy_first(planted):
    found = document_of(planted).verdict
    assert (found.tone, found.label) == ("fail", "Does not meet the policy")
    assert "The policy does not allow: deep-prejudice." in found.sentences
    assert found.sentences[0].startswith(
        "Before it has learned anything, this network puts most of the data into one class."
    )


def test_a_warning_is_worth_a_closer_look(planted):
    dead = Finding("dead-units", "", "found", "warn", "dead_units", "1", 0.6, 0.5, 0.7, 0.25)
    found = verdict(planted, {"neutral-start": "found"}, (dead,))
    assert (found.tone, found.label) == ("warn", "Worth a closer look")
    assert "Beyond that: some units never react." in found.sentences
