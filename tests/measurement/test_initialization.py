"""An initialization is a seed, however the weights are drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.errors import ModelError, UsageError
from firstlight.measurement.initialization import LAWS, drawing

X = torch.from_numpy(np.random.default_rng(0).standard_normal((30, 6))).float()


def model():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def weights(draw, index):
    return {name: value.clone() for name, value in draw.module_of(index).state_dict().items()}


def equal(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("source", "redraw"),
    [
        (model, None),
        (model(), None),
        (model(), "kaiming_normal"),
        (model, "orthogonal"),
        (fl.Blueprint.mlp(inputs=6, depth=1, width=8), None),
        (model(), lambda module: nn.init.normal_(module.weight) if isinstance(module, nn.Linear) else None),
    ],
    ids=["factory", "reset", "law", "factory+law", "blueprint", "callable"],
)
def test_number_i_is_the_same_in_any_order(source, redraw):
    torch.manual_seed(5)
    draw = drawing(source, seed=3, redraw=redraw)
    forwards = [weights(draw, index) for index in range(4)]
    torch.manual_seed(6)
    backwards = [weights(drawing(source, seed=3, redraw=redraw), index) for index in (3, 2, 1, 0)][::-1]
    assert all(equal(first, second) for first, second in zip(forwards, backwards, strict=True))
    assert not equal(forwards[0], forwards[1])
    assert not equal(forwards[0], weights(drawing(source, seed=4, redraw=redraw), 0))


def test_a_reset_is_what_a_constructor_draws():
    """Children before parents, in the constructor's order: the same stream gives the same weights."""
    assert equal(weights(drawing(model, seed=0), 2), weights(drawing(model(), seed=0), 2))


def test_running_statistics_start_anew():
    trained = model()
    trained[1].running_mean.fill_(7.0)
    drawn = drawing(trained, seed=0).module_of(0)
    assert float(drawn[1].running_mean.abs().max()) == 0
    assert float(trained[1].running_mean[0]) == 7


@pytest.mark.parametrize(
    ("law", "variance"),
    [("kaiming_normal", 2 / 200), ("kaiming_uniform", 2 / 200), ("lecun_normal", 1 / 200),
     ("xavier_normal", 2 / 500), ("xavier_uniform", 2 / 500), ("orthogonal", 2 / 300)],
)  # fmt: skip
def test_named_laws(law, variance):
    assert set(LAWS) >= {law}
    drawn = drawing(nn.Sequential(nn.Linear(200, 300)), seed=0, redraw=law).module_of(0)[0]
    count = drawn.weight.numel()
    # Relative sd of a sample variance: √(2/n) for a normal law, less for the others.
    assert drawn.weight.var().item() == pytest.approx(variance, rel=5 * np.sqrt(2 / count))
    assert not drawn.bias.any()


def test_fan_in_of_convolutions():
    net = nn.Sequential(nn.Conv2d(8, 64, 3), nn.ConvTranspose2d(64, 8, 3))
    drawn = drawing(net, seed=0, redraw="kaiming_normal").module_of(0)
    count = drawn[0].weight.numel()
    assert drawn[0].weight.var().item() == pytest.approx(2 / 72, rel=5 * np.sqrt(2 / count))
    assert drawn[1].weight.var().item() == pytest.approx(2 / (64 * 9), rel=5 * np.sqrt(2 / count))


def test_weights_as_they_are():
    kept = model()
    profile = fl.measure(kept, X, inits=1, redraw="keep", mode="eval")
    with torch.no_grad():
        expected = kept[0](X).var(0, correction=0).mean().item()
    assert float(profile.data_variance[0]) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(UsageError, match="make one initialization, got inits=2"):
        fl.measure(kept, X, inits=2, redraw="keep")


class Stubborn(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(6))
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        return self.head(x + self.token)


def test_what_cannot_be_drawn_is_refused_by_name():
    with pytest.raises(
        ModelError, match=r"cannot re-draw the model itself \(Stubborn: token\).*pass a factory"
    ):
        fl.measure(Stubborn(), X)
    with pytest.raises(ModelError, match=r"cannot re-draw 1 \(Stubborn: token\)"):
        fl.measure(nn.Sequential(nn.Linear(6, 6), Stubborn()), X, redraw="kaiming_normal")
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 2)))
    with pytest.raises(ModelError, match=r"0 \(ParametrizedLinear: parametrized weight\)"):
        fl.measure(normed, X)
    assert fl.measure(Stubborn, X, inits=2).layers == ["head"]
    assert fl.measure(Stubborn(), X, inits=1, redraw="keep").layers == ["head"]


