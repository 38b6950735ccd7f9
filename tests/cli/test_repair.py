"""``firstlight repair``: edits and verdict on stdout, weights that load, mistakes in one sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import firstlight as fl
from firstlight.cli.main import program
from firstlight.remedies.registry import REMEDIES

NETS = """
import torch
from torch import nn

def make():
    return nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(),
        nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2),
    )

class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.relu, self.tanh = nn.LayerNorm(12), nn.ReLU(), nn.Tanh()
    def forward(self, x):
        return self.relu(self.norm(x)) + self.tanh(self.norm(x))

built = make()
"""
DATA = ["--data", "noise:samples=40,dimensions=12"]
MOVE = ["--remedy", "norm_after_activation"]


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "firstlight_given_nets", raising=False)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(program, ["repair", *arguments])


def test_it_prints_the_edits_and_the_verdict(place):
    done = run("nets.py:make", *MOVE, *DATA, "--inits", "16", "--quiet")
    assert done.exit_code == 0, done.output
    assert "helped" in done.stdout
    assert "moved BatchNorm1d" in done.stdout
    assert done.stderr == ""


def test_json_is_the_change(place):
    done = run(
        "nets.py:make", *MOVE, *DATA, "--inits", "6", "--json", "--quiet", "--save-change", "change.nc"
    )
    plain = json.loads(done.stdout)
    assert plain["schema"] == "firstlight/change"
    change = fl.load("change.nc")
    assert plain["difference"]["value"] == change.difference().value
    assert [edit["address"] for edit in plain["edits"]] == ["1", "4"]
    shown = CliRunner().invoke(program, ["show", "change.nc"])
    assert "moved BatchNorm1d" in shown.stdout


@pytest.mark.parametrize("model", ["make", "built"])
def test_saved_weights_fit_the_model_that_is_built_as_it_says(place, model):
    done = run(f"nets.py:{model}", *MOVE, *DATA, "--inits", "2", "--save", "out.pt")
    assert "wrote out.pt" in done.stderr
    assert "fl.apply_(model, 'norm_after_activation', data)" in done.stderr
    saved = torch.load("out.pt")
    assert saved["rebuild"] == {
        "model": f"nets.py:{model}", "remedies": ["norm_after_activation"], "options": {}, "seed": 0
    }  # fmt: skip
    namespace: dict[str, object] = {}
    exec(NETS, namespace)
    net = namespace["make"]()  # type: ignore[operator]
    fl.apply_(net, "norm_after_activation")
    net.load_state_dict(saved["state_dict"])


def test_what_stands_in_front_of_a_model_is_rebuilt_by_repairing(place):
    done = run(
        "nets.py:make", "--remedy", "data_centering", "--option", "per=constant", *DATA, "--inits", "2",
        "--save", "out.pt",
    )  # fmt: skip
    assert "model, _ = fl.repair(model, data, ['data_centering'], inits=1, per='constant')" in done.stderr
    namespace: dict[str, object] = {}
    exec(NETS, namespace)
    points = torch.randn(20, 12) + 3
    net, _ = fl.repair(
        namespace["make"](), points, ["data_centering"], inits=1, per="constant", progress=False
    )
    net.load_state_dict(torch.load("out.pt")["state_dict"])


def test_options_and_places(place):
    done = run("mlp:depth=2,width=8,norm=layer,inputs=12", *MOVE, "--remedy", "convert_norm", "--option", "to=rms",
               "--only", "norm1", "--dry-run", "--json")  # fmt: skip
    edits = json.loads(done.stdout)["edits"]
    assert [(edit["remedy"], edit["address"]) for edit in edits] == [
        ("norm_after_activation", "norm1"),
        ("convert_norm", "norm1"),
    ]
    assert "RMSNorm" in edits[1]["after"]


def test_a_dry_run_needs_no_data(place):
    done = run("nets.py:make", *MOVE, "--dry-run")
    assert done.exit_code == 0
    assert "dry run" in done.stdout


def test_without_a_remedy_the_diagnosis_chooses(place):
    done = run("mlp:depth=6,width=20,norm=layer,inputs=12", *DATA, "--inits", "16", "--quiet", "--json")
    assert json.loads(done.stdout)["remedies"][0] == "norm_after_activation"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["nets.py:make", "--remedy", "norm_after", "--dry-run"],
            2,
            "expected one of 'norm_after_activation'",
        ),
        (["nets.py:make", *MOVE, "--option", "x", "--dry-run"], 2, "--option: expected NAME=VALUE, got 'x'"),
        (
            ["nets.py:make", *MOVE, "--option", "x=1", "--dry-run"],
            2,
            "repair(x): no option of norm_after_activation",
        ),
        (["nets.py:make", *MOVE, "--save", "out.pt", "--dry-run"], 2, "a dry run changes nothing"),
        (["nets.py:Shared", *MOVE, "--dry-run"], 3, "norm: it is shared by two activations, relu and tanh"),
        (["nets.py:make", *MOVE, "--save", "out.txt"], 2, "ends in .pt or .pth"),
        (["nets.py:make", *MOVE], 2, "--data: expected the name of a data set"),
    ],
)
def test_mistakes_are_told_in_one_sentence(place, arguments, code, message):
    done = run(*arguments)
    assert (done.exit_code, message in done.stderr) == (code, True), done.output
    assert "Traceback" not in done.output


def test_help_lists_the_remedies():
    text = " ".join(run("--help").stdout.split())
    for name in REMEDIES:
        assert name in text
