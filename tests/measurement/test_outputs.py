"""Answers that cannot be guesses, and models that fail, in one clear sentence each."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.errors import DataError, ModelError, UsageError

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
        with pytest.raises(
            DataError, match="a batch of 1 sample has no batch statistics; expected at least 2"
        ):
            fl.measure(net, data, inits=1)
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
