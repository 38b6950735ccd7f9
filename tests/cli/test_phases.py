"""``firstlight phases``: ranges, the two tables, JSON, and mistakes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import firstlight as fl
from firstlight.cli.main import program


def run(*arguments: str):
    return CliRunner().invoke(program, ["phases", *arguments], prog_name="firstlight")


def test_a_single_point():
    done = run("--activation", "relu", "--depth", "20", "--json")
    assert done.exit_code == 0
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert answer["schema"] == "firstlight/phase_diagram"
    assert answer["variables"]["gamma_at_depth"]["values"][0][0] == pytest.approx(18.3905, rel=1e-5)
    assert answer["variables"]["gamma_star"]["values"] == [["Infinity"]]


def test_a_range_has_both_ends():
    done = run("--weight-variance", "0.5:4:8", "--bias-variance", "0.1:0.3:3", "--json")
    coordinates = json.loads(done.stdout)["coordinates"]
    assert coordinates["weight_variance"]["values"] == pytest.approx([0.5 * (k + 1) for k in range(8)])
    assert coordinates["bias_variance"]["values"] == pytest.approx([0.1, 0.2, 0.3])
    assert coordinates["weight_variance"]["values"][-1] == 4.0
    assert done.stderr == "24 points, 50 layers deep …\n"


def test_few_points_have_a_row_each():
    lines = run("--weight-variance", "1:3:3", "--bias-variance", "0.1").stdout.splitlines()
    assert max(map(len, lines)) <= 100
    rows = [line.split() for line in lines if line.split()[1:2] == ["0.1"]]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert rows[0][2:4] == ["ordered", "0.5"]
    assert "γ(50)" in "\n".join(lines)


def test_many_points_have_a_row_for_each_regime():
    arguments = ["--activation", "erf", "--weight-variance", "0.3:4:10", "--bias-variance", "0.05:0.5:6"]
    lines = run(*arguments).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    points = {
        words[0]: int(words[1])
        for words in map(str.split, lines)
        if words and words[0] in ("ordered", "chaotic")
    }
    assert set(points) == {"ordered", "chaotic"}
    assert sum(points.values()) == 60


def test_archive_and_figure(tmp_path):
    archive, figure = tmp_path / "d.nc", tmp_path / "d.pdf"
    done = run("--weight-variance", "1:3:5", "--save", str(archive), "--plot", str(figure))
    assert done.exit_code == 0
    assert fl.load(archive).depth == 50
    assert figure.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--weight-variance", "1:3"], "expected a number or START:STOP:COUNT such as 0.5:4:50, got '1:3'"),
        (["--weight-variance", "a:3:5"], "got 'a:3:5'"),
        (["--weight-variance", "1:3:5:7"], "got '1:3:5:7'"),
        (["--weight-variance", "1:3:2.5"], "got '1:3:2.5'"),
        (["--weight-variance", ""], "got ''"),
        (["--weight-variance", "1:3:0"], "expected a COUNT between 1 and 10,000, got 0"),
        (["--weight-variance", "1:3:1"], "expected a COUNT of at least 2 between different ends"),
        (["--weight-variance", "1:3:1000000000"], "expected a COUNT between 1 and 10,000"),
        (["--weight-variance", "-1:3:5"], "weight_variance"),
        (["--bias-variance", "-1:1:5"], "bias_variance"),
        (["--bias-variance", "nan"], "bias_variance"),
        (["--depth", "0"], "depth"),
        (["--activation", "tahn"], "did you mean 'tanh'"),
        (["--placement", "after"], "norm='batch', 'layer' or 'rms'"),
        (["--input-variance", "-1"], "input_variance"),
        (["--method", "x"], "expected one of 'auto'"),
        (["--plot", "x.bmp"], "ends in .pdf or .png or .svg"),
    ],
)
def test_mistakes_get_one_sentence(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stdout == ""


def test_a_single_point_cannot_be_drawn(tmp_path):
    done = run("--plot", str(tmp_path / "x.png"))
    assert done.exit_code == 2
    assert "got a single point" in done.stderr
