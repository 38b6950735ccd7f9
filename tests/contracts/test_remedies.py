"""What every registered remedy promises: it copies, restores what it borrows, tells what it did, refuses by name."""

from __future__ import annotations

import copy
import inspect
import random

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight import models
from firstlight.errors import FirstlightError, ModelError
from firstlight.remedies.registry import REMEDIES, remedy_named
from firstlight.remedies.repairing import apply_, repair
from firstlight.results.change import Edit, Edits, Left

CHANGES = {"structure", "parameters", "data", "seed"}
GENERATOR = torch.Generator().manual_seed(0)
DATA = (torch.randn(64, 6, generator=GENERATOR) + 1, torch.randint(0, 3, (64,), generator=GENERATOR))


def network(placement="before"):
    return models.mlp(6, depth=3, width=8, classes=3, norm="batch", placement=placement)


def options_for(name):
    """What makes a remedy change the network above."""
    return {"convert_norm": {"to": "layer"}, "seed_choice": {"band": 0.15}}.get(name, {})


def subject(name):
    model = network("after" if name == "norm_before_activation" else "before")
    if name == "seed_choice":  # so that the first draw is not the one that is taken
        with torch.no_grad():
            model.output.bias[0] += 100
    return model


def generators():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002


def everything(model):
    """All that a user could find changed on a module."""
    tensors = {name: (id(value), value.clone()) for name, value in model.state_dict(keep_vars=True).items()}
    modules = {name: (id(item), item.training, len(item._forward_hooks), len(item._forward_pre_hooks))
               for name, item in model.named_modules()}  # fmt: skip
    gradients = {name: (value.requires_grad, value.grad) for name, value in model.named_parameters()}
    return tensors, modules, gradients


def assert_untouched(model, before):
    tensors, modules, gradients = everything(model)
    assert modules == before[1]
    assert gradients == before[2]
    assert tensors.keys() == before[0].keys()
    for name, (identity, value) in tensors.items():
        assert identity == before[0][name][0]
        assert torch.equal(value, before[0][name][1]), name


def called(name, model, **more):
    remedy = remedy_named(name)
    given = (DATA,) if remedy.needs_data else ()
    return remedy.function(model, *given, **options_for(name), **more)


@pytest.mark.parametrize("name", REMEDIES)
class TestEveryRemedy:
    def test_it_is_described(self, name):
        remedy = REMEDIES[name]
        assert remedy.name == name == remedy.function.__name__
        assert remedy.changes in CHANGES
        assert remedy.title
        assert remedy.reference
        assert remedy.answers, f"no finding names {name}"
        parameters = inspect.signature(remedy.function).parameters
        positional = [item.name for item in parameters.values() if item.kind is item.POSITIONAL_OR_KEYWORD]
        assert positional == (["model", "data"] if remedy.needs_data else ["model"])
        assert parameters["in_place"].default is False
        assert ("mode" in parameters) == remedy.needs_data
        for option in remedy.options:
            assert f"{option}:" in remedy.function.__doc__

    def test_it_copies_and_leaves_everything_as_it_was(self, name):
        model = subject(name)
        before, state = everything(model), generators()
        repaired, edits = called(name, model)
        assert generators()[:2] == state[:2]
        if REMEDIES[name].changes == "structure":
            assert generators() == state
        assert repaired is not model
        assert not {id(item) for item in repaired.parameters()} & {id(item) for item in model.parameters()}
        assert_untouched(model, before)
        assert repaired.training == model.training
        assert len(edits) > 0

    def test_it_tells_what_it_did(self, name):
        model = subject(name)
        _, edits = called(name, model)
        known = {*dict(model.named_modules()), *dict(model.named_parameters())}
        assert isinstance(edits, Edits)
        assert all(isinstance(edit, Edit) and edit.what and edit.before and edit.after for edit in edits)
        assert all(isinstance(item, Left) and item.reason for item in edits.left)
        assert {item.address for item in (*edits, *edits.left)} <= known

    def test_the_repaired_model_runs_and_trains(self, name):
        repaired, _ = called(name, subject(name))
        output = repaired(DATA[0])
        assert output.shape == (64, 3)
        nn.functional.cross_entropy(output, DATA[1]).backward()
        assert any(item.grad is not None and bool((item.grad != 0).any()) for item in repaired.parameters())
        copy.deepcopy(repaired).load_state_dict(repaired.state_dict())

    def test_in_place_is_the_same(self, name, seed):
        model = subject(name)
        torch.manual_seed(seed % 2**31)
        wanted, edits = called(name, model)
        torch.manual_seed(seed % 2**31)
        given = (DATA,) if REMEDIES[name].needs_data else ()
        try:
            done = apply_(model, name, *given, **options_for(name))
        except ModelError as error:
            assert "cannot be done in place" in str(error)  # noqa: PT017 - the other outcome is as good
            return
        assert [edit.address for edit in done] == [edit.address for edit in edits]
        for key, value in wanted.state_dict().items():
            torch.testing.assert_close(model.state_dict()[key], value, rtol=0, atol=0)

    def test_repair_restores_the_generators_and_the_model(self, name):
        model = subject(name)
        before, state = everything(model), generators()
        repaired, change = repair(model, DATA, [name], inits=3, progress=False, **options_for(name))
        assert generators() == state
        assert_untouched(model, before)
        assert change.remedies == (name,)
        assert change.before.provenance.settings["inits"] == change.after.provenance.settings["inits"] == 3
        assert repaired(DATA[0]).shape == (64, 3)

    def test_repairing_twice_gives_the_same(self, name):
        runs = [
            repair(network_of(name), DATA, [name], inits=4, progress=False, **options_for(name))[1]
            for _ in "ab"
        ]
        first, second = (run.after.variables["gamma_init"].values for run in runs)
        np.testing.assert_array_equal(first, second)
        assert runs[0].edits == runs[1].edits

    @pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
    def test_what_it_cannot_do_it_refuses_by_name(self, name):
        compiled = torch.jit.script(nn.Sequential(nn.Linear(6, 3), nn.ReLU()))
        for model in (compiled, "no module"):
            with pytest.raises(FirstlightError) as error:
                called(name, model)
            assert name in str(error.value)


def network_of(name):
    """A factory of the network that the remedy changes."""

    def make():
        return network() if name == "seed_choice" else subject(name)

    return make


def test_an_unknown_remedy_lists_them_all():
    with pytest.raises(
        FirstlightError, match=r"expected one of 'norm_after_activation', .*did you mean 'convert_norm'"
    ):
        repair(network(), DATA, ["convert_norms"])


def test_findings_name_no_remedy_that_is_misspelt():
    from firstlight.diagnosis.checks.every import CHECKS

    planned = {
        "norm_after_activation", "norm_before_activation", "convert_norm", "scale_initialization",
        "scale_bias_initialization", "lsuv_initialization", "orthogonal_initialization", "activation_shift",
        "activation_shaping", "data_centering", "seed_choice", "output_bias_to_prior",
    }  # fmt: skip
    named = {name for check in CHECKS for subject in check.subjects for name in subject.remedies}
    assert named <= planned
    assert set(REMEDIES) <= planned
    assert fl.repair is repair
