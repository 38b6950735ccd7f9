"""What each format promises: JUnit parses and counts, Markdown cannot be broken, the terminal is narrow and plain."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import pytest

import firstlight as fl
from firstlight.reporting.documents import document_of
from firstlight.reporting.terminal import print_report


def test_junit_counts_what_it_lists(planted):
    root = ElementTree.fromstring(fl.report(planted, format="junit"))
    [suite] = root
    cases = suite.findall("testcase")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["6", "1", "0", "2"]
    assert [root.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["6", "1", "0", "2"]
    assert len(cases) == 6
    [failure] = suite.iter("failure")
    assert failure.get("type") == "deep-prejudice"
    assert failure.get("message") == "One class gets most of the guesses: γ = 18.4 (16.2 to 20.8)"
    skipped = {
        case.get("name").split(" ")[0]: case.find("skipped").get("message")
        for case in cases
        if case.find("skipped") is not None
    }
    assert skipped["modes-differ"] == "The other mode was not measured."
    assert skipped["dead-units"].startswith("Not enough initializations to tell.")
    assert len({case.get("name") for case in cases}) == len(cases)


def test_junit_of_several_adds_up(planted, diagnosis):
    root = ElementTree.fromstring(fl.report([planted, diagnosis], format="junit"))
    assert len(root) == 2
    assert int(root.get("tests")) == len(planted.findings) + len(diagnosis.findings)


def test_junit_fails_where_the_policy_fails(diagnosis):
    root = ElementTree.fromstring(fl.report(diagnosis, format="junit"))
    assert {item.get("type") for item in root.iter("failure")} == {finding.id for finding in diagnosis.failed}


def test_markdown_tables_keep_their_columns(planted):
    text = fl.report(planted, format="markdown")
    tables = re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE)
    assert len(tables) >= 5
    for table in tables:
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(bars) == 1


def test_markdown_shows_no_markup_of_strangers(planted):
    text = fl.report(planted, format="markdown")
    ours = re.sub(r"</?(details|summary)>", "", text)
    assert re.findall(r"(?<!\\)<", ours) == []


def test_the_terminal_is_plain_in_a_file_and_coloured_on_a_terminal(planted, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "90")
    plain, coloured = io.StringIO(), Terminal()
    print_report(planted, file=plain)
    print_report(planted, file=coloured)
    assert "\x1b[" not in plain.getvalue()
    assert "\x1b[1;31mDoes not meet the policy" in coloured.getvalue()


def bare(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


@pytest.mark.parametrize("columns", [60, 100, 300])
def test_no_line_is_wider_than_the_terminal_or_a_hundred(planted, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    buffer = Terminal()
    print_report(planted, file=buffer)
    limit = min(100, columns)
    wide = [line for line in bare(buffer.getvalue()) if len(line) > limit and "firstlight repair" not in line]
    assert wide == []


def test_long_names_are_shortened_in_the_middle(make_profile):
    layers = [f"model.encoder.blocks.{index}.attention.projection.inner.dense.{index}" for index in range(40)]
    lines = fl.report(make_profile(layers), format="text").splitlines()
    assert max(map(len, lines)) <= 100
    assert any("…" in line and "dense.39" in line for line in lines)
    assert any("… 16 more" in line for line in lines)


def test_commands_can_be_copied_whole(planted):
    text = fl.report(planted, format="text")
    joined = re.sub(r" \\\n\s+", " ", text)
    [remedy] = [remedy for remedy, _ in document_of(planted).remedies]
    assert remedy.command in joined
