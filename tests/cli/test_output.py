"""Files are refused before anything is computed."""

from __future__ import annotations

import os

import click
import pytest
from click.testing import CliRunner

from firstlight.cli.output import FIGURE, WritablePath


@click.command()
@click.option("--plot", type=WritablePath(FIGURE))
def write(plot):
    click.echo(str(plot))


@pytest.mark.parametrize("name", ["figure", "figure.jpg", "figure.nc"])
def test_an_unknown_suffix_is_refused(tmp_path, name):
    done = CliRunner().invoke(write, ["--plot", str(tmp_path / name)])
    assert done.exit_code == 2
    assert "expected a file name that ends in .pdf or .png or .svg, got" in done.stderr


def test_a_missing_folder_is_named(tmp_path):
    done = CliRunner().invoke(write, ["--plot", str(tmp_path / "nowhere" / "x.png")])
    assert isinstance(done.exception, FileNotFoundError)
    assert str(tmp_path / "nowhere") in str(done.exception)


@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    done = CliRunner().invoke(write, ["--plot", str(tmp_path / "x.png")])
    assert isinstance(done.exception, PermissionError)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "x.png").mkdir()
    done = CliRunner().invoke(write, ["--plot", str(tmp_path / "x.png")])
    assert done.exit_code == 2
    assert "is a directory" in done.stderr
