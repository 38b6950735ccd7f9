"""Change: what it says of a difference, how it prints, and that files give it back."""

from __future__ import annotations

import math

import numpy as np
import pytest

import firstlight as fl
from firstlight.errors import UsageError
from firstlight.results.change import Change, Difference, Edit, Left, Refusal
from firstlight.results.guesses import Guesses
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance


def profile(centers, variances):
    """A measurement of one layer with these values of single initializations."""
    centers, variances = np.array(centers, dtype=float)[:, None], np.array(variances, dtype=float)[:, None]
    quantities = {
        "gamma": centers.sum(0) / variances.sum(0),
        "center_variance": centers.mean(0),
        "data_variance": variances.mean(0),
        "gamma_init": centers / variances,
        "center_variance_init": centers,
        "data_variance_init": variances,
    }
    provenance = Provenance(
        "measurement", "net", "points", seed=0, mode="train", settings={"inits": len(centers)}
    )
    counts = np.stack([np.arange(len(centers)) + 50, 50 - np.arange(len(centers))], axis=1)
    return Profile.from_layers(
        ["output"], quantities, provenance=provenance, guesses=Guesses.from_counts(counts)
    )


def change(before=None, after=None):
    return Change(
        {}, {}, Provenance("repair", "net", "points", seed=0, mode="train", settings={"inits": 4}),
        remedies=("norm_after_activation",),
        edits=(Edit("a.norm", "moved LayerNorm", "before a.act", "behind a.act", "norm_after_activation"),),
        left=(Left("norm", "no activation follows it", "norm_after_activation"),),
        refused=(Refusal("seed_choice", "there is nothing for it to change"),),
        notes=("a sentence",), before=before, after=after,
    )  # fmt: skip


MEASURED = change(profile([4, 5, 5, 6], [1, 1, 1, 2]), profile([1, 1, 2, 0], [1, 2, 1, 1]))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-2, -1, "helped"),
        (1, 2, "worse"),
        (-1, 1, "no difference"),
        (0, 0, "no difference"),
        (math.nan, 1, "unknown"),
    ],
)
def test_the_interval_decides(low, high, verdict):
    assert Difference("gamma", 1, 0, 1, 0, 0, 0, low, high).verdict == verdict


def test_a_difference_and_its_verdict():
    difference = MEASURED.difference()
    assert (difference.before, difference.after) == (4.0, 0.8)
    assert difference.value == pytest.approx(-3.2)
    assert MEASURED.verdict == "helped"
    narrower = MEASURED.difference(level=0.5)
    assert difference.low < narrower.low < narrower.value < narrower.high < difference.high
    assert MEASURED.difference("greatest fraction").verdict == "no difference"
    assert change(profile([1], [1]), profile([1], [1])).verdict == "unknown"
    with pytest.raises(UsageError, match="expected a number between 0 and 1"):
        MEASURED.difference(level=2)
    with pytest.raises(
        UsageError, match="expected one of 'gamma', 'center_variance', 'data_variance', 'greatest fraction'"
    ):
        MEASURED.difference("gama")


@pytest.mark.parametrize("case", [MEASURED, change()], ids=["measured", "dry run"])
def test_files_give_it_back(case, tmp_path):
    loaded = fl.load(case.save(tmp_path / "change.nc"))
    assert repr(loaded) == repr(case)
    for name in ("remedies", "edits", "left", "refused", "notes", "provenance"):
        assert getattr(loaded, name) == getattr(case, name)
    if case.before is not None:
        assert loaded.difference() == case.difference()
        assert loaded.before.guesses.labels == 2


def test_it_prints_everything():
    text = repr(MEASURED)
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "γ of the output",
        ": helped",
        "a.norm",
        "behind a.act",
        "no activation follows it",
        "seed_choice",
        "a sentence",
    ):
        assert part in text
        assert part in MEASURED._repr_html_()
    many = change(MEASURED.before, MEASURED.after)
    object.__setattr__(many, "edits", many.edits * 40)
    assert "… 28 more" in repr(many)


def test_plain_containers():
    plain = MEASURED.to_dict()
    assert plain["verdict"] == "helped"
    assert plain["difference"]["value"] == pytest.approx(-3.2)
    assert plain["edits"][0]["address"] == "a.norm"
    assert plain["before"]["kind"] == "profile"
    assert list(MEASURED.to_dataframe().columns) == ["remedy", "address", "what", "before", "after", "now"]
    assert len(MEASURED.to_dataframe()) == 1
