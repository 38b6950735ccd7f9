"""``firstlight measure``: every name of models and data; prints what ``fl.measure`` found; mistakes get a sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import firstlight as fl
from firstlight.cli.main import program

NETS = """
from torch import nn
import torch
import firstlight as fl

def make(width=8):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 3))

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 2))

class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 2)
    def forward(self, x):
        return self.nothing(x)

class Holder:
    make = staticmethod(make)

def wide(width, *, depth):
    return make(width)

def broken():
    return {}["here"]

def no_model():
    return 3

def points():
    return torch.randn(30, 12, generator=torch.Generator().manual_seed(0))

built = make()
described = fl.Blueprint.mlp(depth=1, inputs=12, width=6)
number = 3
"""
BROKEN = NETS.splitlines().index('    return {}["here"]') + 1
DATA = "noise:samples=30,dimensions=12"


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with a file of models, where the command runs."""
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "nets.py").write_text(NETS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [key for key in sys.modules if key.split(".")[0] in ("package", "firstlight_given_nets")]:
        monkeypatch.delitem(sys.modules, name)
    yield tmp_path
    for name in [key for key in sys.modules if key.split(".")[0] in ("package", "firstlight_given_nets")]:
        del sys.modules[name]


def run(*arguments: str):
    return CliRunner().invoke(program, ["measure", *arguments], prog_name="firstlight")


def answer(*arguments: str) -> dict:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def gammas(found: dict) -> list[float]:
    return found["variables"]["gamma"]["values"]


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        ("nets.py:make", ["1", "2", "4"]),
        ("./package/nets.py:make", ["1", "2", "4"]),
        ("package.nets:make", ["1", "2", "4"]),
        ("package.nets:Holder.make", ["1", "2", "4"]),
        ("nets.py:built", ["1", "2", "4"]),
        ("nets.py:Net", ["0", "2"]),
        ("nets.py:described", ["linear1", "output"]),
    ],
)
def test_code_by_file_module_and_attribute(place, model, layers):
    found = answer(model, "--data", DATA, "--inits", "3")
    assert found["coordinates"]["layer"]["values"] == layers
    assert found["provenance"]["settings"]["inits"] == 3


def test_it_is_what_the_function_finds():
    line = "mlp:depth=2,width=20,inputs=12,norm=batch,classes=3"
    options = ["--inits", "5", "--seed", "3", "--mode", "eval", "--batch-size", "7", "--samples", "20"]
    found = answer(line, "--data", DATA, *options, "--redraw", "orthogonal", "--quantities", "gamma,guesses")
    expected = fl.measure(
        fl.Blueprint.parse(line),
        DATA,
        inits=5,
        seed=3,
        mode="eval",
        batch_size=7,
        max_samples=20,
        redraw="orthogonal",
        quantities=["gamma", "guesses"],
    )
    assert gammas(found) == expected.gamma.values.tolist()
    assert found["guesses"]["counts"] == expected.to_dict()["guesses"]["counts"]
    settings = found["provenance"]["settings"]
    assert (settings["samples"], settings["redraw"], found["provenance"]["mode"]) == (
        20,
        "orthogonal",
        "eval",
    )
    assert settings["quantities"] == ["gamma", "guesses"]


def test_layers_are_chosen_by_patterns(place):
    found = answer("nets.py:make", "--data", DATA, "--inits", "2", "--layers", "2", "--layers", "~4")
    assert found["coordinates"]["layer"]["values"] == ["2", "4"]  # the output is always there
    found = answer("nets.py:make", "--data", DATA, "--inits", "2", "--layers", "output")
    assert found["coordinates"]["layer"]["values"] == ["4"]


def test_a_description_comes_with_gaussian_points():
    done = run("mlp:depth=1,width=10,inputs=12", "--inits", "2", "--json")
    assert done.stderr == "--data gaussian:samples=1000,dimensions=12\n"
    assert "1000 samples of shape (12,)" in json.loads(done.stdout)["provenance"]["data"]
    shifted = run("mlp:depth=1,inputs=12,width=10,input_mean=1,input_variance=2", "--inits", "2")
    assert shifted.stderr == "--data noise:samples=1000,dimensions=12,mean=1.0,variance=2.0\n"
    assert run("mlp:depth=1,inputs=12,width=10", "--inits", "2", "--quiet").stderr == ""


def test_inputs_are_taken_from_the_data():
    done = run("mlp:depth=1,width=10", "--data", DATA, "--inits", "2")
    assert done.exit_code == 0
    assert done.stderr == "inputs=12, as many as the data have coordinates\n"
    assert "inputs=12" in done.stdout


def test_data_may_be_code(place):
    by_code = answer("nets.py:make", "--data", "nets.py:points", "--inits", "3")
    assert by_code["provenance"]["data"] == "Tensor (30, 12)"


