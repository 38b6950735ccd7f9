"""What the documents show is what happens: the README's blocks run, the pages build, the examples finish."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from firstlight.cli.main import program

ROOT = Path(__file__).parents[2]


def blocks(path: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def answer_to(question: str) -> str:
    """The ``text`` block that follows the one that holds the question."""
    every = blocks(ROOT / "README.md")
    [place] = [index for index, (_, text) in enumerate(every) if question in text]
    language, text = every[place + 1]
    assert language == "text"
    return text


def test_the_readme_example_prints_what_the_readme_says(capsys):
    [code] = [text for language, text in blocks(ROOT / "README.md") if language == "python"]
    exec(compile(code, "README.md", "exec"), {})
    assert lines_of(capsys.readouterr().out) == lines_of(answer_to("import firstlight as fl"))


def test_the_readme_command_prints_what_the_readme_says():
    [command] = [text for _, text in blocks(ROOT / "README.md") if text.startswith("firstlight predict")]
    done = CliRunner().invoke(program, shlex.split(command)[1:])
    assert done.exit_code == 0
    assert lines_of(done.stdout) == lines_of(answer_to("firstlight predict"))


@pytest.mark.parametrize("page", ["index.md", "getting_started.md"])
def test_the_pages_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, text in blocks(ROOT / "docs" / page):
        if language == "python":
            exec(compile(text, page, "exec"), names)


def test_the_pages_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [
        line
        for _, text in blocks(ROOT / "docs" / "getting_started.md")
        for line in text.splitlines()
        if line.startswith("firstlight ")
    ]
    assert len(commands) == 4
    CliRunner().invoke(program, ["predict", "mlp:depth=1", "--save", "profile.nc"])
    for command in commands:
        done = CliRunner().invoke(program, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output


def test_the_pages_build_without_a_warning(tmp_path):
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    folders = ["-d", tmp_path / "trees", ROOT / "docs", tmp_path / "html"]
    done = subprocess.run([*command, *folders], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "gradient_scale" in (tmp_path / "html" / "generated" / "notation.html").read_text(encoding="utf-8")


def test_the_demo_finishes_and_writes_its_page(tmp_path):
    small = ["--inits", "3", "--samples", "50", "--depth", "2", "--width", "16"]
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py", "--out", tmp_path, *small],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4
    assert str(tmp_path / "index.html") in done.stdout
