"""Figures in pieces: kept, gone on with, drawn from nothing but what was computed."""

from __future__ import annotations

import json
import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

import firstlight as fl
from firstlight.cli.main import program
from firstlight.errors import UsageError
from firstlight.papers import reproducing
from firstlight.papers.catalogue import CATALOGUE, figure_of, keys_matching
from firstlight.papers.figure import SCALES, PaperFigure
from firstlight.papers.gallery import write_gallery
from firstlight.papers.work import Work
from firstlight.results.arrays import Arrays
from firstlight.results.provenance import Provenance
from firstlight.results.reproduction import Statement


def line(value: float) -> Arrays:
    return Arrays.of({"value": ((), value)}, provenance=Provenance("theory", "a line", "no data"))


def figure(calls: list[str], *, fail_at: str = "") -> PaperFigure:
    """Two pieces, one of which may fail, and one statement that holds and one that does not."""

    def compute(work: Work):
        def made(name: str, value: float) -> Arrays:
            if name == fail_at:
                raise KeyboardInterrupt
            calls.append(name)
            return line(value)

        return {
            name: work.piece(name, lambda name=name, value=value: made(name, value))
            for name, value in (("first", work["height"]), ("second", 2.0))
        }

    def statements(results):
        return [
            Statement("the first is one", "=", 1.0, float(results["first"]["value"])),
            Statement(
                "the second is more than three", ">", 3.0, float(results["second"]["value"]), because="so"
            ),
        ]

    return PaperFigure(
        compute, lambda results: Figure(), statements, {"smoke": {"height": 1.0}, "small": {"height": 1.0}}
    )


@pytest.fixture
def reproduced(monkeypatch, tmp_path):
    """A function that reproduces the figure above as if it were in the catalogue."""

    def run(made: PaperFigure, **options):
        monkeypatch.setattr(reproducing, "figure_of", lambda key: made)
        return fl.reproduce("igb/fig5", scale="smoke", out=tmp_path, progress=False, **options)

    return run


def test_an_interrupted_figure_goes_on_where_it_stopped(reproduced):
    calls: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        reproduced(figure(calls, fail_at="second"))
    made = reproduced(figure(calls))
    assert calls == ["first", "second"]
    assert float(made.results["second"]["value"]) == 2.0


def test_other_settings_compute_anew_and_the_same_do_not(reproduced):
    calls: list[str] = []
    reproduced(figure(calls))
    reproduced(figure(calls))
    assert calls == ["first", "second"]
    reproduced(figure(calls), seed=1)
    assert calls == ["first", "second"] * 2
    reproduced(figure(calls), seed=1, again=True)
    assert calls == ["first", "second"] * 3


def test_the_verdict_says_what_differs_and_why(reproduced):
    made = reproduced(figure([]))
    assert not made.agrees
    assert made.verdict == "differs: the second is more than three: 2, not > 3 (so)"
    told = json.loads((made.folder / "reproduction.json").read_text(encoding="utf-8"))
    assert [item["agrees"] for item in told["statements"]] == [True, False]
    assert (made.folder / "figure.png").stat().st_size > 0


def test_the_gallery_shows_what_the_files_say(reproduced, tmp_path):
    reproduced(figure([]))
    page = write_gallery(tmp_path, tmp_path / "gallery").read_text(encoding="utf-8")
    assert "1 figures with 2 statements: 1 hold" in page
    assert "| the second is more than three | > 3 | 2 | **differs**: so |" in page
    assert (tmp_path / "gallery" / "igb-fig5.png").exists()


def test_a_gallery_of_nothing_says_what_to_run(tmp_path):
    with pytest.raises(UsageError, match="holds no reproduction; run firstlight reproduce"):
        write_gallery(tmp_path, tmp_path / "gallery")


@pytest.mark.parametrize(
    ("statement", "agrees"),
    [
        (Statement("", "=", 1.0, 1.3, stderr=0.11), True),
        (Statement("", "=", 1.0, 1.3, stderr=0.09), False),
        (Statement("", "=", 1.0, 1.3, stderr=0.09, tolerance=0.05), True),
        (Statement("", ">", 1.0, 1.3, stderr=0.09), True),
        (Statement("", ">", 1.0, 1.3, stderr=0.11), False),
        (Statement("", "<", 1.0, 0.7, stderr=0.09), True),
        (Statement("", "<", 1.0, 1.0), False),
        (Statement("", "=", 1.0, math.nan), False),
    ],
)
def test_statements_hold_within_three_standard_errors(statement, agrees):
    assert statement.agrees is agrees
    assert Statement.from_dict(statement.to_dict()).agrees is agrees


