"""One HTML file: nothing is fetched, nothing escapes, everything has a name, and large networks stay small pages."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

import firstlight as fl
from firstlight.reporting.pictures.guessing import guess_picture
from firstlight.reporting.pictures.network import network_picture, shared_scales


class Page(HTMLParser):
    """Elements with their attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if (
            self.elements
            and self.elements[-1][0] == "script"
            and self.get_starttag_text().startswith("<script")
        ):
            self.scripts.append(data)

    def named(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(params=["diagnosis", "planted", "both"])
def text(request, diagnosis, planted) -> str:
    noun = {"diagnosis": diagnosis, "planted": planted, "both": [planted, diagnosis]}[request.param]
    return fl.report(noun, format="html")


def test_nothing_is_fetched(text):
    page = Page(text)
    assert re.findall(r"https?://|url\(|@import|//cdn", text) == []
    for attributes in page.named("script", "img", "link", "iframe"):
        assert not attributes.keys() & {"src", "href"}


def test_no_name_becomes_markup(text):
    page = Page(text)
    assert "<b>&" not in text
    assert "alert(1)</script>" not in text
    assert len(page.named("script")) == 1 + len(page.named("h1")) * text.count("data-network=")
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]


def test_names_arrive_unharmed(planted, hostile):
    page = Page(fl.report(planted, format="html"))
    data = next(json.loads(script) for script in page.scripts if script.startswith("{"))
    assert data["layers"][0] == f"{hostile}.0"
    assert len(data["rows"]) == 4
    assert all(len(row["values"]) == len(data["layers"]) for row in data["rows"])


def test_headings_go_down_one_by_one(text):
    levels = [int(tag[1]) for tag, _ in Page(text).elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_everything_has_a_name(text):
    page = Page(text)
    assert all(attributes.get("aria-label") for attributes in page.named("svg"))
    assert all(attributes.get("scope") in ("col", "row") for attributes in page.named("th"))
    assert page.named("html") == [{"lang": "en"}]
    assert [item for item in page.named("meta") if item.get("name") == "viewport"]


def test_style_follows_the_reader(text):
    for rule in ("prefers-color-scheme: dark", "@media print", "max-width: 40rem"):
        assert rule in text


def test_the_verdict_comes_first(planted):
    text = fl.report(planted, format="html")
    order = [
        "Does not meet the policy",
        "The whole network at a glance",
        "Guesses of the favourite class",
        "Share of each class",
        "What was found",
        "What training will look like",
        "What was seen",
        "How it was measured",
    ]
    places = [text.index(f">{heading}") for heading in order]
    assert places == sorted(places)


def test_500_layers_and_1000_classes_stay_small(make_profile):
    profile = make_profile(
        [f"model.stages.{index // 100}.blocks.{index}.mlp.fc" for index in range(500)], labels=1000
    )
    text = fl.report(profile, format="html")
    assert len(text.encode()) < 500_000
    assert "988 further classes share" in text
    assert text.count('class="bar"') == 12


def test_undefined_numbers_are_left_out_and_counted(make_profile):
    profile = make_profile([str(index) for index in range(10)])
    picture = network_picture(profile)
    gamma, rank, sensitivity, gradient = picture.panels
    assert gamma.notes[0] == "undefined at 2 of 10 layers and left out: nothing varies there"
    assert "below 0.001" in gamma.notes[1]
    assert gamma.dots.count("h0") == 8
    assert rank.notes == sensitivity.notes == ()
    assert all("nan" not in panel.line + panel.dots + panel.band for panel in picture.panels)
    assert sensitivity.ticks[-1].label.startswith("10")  # e^900 is beyond float64, its logarithm is not
    assert gradient.ticks[0].label.startswith("10⁻")


def test_what_was_not_measured_is_said():
    profile = fl.predict(fl.Blueprint.mlp(depth=3))
    picture = network_picture(profile)
    assert [panel.name for panel in picture.panels] == ["gamma", "sensitivity", "gradient_scale"]
    assert picture.missing == ("directions, r_eff: not computed by this theory",)


def test_networks_side_by_side_share_their_scales(measured, make_profile):
    other = make_profile(["a", "b", "c", "d"])
    scales = shared_scales([(measured, None), (other, None)])
    first, second = (network_picture(profile, scales=scales) for profile in (measured, other))
    assert [panel.ticks for panel in first.panels] == [panel.ticks for panel in second.panels]


def heights(path: str) -> np.ndarray:
    """Heights of the bins of a histogram, as parts of the plot."""
    return np.array([1 - float(y) / 1000 for y in re.findall(r"V([\d.]+)H", path)])


@pytest.mark.parametrize("labels", [2, 3, 40])
def test_the_histogram_counts_every_initialization_once(labels, make_profile):
    guesses = make_profile(["a", "b"], labels=labels, inits=50).guesses
    picture = guess_picture(guesses)
    top = float(picture.y_ticks[-1].label.split()[0]) / 100
    assert heights(picture.measured).sum() * top == pytest.approx(1, abs=0.01)
    shares = guesses.fractions.values
    greatest = (shares[:, 0] if labels == 2 else shares.max(axis=1)).mean()
    right = (
        1.0 if labels == 2 else float(picture.x_ticks[-1].label.split()[0]) / 100 / picture.x_ticks[-1].place
    )
    bins = heights(picture.measured)
    middle = ((np.arange(len(bins)) + 0.5) * bins).sum() / bins.sum() * right / len(bins)
    assert middle == pytest.approx(0.5 if labels == 2 else greatest, abs=0.6 * right / len(bins))


def test_the_law_of_theory_has_the_bins_of_the_measurement():
    """On as many samples as were counted, theory's curve is the histogram of draws of the same law."""
    law = fl.predict(fl.Blueprint.mlp(depth=1)).guesses
    drawn = fl.Guesses.from_draws(law.law.sample(40_000, seed=1, samples=200), samples=200)
    picture = guess_picture(drawn, law)
    curve = np.array([1 - float(y) / 1000 for y in re.findall(r"[ML][\d.]+ ([\d.]+)", picture.theory)])
    top = float(picture.y_ticks[-1].label.split()[0]) / 100
    error = np.sqrt(curve * top / 40_000) / top
    # both labels are pooled: 80,000 shares, of which only half are independent
    assert (np.abs(heights(picture.measured) - curve) < 5 * error + 2e-3).all()
