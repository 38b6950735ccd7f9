from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray as xr

import firstlight as fl
from firstlight.errors import CouldNotError, UsageError
from firstlight.results.guess_null import null
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory

ORIGIN = Provenance("measurement", "net", "data", seed=3)
STEPS = [0, 1, 3, 9]


def trajectory(recalls, *, per_class=100, lost=None, losses=None, steps=STEPS, **options) -> Trajectory:
    """Runs of two classes with these recalls (init, step, label), everything in one split."""
    right = np.rint(np.asarray(recalls, dtype=float) * per_class).astype(int)[:, :, None]
    totals = np.full(right.shape, per_class)
    guesses = right + (totals - right)[..., ::-1]
    runs = len(right)
    values = np.ones((runs, len(steps), 1)) if losses is None else losses
    return Trajectory.from_counts(
        steps=steps,
        splits=["train"],
        guesses=guesses,
        right=right,
        totals=totals,
        losses=values,
        diverged_step=lost,
        provenance=ORIGIN,
        **options,
    )


RIGHTWARD = [[0.0, 1.0], [0.4, 0.9], [0.6, 0.8], [0.8, 0.8]]  # label 1 is preferred
LEFTWARD = [[0.9, 0.1], [0.9, 0.5], [0.9, 0.7], [0.9, 0.9]]


def test_fractions_accuracy_and_recall_follow_from_the_counts():
    found = trajectory([RIGHTWARD])
    assert found["guess_fractions"].values[0, 0, 0].tolist() == [0.0, 1.0]
    assert found["guess_fractions"].values[0, 1, 0].tolist() == [0.25, 0.75]
    assert found["accuracy"].values[0, :, 0].tolist() == [0.5, 0.65, 0.7, 0.8]
    assert found["max_guess"].values[0, :, 0].tolist() == [1.0, 0.75, 0.6, 0.5]
    assert found["recall"].sel(step=3, split="train", label="0").item() == 0.6
    assert found["samples"].values.tolist() == [[[200]] * 4]


def test_class_0_is_the_class_preferred_at_birth():
    found = trajectory([RIGHTWARD, LEFTWARD])
    assert found["order"].values.tolist() == [[1, 0], [0, 1]]
    ordered = found.quantity("recall", ordered=True)
    assert ordered.dims == ("init", "step", "rank")
    assert ordered.values[0].tolist() == [pair[::-1] for pair in RIGHTWARD]
    assert ordered.values[1].tolist() == LEFTWARD
    assert found.quantity("class_gap").values == pytest.approx(
        np.array([[1.0, 0.5, 0.2, 0.0], [0.8, 0.4, 0.2, 0.0]])
    )
    assert found.initial_gap.values == pytest.approx([1.0, 0.8])
    assert found.prejudiced(0.9).runs == 1


def test_averages_carry_errors_and_counts():
    values = np.array([RIGHTWARD, LEFTWARD, LEFTWARD])
    average = trajectory(values).mean("recall", ordered=True)
    first = np.array([run[0][0 if run is not RIGHTWARD else 1] for run in (RIGHTWARD, LEFTWARD, LEFTWARD)])
    assert average.value.values[0, 0] == pytest.approx(first.mean())
    assert average.stderr.values[0, 0] == pytest.approx(first.std(ddof=1) / np.sqrt(3))
    assert average["count"].values.tolist() == [[3, 3]] * 4
    assert np.isnan(trajectory(values[:1]).mean("accuracy").stderr.values).all()


def test_diverged_runs_are_counted_and_left_out():
    losses = np.ones((3, 4, 1))
    losses[2, 2:] = np.nan
    found = trajectory([RIGHTWARD, LEFTWARD, LEFTWARD], lost=[-1, -1, 3], losses=losses)
    same = trajectory([RIGHTWARD, LEFTWARD])
    for name in ("loss", "accuracy", "max_guess", "class_gap"):
        xr.testing.assert_equal(found.mean(name), same.mean(name))
    assert found.diverged.tolist() == [False, False, True]
    assert "1 of 3 runs diverged (seen at step 3)" in repr(found)
    assert np.isnan(found.convergence_time(0.6).values[2])
    assert np.isnan(found.class_gap_area().values[2])


def test_convergence_is_the_last_crossing():
    wavering = [[0.5, 0.5], [0.9, 0.9], [0.2, 0.2], [0.9, 0.9]]
    found = trajectory([RIGHTWARD, wavering, [[0.5, 0.5]] * 4])
    assert found.convergence_time(0.65).values.tolist()[:2] == [1.0, 9.0]
    assert np.isnan(found.convergence_time(0.65).values[2])
    assert found.convergence_time(0.5).values.tolist() == [0.0, 9.0, 0.0]