def test_the_table_says_the_mode_and_the_ensemble():
    done = run("mlp:depth=1,inputs=12,width=10,norm=batch", "--data", DATA, "--inits", "4")
    assert "4 initializations by Blueprint (seed 0) on 30 samples, train mode\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "measured on 4 initializations × 30 data points" in done.stdout


def test_long_names_lose_their_middle_and_numbers_do_not(place):
    (place / "deep.py").write_text(
        "from torch import nn\n"
        "def make():\n"
        "    net = nn.Sequential(nn.Linear(12, 5), nn.LayerNorm(5), nn.Linear(5, 2))\n"
        "    for level in range(12):\n"
        "        net = nn.ModuleDict({f'level{level}': net}) if level < 11 else net\n"
        "    class Outer(nn.Module):\n"
        "        def __init__(self):\n"
        "            super().__init__()\n"
        "            self.net = net\n"
        "        def forward(self, x):\n"
        "            inner = self.net\n"
        "            while isinstance(inner, nn.ModuleDict):\n"
        "                inner = next(iter(inner.values()))\n"
        "            return inner(x)\n"
        "    return Outer()\n",
        encoding="utf-8",
    )
    done = run("deep.py:make", "--data", DATA, "--inits", "4")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    rows = [line for line in lines if line.strip().startswith("net.lev")]
    assert [row.split()[0].endswith(f"level0.{index}") for index, row in enumerate(rows)] == [True] * 3
    assert all("…" in row.split()[0] and "…" not in row.split(maxsplit=1)[1] for row in rows)


def test_files_are_written(tmp_path):
    files = ["--save", str(tmp_path / "x.nc"), "--plot", str(tmp_path / "x.png")]
    done = run("mlp:depth=1,inputs=12,width=10", "--data", DATA, "--inits", "4", *files)
    assert done.exit_code == 0
    assert done.stderr == f"wrote {tmp_path / 'x.nc'}\nwrote {tmp_path / 'x.png'}\n"
    assert fl.load(tmp_path / "x.nc").provenance.settings["inits"] == 4
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_precision_stops_early():
    found = answer("mlp:depth=1,inputs=12,width=30", "--data", DATA, "--inits", "400", "--precision", "0.5")
    assert found["provenance"]["settings"]["inits"] < 400
    assert found["provenance"]["notes"][0].startswith("stopped after")


# Theory beside it


def test_compare_prints_the_comparison_and_keeps_the_profile(tmp_path):
    line = "mlp:depth=2,width=300,inputs=100,norm=layer"
    files = ["--save", str(tmp_path / "x.nc"), "--plot", str(tmp_path / "x.png")]
    found = answer(line, "--inits", "40", "--compare", *files)
    assert found["schema"] == "firstlight/comparison"
    profile = fl.load(tmp_path / "x.nc")
    expected = fl.compare(fl.predict(fl.Blueprint.parse(line)), profile)
    assert found["variables"]["gamma_z"]["values"] == expected.z("gamma").values.tolist()
    assert found["guesses"]["distance"] == expected.distance
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_on_given_data_theory_speaks_of_these_very_points(place):
    """The first layer is exact whatever the data are: only the weights are random, and it is Gaussian."""
    found = answer("nets.py:described", "--data", DATA, "--inits", "60", "--samples", "20", "--compare")
    assert found["provenance"]["settings"]["reference"]["settings"].get("theory") != "population"
    assert found["provenance"]["settings"]["measured"]["settings"]["samples"] == 20
    assert abs(found["variables"]["gamma_z"]["values"][0]) < 4


def test_where_theory_has_no_rule_it_says_so(place):
    (place / "odd.py").write_text(
        "from torch import nn\nclass Odd(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.first, self.cell, self.last = nn.Linear(12, 6), nn.GRUCell(6, 6), nn.Linear(6, 2)\n"
        "    def forward(self, x):\n"
        "        return self.last(self.cell(self.first(x)))\n",
        encoding="utf-8",
    )
    done = run("odd.py:Odd", "--data", DATA, "--inits", "4", "--compare")
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("theory: <Coverage: ")
    assert "GRUCell" in done.stderr
    [row] = [line for line in done.stdout.splitlines() if line.strip().startswith("last ")]
    assert row.split()[1] == row.split()[-1] == "–"
    assert "nan" not in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mode", "eval"], "theory speaks of batch norm in train mode, got --mode eval"),
        (["--batch-size", "10"], "theory on given data needs all points in one batch; type --batch-size 30"),
    ],
)
def test_what_theory_cannot_say(options, message):
    line = "mlp:depth=1,inputs=12,width=10,norm=batch"
    done = run(line, "--data", DATA, "--inits", "3", "--compare", *options)
    assert (done.exit_code, done.stdout) == (3, "")
    assert message in done.stderr


