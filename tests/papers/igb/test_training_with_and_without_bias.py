"""What is said of runs: gaps, turns and waiting by their definitions, on trajectories made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firstlight.papers.igb.training_with_and_without_bias import (
    class_gaps,
    difference,
    turned_around,
    waiting,
)
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory

STEPS = [0, 1, 3, 7]


def runs(recalls, *, diverged=None):
    """A trajectory with these recalls ``(init, step, label)`` on 100 samples of each of two classes."""
    recall = np.asarray(recalls, dtype=float)
    right = recall * 100
    guesses = np.stack([right[..., 0] + 100 - right[..., 1], right[..., 1] + 100 - right[..., 0]], -1)
    return Trajectory.from_counts(
        steps=STEPS,
        splits=["train"],
        guesses=guesses[:, :, None],
        right=right[:, :, None],
        totals=np.full_like(right, 100)[:, :, None],
        losses=np.ones((len(recall), len(STEPS), 1)),
        diverged_step=diverged,
        provenance=Provenance("measurement", "by hand", "none"),
    )


PREFERS_FIRST = [[0.9, 0.1], [0.8, 0.4], [0.7, 0.6], [0.8, 0.8]]
PREFERS_SECOND_THEN_TURNS = [[0.2, 0.8], [0.9, 0.1], [0.4, 0.7], [0.7, 0.7]]
NEVER = [[0.6, 0.4]] * 4


def test_gaps_are_by_the_class_preferred_at_birth():
    gaps = class_gaps(runs([PREFERS_FIRST, PREFERS_SECOND_THEN_TURNS]))
    np.testing.assert_allclose(gaps, [[0.8, 0.4, 0.1, 0.0], [0.6, -0.8, 0.3, 0.0]], atol=1e-12)


def test_runs_that_diverged_are_left_out():
    found = runs([PREFERS_FIRST, PREFERS_SECOND_THEN_TURNS], diverged=[1, -1])
    assert class_gaps(found).shape == (1, 4)
    assert len(waiting(found)) == 1


def test_only_runs_that_were_on_both_sides_turned_around():
    gaps = class_gaps(runs([PREFERS_FIRST, PREFERS_SECOND_THEN_TURNS, NEVER]))
    assert turned_around(gaps).tolist() == [0.0, 1.0, 0.0]
    assert turned_around(gaps, by=0.9).tolist() == [0.0, 0.0, 0.0]  # never that far


def test_waiting_ends_when_both_recalls_stay():
    # between steps 1 and 3 the smaller recall goes from 0.4 to 0.6: half-way in log(1 + step)
    expected = [math.sqrt(2 * 4) - 1, None, 7.0]
    found = waiting(runs([PREFERS_FIRST, PREFERS_SECOND_THEN_TURNS, NEVER]))
    assert found[0] == pytest.approx(expected[0])
    # from 0.4 at step 3 to 0.7 at step 7: a third of the way
    assert found[1] == pytest.approx(math.exp(math.log(4) + math.log(2) / 3) - 1)
    assert found[2] == 7.0  # never: the last step


def test_a_difference_holds_by_three_standard_errors_or_not():
    less, more = np.array([0.0, 1.0] * 8), np.array([2.0, 3.0] * 8)
    said = difference("", less, more)
    assert said.measured == pytest.approx(2.0)
    assert said.stderr == pytest.approx(math.sqrt(2) * less.std(ddof=1) / 4)
    assert said.agrees
    assert not difference("", more, less).agrees
    assert not difference("", less, less + 0.1).agrees
