"""``report``: every noun in every format it has; the suffix decides; a file appears when it is complete."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import firstlight as fl
from firstlight.errors import UsageError
from firstlight.reporting.documents import PAGES, document_of
from firstlight.reporting.reporting import FORMATS, SUFFIXES, report
from firstlight.results.archive import KINDS
from firstlight.results.provenance import Provenance
from firstlight.results.reproduction import Reproduction, Statement
from firstlight.results.trajectory import Trajectory


@pytest.fixture(scope="module")
def nouns(diagnosis) -> dict[str, object]:
    """One of each kind."""
    blueprint = fl.Blueprint.mlp(inputs=10, depth=2, width=8, norm="layer", placement="before")
    data = torch.randn(20, 10, generator=torch.Generator().manual_seed(0))
    _, change = fl.repair(blueprint, data, remedies=["norm_after_activation"], inits=4, progress=False)
    counts = np.random.default_rng(0).multinomial(50, [0.5, 0.5], size=(3, 4, 1))
    runs = Trajectory.from_counts(
        steps=[0, 1, 3, 9],
        splits=["train"],
        guesses=counts,
        right=counts // 2,
        totals=np.full_like(counts, 25),
        losses=np.linspace(2, 1, 12).reshape(3, 4, 1),
        provenance=Provenance("training", "a net", "blobs", 0, "train"),
    )
    made = Reproduction(
        "igb/fig1", "a figure", "smoke", {}, (Statement("γ of ReLU", "=", 0.467, 0.471, stderr=0.003),)
    )
    return {
        "change": change,
        "comparison": diagnosis.comparison,
        "diagnosis": diagnosis,
        "guesses": diagnosis.profile.guesses,
        "phase_diagram": fl.phases("tanh", weight_variance=[1.0, 2.0], bias_variance=[0.0, 0.1], depth=5),
        "profile": diagnosis.profile,
        "reproduction": made,
        "trajectory": runs,
    }


def test_every_kind_of_result_has_a_page(nouns):
    assert set(PAGES) == set(nouns)
    assert {kind for kind in KINDS if kind != "arrays"} <= set(
        PAGES
    )  # arrays are what papers keep, without a meaning


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("format", [name for name in FORMATS if name != "junit"])
def test_every_noun_in_every_format(nouns, kind, format):
    text = report(nouns[kind], format=format)
    title = document_of(nouns[kind]).title
    assert len(text) > 50
    if format == "json":
        assert json.loads(text)["schema"] == f"firstlight/{kind}"
    elif format == "text":
        assert max(map(len, text.splitlines())) <= 100
        assert text.startswith(title[:60])


@pytest.mark.parametrize("kind", [kind for kind in PAGES if kind != "diagnosis"])
def test_junit_is_for_verdicts(nouns, kind):
    with pytest.raises(UsageError, match="JUnit speaks of verdicts, so diagnose the profile first"):
        report(nouns[kind], format="junit")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_suffix_decides(diagnosis, tmp_path, suffix):
    path = report(diagnosis, tmp_path / f"report{suffix.upper()}")
    assert path == tmp_path / f"report{suffix.upper()}"
    written = path.read_text(encoding="utf-8")
    assert written == report(diagnosis, format=SUFFIXES[suffix])
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_a_format_goes_before_the_suffix(diagnosis, tmp_path):
    path = report(diagnosis, tmp_path / "report.log", format="markdown")
    assert path.read_text(encoding="utf-8") == report(diagnosis, format="markdown")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            ("report.pdf",),
            {},
            r"expected a name that ends in \.html, \.htm, \.md, \.txt, \.json, \.xml, got '\.pdf'",
        ),
        (("report",), {}, "got 'no suffix'; or pass format="),
        ((), {"format": "pdf"}, "expected one of 'text', 'html', 'markdown', 'json', 'junit', got 'pdf'"),
        (("nowhere/report.html",), {}, "which is no folder; pass the name of a file in a folder that exists"),
    ],
)
def test_mistakes(diagnosis, tmp_path, monkeypatch, arguments, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        report(diagnosis, *arguments, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("noun", [3, "profile", None])
def test_what_is_no_result_is_refused(noun):
    with pytest.raises(UsageError, match=f"expected one of the results .* got {type(noun).__name__}"):
        report(noun)


def test_side_by_side_stand_results_of_one_kind(nouns):
    for wrong in ([], [nouns["diagnosis"]], [nouns["diagnosis"], nouns["profile"]], [nouns["change"]] * 2):
        with pytest.raises(UsageError, match="side by side stand two Diagnoses or more, or as many Profiles"):
            report(wrong)


@pytest.mark.parametrize("format", FORMATS)
def test_two_diagnoses_side_by_side(diagnosis, planted, format):
    text = report([diagnosis, planted], format=format)
    assert text.count("deep-prejudice") >= 2
    if format == "json":
        plain = json.loads(text)
        assert plain["schema"] == "firstlight/side_by_side"
        assert [item["kind"] for item in plain["results"]] == ["diagnosis", "diagnosis"]


def test_two_networks_of_one_name_are_numbered(diagnosis):
    first, second = document_of([diagnosis, diagnosis]).columns
    assert (first.title[:3], second.title[:3]) == ("1: ", "2: ")


def test_a_saved_diagnosis_tells_the_same(diagnosis, tmp_path):
    again = fl.load(diagnosis.save(tmp_path / "d.nc"))
    for format in FORMATS:
        assert report(again, format=format) == report(diagnosis, format=format)
