"""What the phase diagram draws, read from its artists."""

from __future__ import annotations

import io

import numpy as np
import pytest

from firstlight.errors import UsageError
from firstlight.plots.phase_diagram import plot_phase_diagram
from firstlight.results.phase_diagram import PhaseDiagram
from firstlight.results.provenance import Provenance

WEIGHTS, BIASES = np.linspace(0.5, 2.5, 21), np.linspace(0.0, 1.0, 11)


def diagram(weights=WEIGHTS, biases=BIASES, *, gamma=None, regime=None) -> PhaseDiagram:
    """A plane in which the slope is the weight variance itself, so that the edge is the line σ_w² = 1."""
    slope = np.broadcast_to(np.asarray(weights)[:, None], (len(weights), len(biases)))
    names = np.where(slope < 1, "ordered", "chaotic").astype(object) if regime is None else regime
    values = 10.0 ** (1 - slope) * np.ones_like(slope) if gamma is None else gamma
    return PhaseDiagram.from_axes(
        weights,
        biases,
        {"gamma_at_depth": values, "slope": slope, "regime": names},
        depth=7,
        provenance=Provenance("theory", "a model", "data"),
    )


def test_the_colour_is_the_logarithm_of_gamma():
    figure = plot_phase_diagram(diagram())
    mesh = figure.axes[0].collections[0]
    drawn = np.asarray(mesh.get_array()).reshape(BIASES.size, WEIGHTS.size)
    assert drawn == pytest.approx(np.broadcast_to(1 - WEIGHTS, drawn.shape))
    assert mesh.norm.vmin == -mesh.norm.vmax == pytest.approx(-1.5)
    assert figure.axes[1].get_ylabel() == r"$\log_{10}\,\gamma$ after 7 hidden layers"
    assert figure.axes[1].get_ylim() == pytest.approx((-1.5, 0.5))


def test_the_middle_colour_is_gamma_one_and_the_ends_differ_to_every_eye():
    colors = plot_phase_diagram(diagram()).axes[0].collections[0].cmap
    middle = np.array(colors(0.5)[:3])
    assert middle.min() > 0.94
    assert np.array(colors(0.0))[2] > 0.6 > np.array(colors(1.0))[2]  # blue against vermillion


def test_the_edge_of_chaos_is_where_the_slope_is_one():
    figure = plot_phase_diagram(diagram())
    [edge] = [item for item in figure.axes[0].collections if hasattr(item, "levels") and not item.filled]
    [path] = edge.get_paths()
    assert path.vertices[:, 0] == pytest.approx(1.0, abs=1e-4)
    assert sorted(path.vertices[:, 1])[:: len(path.vertices) - 1] == pytest.approx([0.0, 1.0])


def test_a_slope_of_one_on_a_whole_region_draws_no_islands():
    weights = np.linspace(1.0, 3.0, 9)
    flat = np.minimum(weights / 2, 1.0)[:, None] * np.ones((1, BIASES.size))
    noisy = flat + 1e-9 * np.random.default_rng(0).standard_normal(flat.shape)
    given = PhaseDiagram.from_axes(
        weights,
        BIASES,
        {
            "gamma_at_depth": np.ones_like(flat),
            "slope": noisy,
            "regime": np.full(flat.shape, "critical", object),
        },
        depth=1,
        provenance=Provenance("theory", "a model", "data"),
    )
    figure = plot_phase_diagram(given)
    [edge] = [item for item in figure.axes[0].collections if hasattr(item, "levels") and not item.filled]
    [path] = edge.get_paths()
    assert path.vertices[:, 0] == pytest.approx(2.0, abs=1e-3)


def test_the_regimes_are_named_inside_themselves():
    texts = {text.get_text(): text.get_position() for text in plot_phase_diagram(diagram()).axes[0].texts}
    assert set(texts) == {"ordered", "chaotic"}
    assert texts["ordered"][0] < 1 < texts["chaotic"][0]


@pytest.mark.parametrize(("name", "hatch"), [("divergent", "////"), ("dead", "\\\\\\\\")])
def test_regimes_without_a_living_fixed_point_are_hatched(name, hatch):
    regime = np.full((WEIGHTS.size, BIASES.size), "ordered", object)
    regime[10:] = name
    figure = plot_phase_diagram(diagram(regime=regime))
    assert [item.hatches for item in figure.axes[0].collections if getattr(item, "filled", False)] == [
        [hatch]
    ]


def test_gamma_zero_is_dotted_and_infinity_is_the_end_of_the_colours():
    gamma = np.ones((WEIGHTS.size, BIASES.size))
    gamma[:5], gamma[-5:] = 0.0, np.inf
    figure = plot_phase_diagram(diagram(gamma=gamma))
    assert [item.hatches for item in figure.axes[0].collections if getattr(item, "filled", False)] == [
        ["...."]
    ]
    mesh = figure.axes[0].collections[0]
    colors = mesh.to_rgba(mesh.get_array()).reshape(BIASES.size, WEIGHTS.size, 4)
    assert colors[0, 0] == pytest.approx(mesh.cmap(0.0))
    assert colors[0, -1] == pytest.approx(mesh.cmap(1.0))


@pytest.mark.parametrize("axis", ["weight", "bias"])
def test_one_varying_variance_is_a_curve(axis):
    weights, biases = (WEIGHTS, [0.1]) if axis == "weight" else ([1.5], BIASES)
    figure = plot_phase_diagram(diagram(weights, biases))
    [curve] = [line for line in figure.axes[0].lines if line.get_label() == "gamma"]
    assert curve.get_xdata().tolist() == list(weights if axis == "weight" else biases)
    edges = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_label() == "edge of chaos"]
    assert edges == (pytest.approx([1.0], abs=1e-4) if axis == "weight" else [])
    assert axis in figure.axes[0].get_xlabel()


def test_a_single_point_is_refused():
    with pytest.raises(UsageError, match="expected a grid of weight or bias variances, got a single point"):
        plot_phase_diagram(diagram([1.0], [0.0]))


@pytest.mark.parametrize(("kind", "head"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_it_can_be_written(kind, head):
    gamma = np.ones((WEIGHTS.size, BIASES.size))
    gamma[0], gamma[1], gamma[2] = 0.0, np.inf, np.nan
    buffer = io.BytesIO()
    plot_phase_diagram(diagram(gamma=gamma)).savefig(buffer, format=kind)
    assert buffer.getvalue().startswith(head)
