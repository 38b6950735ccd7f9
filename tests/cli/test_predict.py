"""``firstlight predict``: what it prints is what ``fl.predict`` found, and every mistake gets one sentence."""

from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner

import firstlight as fl
from firstlight.cli.main import program


def run(*arguments: str):
    return CliRunner().invoke(program, ["predict", *arguments], prog_name="firstlight")


def gammas(done) -> list[float]:
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["variables"]["gamma"]["values"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--depth", "1"], 1 / (math.pi - 1)),
        (["--depth", "20", "--norm", "layer", "--placement", "before"], 18.3905),
        (["--depth", "20", "--norm", "batch"], 1 / (math.pi - 1)),
        (["--depth", "5", "--norm", "layer", "--placement", "after"], 0.0),
        (["--depth", "1", "--pool", "max/4", "--width", "100"], 2.429),
        # by hand: C = 1, V = 2 at the first layer, then C' = 2·1 + 1, V' = 2·2
        (["--depth", "1", "--activation", "linear", "--bias-variance", "1"], 3 / 4),
        (["--depth", "1", "--norm", "batch", "--batch-size", "8"], 0.5193),
        (["--depth", "1", "--norm", "batch", "--batch-size", "8", "--batch-law", "leave_one_out"], 0.391),
        (["mlp:depth=2,width=100"], 0.9752348616),
    ],
)
def test_known_values(arguments, expected):
    digits = len(f"{expected!r}".partition(".")[2])
    assert gammas(run(*arguments, "--json"))[-1] == pytest.approx(
        expected, abs=max(0.51 * 10.0**-digits, 1e-12)
    )


def test_options_and_one_line_say_the_same():
    options = [
        "--depth",
        "4",
        "--width",
        "60",
        "--norm",
        "rms",
        "--placement",
        "after",
        "--activation",
        "tanh",
    ]
    options += ["--residual", "2", "--weight-variance", "1.5", "--bias-variance", "0.1", "--classes", "3"]
    options += ["--inputs", "50", "--input-mean", "0.5", "--input-variance", "2"]
    line = (
        "mlp:depth=4,width=60,norm=rms,placement=after,activation=tanh,residual=2,weight_variance=1.5,"
        "bias_variance=0.1,classes=3,inputs=50,input_mean=0.5,input_variance=2"
    )
    assert gammas(run(*options, "--json")) == gammas(run(line, "--json"))


def test_json_is_one_object_with_its_schema():
    done = run("--depth", "2", "--json")
    answer = json.loads(done.stdout)
    assert answer["schema"] == "firstlight/profile"
    assert answer["schema_version"] == 1
    assert answer["provenance"]["engine"] == "theory"
    assert answer["variables"]["log_gamma"]["values"][0] == "-Infinity"
    assert done.stderr == ""


@pytest.mark.parametrize("depth", ["1", "20", "1000"])
def test_the_table_is_narrow_and_has_the_values(depth):
    done = run("--depth", depth, "--norm", "layer")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) < 45
    profile = fl.predict(fl.Blueprint.mlp(depth=int(depth), norm="layer"))
    [row] = [line for line in lines if line.strip().startswith("output ")]
    assert f"{float(profile.gamma[-1]):.4g}" in row.split()
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_deep_table_leaves_out_its_middle():
    lines = run("--depth", "100").stdout
    assert "… 77 more" in lines
    assert " linear12 " in lines
    assert " linear13 " not in lines


def test_archive_and_figures(tmp_path):
    archive, law, gamma = (tmp_path / name for name in ("p.nc", "law.png", "gamma.svg"))
    done = run("--depth", "2", "--save", str(archive), "--plot", str(law), "--plot-gamma", str(gamma))
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [f"wrote {path}" for path in (archive, law, gamma)]
    assert fl.load(archive).gamma.values == pytest.approx(fl.predict(fl.Blueprint.mlp(depth=2)).gamma.values)
    assert law.read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in gamma.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected --depth, or a network in one line such as mlp:depth=20; got neither"),
        (["--depth", "0"], "depth: expected at least 1, got 0"),
        (["--depth", "two"], "'two' is not a valid integer"),
        (["--depth", "2", "--activation", "rleu"], "did you mean 'relu'"),
        (
            ["--depth", "2", "--weight-variance", "-1"],
            "weight_variance: expected a finite number above 0, got -1",
        ),
        (["--depth", "2", "--bias-variance", "-1"], "bias_variance: expected a finite number of at least 0"),
        (
            ["--depth", "2", "--input-variance", "nan"],
            "input_variance: expected a finite number above 0, got nan",
        ),
        (["--depth", "2", "--placement", "after"], "pass norm='batch', 'layer' or 'rms'"),
        (["--depth", "2", "--norm", "group"], "norm: expected one of 'batch', 'layer', 'rms', got 'group'"),
        (["--depth", "2", "--pool", "max/0"], "pool size: expected at least 1, got 0"),
        (
            ["--depth", "2", "--pool", "max"],
            "pool: expected None, ('max', K), ('avg', K) or the words 'max/K'",
        ),
        (["--depth", "2", "--classes", "1"], "classes: expected at least 2, got 1"),
        (["--depth", "2", "--method", "guess"], "expected one of 'auto'"),
        (["--depth", "2", "--norm", "batch", "--batch-size", "0"], "got 0"),
        (["--depth", "2", "--batch-law", "x"], "expected one of 'exact', 'leave_one_out'"),
        (["--depth", "2", "--samples", "0"], "got 0"),
        (["--depth", "2", "--plot", "out.jpg"], "ends in .pdf or .png or .svg"),
        (["--depth", "2", "--save", "out.json"], "ends in .nc"),
        (["mlp:depth=2", "--norm", "layer"], "got 'mlp:depth=2' and --norm; use one"),
        (["mlp:deep=2"], "deep"),
        (["cnn:depth=2"], "cnn"),
    ],
)
def test_mistakes_get_one_sentence(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_not_there_stops_before_computing(tmp_path):
    done = run("--depth", "2", "--save", str(tmp_path / "nowhere" / "x.nc"))
    assert done.exit_code == 3
    assert done.stderr == f"Error: {tmp_path / 'nowhere'}: no such folder; make it first\n"
