"""``repair``: measured before and after over the same initializations; suggestions, factories, in place, dry runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight import models
from firstlight.errors import CouldNotError, ModelError, UsageError
from firstlight.remedies.suggesting import suggested

DATA = torch.randn(200, 30, generator=torch.Generator().manual_seed(0))


def make():
    return models.mlp(30, depth=5, width=40, classes=2, norm="layer")


def written():
    return models.mlp(30, depth=5, width=40, classes=2, norm="layer", placement="after")


@pytest.fixture(scope="module")
def moved():
    return fl.repair(make, DATA, ["norm_after_activation"], inits=32, seed=3, progress=False)


def test_both_profiles_are_what_measuring_gives(moved):
    _, change = moved
    before, after = (
        fl.measure(factory, DATA, inits=32, seed=3, progress=False) for factory in (make, written)
    )
    np.testing.assert_array_equal(change.before.gamma, before.gamma)
    np.testing.assert_allclose(
        change.after.gamma.sel(layer="output"), after.gamma.sel(layer="output"), rtol=1e-6
    )
    np.testing.assert_array_equal(change.after.guesses.fractions, after.guesses.fractions)


def test_a_factory_gives_a_factory(moved):
    factory, _ = moved
    torch.manual_seed(0)
    mine = factory()
    torch.manual_seed(0)
    reference = written()
    assert list(mine.state_dict()) == list(reference.state_dict())
    for key, value in reference.state_dict().items():
        assert torch.equal(mine.state_dict()[key], value)
    assert factory.__name__ == "make with norm_after_activation"


def test_a_module_and_its_factory_agree():
    _, of_module = fl.repair(make(), DATA, ["norm_after_activation"], inits=8, progress=False)
    _, of_factory = fl.repair(make, DATA, ["norm_after_activation"], inits=8, progress=False)
    np.testing.assert_array_equal(of_module.after.guesses.fractions, of_factory.after.guesses.fractions)
    assert of_module.edits == of_factory.edits


def test_a_factory_with_a_seed_keeps_it():
    def seeded(seed):
        torch.manual_seed(seed)
        return make()

    factory, change = fl.repair(seeded, DATA, ["norm_after_activation"], inits=4, progress=False)
    reference = fl.measure(seeded, DATA, inits=4, progress=False)
    np.testing.assert_array_equal(change.before.gamma, reference.gamma)
    one, other = factory(seed=5), factory(seed=5)
    assert all(torch.equal(value, other.state_dict()[key]) for key, value in one.state_dict().items())


def test_a_blueprint_gives_a_factory():
    blueprint = fl.Blueprint.mlp(inputs=30, depth=2, width=20, classes=2, norm="layer", placement="before")
    factory, change = fl.repair(blueprint, DATA, ["norm_after_activation"], inits=4, progress=False)
    assert change.provenance.model == str(blueprint)
    assert isinstance(factory(seed=0), nn.Module)


def test_a_model_that_becomes_a_graph_keeps_its_law():
    class Own(nn.Module):
        """Draws its weights by a law of its own, which a graph does not have."""

        def __init__(self):
            super().__init__()
            self.fc, self.norm, self.out = nn.Linear(30, 20), nn.LayerNorm(20), nn.Linear(20, 2)

        def reset_parameters(self):
            nn.init.constant_(self.out.bias, 3.0)

        def forward(self, x):
            return self.out(torch.relu(self.norm(self.fc(x))))

    repaired, change = fl.repair(Own(), DATA, ["norm_after_activation"], inits=4, progress=False)
    assert type(repaired).__name__ == "Own"
    for profile in (change.before, change.after):
        assert profile.center_variance.sel(layer="out") > 4  # the bias of 3 is there in both


def test_the_difference_counts_what_both_share(moved):
    _, change = moved
    centers, variances = (
        change.before.variables[f"{name}_init"].values[:, -1] for name in ("center_variance", "data_variance")
    )
    later = [
        change.after.variables[f"{name}_init"].values[:, -1] for name in ("center_variance", "data_variance")
    ]
    difference = change.difference()
    assert difference.value == pytest.approx(
        later[0].sum() / later[1].sum() - centers.sum() / variances.sum()
    )
    # The jackknife knows nothing of influence values, and agrees with them to the order of 1/N.
    count = len(centers)
    left_out = np.array([
        (later[0].sum() - later[0][i]) / (later[1].sum() - later[1][i])
        - (centers.sum() - centers[i]) / (variances.sum() - variances[i])
        for i in range(count)
    ])  # fmt: skip
    jackknife = math.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())
    assert difference.stderr == pytest.approx(jackknife, rel=4 / math.sqrt(count))
    assert difference.verdict == change.verdict == "helped"
    assert change.difference("greatest fraction").verdict == "helped"


def test_a_norm_that_does_not_centre_does_not_help():
    """RMS norm only rescales: behind a positively homogeneous activation the guesses stay what they are, one by one."""
    blueprint = fl.Blueprint.mlp(inputs=30, depth=3, width=40, norm="rms", placement="before")
    _, change = fl.repair(blueprint, DATA, ["norm_after_activation"], inits=16, progress=False)
    assert change.verdict == "no difference"
    np.testing.assert_array_equal(change.before.guesses.fractions, change.after.guesses.fractions)


def test_moving_back_is_worse(moved):
    factory, _ = moved
    _, change = fl.repair(factory, DATA, ["norm_before_activation"], inits=16, progress=False)
    assert change.verdict == "worse"


def test_suggestions_come_from_the_diagnosis():
    repaired, change = fl.repair(make(), DATA, inits=32, progress=False)
    assert change.remedies[0] == "norm_after_activation"
    assert isinstance(repaired.norm1, nn.LayerNorm)
    assert [name for name, _ in repaired.named_children()][1:4] == ["linear1", "activation1", "norm1"]
    plain = models.mlp(30, depth=5, width=40, classes=2)
    _, shifted = fl.repair(plain, DATA, inits=32, progress=False)
    assert (shifted.remedies[0], shifted.verdict) == ("activation_shift", "helped")  # it has no norm to move


def test_what_cannot_be_applied_is_no_suggestion(moved):
    profile = moved[1].before
    asked = []

    def edits_of(names):
        asked.append(names[-1])
        if names[-1] == "norm_after_activation":
            raise ModelError("not here")
        return 0

    names, refused = suggested(profile, edits_of)
    reasons = {item.remedy: item.reason for item in refused}
    assert names == []
    assert asked == list(reasons)
    assert reasons.pop("norm_after_activation") == "not here"
    assert reasons
    assert set(reasons.values()) == {"there is nothing for it to change"}


def test_a_dry_run_measures_nothing():
    model = make()
    same, change = fl.repair(model, None, ["norm_after_activation"], dry_run=True)
    assert same is model
    assert (change.before, change.after, change.verdict) == (None, None, "unknown")
    assert len(change.edits) == 5
    assert "nothing was measured" in repr(change)
    with pytest.raises(CouldNotError, match="a dry run"):
        change.difference()


def test_in_place_changes_the_module_itself():
    model = make()
    weights = {id(item) for item in model.parameters()}
    same, change = fl.repair(model, DATA, ["norm_after_activation"], inits=4, in_place=True, progress=False)
    assert same is model
    assert {id(item) for item in model.parameters()} == weights
    assert list(dict(model.named_children()))[1:4] == ["linear1", "activation1", "norm1"]
    with pytest.raises(UsageError, match="expected a module to change, got a factory"):
        fl.repair(make, DATA, ["norm_after_activation"], in_place=True)
    assert len(change.edits) == 5


def test_data_that_can_be_read_once_is_read_twice():
    batches = (DATA[start : start + 50] for start in range(0, 200, 50))
    _, change = fl.repair(make(), batches, ["norm_after_activation"], inits=2, progress=False)
    assert change.before.guesses.samples == change.after.guesses.samples == 200


def test_options_go_to_the_remedy_that_has_them():
    names = ["norm_after_activation", "convert_norm"]
    repaired, change = fl.repair(make(), DATA, names, inits=2, to="rms", layers=["norm1"], progress=False)
    assert isinstance(repaired.norm1, nn.RMSNorm)
    assert [(edit.remedy, edit.address) for edit in change.edits] == [(name, "norm1") for name in names]
    with pytest.raises(
        UsageError, match=r"repair\(depth\): no option of norm_after_activation; they take example, layers"
    ):
        fl.repair(make(), DATA, names[:1], depth=3)
    with pytest.raises(UsageError, match=r"expected one or more of norm_after_activation"):
        fl.repair(make(), DATA, [])
    with pytest.raises(
        ModelError, match=r"expected an nn\.Module, a factory that returns one, or a Blueprint, got int"
    ):
        fl.repair(3, DATA, names)
