"""Filtered training and what is stated of it: groups by birth, statements that hold and fail, pieces in common."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firstlight.papers.norm import dynamics_statements as stated
from firstlight.papers.norm.dynamics_drawing import draw_dynamics
from firstlight.papers.norm.filtered_training import SETTINGS, filtered_runs, group
from firstlight.papers.norm.networks import NORMED
from firstlight.papers.work import Work
from firstlight.results.arrays import Arrays
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory

MADE = Provenance("measurement", "a network", "data")
STEPS = [0, 10, 100]
SAMPLES = 1000


def runs_with(recalls) -> Trajectory:
    """Runs from the recall of (class 0, class 1) at each step, 500 samples of each class."""
    right = np.array(recalls, dtype=float)[:, :, None] * (SAMPLES / 2)  # (init, step, split, label)
    totals = np.full_like(right, SAMPLES / 2)
    guesses = right + (totals - right)[..., ::-1]  # who is missed is guessed as the other
    return Trajectory.from_counts(
        steps=STEPS,
        splits=["train"],
        guesses=guesses,
        right=right,
        totals=totals,
        losses=np.zeros(right.shape[:3]),
        provenance=MADE,
    )


def births_with(gaps, unfiltered: int = 0) -> Arrays:
    first = 0.5 + np.asarray(gaps) / 2
    return Arrays.of(
        {
            "fractions": (("init", "label"), np.stack([first, 1 - first], 1)),
            "chosen": ("init", np.ones(len(first), bool)),
            "unfiltered": ((), unfiltered),
        },
        provenance=MADE,
    )


def as_the_paper_says() -> dict:
    """Two neutral runs that learn together, two prejudiced ones, one for each class, that keep apart; one between."""
    neutral = [[0.51, 0.49], [0.66, 0.64], [0.9, 0.9]]
    sided = [[0.98, 0.02], [0.96, 0.14], [0.85, 0.75]]
    other = [[0.02, 0.98], [0.16, 0.96], [0.77, 0.85]]
    between = [[0.7, 0.3], [0.7, 0.4], [0.8, 0.8]]
    return {
        "plain-runs": runs_with([neutral, sided, neutral, other, between]),
        "plain-births": births_with([0.02, 0.96, 0.02, -0.96, 0.4], unfiltered=1),
    }


def test_groups_go_by_birth_and_may_be_empty():
    results = as_the_paper_says()
    assert [group(results, "plain", kind).runs for kind in ("neutral", "prejudiced", "unfiltered")] == [
        2,
        2,
        1,
    ]
    only = {"plain-runs": results["plain-runs"].select([0]), "plain-births": results["plain-births"]}
    assert group(only, "plain", "prejudiced") is None


def test_what_the_paper_says_holds_where_it_is_so_and_fails_where_it_is_not():
    results = as_the_paper_says()
    neutral, prejudiced = ("plain", "neutral"), ("plain", "prejudiced")
    apart = stated.gap_at_onset(results, "plain", "here")
    assert apart.agrees
    assert math.isclose(apart.measured, 0.81)  # mean of 0.96 − 0.14 and 0.96 − 0.16 at step 10
    assert "at step 10" in apart.says
    assert stated.gap_of_neutral(results, "plain", "here").agrees
    assert stated.convergence_apart(results, prejudiced, neutral, "here").agrees
    assert stated.less_gap_behind(results, prejudiced, neutral, "here").agrees
    assert not stated.convergence_apart(results, neutral, prejudiced, "here").agrees
    assert not stated.less_gap_behind(results, neutral, prejudiced, "here").agrees
    assert not stated.no_prejudiced_start(results, "plain", "here").agrees


def test_a_gap_after_neutral_births_is_told():
    results = as_the_paper_says()
    parting = [[0.51, 0.49], [0.9, 0.4], [0.9, 0.9]]
    results["plain-runs"] = runs_with([parting, parting])
    assert not stated.gap_of_neutral(results, "plain", "here").agrees


def test_without_a_find_a_statement_about_it_does_not_hold():
    results = as_the_paper_says()
    results["plain-runs"] = results["plain-runs"].select([0, 2])
    missing = stated.gap_at_onset(results, "plain", "here")
    assert not missing.agrees
    assert missing.because == "no such start was found among the draws"
    assert not stated.convergence_apart(results, ("plain", "prejudiced"), ("plain", "neutral"), "here").agrees


def test_a_number_on_the_right_side_with_a_large_error_is_said_to_be_in_doubt():
    results = as_the_paper_says()
    scattered = [[[0.51, 0.49], [0.7, 0.7 - gap], [0.9, 0.9]] for gap in (0.0, 0.15)]
    results["plain-runs"] = runs_with(scattered)
    doubtful = stated.gap_of_neutral(results, "plain", "here")
    assert doubtful.measured < doubtful.expected
    assert not doubtful.agrees
    assert "too few runs to tell" in doubtful.because


def test_a_run_that_never_settles_counts_with_the_last_step():
    results = as_the_paper_says()
    stuck = [[0.98, 0.02], [0.98, 0.02], [0.98, 0.02]]
    neutral = [[0.51, 0.49], [0.66, 0.64], [0.9, 0.9]]
    results["plain-runs"] = runs_with([neutral, stuck])
    late = stated.convergence_apart(results, ("plain", "prejudiced"), ("plain", "neutral"), "here")
    early = results["plain-runs"].select([0]).convergence_time(0.6, interpolate=True).values[0]
    assert math.isclose(late.measured, STEPS[-1] - early)


@pytest.mark.parametrize("kind", ["neutral", "prejudiced"])
def test_shares_of_starts_follow_the_law_of_one_hidden_layer(kind, seed):
    from scipy.special import ndtr

    generator = np.random.default_rng(seed)

    def share(gamma: float):
        first = ndtr(math.sqrt(gamma) * generator.standard_normal(4000))
        return stated.share_of_starts({"plain-births": births_with(2 * first - 1)}, "plain", kind, "here")

    assert share(1 / (math.pi - 1)).agrees
    assert not share(2.0).agrees


def test_spreads_are_told_apart_and_from_counting_noise(seed):
    generator = np.random.default_rng(seed)
    noise = 0.5 / math.sqrt(SAMPLES)
    results = {
        "layer-after-births": births_with(generator.normal(0, 6 * noise, 400)),
        "batch-after-births": births_with(generator.normal(0, 2 * noise, 400)),
        "layer-after-runs": runs_with([[[0.5, 0.5]] * 3]),
        "batch-after-runs": runs_with([[[0.5, 0.5]] * 3]),
    }
    assert stated.spreads_apart(results, "layer-after", "batch-after", "here", says="so").agrees
    assert not stated.spreads_apart(results, "batch-after", "layer-after", "here", says="so").agrees
    assert stated.some_prejudice_left(results, "layer-after", "so", "here").agrees
    assert not stated.some_prejudice_left(results, "batch-after", "so", "here").agrees


def test_two_figures_of_one_experiment_share_their_runs(tmp_path):
    settings = {**SETTINGS["gaussian"]["smoke"], "looked_at": 40}
    made = [Work(key, settings, 0, tmp_path / key, tmp_path / "shared") for key in ("first", "second")]
    results = filtered_runs(made[0], NORMED)
    again = filtered_runs(made[1], NORMED)
    assert len(made[0].seconds) == 2 * len(NORMED)
    assert not made[1].seconds
    assert again["batch-after-runs"].splits == ("train", "test")
    births = results["layer-before-births"]
    numbers = results["layer-before-runs"].coordinates["init"].values
    trained = results["layer-before-runs"]["initial_fractions"].values
    assert np.allclose(trained, births["fractions"].values[numbers])  # looked at when drawn and when trained
    drawn = draw_dynamics(again, [(name, ["neutral", "prejudiced"]) for name in NORMED], split="test")
    kinds = ("neutral", "prejudiced")
    filled = [name for name in NORMED if any(group(again, name, kind) for kind in kinds)]
    assert len([axes for axes in drawn.axes if axes.has_data()]) == 2 * len(filled)
