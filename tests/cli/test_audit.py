"""``firstlight audit`` and ``firstlight report``: verdicts, files and exit codes; every mistake says what to type."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

import firstlight as fl
from firstlight.cli.main import program
from firstlight.errors import DataError

NETS = """
from torch import nn
import torch
from firstlight.data.samples import Samples

def make():
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5))

def few():
    return nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))

def wide(width):
    return nn.Linear(12, width)

def broken():
    class Nothing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(12, 3)
        def forward(self, x):
            return self.layer(x) / 0.0
    return Nothing()

def points():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(40, 12, generator=generator)
    return Samples.from_tensors(inputs, torch.arange(40) % 5, label_names=["a", "b", "c", "d", "e"])
"""
DATA = ["--data", "noise:samples=30,dimensions=12"]
QUICK = ["--inits", "4", "--quiet", "--no-theory"]
DEEP = "mlp:depth=8,width=20,inputs=12"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("firstlight_given_nets", "nets"):
        sys.modules.pop(name, None)


def run(*arguments: str):
    return CliRunner().invoke(program, list(arguments), prog_name="firstlight")


def test_it_is_what_the_function_finds(place):
    done = run(
        "audit",
        "nets.py:make",
        "--data",
        "nets.py:points",
        "--inits",
        "5",
        "--seed",
        "3",
        "--quiet",
        "--json",
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["schema"] == "firstlight/diagnosis"
    sys.path.insert(0, str(place))
    import nets

    expected = fl.audit(nets.make, nets.points(), inits=5, seed=3, progress=False)
    assert [item["id"] for item in found["findings"]] == [item.id for item in expected.findings]
    assert [item["status"] for item in found["findings"]] == [item.status for item in expected.findings]
    values = [item["value"] for item in found["findings"] if item["id"] == "deep-prejudice"]
    assert values == [pytest.approx(expected["deep-prejudice"].value)]
    assert found["report"]["verdict"]["sentences"]


def test_verdict_first_then_what_was_found():
    done = run("audit", DEEP, *DATA, "--inits", "30", "--quiet")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Blueprint.mlp(")
    assert "Starts with a strong favourite" in done.stdout
    assert f"firstlight repair {DEEP} \\" in done.stdout or f"firstlight repair {DEEP} --data" in done.stdout
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--fail-on", "deep-prejudice"], 1),
        (["--fail-on", "deep-prejudice, exploding-sensitivity"], 1),
        (["--policy", "policy.toml"], 1),
        (["--policy", "policy.toml", "--ignore", "deep-prejudice"], 0),
        (["--policy", "policy.toml", "--warn-on", "deep-prejudice"], 0),
    ],
)
def test_the_policy_decides_the_exit_code(options, code):
    Path("policy.toml").write_text('[audit]\nfail_on = ["deep-prejudice"]\n', encoding="utf-8")
    done = run("audit", DEEP, *DATA, "--inits", "30", "--quiet", "--no-theory", *options)
    assert done.exit_code == code, done.output
    assert ("Does not meet the policy" in done.stdout) == bool(code)


def test_a_broken_network_fails_by_default():
    done = run("audit", "nets.py:broken", *DATA, *QUICK)
    assert done.exit_code == 1, done.output
    assert "non-finite-output" in done.stdout


def test_files_are_written_and_named():
    wanted = ["a.html", "a.md", "a.json", "b.xml", "b.md", "a.nc"]
    options = [
        "--out",
        "a.html",
        "--out",
        "a.md",
        "--out",
        "a.json",
        "--junit",
        "b.xml",
        "--markdown",
        "b.md",
    ]
    done = run("audit", "nets.py:make", *DATA, *QUICK, *options, "--save", "a.nc")
    assert done.exit_code == 0, done.output
    assert sorted(line.removeprefix("wrote ") for line in done.stderr.splitlines()) == sorted(wanted)
    assert Path("a.md").read_text("utf-8") == Path("b.md").read_text("utf-8")
    assert ElementTree.parse("b.xml").getroot().tag == "testsuites"
    shown = run("show", "a.nc")
    assert shown.stdout == done.stdout
    assert json.loads(run("show", "a.nc", "--json").stdout) == json.loads(Path("a.json").read_text("utf-8"))
    told = run("report", "a.nc", "--out", "again.html")
    assert told.stderr == "wrote again.html\n"
    assert Path("again.html").read_text("utf-8") == Path("a.html").read_text("utf-8")
    assert run("report", "a.nc").stdout == done.stdout


def test_two_models_stand_side_by_side():
    after = "mlp:depth=8,width=20,norm=layer,placement=after"
    done = run(
        "audit",
        DEEP,
        "--compare",
        after,
        *DATA,
        "--inits",
        "20",
        "--quiet",
        "--no-theory",
        "--out",
        "two.html",
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("2 networks side by side\n")
    assert f"{DEEP}: Starts with a strong favourite" in done.stdout
    assert f"{after}: " in done.stdout
    assert Path("two.html").read_text("utf-8").count("data-network=") == 2
    plain = json.loads(run("audit", DEEP, "--compare", after, *DATA, *QUICK, "--json").stdout)
    assert len(plain["results"]) == 2


def test_archives_stand_side_by_side():
    for name in ("a.nc", "b.nc"):
        run("audit", "nets.py:make", *DATA, *QUICK, "--save", name)
    done = run("report", "a.nc", "b.nc", "--format", "markdown")
    assert done.exit_code == 0
    assert done.stdout.startswith("## 2 networks side by side")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere:make", *DATA], 2, "there is no module 'nowhere'"),
        (["nets.py:mak", *DATA], 2, "did you mean 'make'?"),
        (
            ["nets.py:wide", *DATA],
            2,
            "`def make_model(): return wide(width=…)` there and type nets.py:make_model",
        ),
        (["nets.py:make"], 2, "type --data cifar10, for example"),
        (
            ["nets.py:make", "--data", "noise:samples=30,dimensions=7"],
            3,
            "a layer takes 12 numbers and gets 7: give it 7 inputs, or type --data noise:samples=30,dimensions=12",
        ),
        (
            ["nets.py:few", "--data", "nets.py:points"],
            3,
            "'nets.py:few' has 3 outputs, but 'nets.py:points' has 5 labels; give its last layer 5 outputs",
        ),
        (
            ["mlp:depth=1,classes=2,width=8", "--data", "nets.py:points"],
            3,
            "has 2 outputs, but 'nets.py:points' has 5 labels; type mlp:depth=1,width=8,classes=5",
        ),
        (["nets.py:make", *DATA, "--fail-on", "deep-prejudise"], 2, "did you mean 'deep-prejudice'"),
        (
            ["nets.py:make", *DATA, "--fail-on", "dead-units", "--ignore", "dead-units"],
            2,
            "stands in fail_on and in ignore",
        ),
        (["nets.py:make", *DATA, "--policy", "none.toml"], 2, "there is no such file; expected a TOML file"),
        (
            ["nets.py:make", *DATA, "--out", "a.pdf"],
            2,
            "expected a file name that ends in .html or .json or .md or .txt or .xml",
        ),
        (
            ["nets.py:make", *DATA, "--compare", "nets.py:few", "--save", "a.nc"],
            2,
            "audit them one at a time",
        ),
    ],
)
def test_mistakes_say_what_to_type(arguments, code, message):
    done = run("audit", *arguments, "--inits", "3")
    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_named_data_set_can_be_cut_to_the_models_outputs(place):
    from firstlight.cli.audit import _check_labels
    from firstlight.cli.named_models import model_named

    sys.path.insert(0, str(place))
    import nets

    told = "give its last layer 5 outputs, or choose 3 of the classes: --data letters:a,b,c"
    with pytest.raises(DataError, match=told):
        _check_labels(model_named("nets.py:few"), "nets.py:few", nets.points(), "letters:samples=40")


def test_a_report_of_nothing():
    assert run("report").exit_code == 2
    assert "there is no such file" in run("report", "none.nc").stderr


def test_remedies_are_tried_when_asked_for():
    deep = "mlp:depth=6,width=20,inputs=12,norm=layer,placement=before"
    asked = run("audit", deep, *DATA, "--inits", "12", "--quiet", "--no-theory", "--try-remedies", "--json")
    trials = json.loads(asked.output)["trials"]
    assert next(item["remedy"] for item in trials if item["verdict"] == "helped") in (
        "norm_after_activation",
        "activation_shift",
    )
    told = run("audit", deep, *DATA, "--inits", "12", "--quiet", "--no-theory", "--try-remedies")
    assert "What the remedies did" in told.output