def test_too_many_points_for_theory():
    done = run(
        "mlp:depth=1,inputs=3,width=4",
        "--data",
        "noise:samples=4001,dimensions=3",
        "--inits",
        "2",
        "--compare",
    )
    assert done.exit_code == 3
    assert "at most 4,000, got 4,001; type --samples 1000" in done.stderr


# Hugging Face


@pytest.fixture
def small_config(tmp_path) -> Path:
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(
        num_channels=1, embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=5
    )
    config.save_pretrained(tmp_path / "resnet")
    return tmp_path / "resnet"


@pytest.mark.parametrize("file", ["", "config.json"])
def test_a_hugging_face_configuration_by_its_place(small_config, place, file):
    (place / "pictures.py").write_text(
        "import torch\npictures = torch.zeros(6, 1, 32, 32).normal_()\n", encoding="utf-8"
    )
    found = answer(
        f"hf:{small_config / file}", "--data", "pictures.py:pictures", "--inits", "2", "--layers", "output"
    )
    assert "ResNetForImageClassification" in found["provenance"]["model"]
    assert found["guesses"]["labels"] == 5


def test_a_hugging_face_configuration_by_its_class():
    pytest.importorskip("transformers")
    from firstlight.cli.hugging_face import factory_of_config

    factory = factory_of_config("ResNetConfig")
    assert factory.__qualname__ == "hf:ResNetConfig"
    assert type(factory()).__name__ == "ResNetForImageClassification"
    assert "LMHead" in type(factory_of_config("GPT2Config")()).__name__


@pytest.mark.parametrize(
    ("model", "code", "message"),
    [
        ("hf:", 2, "expected hf:DIR, hf:config.json or hf:ResNetConfig, got no path"),
        ("hf:ResNetConfg", 2, "did you mean ResNetConfig"),
        ("hf:PretrainedConfig", 2, "expected a folder with config.json"),
        ("hf:somebody/some-net", 2, "nothing is downloaded; fetch its config.json and type hf:DIR"),
        ("hf:package", 2, "the folder has no config.json"),
        ("hf:nets.py", 3, "the configuration cannot be read"),
        ("hf:TimesformerConfig", 3, "has a head neither for image classification nor for language"),
    ],
)
def test_hugging_face_mistakes(place, model, code, message):
    pytest.importorskip("transformers")
    done = run(model, "--data", DATA)
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    assert message in done.stderr
    assert "Traceback" not in done.stderr


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nets"], 2, "model: expected package.module:factory, path/to/file.py:factory, mlp:"),
        (["netz:make"], 2, "there is no module 'netz'"),
        (["package.netz:make"], 2, "there is no module 'package.netz'"),
        (["gone.py:make"], 2, "there is no file 'gone.py'"),
        (["nets.py"], 2, "expected nets.py:NAME, got no name behind the file; it offers make, Net, Failing"),
        (["nets.py:mak"], 2, "'mak' is not there: expected one of 'make', 'Net'"),
        (["nets.py:mak"], 2, "did you mean 'make'?"),
        (["nets.py:Holder.mak"], 2, "did you mean 'make'?"),
        (
            ["nets.py:wide"],
            2,
            "the factory requires width, depth; write `def make_model(): return wide(width=…, depth=…)`",
        ),
        (["nets.py:wide"], 2, "and type nets.py:make_model"),
        (
            ["nets.py:number"],
            2,
            "expected an nn.Module, or a function without arguments that returns one, got an object",
        ),
        (["nets.py:Holder"], 2, "got the class Holder"),
        (["nets.py:no_model"], 3, "the factory returned a int; expected an nn.Module"),
        (["nets.py:broken"], 3, f"the model's own code failed at nets.py:{BROKEN}: KeyError: 'here'"),
        (["nets.py:Failing"], 3, "AttributeError: 'Failing' object has no attribute 'nothing'"),
        (
            ["wrong.py:make"],
            3,
            "importing wrong.py failed at wrong.py:2: ModuleNotFoundError: No module named 'nothing_such'",
        ),
        (["syntax.py:make"], 3, "importing syntax.py failed: SyntaxError"),
        (["leaving.py:make"], 3, "importing leaving.py failed at leaving.py:1: SystemExit: 4"),
        (["mlp:deep=2"], 2, "did you mean 'depth'?"),
        (["mpl:depth=2"], 2, "did you mean 'mlp'?"),
        (["mlp"], 2, "expected a depth"),
        (
            ["mlp:depth=1,inputs=5"],
            2,
            "inputs=5, but the samples of 'noise:samples=30,dimensions=12' have 12 coordinates",
        ),
        (["nets.py:make", "--inits", "0"], 2, "measure(inits): expected a whole number of at least 1, got 0"),
        (["nets.py:make", "--mode", "test"], 2, "measure(mode): expected one of 'train', 'eval', got 'test'"),
        (["nets.py:make", "--layers", "*.bn*"], 2, "the pattern '*.bn*' matches no layer that ran"),
        (["nets.py:make", "--quantities", "gama"], 2, "did you mean 'gamma'"),
        (["nets.py:make", "--redraw", "he"], 2, "measure(redraw): expected one of 'keep', 'kaiming_normal'"),
        (["nets.py:make", "--precision", "2"], 2, "measure(precision): expected a fraction between 0 and 1"),
        (["nets.py:make", "--save", "x.json"], 2, "ends in .nc"),
        (["nets.py:make", "--batch-size", "29"], 3, "leave a last batch of 1 sample"),
    ],
)
def test_mistakes_get_one_sentence(place, arguments, code, message):
    (place / "wrong.py").write_text("import os\nimport nothing_such\n", encoding="utf-8")
    (place / "syntax.py").write_text("def make(:\n", encoding="utf-8")
    (place / "leaving.py").write_text("raise SystemExit(4)\n", encoding="utf-8")
    done = run(*arguments, "--data", DATA)
    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        (None, 2, "--data: expected the name of a data set, got none; type --data cifar10"),
        ("nois", 2, "did you mean 'noise'"),
        ("noise:dimension=3", 2, "did you mean 'dimensions'"),
        ("cifar10:root=nowhere", 3, "export FIRSTLIGHT_DATA=THAT_FOLDER"),
        ("gone.py:points", 2, "--data: there is no file 'gone.py'"),
        ("nets.py:broken", 3, f"the data's own code failed at nets.py:{BROKEN}: KeyError"),
        ("nets.py:number", 3, "measure(data): cannot read a int"),
        ("noise:samples=30,dimensions=11", 3, "failed on a batch of shape (2, 11)"),
        ("noise:samples=30,dimensions=11", 3, "the samples have the shape (11,)"),
    ],
)
def test_data_mistakes(place, data, code, message):
    done = run("nets.py:make", *([] if data is None else ["--data", data]))
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    assert message in done.stderr


