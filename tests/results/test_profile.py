from __future__ import annotations

import json
import math

import numpy as np
import pytest

from firstlight.errors import CouldNotError, UsageError
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import variable
from firstlight.results.profile import Profile
from firstlight.results.provenance import Coverage, CoverageEntry, Provenance
from firstlight.results.quantities import QUANTITIES

ORIGIN = Provenance("theory", "net", "data")


def profile(**quantities: object) -> Profile:
    return Profile.from_layers(["a", "b"], {"gamma": [0.5, 2.0], **quantities}, provenance=ORIGIN)


def test_every_quantity_is_an_attribute_or_an_item() -> None:
    found = profile(**{name: [1.0, 2.0] for name in QUANTITIES if name != "gamma"})
    for name in QUANTITIES:
        assert found.quantity(name).dims == ("layer",)
        assert found[name].layer.values.tolist() == ["a", "b"]
        if hasattr(Profile, name):
            assert (getattr(found, name) == found[name]).all()


def test_logarithms_bring_the_linear_form() -> None:
    found = profile(log_mean_square=[-2000.0, 2000.0], log_sensitivity=[0.0, 1.0], sensitivity=[1.0, math.e])
    assert found.mean_square.values.tolist() == [0, math.inf]
    assert found.sensitivity.values.tolist() == [1.0, math.e]


def test_interval_over_initializations() -> None:
    bounds = profile(gamma_stderr=[0.1, 0.2]).interval("gamma")
    assert bounds.dims == ("bound", "layer")
    assert bounds.sel(bound="low").values == pytest.approx([0.5 - 0.195996, 2 - 0.391993], abs=1e-5)
    assert bounds.sel(bound="high").values == pytest.approx([0.5 + 0.195996, 2 + 0.391993], abs=1e-5)
    exact = profile().interval("gamma", level=0.5)
    assert (exact.sel(bound="low") == exact.sel(bound="high")).all()


def test_tables_and_plain_containers() -> None:
    found = Profile.from_layers(
        ["a", "b"],
        {"gamma": [0.5, 2.0], "gamma_init": np.ones((3, 2))},
        provenance=ORIGIN,
        guesses=Guesses.from_law(GuessLaw(2.0)),
        kinds=["dense", "dense"],
    )
    table = found.to_dataframe()
    assert table.index.tolist() == ["a", "b"]
    assert "gamma" in table
    assert "gamma_init" not in table
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["variables"]["gamma"] == {"dims": ["layer"], "values": [0.5, 2.0]}
    assert plain["guesses"]["law"]["gamma"] == 2.0
    assert plain["provenance"]["model"] == "net"


def test_what_was_not_computed_says_so() -> None:
    found = profile()
    with pytest.raises(
        CouldNotError, match=r"profile\.kurtosis: not computed by this theory; computed: gamma"
    ):
        _ = found.kurtosis
    with pytest.raises(CouldNotError, match="keep_covariance=True"):
        _ = found.covariance
    with pytest.raises(UsageError, match=r"'gamm'.*'gamma'"):
        _ = found["gamm"]
    with pytest.raises(UsageError, match=r"'colour' is no quantity.*known: gamma"):
        profile(colour=[1.0, 2.0])
    with pytest.raises(UsageError, match=r"level.*between 0 and 1"):
        found.interval("gamma", level=1.0)
    with pytest.raises(UsageError, match=r"expected 2 dimensions, got shape \(2,\)"):
        variable(("init", "layer"), [1.0, 2.0])


def test_frozen_outside() -> None:
    mine = np.array([0.5, 2.0])
    found = Profile.from_layers(["a", "b"], {"gamma": mine}, provenance=ORIGIN)
    mine[0] = 9
    assert found.gamma.values[0] == 0.5
    with pytest.raises(AttributeError):
        found.guesses = None
    with pytest.raises(TypeError):
        found.variables["gamma"] = None


def test_provenance_and_coverage_round_trip() -> None:
    origin = Provenance("measurement", "m", "d", seed=1, mode="eval", settings={"a": 1}, notes=("n",))
    assert Provenance.from_dict(json.loads(json.dumps(origin.to_dict()))) == origin
    assert {"python", "numpy", "firstlight"} <= set(origin.versions)
    coverage = Coverage(
        (CoverageEntry("a", "Linear", "measured"), CoverageEntry("b", "LSTM", "unseen", "never ran"))
    )
    assert Coverage.from_dict(coverage.to_dict()) == coverage
    assert not coverage.complete
    assert [entry.layer for entry in coverage.missing] == ["b"]
