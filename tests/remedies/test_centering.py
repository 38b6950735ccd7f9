"""Inputs that are centred, or shifted until the bias is what is wanted."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight import models
from firstlight.errors import CouldNotError, DataError, UsageError
from firstlight.remedies.centering import CenteredInput, data_centering

GENERATOR = torch.Generator().manual_seed(0)
WIDE = 60
X = torch.randn(300, WIDE, generator=GENERATOR) * 0.7 + torch.linspace(-0.5, 1.5, WIDE)
PICTURES = torch.rand(10, 3, 8, 8, generator=GENERATOR) * torch.tensor([1.0, 2.0, 3.0]).reshape(3, 1, 1)


def net(depth=2, **options):
    return fl.Blueprint.mlp(inputs=WIDE, depth=depth, width=150, classes=2, **options)


class Seen(nn.Module):
    """Hands on what it gets."""

    def forward(self, x):
        return x


def test_what_arrives_has_mean_zero_where_it_should():
    for per, axes in (("channel", (0, 2, 3)), ("pixel", 0), ("constant", (0, 1, 2, 3))):
        after, edits = data_centering(Seen(), PICTURES, per=per)
        seen = after(PICTURES)
        torch.testing.assert_close(seen.mean(axes), torch.zeros_like(seen.mean(axes)), atol=1e-6, rtol=0)
        torch.testing.assert_close(seen, PICTURES - PICTURES.double().mean(axes, keepdim=True).float())
        assert len(edits) == 1
    for data in (PICTURES.flatten(2), X):  # (sample, position, unit) and (sample, unit): the last axis
        seen = data_centering(Seen(), data)[0](data)
        over = tuple(range(data.ndim - 1))
        torch.testing.assert_close(seen.mean(over), torch.zeros(data.shape[-1]), atol=1e-6, rtol=0)
    seen = data_centering(Seen(), PICTURES.flatten(2), axis=1)[0](PICTURES.flatten(2))
    torch.testing.assert_close(seen.mean((0, 2)), torch.zeros(3), atol=1e-6, rtol=0)


def test_batches_are_weighted_by_their_size():
    whole, _ = data_centering(Seen(), X, per="pixel")
    parts, _ = data_centering(Seen(), [X[:7], X[7:100], X[100:]], per="pixel")
    torch.testing.assert_close(whole.shift.amount, parts.shift.amount)


def test_gamma_afterwards_is_what_theory_says_of_centred_data():
    for per in ("pixel", "constant"):
        _, change = fl.repair(net(), X, ["data_centering"], inits=100, per=per, progress=False)
        mean = X.double().mean(0) if per == "pixel" else X.double().mean()
        predicted = float(fl.predict(net(), data=(X.double() - mean).numpy(), draws=1).gamma[-1])
        difference = change.difference()
        assert abs(difference.after - predicted) < 4 * difference.after_stderr
        assert difference.verdict == "helped"


@pytest.mark.parametrize(("wanted", "per"), [(1.3, "pixel"), (3.0, "constant")])
def test_the_shift_that_gives_a_chosen_gamma(wanted, per):
    _, change = fl.repair(net(), X, ["data_centering"], inits=120, gamma=wanted, per=per, progress=False)
    difference = change.difference()
    assert abs(difference.after - wanted) < 4 * difference.after_stderr
    assert any("by theory: " in note for note in change.notes)


def test_of_a_linear_network_the_shift_is_known():
    """γ(a) = |m̂ + a|²/⟨|x − m̂|²⟩ for the centred points: m̂ is the mean vector that is left."""
    linear = models.mlp(WIDE, depth=1, width=20, classes=2, activation="linear")
    after, _ = data_centering(linear, X, per="constant", gamma=2.0)
    points = X.double() - float(after.shift.amount)
    assert float(points.mean(0).square().sum() / points.var(0, correction=0).sum()) == pytest.approx(
        2.0, rel=1e-5
    )
    assert float(points.mean()) > 0
    still, _ = data_centering(linear, X, per="pixel", gamma=2.0)
    points = X.double() - still.shift.amount.double()
    assert float(points.mean(0).square().sum() / points.var(0, correction=0).sum()) == pytest.approx(
        2.0, rel=1e-5
    )


def test_the_shift_may_be_measured():
    """By the same initializations with which it was solved, γ is the wanted one within the solver's precision."""
    factory, change = fl.repair(
        net(1), X, ["data_centering"], inits=32, gamma=1.5, by="measurement", trials=32, progress=False
    )
    assert float(change.after.gamma[-1]) == pytest.approx(1.5, abs=4 * change.difference().after_stderr)
    amounts = {float(factory(seed=number).shift.amount.mean()) for number in range(3)}
    assert len(amounts) == 1  # what was solved once holds for every initialization


