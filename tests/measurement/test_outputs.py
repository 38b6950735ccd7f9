"""Answers that cannot be guesses, and models that fail, in one clear sentence each."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.errors import CouldNotError, DataError, ModelError, UsageError

X = torch.arange(60.0).reshape(10, 6) / 60


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda: nn.Linear(6, 1), r"the output \(2, 1\) has 1 label"),
        (lambda: nn.Sequential(nn.Linear(6, 2), nn.Flatten(0)), r"logits of shape \(sample, label\), got \(4,\)"),
        (lambda: nn.Linear(7, 2), r"Linear failed on a batch of shape \(2, 6\): mat1 and mat2 shapes"),
        (lambda: nn.Sequential(nn.Linear(6, 4), Exploding(), nn.Linear(4, 2)),
         "the output is NaN or infinite for 10 of 10 samples; the first layer that is not finite is 2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("inits", [1, 3])
def test_outputs_that_cannot_be(factory, message, inits):
    with pytest.raises(ModelError, match=message):
        fl.measure(factory, X, inits=inits)


class Exploding(nn.Module):
    def forward(self, x):
        return x * float("inf")


def test_a_batch_of_one_has_no_batch_statistics():
    net = lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))  # noqa: E731
    for data in (X[:1], [X[:4], X[4:5]]):
        for quantities in ("standard", "sensitivity"):
            with pytest.raises(
                DataError, match="a batch of 1 sample has no batch statistics; expected at least 2"
            ):
                fl.measure(net, data, inits=1, quantities=quantities)
    with pytest.raises(DataError, match="10 samples in batches of 3 leave a last batch of 1 sample"):
        fl.measure(net, X, inits=1, batch_size=3)
    assert fl.measure(net, X[:1], inits=1, mode="eval").guesses.samples == 1


def test_ties_of_a_collapsed_signal_are_reported():
    def dead():
        net = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3, bias=False))
        nn.init.constant_(net[0].bias, -100.0)
        return net

    profile = fl.measure(dead, X, inits=2)
    assert profile.guesses.tie_fractions.tolist() == [1.0, 1.0]


def test_many_labels_keep_the_leading_ones():
    profile = fl.measure(lambda: nn.Linear(6, 1500), X, inits=2)
    assert profile.guesses.labels == 1500
    assert profile.guesses.counts.shape == (2, 257)
    assert profile.guesses.counts.sum(1).tolist() == [10, 10]


class Cast(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.layer, self.dtype = nn.Linear(6, 3), dtype

    def forward(self, x):
        return self.layer(x).to(self.dtype)


@pytest.mark.parametrize("quantities", ["standard", "all", "guesses"])
@pytest.mark.parametrize("dtype", [torch.long, torch.bool, torch.complex64])
def test_outputs_that_are_no_logits(dtype, quantities):
    with pytest.raises(ModelError, match=f"the output is {dtype}; expected floating-point logits"):
        fl.measure(lambda: Cast(dtype), X, inits=2, quantities=quantities)


class Raising(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.layer, self.error = nn.Linear(6, 3), error

    def forward(self, x):
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("pixels"), r"Raising failed on a batch of shape \(2, 6\): KeyError: 'pixels'"),
        (AssertionError(), r"Raising failed on a batch of shape \(2, 6\): AssertionError"),
        (NotImplementedError("no forward"), r"Raising failed .*: no forward"),
        (AttributeError("no such thing"), r"Raising failed .*: AttributeError: no such thing"),
    ],
    ids=["key", "assertion", "unwritten", "attribute"],
)
def test_whatever_a_model_raises_is_one_sentence(error, message):
    with pytest.raises(ModelError, match=message) as told:
        fl.measure(lambda: Raising(error), X, inits=2)
    assert told.value.__cause__ is error


def test_an_interruption_is_no_failure_of_the_model():
    with pytest.raises(KeyboardInterrupt):
        fl.measure(lambda: Raising(KeyboardInterrupt()), X, inits=2)


class Several(nn.Module):
    def __init__(self, *, named):
        super().__init__()
        self.first, self.second, self.named = nn.Linear(6, 5), nn.Linear(6, 3), named

    def forward(self, x):
        return {"logits" if self.named else "aux": self.first(x), "main": (self.second(x), x)}


def test_which_of_several_outputs_was_taken_is_told():
    profile = fl.measure(lambda: Several(named=False), X, inits=2)
    (note,) = [note for note in profile.provenance.notes if "tensors" in note]
    assert note.startswith("the model returns 3 tensors: ['aux'], the first, was taken for the answer")
    assert "['main'][0], ['main'][1]" in note
    assert profile.guesses.labels == 5
    assert not any(
        "tensors" in note for note in fl.measure(lambda: Several(named=True), X, inits=2).provenance.notes
    )


@dataclasses.dataclass
class Answer:
    features: torch.Tensor
    logits: torch.Tensor


class Pair(NamedTuple):
    features: torch.Tensor
    logits: torch.Tensor


@pytest.mark.parametrize(
    "kind", [Answer, Pair, lambda features, logits: {"features": features, "logits": logits}]
)
def test_an_answer_with_names_is_read_by_name(kind):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(6, 4), nn.Linear(4, 3)

        def forward(self, x):
            features = self.body(x)
            return kind(features, self.head(features))

    profile = fl.measure(Named, X, inits=2)
    assert profile.layers == ["body", "head"]
    assert profile.guesses.labels == 3
    assert not any("passed over" in note for note in profile.provenance.notes)


@pytest.mark.parametrize(
    ("layer", "shape"), [(lambda: nn.Conv1d(4, 5, 1), (8, 4, 9)), (lambda: nn.Linear(4, 5), (8, 9, 9, 4))]
)
def test_labels_are_the_units_of_the_last_layer(layer, shape):
    """Positions by labels or labels by positions: the shape alone cannot tell."""
    x = torch.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    profile = fl.measure(layer, x, inits=2)
    assert profile.guesses.labels == 5
    assert profile.guesses.samples == int(np.prod(shape)) // 4


def test_a_transposed_output_is_not_the_layer_that_made_it():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(4, 6, 1)

        def forward(self, x):
            return self.conv(x).transpose(1, 2)

    x = torch.linspace(-1, 1, 8 * 4 * 6).reshape(8, 4, 6).sin()  # as many positions as labels
    profile = fl.measure(Turned, x, inits=2)
    assert profile.layers == ["conv", "output"]
    np.testing.assert_allclose(profile.gamma[0], profile.gamma[1], rtol=1e-6)


@pytest.mark.parametrize("quantities", ["standard", "effective_rank"])
def test_a_model_that_computes_in_inference_mode(quantities):
    class Closed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Linear(4, 3)
            )

        def forward(self, x):
            with torch.inference_mode(self.closed):
                return self.net(x)

    def make(closed):
        made = Closed()
        made.closed = closed
        return made

    found = fl.measure(lambda: make(True), X, inits=2, quantities=quantities)
    expected = fl.measure(lambda: make(False), X, inits=2, quantities=quantities)
    name = "gamma_init" if quantities == "standard" else "effective_rank_init"
    np.testing.assert_allclose(found[name].values[:, -1], expected[name].values[:, -1], rtol=1e-6)
    with pytest.raises(CouldNotError, match=r"computes in torch\.inference_mode, .*; leave out the noise"):
        fl.measure(lambda: make(True), X, inits=2, quantities="sensitivity")


def test_weights_without_numbers_are_refused():
    with pytest.raises(ModelError, match="Linear is on the meta device, where weights hold no numbers"):
        fl.measure(lambda: nn.Linear(6, 3, device="meta"), X, inits=2)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match=r"measure\(device\): the model cannot go to 'nowhere'"):
        fl.measure(lambda: nn.Linear(6, 3), X, inits=2, device="nowhere")


@pytest.mark.parametrize("quantities", ["standard", "all"])
def test_inference_mode_of_the_caller_changes_nothing(quantities):
    def make():
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    expected = fl.measure(make, X, inits=3, quantities=quantities)
    with torch.inference_mode():
        data, built = X.clone(), make()
        assert fl.measure(make, data, inits=3, quantities=quantities).gamma.equals(expected.gamma)
        assert fl.measure(built, data, inits=3, quantities=quantities).gamma.equals(expected.gamma)
        assert torch.is_inference_mode_enabled()
    assert fl.measure(make, data, inits=3, quantities=quantities).gamma.equals(expected.gamma)