def test_pictures_for_a_flat_model(place):
    (place / "pictures.py").write_text(
        "import torch\nfrom firstlight.data import Samples\n"
        "def pictures():\n"
        "    return Samples.from_tensors(torch.rand(9, 1, 4, 4), torch.zeros(9, dtype=torch.int64), "
        "label_names=['a'], name='pictures', title='pictures')\n",
        encoding="utf-8",
    )
    done = run("nets.py:Net", "--data", "pictures.py:pictures")
    assert done.exit_code == 3
    assert (
        "the samples have the shape (1, 4, 4); for a model of flat inputs, add flatten=true to --data"
        in done.stderr
    )


def test_a_mistake_of_ours_shows_its_traceback(monkeypatch, place):
    import firstlight.measurement.measuring as measuring

    monkeypatch.setattr(measuring, "settle", lambda *given, **named: 1 / 0)
    assert isinstance(run("nets.py:make", "--data", DATA).exception, ZeroDivisionError)


# Ctrl-C

INTERRUPTED = """
import os, signal
from torch import nn
calls = 0
def make():
    global calls
    calls += 1
    if calls == {call}:
        os.kill(os.getpid(), signal.SIGINT)
    return nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 2))
"""


def interrupted_at(place: Path, call: int, *arguments: str) -> subprocess.CompletedProcess:
    """A process that gets Ctrl-C while it builds a model."""
    (place / "slow.py").write_text(INTERRUPTED.format(call=call), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "firstlight",
        "measure",
        "slow.py:make",
        "--data",
        DATA,
        "--inits",
        "5000",
    ]
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_ctrl_c_keeps_what_is_complete(place):
    done = interrupted_at(place, 1500, "--json", "--save", "part.nc")
    assert done.returncode == 130, done.stderr
    found = json.loads(done.stdout)
    complete = found["provenance"]["settings"]["inits"]
    assert 0 < complete < 1500
    assert f"interrupted: {complete} of 5000 initializations are complete" in found["provenance"]["notes"]
    assert len(found["variables"]["gamma_init"]["values"]) == complete
    assert done.stderr == "wrote part.nc\n"
    assert fl.load(place / "part.nc").provenance.notes == tuple(found["provenance"]["notes"])


def test_ctrl_c_before_anything_is_complete(place):
    done = interrupted_at(place, 1)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_no_bar_where_stderr_is_no_terminal(place):
    done = subprocess.run(
        [sys.executable, "-m", "firstlight", "measure", "nets.py:Net", "--data", DATA, "--inits", "50"],
        capture_output=True,
        text=True,
        cwd=place,
    )
    assert (done.returncode, done.stderr) == (0, "")
