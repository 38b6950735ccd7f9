"""Errors become exit codes and one sentence; nothing a user does shows a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

import firstlight
from firstlight.cli.main import program
from firstlight.errors import CouldNotError, DataError, ModelError, UsageError


def run(*arguments: str):
    return CliRunner().invoke(program, list(arguments), prog_name="firstlight")


def test_version():
    done = run("--version")
    assert done.exit_code == 0
    assert done.stdout == f"firstlight, version {firstlight.__version__}\n"


def test_help_lists_the_verbs():
    done = run("--help")
    assert done.exit_code == 0
    for verb in ("predict", "measure", "compare", "phases", "show"):
        assert f"\n  {verb} " in done.stdout


@pytest.mark.parametrize("verb", ["predict", "measure", "compare", "phases", "show"])
def test_every_verb_has_help(verb):
    done = run(verb, "--help")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"Usage: firstlight {verb} ")


def test_an_unknown_verb_is_named_with_its_neighbours():
    done = run("prdict")
    assert done.exit_code == 2
    verbs = ", ".join(repr(verb) for verb in program.list_commands(None))
    assert f"command: expected one of {verbs}, got 'prdict'; did you mean 'predict'" in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UsageError("depth: expected at least 1, got 0"), 2, "Error: depth: expected at least 1, got 0\n"),
        (CouldNotError("no rule"), 3, "Error: no rule\n"),
        (DataError("broken"), 3, "Error: broken\n"),
        (ModelError("cannot be read"), 3, "Error: cannot be read\n"),
        (PermissionError(13, "Permission denied", "x.nc"), 3, "Error: x.nc: Permission denied\n"),
        (OSError("disk gone"), 3, "Error: disk gone\n"),
        (MemoryError(), 3, "Error: out of memory: ask for less at once\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_exit_codes(monkeypatch, error, code, message):
    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr(type(program), "get_command", lambda self, ctx, name: failing)
    done = run("predict")
    assert (done.exit_code, done.stderr, done.stdout) == (code, message, "")


def test_a_mistake_of_ours_shows_its_traceback(monkeypatch):
    @click.command()
    def failing() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(program), "get_command", lambda self, ctx, name: failing)
    assert isinstance(run("predict").exception, ZeroDivisionError)


def test_a_reader_that_goes_away_is_no_error():
    """A pipe closed by its reader: no traceback, no complaint at exit."""
    command = subprocess.Popen(
        [sys.executable, "-m", "firstlight", "predict", "mlp:depth=2000", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    command.stdout.close()
    with command.stderr:
        complaint = command.stderr.read()
    assert command.wait() == 141
    assert complaint == b""


INTERRUPTIBLE = """
import time, click
from firstlight.cli import main
@click.command()
def waiting():
    print("ready", flush=True)
    time.sleep(60)
type(main.program).get_command = lambda self, ctx, name: waiting
main.program(["predict"])
"""


def test_ctrl_c_ends_quietly():
    command = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stdout.readline() == "ready\n"
    began = time.monotonic()
    command.send_signal(signal.SIGINT)
    output, complaint = command.communicate(timeout=30)
    assert command.returncode == 130
    assert (output, complaint) == ("", "")
    assert time.monotonic() - began < 30


def test_a_poor_locale_gets_question_marks():
    done = subprocess.run(
        [sys.executable, "-m", "firstlight", "predict", "mlp:depth=1"],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        check=True,
    )
    assert b"?" in done.stdout
    assert done.stderr == b""
