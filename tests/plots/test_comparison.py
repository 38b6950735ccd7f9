"""What the overlay of theory and measurement draws, read from its artists."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.patches import StepPatch

from firstlight.errors import CouldNotError, UsageError
from firstlight.plots.comparison import plot_comparison
from firstlight.results.comparison import Comparison
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import variable
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance

LAYERS = ["linear1", "linear2", "output"]
EXPECTED = [0.01, 0.5, 2.0]
MEASURED = [0.02, 0.45, 2.2]
STDERR = [0.001, 0.05, 0.4]
Z = [10.0, -1.0, 0.5]


def profile(guesses: Guesses | None) -> Profile:
    return Profile.from_layers(
        LAYERS, {"gamma": EXPECTED}, provenance=Provenance("theory", "a model", "data"), guesses=guesses
    )


THEORY = profile(Guesses.from_law(GuessLaw(2.0)))
FOUND = profile(Guesses.from_counts(np.array([[90, 10], [20, 80], [50, 50], [0, 100]])))


def comparison(expected=EXPECTED, measured=MEASURED, stderr=STDERR, z=Z) -> Comparison:
    values = {"reference": expected, "measured": measured, "stderr": stderr, "z": z}
    return Comparison(
        {f"gamma_{name}": variable("layer", np.array(item)) for name, item in values.items()},
        {"layer": variable("layer", LAYERS[: len(expected)])},
        Provenance("comparison", "a model", "data"),
        distance=0.25,
        p_value=0.042,
        compared="fraction of label 0",
    )


def panels(figure):
    top, bottom, right = figure.axes
    return top, bottom, right


def line_of(axes, label):
    [line] = [line for line in axes.lines if line.get_label() == label]
    return line


def test_gamma_is_a_line_under_points_with_bars_of_two_standard_errors():
    top, _, _ = panels(plot_comparison(THEORY, FOUND, comparison()))
    assert top.get_yscale() == "log"
    line = line_of(top, "expected")
    assert line.get_xdata() == pytest.approx([0, 1, 2])
    assert line.get_ydata() == pytest.approx(EXPECTED)
    [bars] = [item for item in top.containers if isinstance(item, ErrorbarContainer)]
    assert bars.lines[0].get_ydata() == pytest.approx(MEASURED)
    assert bars.lines[0].get_linestyle() == "None"
    segments = bars.lines[2][0].get_segments()
    assert [segment[:, 1].tolist() for segment in segments] == [
        pytest.approx([value - 2 * error, value + 2 * error])
        for value, error in zip(MEASURED, STDERR, strict=True)
    ]


def test_the_differences_stand_below_over_a_band_of_three():
    top, bottom, _ = panels(plot_comparison(THEORY, FOUND, comparison()))
    [points] = [line for line in bottom.lines if len(line.get_ydata()) == 3]
    assert points.get_ydata() == pytest.approx(Z)
    [band] = bottom.patches
    assert (band.get_y(), band.get_y() + band.get_height()) == (-3.0, 3.0)
    assert bottom.get_ylim()[1] > 10
    assert bottom.get_position().y1 < top.get_position().y0
    assert bottom.get_xlim() == top.get_xlim()


def test_the_law_lies_over_the_histogram():
    _, _, right = panels(plot_comparison(THEORY, FOUND, comparison(), bins=10))
    [patch] = [item for item in right.patches if isinstance(item, StepPatch)]
    heights, edges, _ = patch.get_data()
    assert len(edges) == 11
    assert heights.sum() * 0.1 == pytest.approx(1.0)
    [law] = [line for line in right.lines if len(line.get_xdata()) > 100]
    assert law.get_ydata() == pytest.approx(GuessLaw(2.0).pdf(law.get_xdata()))
    assert law.get_zorder() > patch.get_zorder()
    legend = right.get_legend()
    assert legend.get_title().get_text() == "fraction of label 0: distance 0.250, $p$ = 0.042"
    assert [text.get_text().splitlines()[0] for text in legend.get_texts()] == ["measured", "expected"]


def test_nothing_and_everything_are_marked_at_the_edges():
    """γ = 0 and rounding around it lie on the floor, infinities on the ceiling; neither stretches the axis."""
    figure = plot_comparison(
        THEORY,
        FOUND,
        comparison([0.1, 0.0, math.inf], [0.1, 1e-14, math.inf], [0.01, 0.0, math.nan], [0, 0, math.nan]),
    )
    top, _, _ = panels(figure)
    low, high = top.get_ylim()
    assert low > 1e-3
    for name in ("expected", "measured"):
        floor, ceiling = (line for line in top.lines if line.get_label() == f"_{name} beyond")
        assert (floor.get_xdata().tolist(), floor.get_ydata().tolist()) == ([1.0], [low])
        assert (ceiling.get_xdata().tolist(), ceiling.get_ydata().tolist()) == ([2.0], [high])
    assert np.isnan(line_of(top, "expected").get_ydata()).tolist() == [False, True, True]


def test_a_difference_without_an_error_is_marked_at_the_edge():
    _, bottom, _ = panels(plot_comparison(THEORY, FOUND, comparison(z=[math.inf, -math.inf, 1.0])))
    low, high = bottom.get_ylim()
    marks = [line for line in bottom.lines if line.get_label() == "_beyond"]
    assert [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in marks] == [
        ([1.0], [low]),
        ([0.0], [high]),
    ]


def test_without_guesses_the_panel_says_so():
    _, _, right = panels(plot_comparison(profile(None), FOUND, comparison()))
    assert [text.get_text() for text in right.texts] == ["one of the two has no guesses"]


def test_misuse():
    empty = Comparison({}, {}, Provenance("comparison", "a model", "data"))
    with pytest.raises(CouldNotError, match="share no gamma; compared: nothing"):
        plot_comparison(THEORY, FOUND, empty)
    with pytest.raises(UsageError, match=r"bins\): expected at least 1, got 0"):
        plot_comparison(THEORY, FOUND, comparison(), bins=0)


@pytest.mark.parametrize(("kind", "head"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_it_can_be_written(kind, head):
    buffer = io.BytesIO()
    plot_comparison(THEORY, FOUND, comparison()).savefig(buffer, format=kind)
    assert buffer.getvalue().startswith(head)
