"""What the plot of guess laws draws, read from its artists."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.patches import StepPatch
from matplotlib.text import Annotation

from firstlight.errors import CouldNotError, UsageError
from firstlight.plots.guess_law import plot_guess_law
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guesses import Guesses
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance


def by_law(gamma: float, labels: int = 2) -> Guesses:
    return Guesses.from_law(GuessLaw(gamma, labels))


def density_line(figure):
    [line] = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 100]
    return line


def legend_texts(figure) -> list[str]:
    [legend] = figure.legends
    return [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("gamma", [0.01, 0.467, 1.0, 18.39, 1e4])
def test_the_line_is_the_density(gamma):
    line = density_line(plot_guess_law(by_law(gamma)))
    place, height = line.get_xdata(), line.get_ydata()
    assert height == pytest.approx(GuessLaw(gamma).pdf(place))
    assert (np.diff(place) > 0).all()
    # the points are dense enough that the polygon holds the mass under it
    inner = np.flatnonzero((place > 0.01) & (place < 0.99))
    law, ends = GuessLaw(gamma), place[inner[[0, -1]]]
    assert np.trapezoid(height[inner], place[inner]) == pytest.approx(
        float(np.diff(law.cdf(ends))[0]), rel=0.01
    )


def test_a_narrow_peak_is_not_cut_off():
    figure = plot_guess_law(by_law(0.02))
    assert figure.axes[0].get_ylim()[1] > density_line(figure).get_ydata().max()


@pytest.mark.parametrize(
    ("gamma", "labels", "arrows"),
    [(0.0, 2, [(0.5, 1.0)]), (np.inf, 2, [(0.0, 0.5), (1.0, 0.5)]), (0.0, 4, [(0.25, 1.0)])],
)
def test_points_of_mass_are_arrows(gamma, labels, arrows):
    figure = plot_guess_law(by_law(gamma, labels))
    drawn = [
        item for item in figure.axes[0].texts if isinstance(item, Annotation) and item.arrow_patch is not None
    ]
    assert len(drawn) == len(arrows)
    for item, (place, probability) in zip(drawn, arrows, strict=True):
        assert item.xy[0] == pytest.approx(place, abs=0.005)
        assert item.xy[1] == pytest.approx(0.92 * probability)
    assert not [line for line in figure.axes[0].lines if len(line.get_xdata()) > 100]


def test_the_legend_names_gamma_and_regime():
    laws = [by_law(18.39), by_law(0.467), by_law(0.0), by_law(np.inf)]
    assert legend_texts(plot_guess_law(*laws, labels=["a", "b", "c", "d"])) == [
        "a\n$\\gamma$ = 18.4: deep prejudice",
        "b\n$\\gamma$ = 0.467: weak prejudice",
        "c\n$\\gamma$ = 0: neutral",
        "d\n$\\gamma$ = $\\infty$: deep prejudice",
    ]


def test_measured_fractions_are_a_histogram_of_mass_one():
    counts = np.array([[90, 10], [20, 80], [50, 50], [0, 100]])
    figure = plot_guess_law(Guesses.from_counts(counts), labels=["m"], bins=10)
    [patch] = [patch for patch in figure.axes[0].patches if isinstance(patch, StepPatch)]
    heights, edges, _ = patch.get_data()
    assert heights.sum() * 0.1 == pytest.approx(1.0)
    assert edges == pytest.approx(np.linspace(0, 1, 11))
    # 8 fractions of exchangeable labels: 0, .1, .2, .5, .5, .8, .9, 1; each bin includes its right end
    assert heights * 0.8 == pytest.approx([2, 1, 0, 0, 2, 0, 0, 1, 1, 1])
    assert legend_texts(figure) == ["m\n4 initializations"]


def test_the_even_share_is_marked():
    figure = plot_guess_law(by_law(2.0, labels=10))
    assert [line.get_xdata()[0] for line in figure.axes[0].lines if len(line.get_xdata()) == 2] == [0.1]


def profile(guesses: Guesses | None) -> Profile:
    return Profile.from_layers(
        ["output"], {"gamma": [1.0]}, provenance=Provenance("theory", "a model", "data"), guesses=guesses
    )


def test_a_profile_gives_its_guesses_and_its_name():
    assert legend_texts(plot_guess_law(profile(by_law(2.0)))) == ["a model\n$\\gamma$ = 2: deep prejudice"]


def test_a_profile_without_guesses_says_so():
    with pytest.raises(
        CouldNotError, match=r"the profile of a model has no guesses; its output was not reached"
    ):
        plot_guess_law(profile(None))


def test_misuse():
    with pytest.raises(UsageError, match="expected at least one Profile or Guesses, got none"):
        plot_guess_law()
    with pytest.raises(UsageError, match="expected one for each of the 1 laws, got 2"):
        plot_guess_law(by_law(1.0), labels=["a", "b"])


@pytest.mark.parametrize(("kind", "head"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_it_can_be_written(kind, head):
    counts = Guesses.from_counts(np.array([[90, 10], [20, 80]]))
    buffer = io.BytesIO()
    plot_guess_law(by_law(3.0), by_law(0.0), counts, labels=["one", "two", "three"]).savefig(
        buffer, format=kind
    )
    assert buffer.getvalue().startswith(head)
