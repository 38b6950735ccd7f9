"""Answers that cannot be guesses, and models that fail, in one clear sentence each."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.errors import DataError, ModelError

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
