"""The repository speaks of the project alone, in files that end as text files do, with one version number."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import firstlight

ROOT = Path(__file__).parents[2]
BINARY = {".png", ".pdf", ".npz", ".nc", ".gz", ".bin"}

# Written in pieces, so that this file does not find itself.
FOREIGN = {
    "an absolute home path": r"/(home|Users|root)" + r"/\w",
    "a path of a work machine": r"(?<![\w.])/wor" + r"k/\w",
    "a package index": r"index-" + r'url|"resolved": *"http|pypi\.' + r"org|registry\.npm" + r"js",
}


def tracked_files() -> list[Path]:
    """What git tracks and has not deleted; in a source archive, without git, there is nothing to ask."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def text_files() -> list[Path]:
    return [path for path in tracked_files() if path.suffix not in BINARY]


def foreign_lines(path: Path) -> list[str]:
    """Lines that name something which does not belong in the repository."""
    return [
        f"{path.name}:{number}: {what}: {line.strip()}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for what, pattern in FOREIGN.items()
        if re.search(pattern, line)
    ]


def test_no_file_names_a_machine_or_a_package_index():
    assert [line for path in text_files() for line in foreign_lines(path)] == []


@pytest.mark.parametrize("line", ["see /home" + "/me/x", "cd /wor" + "k/main", "--index-" + "url=x"])
def test_the_check_can_fail(tmp_path, line):
    (tmp_path / "note.md").write_text(f"fine\n{line}\n")
    [found] = foreign_lines(tmp_path / "note.md")
    assert found.startswith("note.md:2: ")


def test_every_text_file_ends_with_one_newline():
    texts = {path: path.read_bytes() for path in text_files()}
    assert [path.name for path, text in texts.items() if text and not text.endswith(b"\n")] == []
    assert [path.name for path, text in texts.items() if text.endswith(b"\n\n")] == []
    assert [path.name for path, text in texts.items() if b"\r\n" in text] == []


def test_no_pickle():
    """Results are data: nothing reads or writes code. CIFAR is published as pickles; one file opens those."""
    pattern = re.compile(
        r"^\s*(import|from)\s+(pickle|dill|cloudpickle|joblib)\b|allow_pickle=True", re.MULTILINE
    )
    source = ROOT / "src" / "firstlight"
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert found <= {"data/unpickling.py"}


def test_no_module_is_named_after_nothing():
    names = {path.stem for path in (ROOT / "src").rglob("*.py")}
    assert names & {"utils", "util", "misc", "common", "other", "helpers"} == set()


def test_one_version_number():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == firstlight.__version__


def test_minimum_constraints_are_the_lower_bounds():
    """constraints-minimum.txt pins exactly the core and test dependencies, torch excepted, at their lower bounds."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = dict(
        re.fullmatch(r"([\w-]+)>=([\d.]+)", text).groups()
        for text in project["dependencies"] + project["optional-dependencies"]["test"]
    )
    del bounds["torch"]
    lines = (ROOT / "constraints-minimum.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert pins.keys() == bounds.keys()
    for name, version in pins.items():
        assert f"{version}.".startswith(f"{bounds[name]}."), name