def test_factories_that_are_none():
    shared = model()
    with pytest.raises(ModelError, match="returned the same module twice"):
        fl.measure(lambda: shared, X)
    with pytest.raises(ModelError, match="the factory returned a int"):
        fl.measure(lambda: 3, X)
    with pytest.raises(UsageError, match="requires width; expected a factory without required arguments"):
        fl.measure(lambda width: nn.Linear(width, 2), X)
    with pytest.raises(
        ModelError, match=r"expected an nn\.Module, a factory that returns one, or a Blueprint, got str"
    ):
        fl.measure("resnet", X)


def test_a_blueprint_kept_as_it_is_follows_the_seed():
    blueprint = fl.Blueprint.mlp(inputs=6, depth=1, width=8, classes=3)
    first, again, second = (drawing(blueprint, seed=seed, redraw="keep").module_of(0) for seed in (1, 1, 2))
    drawn = drawing(blueprint, seed=1).module_of(0)
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
        assert torch.equal(value, drawn.state_dict()[name])
    assert not all(map(torch.equal, first.parameters(), second.parameters()))


def test_a_factory_may_take_the_seed():
    seen = []
    fl.measure(lambda seed: seen.append(seed) or model(), X, inits=2)
    assert len(set(seen)) == 2


def test_a_multi_head_attention_is_drawn_by_its_own_method():
    draw = drawing(nn.MultiheadAttention(8, 2), seed=0)
    assert not equal(weights(draw, 0), weights(draw, 1))


def test_arguments():
    with pytest.raises(
        UsageError, match=r"measure\(redraw\): expected one of 'keep'.*did you mean 'kaiming_normal'"
    ):
        fl.measure(model(), X, redraw="kaiming_norml")
    with pytest.raises(UsageError, match=r"measure\(inits\): expected a whole number of at least 1, got 0"):
        fl.measure(model, X, inits=0)
    with pytest.raises(UsageError, match=r"measure\(mode\): expected one of 'train', 'eval', got 'test'"):
        fl.measure(model, X, mode="test")
    with pytest.raises(
        UsageError, match=r"measure\(layers\): expected names, patterns or a predicate, got 5"
    ):
        fl.measure(model, X, layers=5)
    with pytest.raises(UsageError, match=r"measure\(quantities\): expected one of .*did you mean 'gamma'"):
        fl.measure(model, X, quantities="gama")
    with pytest.raises(UsageError, match=r"measure\(precision\): expected a fraction between 0 and 1, got 2"):
        fl.measure(model, X, precision=2)
    with pytest.raises(UsageError, match=r"measure\(seed\): expected a whole number, 0 or larger, got -1"):
        fl.measure(model, X, seed=-1)
    with pytest.raises(
        UsageError, match=r"measure\(batch_size\): expected a whole number of at least 1, got 0"
    ):
        fl.measure(model, X, batch_size=0)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


def test_whose_law_a_shared_parameter_gets_is_told():
    """A constructor leaves N(0, 1) in it, the resets of both modules what the last of them draws."""
    (note,) = drawing(Tied(), seed=0).notes
    assert note.startswith(
        "embedding.weight and head.weight are one parameter, drawn by the law of the latter's Linear"
    )
    assert not drawing(Tied, seed=0).notes
    shared = nn.Linear(6, 6)
    assert not drawing(nn.Sequential(shared, shared), seed=0).notes


@pytest.mark.parametrize("inits", [4, 2])
def test_a_factory_of_several_architectures_is_refused(inits):
    built = []

    def by_width():
        built.append(1)
        return nn.Linear(6, 3 + len(built) % 2)

    def by_depth():
        built.append(1)
        return nn.Sequential(*[nn.Linear(6, 6) for _ in range(1 + len(built) % 2)])

    with pytest.raises(
        ModelError, match=r"another architecture at initialization 1: weight has the shape \(., 6\)"
    ):
        fl.measure(by_width, X, inits=inits)
    with pytest.raises(ModelError, match=r"another architecture at initialization 1: 1.weight is only in"):
        fl.measure(by_depth, X, inits=inits)
