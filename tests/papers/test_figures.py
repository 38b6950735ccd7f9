"""Every figure at its smallest: it computes, draws and speaks, from one seed and with no gaps."""

from __future__ import annotations

import json

import pytest

import firstlight as fl
from firstlight.papers.catalogue import CATALOGUE, figure_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all, so that figures share the pieces that they have in common."""
    return tmp_path_factory.mktemp("papers")


@pytest.mark.real_data
@pytest.mark.parametrize("key", CATALOGUE)
def test_it_runs_from_end_to_end(key, folder, real_data):
    roots = {real_data(name) for name in ("cifar10", "mnist", "tiny-imagenet", "isbi2012")}
    assert len(roots) == 1, (
        "the data sets lie in several folders; prepare them in one and name it FIRSTLIGHT_DATA"
    )
    made = fl.reproduce(key, scale="smoke", out=folder, data_root=roots.pop(), progress=False)
    assert made.key == key
    assert len(made.statements) > 0
    assert all(item.says and item.relation in "=<>" for item in made.statements)
    assert any(axes.has_data() for axes in figure_of(key).draw(made.results).axes)
    told = json.loads((made.folder / "reproduction.json").read_text(encoding="utf-8"))
    assert len(told["statements"]) == len(made.statements)
    assert (made.folder / "figure.png").stat().st_size > 5000