def test_numbers_of_numpy_are_told_like_others():
    statement = Statement("", "=", np.float64(1), np.float32(1.5), stderr=np.float64(0.5))
    assert json.loads(json.dumps(statement.to_dict()))["agrees"] is True


def test_a_relation_that_nobody_knows_is_refused():
    with pytest.raises(UsageError, match="expected '=', '>' or '<', got '≈'"):
        Statement("", "≈", 1.0, 1.0)


@pytest.mark.parametrize("key", CATALOGUE)
def test_every_figure_of_the_catalogue_has_its_settings(key):
    made = figure_of(key)
    assert list(made.scales) == list(SCALES)
    assert set(made.departs) <= set(SCALES)


def test_keys_by_paper_pattern_and_near_match():
    assert keys_matching("all") == list(CATALOGUE)
    with pytest.raises(UsageError, match="did you mean 'igb/fig"):
        keys_matching("igb/fgi5")


def test_the_command_lists_and_refuses():
    listed = CliRunner().invoke(program, ["reproduce", "--list"])
    assert listed.exit_code == 0
    assert len(listed.stdout.splitlines()) == len(CATALOGUE)
    nothing = CliRunner().invoke(program, ["reproduce"])
    assert (nothing.exit_code, "--list" in nothing.stderr) == (2, True)
    budget = CliRunner().invoke(program, ["reproduce", "all", "--budget", "soon"])
    assert (budget.exit_code, "such as 60m" in budget.stderr) == (2, True)


def test_a_budget_that_is_spent_begins_nothing(tmp_path):
    done = CliRunner().invoke(
        program, ["reproduce", "igb/fig5", "--scale", "smoke", "--budget", "0s", "--out", str(tmp_path)]
    )
    assert (done.exit_code, done.stdout) == (0, "")
    assert "not begun within the budget: igb/fig5" in done.stderr


def test_two_workers_say_what_one_says(tmp_path):
    said = []
    for workers in ("1", "2"):
        out = tmp_path / workers
        done = CliRunner().invoke(
            program,
            [
                "reproduce",
                "norm/figE*",
                "--scale",
                "smoke",
                "--out",
                str(out),
                "--workers",
                workers,
                "--json",
            ],
        )
        assert done.exit_code == 0, done.output
        told = sorted((json.loads(text) for text in done.stdout.splitlines()), key=lambda item: item["key"])
        said.append([(item["key"], item["statements"]) for item in told])
    assert said[0] == said[1]
    assert [key for key, _ in said[0]] == ["norm/figE1", "norm/figE2"]


def test_the_command_prints_each_statement(tmp_path):
    done = CliRunner().invoke(
        program, ["reproduce", "igb/fig5", "--scale", "smoke", "--out", str(tmp_path), "--quiet"]
    )
    assert done.exit_code == 0, done.output
    assert "γ of ReLU is 1/(π−1)" in done.stdout
    assert (tmp_path / "igb" / "fig5" / "smoke" / "figure.svg").exists()


class TestCommonPieces:
    def work(self, tmp_path, key, **options):
        return Work(key, {"height": 1.0}, 0, tmp_path / key, tmp_path / "shared", **options)

    def test_two_figures_compute_one_piece_once(self, tmp_path):
        """Both ask at the same time; the second waits and reads."""
        calls: list[str] = []

        def make():
            calls.append("made")
            time.sleep(0.3)
            return line(3.0)

        with ThreadPoolExecutor(2) as pool:
            made = pool.map(
                lambda key: self.work(tmp_path, key).common_piece("runs", {"width": 5}, make), ("a", "b")
            )
        assert [float(item["value"]) for item in made] == [3.0, 3.0]
        assert calls == ["made"]

    def test_a_piece_belongs_to_what_made_it(self, tmp_path):
        work = self.work(tmp_path, "a")
        values = [
            float(work.common_piece("runs", {"width": width}, lambda width=width: line(width))["value"])
            for width in (5.0, 6.0, 5.0)
        ]
        assert values == [5.0, 6.0, 5.0]

    def test_again_makes_it_anew_and_once(self, tmp_path):
        self.work(tmp_path, "a").common_piece("runs", {}, lambda: line(1.0))
        again = self.work(tmp_path, "a", again=True)
        heights = [
            float(again.common_piece("runs", {}, lambda height=height: line(height))["value"])
            for height in (2.0, 3.0)
        ]
        assert heights == [2.0, 2.0]
