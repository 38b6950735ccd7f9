"""``firstlight show``: an archive prints as the verb that made it would have, and a broken one says why it cannot."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from firstlight.cli.main import program


def run(*arguments: str):
    return CliRunner().invoke(program, list(arguments), prog_name="firstlight")


@pytest.mark.parametrize(
    "verb",
    [["predict", "mlp:depth=3,norm=batch"], ["phases", "--weight-variance", "1:3:3"]],
    ids=["predict", "phases"],
)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["table", "json"])
def test_it_prints_what_the_verb_printed(tmp_path, verb, options):
    archive = str(tmp_path / "result.nc")
    printed = run(*verb, "--save", archive, *options)
    shown = run("show", archive, *options)
    assert printed.exit_code == shown.exit_code == 0, shown.output
    assert shown.stdout == printed.stdout


def test_a_missing_file(tmp_path):
    done = run("show", str(tmp_path / "none.nc"))
    assert done.exit_code == 2
    assert "there is no such file" in done.stderr


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x89HDF\r\n\x1a\n and then nothing"])
def test_a_broken_file(tmp_path, content):
    (tmp_path / "broken.nc").write_bytes(content)
    done = run("show", str(tmp_path / "broken.nc"))
    assert done.exit_code == 3, done.output
    assert "broken.nc" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_truncated_archive(tmp_path):
    archive = tmp_path / "p.nc"
    assert run("predict", "mlp:depth=3", "--save", str(archive)).exit_code == 0
    archive.write_bytes(archive.read_bytes()[:-2000])
    done = run("show", str(archive))
    assert done.exit_code == 3, done.output
    assert "cut short or damaged" in done.stderr
