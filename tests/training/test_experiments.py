"""Figures 2 and 4 of norm placement, small: a gap between classes follows a prejudiced birth, and no other."""

from __future__ import annotations

import numpy as np
import pytest

import firstlight as fl
from firstlight.data import gaussian_blobs
from firstlight.errors import CouldNotError, UsageError
from firstlight.training import Recipe, best_rate, compare_groups, learning_rate_grid, train

DATA = gaussian_blobs(samples=600, dimensions=200)
TEST = gaussian_blobs(samples=200, dimensions=200, train=False)
# a hundred times the papers' rate, and a hundredth of their steps
SLOW = Recipe(rate=1e-3, batch_size=128, epochs=8)


def shallow(norm=None, placement=None):
    return fl.Blueprint.mlp(inputs=200, depth=1, width=100, norm=norm, placement=placement)


def early(trajectory, split):
    """Mean gap between the classes over the first four steps, and its standard error over runs."""
    gap = trajectory.quantity("class_gap", split=split).sel(step=slice(0, 3)).mean("step").values
    return gap.mean(), gap.std(ddof=1) / np.sqrt(len(gap))


@pytest.fixture(scope="module")
def groups():
    return compare_groups(
        shallow(), DATA, test=TEST, recipe=SLOW, runs=6, prejudiced_above=0.8, progress=False
    )


@pytest.mark.parametrize("split", ["train", "test"])
def test_prejudiced_births_part_the_classes_and_neutral_ones_do_not(groups, split):
    neutral, neutral_error = early(groups.neutral, split)
    prejudiced, prejudiced_error = early(groups.prejudiced, split)
    assert prejudiced - 4 * prejudiced_error > 0.5
    # at birth the gap of a neutral run is at most the threshold, whichever class it is for, and counting noise
    assert abs(neutral) < 0.1 + 4 * max(neutral_error, 1 / np.sqrt(len(TEST)))
    assert prejudiced - neutral > 4 * np.hypot(neutral_error, prejudiced_error)


def test_the_global_accuracy_of_prejudiced_births_lags(groups):
    slow = groups.prejudiced.convergence_time(0.6, interpolate=True).values
    fast = groups.neutral.convergence_time(0.6, interpolate=True).values
    error = np.hypot(slow.std(ddof=1), fast.std(ddof=1)) / np.sqrt(6)
    assert slow.mean() - fast.mean() > 3 * error


def test_the_bias_is_transient(groups):
    gap = groups.prejudiced.mean("class_gap")
    assert gap.value.values[0] - gap.value.values[-1] > 4 * np.hypot(
        gap.stderr.values[0], gap.stderr.values[-1]
    )
    largest = groups.prejudiced.quantity("max_guess")
    assert (largest.values[:, -1] < largest.values[:, 0]).all()


def test_a_prejudiced_birth_costs_more_one_sided_steps(groups):
    assert (groups.prejudiced.class_gap_area().values > groups.neutral.class_gap_area().values.max()).all()


def test_groups_are_runs_of_one_training(groups):
    runs = groups.neutral.dataset.init.values.tolist()
    assert runs == list(groups.filtered.neutral)
    again = train(shallow(), DATA, test=TEST, recipe=SLOW, runs=runs[:2], progress=False)
    np.testing.assert_allclose(again["loss"].values, groups.neutral["loss"].values[:2], rtol=1e-4)
    assert groups.everything.dataset.init.values.tolist() == list(range(6))


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_behind_a_norm_there_is_no_gap(norm):
    """Figure 4: no prejudiced start exists, and unfiltered runs part their classes by counting noise at most."""
    found = compare_groups(shallow(norm, "after"), DATA, recipe=SLOW, runs=6, redraws=60, progress=False)
    assert found.prejudiced is None
    assert found.filtered.drawn >= 60
    gap, error = early(found.everything, "train")
    gamma = float(fl.predict(shallow(norm, "after"), data=DATA.inputs).gamma[-1])
    # |f_0 − f_1| = |2Φ(√γ ξ) − 1| ≈ 2φ(0)√γ|ξ|, on average 2√γ/π, and √(2/(π D)) of counting noise
    expected = 2 * np.sqrt(gamma) / np.pi + np.sqrt(2 / np.pi / len(DATA))
    assert gap < expected + 4 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "placement", "exist"),
    [(None, None, True), ("batch", "before", True), ("layer", "before", True), ("batch", "after", False),
     ("layer", "after", False)],
)  # fmt: skip
def test_figures_2_and_4_at_the_papers_size(norm, placement, exist):
    """SHLP on 20,000 points of 1,000 dimensions, Adam 1e-5, batches of 512; 8 of the 80 epochs."""
    network = fl.Blueprint.mlp(inputs=1000, depth=1, width=100, norm=norm, placement=placement)
    found = compare_groups(
        network, gaussian_blobs(), recipe=Recipe(epochs=8), runs=4, redraws=300, progress=False
    )
    assert (found.prejudiced is not None) is exist
    assert found.neutral is not None
    neutral, _ = early(found.neutral, "train")
    assert abs(neutral) < 0.1 + 4 / np.sqrt(20_000)
    if found.prejudiced is not None:
        gap = found.prejudiced.mean("class_gap")
        assert gap.value.values[0] > 0.85
        assert gap.value.values[-1] > 0.5  # after 320 of 3,200 updates it is still there


def test_grids_of_learning_rates(tmp_path):
    rates = {"sgd": (1e-3, 1e-1), "adam": (1e-4, 1e-2)}
    recipe = Recipe(optimizer="sgd", momentum=0.9, batch_size=128, epochs=3)
    grid = learning_rate_grid(
        shallow(), DATA, rates, recipe=recipe, runs=2, resume=tmp_path / "grid", progress=False
    )
    assert list(grid) == [("sgd", 1e-3), ("sgd", 1e-1), ("adam", 1e-4), ("adam", 1e-2)]
    settings = {key: item.provenance.settings["recipe"] for key, item in grid.items()}
    assert settings["sgd", 1e-1]["momentum"] == 0.9
    assert settings["adam", 1e-2]["momentum"] == 0.0
    assert len({item["loss"].values[0, 0, 0] for item in grid.values()}) == 1  # the same births
    ends = {key: float(item.mean("loss").value[-1]) for key, item in grid.items()}
    assert best_rate(grid) == min(ends, key=ends.get)
    assert best_rate(grid, optimizer="sgd")[0] == "sgd"
    assert {item.name for item in (tmp_path / "grid").iterdir()} == {
        "sgd-0.001", "sgd-0.1", "adam-0.0001", "adam-0.01"
    }  # fmt: skip


def test_a_rate_that_loses_a_run_is_out():
    recipe = Recipe(optimizer="sgd", batch_size=128, epochs=2)
    grid = learning_rate_grid(shallow(), DATA, (1e-2, 1e20), recipe=recipe, runs=2, progress=False)
    assert grid["sgd", 1e20].diverged.all()
    assert best_rate(grid) == ("sgd", 1e-2)
    with pytest.raises(CouldNotError, match="diverged at every one of the 1 rates"):
        best_rate({("sgd", 1e20): grid["sgd", 1e20]})
    with pytest.raises(UsageError, match="at least one learning rate, got none"):
        learning_rate_grid(shallow(), DATA, [])
