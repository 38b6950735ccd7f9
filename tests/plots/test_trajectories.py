"""What the plot of trajectories draws, read from its artists."""

from __future__ import annotations

import io

import numpy as np
import pytest

from firstlight.errors import CouldNotError, UsageError
from firstlight.plots.trajectories import plot_trajectories
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory

STEPS = [0, 1, 9, 100]


def trajectory(recalls, *, lost=None) -> Trajectory:
    right = np.rint(np.asarray(recalls, dtype=float) * 100).astype(int)[:, :, None]
    return Trajectory.from_counts(
        steps=STEPS,
        splits=["train"],
        guesses=right + (100 - right)[..., ::-1],
        right=right,
        totals=np.full(right.shape, 100),
        losses=np.ones((len(right), 4, 1)),
        diverged_step=lost,
        provenance=Provenance("measurement", "a net", "data"),
    )


BIASED = [[0.0, 1.0], [0.2, 0.9], [0.5, 0.8], [0.8, 0.8]]
FAIR = [[0.5, 0.5], [0.6, 0.6], [0.7, 0.7], [0.8, 0.8]]


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_three_panels_of_means():
    two = trajectory([BIASED, FAIR])
    figure = plot_trajectories(two, labels=["x"])
    top, middle, bottom = figure.axes[:3]
    assert lines(top)["x (2 runs)"].get_xdata().tolist() == STEPS
    assert lines(top)["x (2 runs)"].get_ydata() == pytest.approx(two.mean("accuracy").value.values)
    assert lines(middle)["x"].get_ydata() == pytest.approx([0.75, 0.75, 0.75, 0.8])
    assert lines(middle)["_x: others"].get_ydata() == pytest.approx([0.25, 0.4, 0.6, 0.8])
    assert lines(middle)["_x: others"].get_linestyle() == "--"
    assert lines(bottom)["x"].get_ydata() == pytest.approx(two.mean("max_guess").value.values)
    assert bottom.get_xscale() == "symlog"
    band = top.collections[0].get_paths()[0].vertices[:, 1]
    error = two.mean("accuracy").stderr.values[0]
    assert band.min() <= two.mean("accuracy").value.values[0] - error + 1e-9


def test_the_line_of_what_is_neutral_and_the_births():
    figure = plot_trajectories(trajectory([BIASED]), trajectory([FAIR]), labels=["a", "b"])
    level = trajectory([FAIR]).neutral_level()
    assert any(line.get_ydata()[0] == level for line in figure.axes[2].lines)
    [inset] = figure.axes[0].child_axes
    heights = [patch.get_height() for patch in inset.patches]
    assert np.count_nonzero(heights) == 2  # one birth at 0, one at ½
    given = plot_trajectories(trajectory([FAIR]), births=np.tile([0.25, 0.75], (9, 1)))
    assert np.count_nonzero([patch.get_height() for patch in given.axes[0].child_axes[0].patches]) == 1


def test_lost_runs_are_counted_in_the_legend():
    figure = plot_trajectories(trajectory([BIASED, FAIR], lost=[-1, 9]), labels=["x"])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["x (1 run, 1 diverged)"]


def test_series_differ_by_colour_and_marker():
    figure = plot_trajectories(trajectory([BIASED]), trajectory([FAIR]), labels=["a", "b"])
    one, two = (lines(figure.axes[0])[f"{name} (1 run)"] for name in "ab")
    assert one.get_color() != two.get_color()
    assert one.get_marker() != two.get_marker()


@pytest.mark.parametrize("form", ["png", "pdf", "svg"])
def test_it_can_be_written(form):
    buffer = io.BytesIO()
    plot_trajectories(trajectory([BIASED])).savefig(buffer, format=form)
    assert buffer.getbuffer().nbytes > 5000


def test_misuse_is_told():
    with pytest.raises(UsageError, match="at least one Trajectory, got none"):
        plot_trajectories()
    with pytest.raises(UsageError, match="expected 1, one for each trajectory, got 2"):
        plot_trajectories(trajectory([FAIR]), labels=["a", "b"])
    with pytest.raises(CouldNotError, match="all 1 runs of 'a net' diverged"):
        plot_trajectories(trajectory([FAIR], lost=[0]))
