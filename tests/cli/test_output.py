"""Strict JSON, and files that are refused before anything is computed."""

from __future__ import annotations

import json
import math
import os

import click
import hypothesis.strategies as st
import pytest
from click.testing import CliRunner
from hypothesis import given

from firstlight.cli.output import FIGURE, WritablePath, json_text


def refuse(token: str):
    raise AssertionError(f"{token} is no JSON")


@given(st.recursive(st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_is_strict_and_loses_nothing(value):
    text = json_text("profile", {"value": value})
    again = json.loads(text, parse_constant=refuse)
    assert again["schema"] == "firstlight/profile"
    assert again["schema_version"] == 1
    assert restored(again["value"]) == comparable(value)


def restored(value):
    if isinstance(value, dict):
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(value, value)


def comparable(value):
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


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
