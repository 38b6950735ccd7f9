"""``firstlight track``: the result on stdout, what goes on after an interruption, groups, figures and mistakes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import firstlight as fl
from firstlight.cli.main import program

NET = ["mlp:depth=1,width=30", "--data", "gaussian:samples=200,dimensions=20", "--rate", "1e-2"]
QUICK = [*NET, "--batch-size", "50", "--epochs", "3", "--runs", "3", "--quiet"]


def run(*arguments: str):
    return CliRunner().invoke(program, ["track", *arguments], prog_name="firstlight")


def test_a_table_for_people():
    done = run(*QUICK)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "3 runs, seed 0" in done.stdout
    assert "preferred" in done.stdout


def test_json_and_archive(tmp_path):
    done = run(
        *QUICK, "--json", "--save", str(tmp_path / "t.nc"),
        "--test", "gaussian:samples=50,dimensions=20,train=false", "--every", "4",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["schema"] == "firstlight/trajectory"
    assert answer["coordinates"]["step"]["values"] == [0, 4, 8, 12]
    assert answer["coordinates"]["split"]["values"] == ["train", "test"]
    saved = fl.load(tmp_path / "t.nc")
    assert saved["loss"].values.tolist() == answer["variables"]["loss"]["values"]
    assert [item.name for item in tmp_path.iterdir()] == ["t.nc"]


def test_groups_are_filtered_and_drawn(tmp_path):
    done = run(
        *QUICK[:-1], "--groups", "neutral,prejudiced", "--prejudiced-above", "0.6", "--runs", "2",
        "--plot", str(tmp_path / "t.svg"), "--save", str(tmp_path / "t.nc"),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Filtered: " in done.stderr
    saved = fl.load(tmp_path / "t.nc")
    assert saved.neutral(0.1).runs == saved.prejudiced(0.6).runs == 2
    assert (tmp_path / "t.svg").stat().st_size > 5000
    assert done.stdout.index("neutral:") < done.stdout.index("prejudiced:")


def test_no_such_start_is_told():
    done = run(
        "mlp:depth=1,width=50,norm=layer,placement=after", *NET[1:], "--groups", "prejudiced",
        "--redraws", "5", "--quiet",
    )  # fmt: skip
    assert done.exit_code == 3
    assert "--groups prejudiced: none of the 5 initializations drawn is one" in done.stderr


def test_a_killed_command_goes_on(tmp_path):
    command = [sys.executable, "-m", "firstlight", "track", *QUICK]
    command[command.index("--epochs") + 1] = "3000"
    archive, folder = tmp_path / "t.nc", tmp_path / "snapshots"
    code = f"""
import sys
from firstlight.training import running
running._BETWEEN = 0.1
from firstlight.cli.main import main
sys.argv = {["firstlight", *command[3:], "--save", str(archive), "--resume", str(folder)]!r}
main()
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    while process.poll() is None and not list(folder.glob("train/*.pt")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it was killed"
    assert not archive.exists()
    done = run(*command[4:], "--save", str(archive), "--resume", str(folder), "--steps", "3000")
    assert done.exit_code == 3
    assert "was left by a training with another recipe" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--groups", "biased"], 2, "--groups: expected one of 'all', 'neutral', 'prejudiced', got 'biased'"),
        (["--optimizer", "adma"], 2, "did you mean 'adam'"),
        (["--rate", "-1"], 2, "Recipe(rate): expected a positive number"),
        (["--save", "t.txt"], 2, "ends in .nc"),
        (["--test", "gaussian:samples=50,dimensions=7"], 2, "expected samples like those of --data"),
    ],
)
def test_misuse_is_told(arguments, code, told):
    done = run(*QUICK, *arguments)
    assert done.exit_code == code, done.output
    assert told in done.stderr
    assert "Traceback" not in done.output
