from __future__ import annotations

import html.parser
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.results.guess_law import GuessLaw
from firstlight.results.guesses import Guesses
from firstlight.results.profile import Profile
from firstlight.results.provenance import Coverage, CoverageEntry, Provenance
from firstlight.results.quantities import QUANTITIES
from firstlight.results.rounding import number, with_stderr

SNEAKY = '<script>alert("x")</script>'


def profile(layers: int = 3, *, model: str = "net", stderr: bool = True, **more: object) -> Profile:
    gamma = np.linspace(0.4, 3.0, layers)
    quantities: dict[str, object] = {"gamma": gamma, **more}
    if stderr:
        quantities["gamma_stderr"] = 0.0234 * gamma
    return Profile.from_layers(
        [f"layers.{index}" for index in range(layers)],
        quantities,
        provenance=Provenance(
            "measurement", model, "512 images", seed=3, mode="train", settings={"inits": 1200}
        ),
        kinds=["Linear"] * layers,
        guesses=Guesses.from_counts(np.tile([[30, 70], [80, 20]], (4, 1)), ties=np.full(8, 0.01)),
    )


def test_golden_profile() -> None:
    assert repr(profile(12)).splitlines() == [
        "Profile by measurement: net",
        "  data: 512 images",
        "  1,200 initializations, seed 3, mode train",
        "  output γ = 3.000 ± 0.070 (deep prejudice)",
        "  guesses: 2 labels, measured on 8 initializations × 100 data points; greatest fraction 0.750 ±",
        "    0.019 on average (neutral: 0.5398); ties on 1 % of the data",
        "  layer      kind                γ",
        "  layers.0   Linear  0.4000±0.0094",
        "  layers.1   Linear    0.636±0.015",
        "  layers.2   Linear    0.873±0.020",
        "  layers.3   Linear    1.109±0.026",
        "  … 5 more",
        "  layers.9   Linear    2.527±0.059",
        "  layers.10  Linear    2.764±0.065",
        "  layers.11  Linear    3.000±0.070",
    ]


def test_golden_guesses() -> None:
    assert repr(Guesses.from_law(GuessLaw(0.0, 10))) == (
        "<Guesses: 10 labels, theory; γ = 0 (neutral); greatest fraction 0.1 on average>"
    )
    assert repr(Guesses.from_law(GuessLaw(math.inf, log_gamma=900.0), samples=50)) == (
        "<Guesses: 2 labels, theory, counted on 50 data points; γ = exp(900) (deep prejudice); greatest\n"
        "  fraction 1 on average (neutral: 0.5561)>"
    )
    assert repr(Guesses.from_draws([[0.25, 0.75], [0.1, 0.9]])) == (
        "<Guesses: 2 labels, 2 draws; greatest fraction 0.825 ± 0.075 on average>"
    )


@pytest.mark.parametrize("layers", [1, 7, 8, 9, 1000])
def test_lines_fit_and_count_what_is_hidden(layers: int) -> None:
    every = {name: np.full(layers, 1234.5678) for name in QUANTITIES if name != "gamma"}
    text = repr(profile(layers, model="x" * 300 + "\nsecond line", **every))
    assert max(len(line) for line in text.splitlines()) <= 100
    rows = [line for line in text.splitlines() if line.startswith("  layers.")]
    hidden = [line for line in text.splitlines() if line.startswith("  … ")]
    told = int(hidden[0].split()[1].replace(",", "")) if hidden else 0
    assert len(rows) + told == layers
    assert "not shown:" in text
    assert "second line" not in text


def test_an_empty_profile_prints() -> None:
    bare = Profile.from_layers([], {}, provenance=Provenance("theory", "", "nothing"))
    assert repr(bare).startswith("Profile by theory: a model without description")
    assert bare._repr_html_().startswith("<div>")


def test_notes_and_missing_layers_are_shown() -> None:
    origin = Provenance("theory", "net", "data", notes=("infinite width",))
    coverage = Coverage((CoverageEntry("a", "LSTM", "unmodelled", "no rule"),))
    text = repr(Profile.from_layers(["b"], {"gamma": [math.nan]}, provenance=origin, coverage=coverage))
    assert "unmodelled: a (LSTM: no rule)" in text
    assert "infinite width" in text
    assert "output γ = –" in text
    assert "prejudice" not in text


class Listed(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.depth += 1
        assert all(not name.startswith("on") and name not in ("src", "href") for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def test_html_is_closed_self_contained_and_escaped() -> None:
    hostile = Profile.from_layers(
        [SNEAKY, "b"],
        {"gamma": [1.0, 2.0]},
        provenance=Provenance("theory", SNEAKY, SNEAKY, notes=(SNEAKY,)),
        coverage=Coverage((CoverageEntry(SNEAKY, SNEAKY, "unseen", SNEAKY),)),
        kinds=[SNEAKY, ""],
    )
    guesses = Guesses.from_counts([[1, 2, 3]], label_names=[SNEAKY, "", "c"])
    for noun in (hostile, profile(20), guesses, Guesses.from_law(GuessLaw(2.0, 12))):
        page = Listed()
        page.feed(noun._repr_html_())
        assert set(page.tags) <= {"div", "strong", "em", "table", "tr", "td"}
        assert page.depth == 0
        assert "<script" not in noun._repr_html_()


@given(st.floats(-1e12, 1e12), st.floats(1e-12, 1e12))
def test_rounding_keeps_two_digits_of_the_error(value: float, stderr: float) -> None:
    shown = with_stderr(value, stderr)
    left, _, right = shown.partition(" ± ")
    assert abs(float(right) - stderr) <= 0.0501 * stderr
    assert abs(float(left) - value) <= max(0.06 * stderr, 1e-5 * abs(value))


def test_numbers_without_digits() -> None:
    assert with_stderr(2.0, math.nan) == "2"
    assert with_stderr(math.inf, 1.0) == "∞"
    assert with_stderr(math.nan, 1.0) == "–"
    assert with_stderr(0.0, math.inf, log=-3000.0) == "10^-1302.9"
    assert number(-math.inf) == "−∞"
    assert with_stderr(0.5, 0.0996) == "0.50 ± 0.10"