def test_what_cannot_be_reached_is_refused():
    with pytest.raises(CouldNotError, match=r"centred data already give γ = 0\.\d+ by theory"):
        data_centering(net().build(seed=0), X, gamma=0.01)
    first = nn.Sequential(nn.BatchNorm1d(WIDE), nn.Linear(WIDE, 50), nn.ReLU(), nn.Linear(50, 2))
    with pytest.raises(CouldNotError, match="a norm at the beginning may take the shift away"):
        data_centering(first, X, gamma=50, by="measurement", trials=4)
    with pytest.raises(
        CouldNotError, match=r"theory cannot read the model: .*softmax ties the units together"
    ):
        data_centering(nn.Sequential(nn.Linear(WIDE, 9), nn.Softmax(-1), nn.Linear(9, 2)), X, gamma=2)
    with pytest.raises(DataError, match=r"expected floating-point inputs, got whole numbers"):
        data_centering(nn.Embedding(5, 2), torch.zeros(4, 3, dtype=torch.int64))
    with pytest.raises(UsageError, match="expected one of 'channel', 'pixel', 'constant', got 'unit'"):
        data_centering(Seen(), X, per="unit")
    with pytest.raises(UsageError, match=r"data_centering\(gamma\): expected a number above 0, got -1"):
        data_centering(Seen(), X, gamma=-1)
    with pytest.raises(UsageError, match=r"expected an axis of the inputs .* behind the first, got 0"):
        data_centering(Seen(), X, axis=0)
    with pytest.raises(DataError, match="expected inputs of one shape"):
        data_centering(Seen(), [X[:5], X[5:9, :7]], per="pixel")
    with pytest.raises(DataError, match="with NaN or infinity"):
        data_centering(Seen(), X.log())


def plain():
    layers = (nn.Conv2d(3, 4, 5, 4), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(196, 3))
    return nn.Sequential(*layers)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_the_result_is_an_ordinary_module(tmp_path):
    model = plain()
    pictures = torch.rand(4, 3, 32, 32) + 1
    after, _ = data_centering(model, pictures)
    assert isinstance(after, CenteredInput)
    with torch.no_grad():
        wanted = copy.deepcopy(model).eval()(pictures - pictures.mean((0, 2, 3), keepdim=True))
        torch.testing.assert_close(copy.deepcopy(after).eval()(pictures), wanted)
        torch.testing.assert_close(pickle.loads(pickle.dumps(after)).eval()(pictures), wanted)
        scripted = torch.jit.script(copy.deepcopy(after).eval())
        torch.testing.assert_close(scripted(pictures), wanted)
        torch.save(after.state_dict(), tmp_path / "state.pt")
        fresh, _ = data_centering(plain(), torch.zeros(2, 3, 32, 32))
        fresh.load_state_dict(torch.load(tmp_path / "state.pt"))
        torch.testing.assert_close(fresh.eval()(pictures), wanted)
    nn.functional.cross_entropy(after(pictures), torch.tensor([0, 1, 2, 0])).backward()
    assert all(item.grad is not None for item in after.parameters())


def test_an_input_that_comes_by_name():
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[8], depths=[1], num_labels=3)
    model = transformers.ResNetForImageClassification(config).eval()
    pictures = torch.rand(4, 3, 32, 32)
    after, _ = data_centering(model, {"pixel_values": pictures}, per="constant")
    with torch.no_grad():
        wanted = model(pictures - pictures.mean()).logits
        torch.testing.assert_close(after(pixel_values=pictures).logits, wanted)
        torch.testing.assert_close(after(pictures).logits, wanted)
    _, change = fl.repair(model, {"pixel_values": pictures}, ["data_centering"], inits=3, progress=False)
    assert np.isfinite(change.difference().value)
