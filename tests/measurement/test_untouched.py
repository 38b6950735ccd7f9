"""The user's model, loader and generators are bit-identical afterwards: after success, an exception and Ctrl-C."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import firstlight as fl
from firstlight.errors import ModelError
from firstlight.measurement import observing


class Moody(nn.Module):
    """Batch norm, dropout, a frozen weight, a buffer, a hook of the user's."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(8, 3)
        )
        self.register_buffer("calls", torch.zeros(1))
        self.body[0].weight.requires_grad_(False)
        self.body[1].train()
        self.fails = False

    def forward(self, x):
        self.calls += 1
        if self.fails and x.shape[0] > 2:
            raise RuntimeError("out of luck")
        return self.body(x)


def picture(model):
    return (
        {name: value.clone() for name, value in model.state_dict().items()},
        [(name, module.training, dict(module._forward_hooks), dict(module._forward_pre_hooks), set(vars(module)))
         for name, module in model.named_modules()],
        [(name, value.requires_grad, value.grad, id(value)) for name, value in model.named_parameters()],
    )  # fmt: skip


def generators():
    state = np.random.get_state()  # noqa: NPY002
    return random.getstate(), state[1].tolist(), state[2:], torch.get_rng_state().tolist()


def assert_untouched(model, before):
    after = picture(model)
    assert before[0].keys() == after[0].keys()
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    assert before[1:] == after[1:]


@pytest.fixture
def model():
    made = Moody().train()
    made.body[3].eval()
    seen = []
    made.body[4].register_forward_hook(lambda module, args, output: seen.append(1))
    return made


@pytest.mark.parametrize("end", ["success", "exception", "interrupt"])
@pytest.mark.parametrize("quantities", ["standard", "all"])
def test_model_and_generators(model, end, quantities, monkeypatch):
    model.fails = end == "exception"
    if end == "interrupt":

        def interrupted(*args, **kwargs):
            random.random()
            torch.rand(1)
            raise KeyboardInterrupt

        monkeypatch.setattr(observing.moments, "of_block", interrupted)
    before, drawn = picture(model), generators()
    x = torch.randn(10, 6, generator=torch.Generator().manual_seed(0))
    if end == "success":
        fl.measure(model, x, inits=2, quantities=quantities)
    else:
        with pytest.raises(ModelError if end == "exception" else KeyboardInterrupt):
            fl.measure(model, x, inits=2, quantities=quantities)
    assert_untouched(model, before)
    assert generators() == drawn
    assert torch.backends.mha.get_fastpath_enabled()
    assert not torch._C._len_torch_function_stack()


def test_measured_as_it_is(model):
    before = picture(model)
    fl.measure(model, torch.randn(10, 6), inits=1, redraw="keep", quantities="all")
    assert_untouched(model, before)


def test_the_generator_of_a_loader_stands_where_it_stood():
    generator = torch.Generator().manual_seed(5)
    torch.rand(3, generator=generator)
    stood = generator.get_state()
    data = TensorDataset(torch.randn(20, 6), torch.zeros(20))
    loader = DataLoader(data, batch_size=4, shuffle=True, generator=generator)
    drawn = generators()
    fl.measure(Moody, loader, inits=2)
    assert torch.equal(generator.get_state(), stood)
    assert generators() == drawn
    with pytest.raises(ModelError):
        fl.measure(lambda: nn.Linear(7, 2), loader, inits=2)
    assert torch.equal(generator.get_state(), stood)


class WritesOverItsInput(nn.Module):
    """In place, in its first layer or by hand."""

    def __init__(self, own):
        super().__init__()
        self.own, self.relu, self.head = own, nn.ReLU(inplace=not own), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(x.clone().sub_(1).relu() if self.own else self.relu(x.sub_(1)))


@pytest.mark.parametrize("form", [lambda x: x, lambda x: [x[:4], x[4:]], lambda x: TensorDataset(x)])
@pytest.mark.parametrize("quantities", ["standard", "all"])
def test_data_that_a_model_writes_into(form, quantities):
    """The user's samples stay what they are, and every initialization and pass sees them so."""
    x = torch.randn(10, 6, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    profile = fl.measure(lambda: WritesOverItsInput(False), form(x), inits=3, quantities=quantities)
    assert torch.equal(x, before)
    expected = fl.measure(lambda: WritesOverItsInput(True), form(x), inits=3, quantities=quantities)
    names = [
        name
        for name in ("gamma_init", "sensitivity_init", "gradient_scale_init")
        if name in profile.variables
    ]
    for name in names:
        np.testing.assert_allclose(profile[name].values[:, -1], expected[name].values[:, -1], rtol=1e-6)
    assert (profile.guesses.counts == expected.guesses.counts).all()


def test_the_picture_can_tell():
    made = Moody()
    before = picture(made)
    other = copy.deepcopy(made)
    with pytest.raises(AssertionError):
        assert_untouched(other, before)
    made(torch.randn(4, 6))
    with pytest.raises(AssertionError):
        assert_untouched(made, before)
