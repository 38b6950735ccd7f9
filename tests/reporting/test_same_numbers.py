"""The numbers in HTML, JSON, JUnit, Markdown and in the terminal are the same numbers, extracted from each."""

from __future__ import annotations

import html
import json
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import firstlight as fl
from firstlight.reporting.documents import document_of

NUMBER = re.compile(r"[-−]?(?:\d[\d,]*\.?\d*(?:e[+-]?\d+)?|∞)")


class Texts(HTMLParser):
    """Texts of the elements of a class, by the id of the finding they belong to."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, str]] = []
        self.stack: list[str] = []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs).get("class", "") or tag
        if tag not in ("meta", "br", "path", "input", "s", "i"):
            self.stack.append(found)

    def handle_endtag(self, tag):
        if tag not in ("meta", "br", "path", "input", "s", "i"):
            self.stack.pop()

    def handle_data(self, data):
        if self.stack:
            self.rows.append((self.stack[-1], data))


def amounts_in_html(noun) -> str:
    parser = Texts()
    parser.feed(fl.report(noun, format="html"))
    assert parser.stack == []  # every element is closed
    return " ".join(" ".join(text for _, text in parser.rows).split())


def amounts_in_markdown(noun) -> str:
    text = fl.report(noun, format="markdown")
    return " ".join(re.sub(r"\\([^\w\s])", r"\1", text).split())


def amounts_in_junit(noun) -> str:
    root = ElementTree.fromstring(fl.report(noun, format="junit"))
    properties = [item.get("value") for item in root.iter("property")]
    return " ".join([*properties, *(text for text in root.itertext())])


def amounts_in_terminal(noun) -> str:
    """Cells of the tables that were broken into lines are put together again, column by column."""
    lines = fl.report(noun, format="text").splitlines()
    return " ".join(" ".join(lines).split())


def amounts_in_json(noun) -> str:
    plain = json.loads(fl.report(noun, format="json"))
    return json.dumps(plain["report"], ensure_ascii=False)


READERS = {
    "html": amounts_in_html,
    "markdown": amounts_in_markdown,
    "junit": amounts_in_junit,
    "json": amounts_in_json,
}


@pytest.fixture(params=["diagnosis", "planted"])
def noun(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("format", READERS)
def test_every_amount_stands_in_every_format(noun, format):
    text = READERS[format](noun)
    found = [finding.amount for finding in document_of(noun).findings if finding.amount]
    assert len(found) >= 5
    missing = [amount for amount in found if amount.split(" = ")[-1] not in text]
    assert missing == []


def test_every_number_that_was_found_stands_in_the_terminal(noun):
    text = amounts_in_terminal(noun)
    for finding in document_of(noun).with_status("found", "undecided"):
        number = finding.amount.rpartition(": ")[2].rpartition(" = ")[2]
        assert all(part in text for part in NUMBER.findall(number)), number


@pytest.mark.parametrize("format", ["html", "markdown", "text", "json"])
def test_the_key_numbers_are_the_same_everywhere(noun, format):
    text = fl.report(noun, format=format)
    if format == "html":
        text = html.unescape(text)
    if format == "markdown":
        text = re.sub(r"\\([^\w\s])", r"\1", text)
    flat = " ".join(text.split())
    for item in document_of(noun).key_numbers:
        assert item.text in flat


def test_json_values_round_to_the_words(noun):
    """The exact numbers and the words of one finding are one number."""
    plain = json.loads(fl.report(noun, format="json"))
    words = {(item["id"], item["layer"]): item["amount"] for item in plain["report"]["findings"]}
    exact = [
        item for item in plain["findings"] if isinstance(item["value"], float) and abs(item["value"]) < 1e4
    ]
    assert len(exact) >= 4
    for item in exact:
        amount = words[item["id"], item["layer"]]
        shown = float(NUMBER.search(amount.rpartition(": ")[2].rpartition("= ")[2])[0].replace(",", ""))
        scale = 100 if "%" in amount else 1
        reaches = [abs(item["value"] - end) for end in (item["low"], item["high"]) if isinstance(end, float)]
        tolerance = max(
            [0.05 * min([reach for reach in reaches if reach > 0], default=0), 5e-4 * abs(item["value"])]
        )
        assert math.isclose(shown, scale * item["value"], abs_tol=scale * tolerance + 1e-12), item["id"]
