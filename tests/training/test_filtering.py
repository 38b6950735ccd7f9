"""Groups hold what their thresholds say, in the shares that theory predicts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import firstlight as fl
from firstlight.data import gaussian_blobs, gaussian_noise
from firstlight.errors import UsageError
from firstlight.training import filter_initializations

DATA = gaussian_noise(samples=400, dimensions=300)
SHALLOW = fl.Blueprint.mlp(inputs=300, depth=1, width=100)
GAMMA = 1 / (np.pi - 1)


def within(gap):
    """P(|f_0 − f_1| < gap) of an infinite data set at γ = 1/(π − 1)."""
    return 2 * ndtr(ndtri((1 + gap) / 2) / np.sqrt(GAMMA)) - 1


def test_the_groups_are_initializations_of_measure():
    found = filter_initializations(SHALLOW, DATA, runs=3, prejudiced_above=0.7, seed=2)
    profile = fl.measure(SHALLOW, DATA, inits=found.drawn, seed=2, quantities="guesses", progress=False)
    gap = np.abs(np.diff(profile.guesses.fractions.values, axis=1))[:, 0]
    assert found.fractions == pytest.approx(profile.guesses.fractions.values, abs=1 / 400)
    assert np.flatnonzero(gap < 0.1)[:3].tolist() == list(found.neutral)
    assert np.flatnonzero(gap > 0.7)[:3].tolist() == list(found.prejudiced)
    assert max(*found.neutral, *found.prejudiced) == found.drawn - 1  # it stops with the last find


def test_shares_are_those_of_theory(seed):
    found = filter_initializations(
        SHALLOW, DATA, groups=["prejudiced"], prejudiced_above=0.5, runs=120, seed=seed % 1000
    )
    share, _ = found.share("prejudiced")
    expected = 1 - within(0.5)
    error = np.sqrt(expected * (1 - expected) / found.drawn)
    # 400 points and 100 units may move γ by a tenth
    bias = abs((1 - within(0.5)) - (2 - 2 * ndtr(ndtri(0.75) / np.sqrt(1.1 * GAMMA))))
    assert abs(share - expected) < 4 * error + bias


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_behind_a_norm_no_draw_is_prejudiced(norm, seed):
    blueprint = fl.Blueprint.mlp(inputs=300, depth=1, width=100, norm=norm, placement="after")
    found = filter_initializations(blueprint, DATA, runs=2, redraws=120, seed=seed % 1000)
    gamma = float(fl.predict(blueprint, data=DATA.inputs).gamma[-1])
    # what so small a γ allows at all: |2Φ(√γ ξ) − 1| > 0.9 in one of a thousand such searches, or fewer
    rare = 2 * ndtr(-ndtri(0.95) / np.sqrt(gamma)) if gamma > 0 else 0.0
    assert found.drawn * rare < 1e-3
    assert found.prejudiced == ()
    assert len(found.neutral) == 2
    assert found.drawn >= 120
    assert "> 0.9: 0 of 2" in repr(found)


def test_it_draws_at_least_so_many_and_finds_the_same():
    short = filter_initializations(SHALLOW, DATA, groups=["neutral"], runs=2, seed=3)
    whole = filter_initializations(SHALLOW, DATA, groups=["neutral"], runs=2, seed=3, least_draws=60)
    assert short.drawn < whole.drawn == 60
    assert whole.neutral == short.neutral
    assert np.array_equal(whole.fractions[: short.drawn], short.fractions)
    with pytest.raises(
        UsageError, match=r"filter_initializations\(least_draws\): expected at least 0, got -1"
    ):
        filter_initializations(SHALLOW, DATA, least_draws=-1)


def test_several_classes_by_their_maximum():
    blueprint = fl.Blueprint.mlp(inputs=30, depth=5, width=40, classes=5)
    data = gaussian_blobs(samples=100, dimensions=30, classes=5)
    found = filter_initializations(
        blueprint, data, runs=2, measure="max", neutral_below=0.5, prejudiced_above=0.8
    )
    chosen = found.fractions.max(1)
    assert (chosen[list(found.neutral)] < 0.5).all()
    assert (chosen[list(found.prejudiced)] > 0.8).all()


def test_an_interrupted_search_goes_on(tmp_path, monkeypatch):
    from firstlight.training import filtering

    whole = filter_initializations(SHALLOW, DATA, runs=4, resume=tmp_path / "f", prejudiced_above=0.6)
    looks = []
    look = filtering.look
    monkeypatch.setattr(filtering, "look", lambda *a: looks.append(1) or look(*a))
    again = filter_initializations(SHALLOW, DATA, runs=4, resume=tmp_path / "f", prejudiced_above=0.6)
    more = filter_initializations(SHALLOW, DATA, runs=5, resume=tmp_path / "f", prejudiced_above=0.6)
    assert (again.neutral, again.prejudiced) == (whole.neutral, whole.prejudiced)
    assert len(looks) == max(0, more.drawn - whole.drawn)


def test_misuse_is_told():
    with pytest.raises(UsageError, match="expected one of 'neutral', 'prejudiced', got 'biased'"):
        filter_initializations(SHALLOW, DATA, groups=["biased"])
    with pytest.raises(UsageError, match="0 ≤ neutral_below ≤ prejudiced_above ≤ 1"):
        filter_initializations(SHALLOW, DATA, neutral_below=0.9, prejudiced_above=0.1)
