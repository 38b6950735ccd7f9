"""Runs together take the updates that they take alone, to rounding; the choice between the two follows from sizes."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.data import gaussian_blobs
from firstlight.errors import UsageError
from firstlight.measurement.initialization import drawing
from firstlight.training import Recipe, train
from firstlight.training.ensembles import Together, members_at_once
from firstlight.training.examples import examples, order_of
from firstlight.training.loops import Alone

DIMENSIONS = 20
ADAM = Recipe(rate=3e-3, batch_size=64, epochs=3, weight_decay=1e-3)
SGD = Recipe(optimizer="sgd", rate=0.05, momentum=0.9, weight_decay=1e-4, clip=0.05, batch_size=64, epochs=3)


def blobs(train=True):
    return gaussian_blobs(samples=300 if train else 100, dimensions=DIMENSIONS, train=train)


def perceptron(norm=None, placement=None, depth=3):
    return fl.Blueprint.mlp(inputs=DIMENSIONS, depth=depth, width=12, norm=norm, placement=placement)


def drawn(draw, runs):
    """Modules of their own: the next draw may be made on the same one."""
    return [copy.deepcopy(draw.module_of(run)) for run in runs]


def torch_run(blueprint, recipe, run, seed):
    """The loop that anyone would write, with ``torch.optim`` as it comes."""
    data = blobs()
    module = drawing(blueprint, seed=seed).module_of(run).train()
    if recipe.optimizer == "adam":
        optimizer = torch.optim.Adam(module.parameters(), lr=recipe.rate, weight_decay=recipe.weight_decay)
    else:
        optimizer = torch.optim.SGD(
            module.parameters(), lr=recipe.rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
        )
    for step in range(recipe.total(300)):
        chosen = order_of(seed, run, step, 300, recipe.batch_size)
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(data.inputs[chosen]), data.labels[chosen]).backward()
        if recipe.clip is not None:
            nn.utils.clip_grad_value_(module.parameters(), recipe.clip)
        optimizer.step()
    return module


NORMS = [
    (None, None),
    ("layer", "before"),
    ("layer", "after"),
    ("rms", "after"),
    ("batch", "after"),
    ("batch", "before"),
]


@pytest.mark.parametrize("recipe", [ADAM, SGD], ids=["adam", "sgd"])
@pytest.mark.parametrize(("norm", "placement"), NORMS)
def test_members_are_the_plain_loops(norm, placement, recipe, seed):
    seed %= 1000
    blueprint, data = perceptron(norm, placement), examples(blobs())
    draw = drawing(blueprint, seed=seed)
    runs = [5, 0, 2]
    together = Together(drawn(draw, runs), runs, recipe=recipe, data=data, seed=seed)
    alone = [
        Alone(module, run, recipe=recipe, data=data, seed=seed, label_axis=-1)
        for module, run in zip(drawn(draw, runs), runs, strict=True)
    ]
    for step in range(recipe.total(300)):
        together.step(step)
        for one in alone:
            one.step(step)
    # A bias in front of a batch norm has no gradient but rounding errors, which Adam scales up to whole steps; the norm
    # takes them out again, so they are no part of the network in train mode.
    free = (
        {f"linear{k}.bias" for k in (1, 2, 3)} | {f"norm{k}.running_mean" for k in (1, 2, 3)}
        if (norm, placement) == ("batch", "before")
        else set()
    )
    for module, one, run in zip(together.modules(), alone, runs, strict=True):
        plain = torch_run(blueprint, recipe, run, seed).state_dict()
        for name, value in module.state_dict().items():
            if name not in free:
                # some 15 updates of float32 arithmetic in another order
                torch.testing.assert_close(value, plain[name], rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(one.module.state_dict()[name], plain[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("norm", "placement"), [(None, None), ("batch", "after"), ("layer", "before")])
def test_trajectories_agree(norm, placement, seed):
    found = [
        train(
            perceptron(norm, placement),
            blobs(),
            test=blobs(train=False),
            recipe=ADAM,
            runs=3,
            seed=seed % 1000,
            schedule=[0, 7, 15],
            class_gradients=True,
            layers="output",
            together=together,
        )
        for together in (True, False)
    ]
    for name, item in found[0].variables.items():
        other = found[1].variables[name].values
        if name in ("guess_fractions", "recall", "accuracy", "max_guess"):
            assert np.abs(item.values - other).max() <= 1 / 50  # a sample may lie on the boundary
        elif item.values.dtype.kind == "f":
            np.testing.assert_allclose(item.values, other, rtol=2e-3)
    assert found[0].provenance.settings["members_at_once"] > 1
    assert found[1].provenance.settings["members_at_once"] == 1


def test_a_run_depends_on_its_number_alone():
    many = train(perceptron(), blobs(), recipe=ADAM, runs=5, schedule=5)
    some = train(perceptron(), blobs(), recipe=ADAM, runs=[3, 1], schedule=5)
    np.testing.assert_allclose(many["loss"].values[[3, 1]], some["loss"].values, rtol=1e-5)
    assert not np.allclose(many["loss"].values[0], many["loss"].values[1], rtol=1e-3)
    assert some.dataset.init.values.tolist() == [3, 1]


def test_looking_moves_no_running_statistics():
    data = examples(blobs())
    draw = drawing(perceptron("batch", "after"), seed=0)
    engine = Together(drawn(draw, range(2)), [0, 1], recipe=ADAM, data=data, seed=0)
    from firstlight.training.looking import probe

    seen = probe(draw.module_of(0), data.source, mode="train")
    engine.step(0)
    before = {name: value.clone() for name, value in engine.state_dict()["buffers"].items()}
    engine.look(seen)
    engine.class_gradient_norms(seen)
    assert all(torch.equal(before[name], value) for name, value in engine.state_dict()["buffers"].items())


@pytest.mark.parametrize(
    ("module", "work", "batch", "together"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), 24, 32, True),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), 300_000, 512, False),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 2)), 24, 32, False),
        (nn.Sequential(nn.Conv2d(1, 1, 3), nn.Flatten(), nn.Linear(4, 2)), 24, 32, False),
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 2)), 24, 32, False),
    ],
    ids=["small", "large", "dropout", "convolution", "cumulative batch norm"],
)
def test_the_choice(module, work, batch, together):
    recipe = Recipe(batch_size=batch)
    assert (members_at_once(module, work, recipe, examples(blobs())) > 1) is together


def test_what_cannot_run_stacked_is_refused_when_asked_for():
    factory = lambda: nn.Sequential(nn.Linear(DIMENSIONS, 4), nn.Dropout(), nn.Linear(4, 2))  # noqa: E731
    with pytest.raises(UsageError, match="holds layers that cannot run stacked; leave together out"):
        train(factory, blobs(), recipe=ADAM, together=True)
    with pytest.raises(UsageError, match="on a CPU and with the cross-entropy only"):
        train(factory, blobs(), recipe=ADAM, together=True, loss=nn.functional.cross_entropy)
