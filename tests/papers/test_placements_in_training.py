"""Placements side by side: onsets, statements that hold and fail, and where the norms of each ResNet stand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from firstlight.errors import UsageError
from firstlight.papers.norm.placements_in_training import explained, greater, onset_mean, onset_statements
from firstlight.papers.norm.resnets_by_placement import TITLES, resnet
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory

STEPS = [0, 2, 4, 100]
SAMPLES = 1000


def runs_with(recalls) -> Trajectory:
    """Runs of two classes from (recall of 0, recall of 1) by step."""
    right = np.array(recalls, dtype=float)[:, :, None] * (SAMPLES / 2)  # (init, step, split, label)
    totals = np.full_like(right, SAMPLES / 2)
    return Trajectory.from_counts(
        steps=STEPS,
        splits=["train"],
        guesses=right + (totals - right)[..., ::-1],
        right=right,
        totals=totals,
        losses=np.zeros(right.shape[:3]),
        provenance=Provenance("measurement", "a network", "data"),
    )


SLOW = runs_with(
    [[(1.0, 0.0), (1.0, 0.0), (1.0, 0.1), (1, 1)], [(1.0, 0.0), (1.0, 0.02), (0.9, 0.2), (1, 1)]]
)
FAST = runs_with(
    [[(0.5, 0.5), (0.7, 0.7), (0.8, 0.8), (1, 1)], [(0.5, 0.5), (0.75, 0.7), (0.8, 0.8), (1, 1)]]
)


def test_the_onset_ends_where_it_should():
    """By hand: accuracies ½, 0.7, 0.8 at steps 0, 2, 4; what comes at step 100 does not count."""
    assert onset_mean(FAST, "accuracy", 4)[0] == pytest.approx((0.5 + 0.7) / 4 + (0.7 + 0.8) / 4)
    assert onset_mean(SLOW, "max_guess", 2)[0] == pytest.approx(1.0)


def test_what_is_said_of_the_onset_holds_and_fails():
    held = onset_statements({"before": SLOW, "after": FAST}, 4, "Here")
    assert [item.agrees for item in held] == [True, True]
    turned = onset_statements({"before": FAST, "after": SLOW}, 4, "Here")
    assert [item.agrees for item in turned] == [False, False]


def test_no_difference_is_no_greater():
    same = np.array([0.4, 0.4, 0.4])
    assert not greater("more", same, same).agrees
    assert greater("more", same + np.array([0.1, 0.11, 0.1]), same).agrees


def test_a_reason_is_given_only_where_something_differs():
    held, failed = greater("more", np.ones(3), np.zeros(3)), greater("more", np.zeros(3), np.ones(3))
    assert explained(held, "why").because == ""
    assert explained(failed, "why").because == "why"


def order_of(model: nn.Module, x: torch.Tensor) -> list[str]:
    """Kinds of the norms and activations of the last block, in the order in which they run."""
    seen: list[str] = []
    block = model.resnet.encoder.stages[-1].layers[-1]
    for module in block.modules():
        if isinstance(module, nn.BatchNorm2d | nn.ReLU):
            module.register_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    with torch.no_grad():
        model(x)
    return seen


@pytest.mark.parametrize("depth", [34, 101])
@pytest.mark.parametrize("placement", TITLES)
def test_where_the_norms_stand(depth, placement, seed):
    pytest.importorskip("transformers")
    torch.manual_seed(seed)
    branch = 1 if depth == 34 else 2  # activations within the branch
    wanted = {
        "before": ["BatchNorm2d", "ReLU"] * branch + ["BatchNorm2d", "ReLU"],
        "after": ["ReLU", "BatchNorm2d"] * branch + ["BatchNorm2d", "ReLU"],
        "behind-sums": ["ReLU", "BatchNorm2d"] * branch + ["ReLU", "BatchNorm2d"],
    }
    model = resnet(depth, placement, classes=3, width=2)
    assert order_of(model, torch.randn(2, 3, 32, 32)) == wanted[placement]


def test_an_unknown_placement():
    with pytest.raises(UsageError, match=r"before.*after.*behind-sums"):
        resnet(34, "beside", classes=3)
