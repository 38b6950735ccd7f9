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
from firstlight.data import load
from firstlight.errors import DataError

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
    [code] = [text for _, text in blocks(ROOT / "README.md") if "import firstlight as fl" in text]
    exec(compile(code, "README.md", "exec"), {})
    assert lines_of(capsys.readouterr().out) == lines_of(answer_to("import firstlight as fl"))


def test_the_readme_command_prints_what_the_readme_says():
    [command] = [text for _, text in blocks(ROOT / "README.md") if text.startswith("firstlight predict")]
    done = CliRunner().invoke(program, shlex.split(command)[1:])
    assert done.exit_code == 0
    assert lines_of(done.stdout) == lines_of(answer_to("firstlight predict"))


def test_the_readme_audit_and_repair_say_what_the_readme_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [model] = [text for _, text in blocks(ROOT / "README.md") if "def make_model" in text]
    Path("nets.py").write_text(model, encoding="utf-8")
    [audit, repair] = [
        text for _, text in blocks(ROOT / "README.md") if text.startswith("firstlight") and "nets.py" in text
    ]
    done = CliRunner().invoke(program, shlex.split(audit)[1:])
    assert done.exit_code == 0, done.output
    assert "\n".join(lines_of(answer_to("firstlight audit"))) in "\n".join(lines_of(done.stdout))
    done = CliRunner().invoke(program, [*shlex.split(repair)[1:], "--inits", "16"])
    assert done.exit_code == 0, done.output
    assert "helped" in done.stdout


@pytest.mark.parametrize(
    "page",
    [
        "index.md",
        "getting_started.md",
        "measuring.md",
        "training.md",
        "data.md",
        "comparing.md",
        "diagnosing.md",
        "repairing.md",
        "reproducing.md",
    ],
)
def test_the_pages_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, text in blocks(ROOT / "docs" / page):
        if language == "python":
            exec(compile(text, page, "exec"), names)


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ("getting_started.md", 4),
        ("measuring.md", 1),
        ("training.md", 2),
        ("comparing.md", 4),
        ("repairing.md", 4),
        ("reproducing.md", 3),
    ],
)
def test_the_pages_commands_run(page, count, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    every = blocks(ROOT / "docs" / page)
    commands = [line for _, text in every for line in text.splitlines() if line.startswith("firstlight ")]
    assert len(commands) == count
    code = [text for language, text in every if language == "python"]
    Path("nets.py").write_text(code[0], encoding="utf-8")
    CliRunner().invoke(program, ["predict", "mlp:depth=1", "--save", "profile.nc"])
    for command in commands:
        done = CliRunner().invoke(program, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output


def data_lines() -> list[str]:
    """The first column of the table under "One line" of the data page."""
    section = (
        (ROOT / "docs" / "data.md").read_text(encoding="utf-8").split("## One line")[1].split("\n## ")[0]
    )
    return re.findall(r"^\| `(\S+)` \|", section, re.MULTILINE)


def test_the_data_page_has_its_lines():
    assert len(data_lines()) == 9


@pytest.mark.parametrize("line", data_lines())
def test_every_line_of_the_data_page_is_understood(line, tmp_path):
    """What draws its data gives it; what lies on disk is looked for, and it is only the files that are missing."""
    if line.partition(":")[0] in ("gaussian", "noise"):
        assert len(load(line)) > 0
    else:
        with pytest.raises(DataError, match="found none of them"):
            load(line, root=tmp_path)


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
    assert page.count("<svg") == 2 * (4 + 1)  # both networks: four panels and a histogram
    assert "norm before" in done.stdout
    assert str(tmp_path / "index.html") in done.stdout