def test_a_crossing_between_records_is_linear_in_the_logarithm():
    found = trajectory([[[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.9, 0.9]]])
    tau = found.convergence_time(0.7, interpolate=True).item()  # half-way from 1 + 3 to 1 + 9
    assert tau == pytest.approx(np.sqrt(4 * 10) - 1)


def test_absorption_is_when_counting_noise_explains_the_rest():
    found = trajectory([RIGHTWARD])
    assert found.neutral_level() == pytest.approx(null(2, 200).max_quantile(0.99), abs=1 / 200)  # one count
    assert found.absorption_time().item() == 9
    assert found.absorption_time(0.75).item() == 1


def test_uneven_classes_may_be_guessed_unevenly():
    right = np.array([[[[90, 10]]]])
    found = Trajectory.from_counts(
        steps=[0],
        splits=["train"],
        guesses=right,
        right=right,
        totals=right,
        losses=np.zeros((1, 1, 1)),
        provenance=ORIGIN,
    )
    assert found.neutral_level() == pytest.approx(0.9 + 2.5758293 * np.sqrt(0.09 / 100))
    assert found.absorption_time().item() == 0


def test_the_gap_area_is_in_steps():
    found = trajectory([RIGHTWARD])
    assert found.class_gap_area().item() == pytest.approx(0.75 * 1 + 0.35 * 2 + 0.1 * 6)


def test_gamma_is_the_ratio_of_averages():
    centers, spreads = np.array([1.0, 4.0]), np.array([2.0, 3.0])
    extra = {
        "center_variance": np.broadcast_to(centers[:, None, None], (2, 4, 1)),
        "data_variance": np.broadcast_to(spreads[:, None, None], (2, 4, 1)),
        "gamma": np.broadcast_to((centers / spreads)[:, None, None], (2, 4, 1)),
    }
    found = trajectory([RIGHTWARD, LEFTWARD], extra=extra, layers=["output"]).mean("gamma")
    assert found.value.values.ravel() == pytest.approx([1.0] * 4)
    residual = centers - spreads
    assert found.stderr.values.ravel() == pytest.approx([np.sqrt((residual**2).sum() / 2) / 2.5] * 4)


def test_archive_and_plain_forms(tmp_path):
    found = trajectory([RIGHTWARD, LEFTWARD], lost=[-1, 9], inits=[4, 17], label_names=["cat", "dog"])
    back = fl.load(found.save(tmp_path / "t.nc"))
    assert type(back) is Trajectory
    xr.testing.assert_identical(back.dataset, found.dataset)
    assert repr(back) == repr(found)
    assert back.provenance == found.provenance
    json.dumps(found.to_dict())
    table = found.to_dataframe()
    assert table.loc[(17, 1, "train"), "recall[dog]"] == 0.5
    assert len(table) == 8
    assert all(len(line) <= 100 for line in repr(found).splitlines())
    HTMLParser().feed(found._repr_html_())


def test_merging_keeps_runs_and_fills_missing_steps():
    early = trajectory([RIGHTWARD], inits=[0])
    late = trajectory([LEFTWARD], steps=[0, 1, 3, 20], inits=[1])
    found = Trajectory.merge([early, late])
    assert found.steps.tolist() == [0, 1, 3, 9, 20]
    assert found["accuracy"].values[0, :, 0].tolist()[:4] == early["accuracy"].values[0, :, 0].tolist()
    assert np.isnan(found["accuracy"].values[0, 4, 0])
    assert found.mean("accuracy")["count"].values.tolist() == [2, 2, 2, 1, 1]
    assert found.convergence_time(0.6).values.tolist() == [
        early.convergence_time(0.6).item(),
        late.convergence_time(0.6).item(),
    ]
    assert found.provenance.settings["runs"] == 2


def test_misuse_is_told():
    found = trajectory([RIGHTWARD])
    with pytest.raises(UsageError, match=r"expected one of 'loss', 'accuracy'.*did you mean 'recall'"):
        found.mean("recal")
    with pytest.raises(UsageError, match="split: expected one of 'train', got 'test'"):
        found.mean("loss", split="test")
    with pytest.raises(UsageError, match="'loss' has no labels to order"):
        found.mean("loss", ordered=True)
    with pytest.raises(UsageError, match="accuracy above 0 and at most 1, got 60"):
        found.convergence_time(60)
    with pytest.raises(CouldNotError, match="no run of the 1 is chosen"):
        found.neutral()
    with pytest.raises(UsageError, match="mask of 1 runs, got shape"):
        found.select([True, False])
    with pytest.raises(UsageError, match="has the labels"):
        Trajectory.merge([found, trajectory([RIGHTWARD], label_names=["a", "b"])])
    with pytest.raises(UsageError, match="ascending order"):
        trajectory([RIGHTWARD], steps=[0, 3, 1, 9])
