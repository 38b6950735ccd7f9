"""Logits of one initialization, against plain formulas on the same numbers, whole or in parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from firstlight.errors import DataError
from firstlight.measurement.observables import logits


@pytest.fixture
def rows(seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((50, 6))).float() + torch.arange(6)


def seen(rows, targets=None, parts=1):
    state = logits.init(rows.shape[1])
    places = torch.arange(len(rows)).chunk(parts)
    for place in places:
        state = logits.update(state, rows[place], None if targets is None else targets[place])
    return logits.finalize(state)


@pytest.mark.parametrize("parts", [1, 4])
def test_scale_and_losses(rows, parts):
    targets = torch.arange(50) % 6
    targets[3] = -100
    found = seen(rows, targets, parts)
    exact = rows.double()
    centred = exact - exact.mean(1, keepdim=True)
    assert found["logit_center_variance"] == pytest.approx(float((centred.mean(0) ** 2).mean()), rel=1e-9)
    assert found["logit_data_variance"] == pytest.approx(float(centred.var(0, correction=0).mean()), rel=1e-9)
    assert found["initial_loss"] == pytest.approx(float(cross_entropy(exact, targets)), rel=1e-9)
    every = torch.arange(6).repeat_interleave(50)
    assert found["even_loss"] == pytest.approx(float(cross_entropy(exact.repeat(6, 1), every)), rel=1e-9)


def test_the_closest_labels(rows):
    far = seen(rows)
    rows[:, 4] = rows[:, 1]
    found = seen(rows)
    assert found["label_distance"] == pytest.approx(0.0, abs=1e-7)
    assert {found["nearest_label"], found["nearest_other"]} == {1.0, 4.0}
    assert far["label_distance"] > 0.1


def test_centres_that_outweigh_the_data_do_not_make_labels_alike(seed):
    """With huge centres and tiny variation the labels still differ in both."""
    generator = np.random.default_rng(seed)
    values = 1e4 * generator.standard_normal((1, 8)) + generator.standard_normal((400, 8))
    assert seen(torch.from_numpy(values))["label_distance"] > 0.05


def test_two_labels_many_labels_and_equal_logits_have_no_pair():
    for values in (torch.randn(9, 2), torch.randn(9, 300), torch.ones(9, 5)):
        assert math.isnan(seen(values)["label_distance"])


def test_what_is_not_finite_is_counted_and_left_out(rows):
    whole = seen(rows[10:])
    rows[:9, 0], rows[9, 5] = math.nan, math.inf
    found = seen(rows)
    assert found["non_finite_share"] == pytest.approx(0.2)
    assert found["logit_data_variance"] == whole["logit_data_variance"]
    nothing = seen(torch.full((4, 3), math.nan))
    assert nothing["non_finite_share"] == 1.0
    assert math.isnan(nothing["logit_data_variance"])


def test_probabilities_are_told_from_logits(rows):
    assert seen(rows)["probability_share"] == 0.0
    assert seen(rows.softmax(1))["probability_share"] == 1.0
    assert seen(rows.log_softmax(1))["probability_share"] == 0.0


@pytest.mark.parametrize(
    ("target", "known"),
    [
        (torch.tensor([0, 2, -100]), True),
        (torch.tensor([[0], [2], [1]]), True),
        (torch.tensor([[0], [3], [1]]), False),  # a map, in which 3 may say that there is no label
        (torch.tensor([0.0, 1.0, 2.0]), False),
        (torch.tensor([0, 1]), False),
        (None, False),
    ],
)
def test_which_targets_are_labels(target, known):
    assert (logits.targets_of(target, 3, 3) is not None) == known


def test_targets_beyond_the_outputs_are_refused():
    with pytest.raises(DataError, match="a target is 3, but the model has 3 outputs, for labels 0 to 2"):
        logits.targets_of(torch.tensor([0, 3, 1]), 3, 3)
