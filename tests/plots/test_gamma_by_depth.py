"""What the plot of γ against depth draws, read from its artists."""

from __future__ import annotations

import io

import numpy as np
import pytest

from firstlight.errors import CouldNotError, UsageError
from firstlight.plots.gamma_by_depth import plot_gamma_by_depth
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance


def profile(gamma, *, stderr=None, kinds=None, layers=None, engine="theory") -> Profile:
    quantities = {"gamma": gamma} | ({} if stderr is None else {"gamma_stderr": stderr})
    return Profile.from_layers(
        layers or [f"layer{k}" for k in range(len(gamma))],
        quantities,
        provenance=Provenance(engine, "a model", "data"),
        kinds=kinds,
    )


def line_of(figure, label):
    [line] = [line for line in figure.axes[0].lines if line.get_label() == label]
    return line


def test_a_line_through_every_layer_where_kinds_are_not_told():
    figure = plot_gamma_by_depth(profile([0.1, 1.0, 10.0]), labels=["x"])
    line = line_of(figure, "x")
    assert line.get_xdata().tolist() == [0, 1, 2]
    assert line.get_ydata().tolist() == [0.1, 1.0, 10.0]
    assert figure.axes[0].get_yscale() == "log"


def test_the_trunk_is_weight_layers_and_residual_sums():
    mixed = profile(
        [0.1, 9.0, 9.0, 9.0, 0.2, 0.3],
        layers=["stem", "unit1.norm", "unit1.activation", "unit1.linear", "unit1", "output"],
        kinds=["dense", "norm", "activation", "dense", "residual", "dense"],
    )
    assert line_of(plot_gamma_by_depth(mixed, labels=["x"]), "x").get_ydata().tolist() == [0.1, 0.2, 0.3]
    every = plot_gamma_by_depth(mixed, labels=["x"], every_layer=True)
    assert len(line_of(every, "x").get_ydata()) == 6
    assert every.axes[0].get_xlabel() == "layer"


def test_zero_and_infinity_are_marked_at_the_edges():
    figure = plot_gamma_by_depth(profile([0.0, 0.5, 2.0, np.inf]), labels=["x"])
    low, high = figure.axes[0].get_ylim()
    assert np.isnan(line_of(figure, "x").get_ydata()).tolist() == [True, False, False, True]
    zero, infinite = line_of(figure, "_x: 0"), line_of(figure, "_x: infinity")
    assert (zero.get_xdata().tolist(), zero.get_ydata().tolist(), zero.get_marker()) == ([0], [low], "v")
    assert (infinite.get_xdata().tolist(), infinite.get_ydata().tolist(), infinite.get_marker()) == (
        [3],
        [high],
        "^",
    )


def test_a_neutral_network_has_its_entry_in_the_legend():
    figure = plot_gamma_by_depth(profile([0.0, 0.0]), profile([0.1, 0.2]), labels=["neutral", "not"])
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [r"neutral ($\gamma = 0$)", "not"]


def test_what_is_drawn_is_inside_the_axes():
    figure = plot_gamma_by_depth(profile([1e-6, 1e3]), profile([2.0, 5.0]), labels=["x", "y"])
    low, high = figure.axes[0].get_ylim()
    assert low < 1e-6
    assert high > 1e3
    assert low < 1.0 < high


def test_measurements_are_markers_with_a_band_of_two_standard_errors():
    figure = plot_gamma_by_depth(
        profile([1.0, 2.0], stderr=[0.1, 0.3], engine="measurement"), profile([1.0, 2.0]), labels=["m", "t"]
    )
    assert line_of(figure, "m").get_linestyle() == "None"
    assert line_of(figure, "m").get_marker() == "o"
    assert line_of(figure, "t").get_linestyle() != "None"
    [band] = figure.axes[0].collections
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].min() == pytest.approx(0.8)
    assert corners[:, 1].max() == pytest.approx(2.6)


def test_misuse():
    with pytest.raises(UsageError, match="expected at least one Profile, got none"):
        plot_gamma_by_depth()
    with pytest.raises(UsageError, match="expected one for each of the 1 profiles, got 0"):
        plot_gamma_by_depth(profile([1.0]), labels=[])
    bare = Profile.from_layers(["a"], {"kurtosis": [3.0]}, provenance=Provenance("theory", "a model", "data"))
    with pytest.raises(CouldNotError, match="the profile of a model has no gamma; it has kurtosis"):
        plot_gamma_by_depth(bare)


@pytest.mark.parametrize(("kind", "head"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_it_can_be_written(kind, head):
    buffer = io.BytesIO()
    plot_gamma_by_depth(profile([0.0, 0.5, np.inf, np.nan])).savefig(buffer, format=kind)
    assert buffer.getvalue().startswith(head)
