from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from firstlight.errors import CouldNotError, DataError, UsageError
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guess_null import null_corrected_bias
from firstlight.results.guesses import Guesses


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    """40 initializations of a network with γ = 1.5 and 6 labels, counted on 90 data points."""
    return np.rint(90 * GuessLaw(1.5, 6).sample(40, seed=9, samples=90)).astype(int)


def test_theory_answers_by_its_law() -> None:
    law = GuessLaw(2.0)
    guesses = Guesses.from_law(law)
    g = np.linspace(0.05, 0.95, 7)
    assert (guesses.pdf(g) == law.pdf(g)).all()
    assert (guesses.cdf(g) == law.cdf(g)).all()
    assert (guesses.quantile(g) == law.quantile(g)).all()
    assert (guesses.sample(5, seed=2) == law.sample(5, seed=2)).all()
    assert guesses.ranked.values == pytest.approx([law.mean_max, 1 - law.mean_max])
    assert guesses.ranked_stderr.values.tolist() == [0, 0]
    assert guesses.ties is None
    assert guesses.null.mean_max == 0.5


def test_theory_draws_when_asked_and_says_how() -> None:
    guesses = Guesses.from_law(GuessLaw(2.0, 3), seed=5, draws=500)
    assert "_values" not in guesses.__dict__
    fractions = guesses.fractions
    assert fractions.dims == ("init", "label")
    assert fractions.shape == (500, 3)
    assert (fractions.values == GuessLaw(2.0, 3).sample(500, seed=5)).all()
    assert fractions.attrs == {"source": "theory", "draws": 500, "seed": 5}
    assert guesses.max.dims == ("init",)
    assert (guesses.max.values == fractions.values.max(axis=1)).all()
    assert guesses.bias.values == pytest.approx(null_corrected_bias(fractions.values, None))
    assert Guesses.from_law(GuessLaw(1.0, 50_000)).draws == 400
    assert Guesses.from_law(GuessLaw(1.0, 10)).draws == 10_000


def test_theory_counted_on_a_finite_sample() -> None:
    guesses = Guesses.from_law(GuessLaw(2.0), samples=20)
    counted = GuessLaw(2.0).with_samples(20)
    assert guesses.cdf(0.25) == counted.cdf(0.25)
    assert guesses.quantile(0.2) == counted.quantile(0.2)
    assert np.allclose(guesses.fractions.values * 20, np.rint(guesses.fractions.values * 20))
    assert abs(float(guesses.ranked[0]) - counted.mean_max) < 4 * float(guesses.ranked_stderr[0])
    assert guesses.null.samples == 20
    with pytest.raises(CouldNotError, match=r"20 data points.*guesses\.law\.pdf"):
        guesses.pdf(0.5)


def test_measured_fractions(counts: np.ndarray) -> None:
    ties = np.linspace(0, 0.1, 40)
    guesses = Guesses.from_counts(counts, ties=ties, label_names="abcdef")
    assert guesses.samples == 90
    assert (guesses.fractions.values == counts / 90).all()
    assert guesses.fractions.label.values.tolist() == list("abcdef")
    ordered = np.sort(counts, axis=1)[:, ::-1] / 90
    assert guesses.ranked.values == pytest.approx(ordered.mean(axis=0))
    assert guesses.ranked_stderr.values == pytest.approx(stats.sem(ordered, axis=0))
    assert guesses.ties.values.tolist() == ties.tolist()
    assert guesses.bias.values == pytest.approx(null_corrected_bias(counts / 90, 90))
    table = guesses.to_dataframe()
    assert table.columns.tolist() == [*"abcdef", "max", "bias", "ties"]
    assert table["max"].tolist() == (counts.max(axis=1) / 90).tolist()


def test_measured_law_pools_the_labels(counts: np.ndarray) -> None:
    guesses = Guesses.from_counts(counts)
    pooled = np.sort((counts / 90).ravel())
    for place in (0.0, 1 / 90, 0.1, 0.3, 17 / 90, 1.0, 1.5, -0.1):
        assert float(guesses.cdf(place)) == pytest.approx((pooled <= place + 1e-9).mean())
    p = np.linspace(0.0011, 0.9989, 37)  # no multiple of 1/240, where rounding would choose
    assert guesses.quantile(p) == pytest.approx(np.quantile(pooled, p, method="inverted_cdf"))
    assert (guesses.cdf(guesses.quantile(p)) >= p - 1e-12).all()
    assert np.isnan(guesses.cdf([np.nan, 0.5])).tolist() == [True, False]
    drawn = guesses.sample(200, seed=1)
    rows = {tuple(row) for row in (counts / 90).tolist()}
    assert {tuple(row) for row in drawn.tolist()} <= rows
    assert (drawn == guesses.sample(200, seed=1)).all()
    for question in (guesses.pdf, Guesses.from_draws(counts / 90).pdf):
        with pytest.raises(CouldNotError, match=r"guesses\.cdf or guesses\.quantile.*histogram.*predict"):
            question(0.5)


def test_measured_guesses_agree_with_the_law_they_were_drawn_from() -> None:
    law = GuessLaw(0.9, 4)
    inits = 3000
    guesses = Guesses.from_counts(np.rint(200 * law.sample(inits, seed=1, samples=200)).astype(int))
    theory = Guesses.from_law(law, samples=200, seed=2)
    for place in (0.05, 0.25, 0.6):
        shares = (guesses.fractions.values <= place + 1e-9).mean(axis=1)
        error = math.hypot(shares.std() / math.sqrt(inits), float(theory.counted.cdf_stderr(place)))
        assert abs(float(guesses.cdf(place)) - float(theory.cdf(place))) < 4 * error
    gap = np.abs(guesses.ranked.values - theory.ranked.values)
    assert (gap < 4 * np.hypot(guesses.ranked_stderr.values, theory.ranked_stderr.values)).all()


@pytest.mark.parametrize("top", [1, 2, 5])
def test_leading_labels_lose_no_answer(counts: np.ndarray, top: int) -> None:
    whole, reduced = Guesses.from_counts(counts), Guesses.from_counts(counts, top=top)
    kept = [int(name) for name in reduced.fractions.label.values[:-1]]
    assert kept == np.argsort(-counts.sum(axis=0), kind="stable")[:top].tolist()
    assert reduced.fractions.label.values[-1] == "other"
    assert (reduced.fractions.values[:, :-1] == whole.fractions.values[:, kept]).all()
    assert reduced.fractions.values.sum(axis=1) == pytest.approx(1)
    assert (reduced.max.values == whole.max.values).all()
    assert reduced.bias.values == pytest.approx(whole.bias.values)
    assert reduced.ranked.values == pytest.approx(whole.ranked.values[:top])
    assert reduced.ranked_stderr.values == pytest.approx(whole.ranked_stderr.values[:top])
    places = np.linspace(0, 1, 91)
    assert (reduced.cdf(places) == whole.cdf(places)).all()
    assert (reduced.quantile(places) == whole.quantile(places)).all()
    assert reduced.sample(3).shape == (3, top + 1)
    named = Guesses.from_counts(counts, top=top, label_names="abcdef")
    assert named.fractions.label.values.tolist() == [*("abcdef"[label] for label in kept), "other"]


def test_more_leading_labels_than_labels_keep_all(counts: np.ndarray) -> None:
    assert Guesses.from_counts(counts, top=6).top is None


def test_draws_of_a_joint_law() -> None:
    fractions = GuessLaw(3.0, 3).sample(50, seed=1)
    guesses = Guesses.from_draws(fractions, seed=1)
    assert (guesses.fractions.values == fractions).all()
    assert (guesses.source, guesses.samples, guesses.draws) == ("draws", None, 50)
    assert float(guesses.cdf(0.4)) == pytest.approx((fractions <= 0.4).mean())
    assert guesses.bias.values == pytest.approx(null_corrected_bias(fractions, None))


def test_one_initialization_has_no_error_to_state() -> None:
    guesses = Guesses.from_counts([[3, 1]])
    assert np.isnan(guesses.ranked_stderr.values).all()
    assert "greatest fraction 0.75 on average" in repr(guesses)


def test_one_data_point_shows_no_bias() -> None:
    guesses = Guesses.from_counts([[1, 0], [0, 1]])
    with pytest.raises(CouldNotError, match="one data point"):
        _ = guesses.bias
    assert "bias" not in guesses.to_dataframe()


def test_arrays_are_frozen_and_copied(counts: np.ndarray) -> None:
    mine = counts.copy()
    guesses = Guesses.from_counts(mine)
    mine[0, 0] = 77
    assert (guesses.counts == counts).all()
    with pytest.raises(ValueError, match="read-only"):
        guesses.counts[0, 0] = 1
    with pytest.raises(AttributeError):
        guesses.samples = 3


def test_to_dict_is_plain(counts: np.ndarray) -> None:
    import json

    for guesses in (
        Guesses.from_law(GuessLaw(18.39)),
        Guesses.from_law(GuessLaw(math.inf, 3), samples=50),
        Guesses.from_counts(counts, top=2, ties=np.zeros(40)),
        Guesses.from_draws(counts / 90),
    ):
        plain = json.loads(json.dumps(guesses.to_dict()))
        assert plain["labels"] == guesses.labels
        assert plain["ranked"][0] >= plain["ranked"][-1]
    assert Guesses.from_law(GuessLaw(18.39)).to_dict()["law"]["regime"] == "deep prejudice"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Guesses(2), UsageError, "exactly one of a law, counts or draws.*from_law"),
        (lambda: Guesses.from_counts([1, 2]), UsageError, r"\(init, label\).*\(2,\)"),
        (lambda: Guesses.from_counts([[3], [3]]), UsageError, r"two labels or more.*\(2, 1\)"),
        (lambda: Guesses.from_counts([[0.5, 0.5]]), DataError, "whole numbers"),
        (lambda: Guesses.from_counts([[-1, 2]]), DataError, "none negative"),
        (lambda: Guesses.from_counts([[math.nan, 2]]), DataError, "whole numbers"),
        (lambda: Guesses.from_counts([[1, 2], [2, 2]]), DataError, "sum to 3.*from 3 to 4.*same data"),
        (lambda: Guesses.from_counts([[1, 2]], samples=4), DataError, "sum to 4"),
        (lambda: Guesses.from_counts([[1, 2]], ties=[0, 0]), UsageError, r"ties.*\(1,\).*\(2,\)"),
        (lambda: Guesses.from_counts([[1, 2, 3]], top=0), UsageError, "top.*at least 1.*0"),
        (lambda: Guesses.from_counts([[1, 2]], label_names=["a"]), UsageError, "label_names.*2 names, got 1"),
        (lambda: Guesses.from_draws([[0.5, 0.4]]), DataError, "sum to one"),
        (lambda: Guesses.from_draws([0.5, 0.5]), UsageError, r"\(init, label\)"),
        (lambda: Guesses.from_law(GuessLaw(1.0), samples=0), UsageError, "samples.*0"),
        (lambda: Guesses.from_counts([[1, 2]]).quantile(1.1), UsageError, "between 0 and 1.*1.1"),
    ],
)
def test_misuse_is_one_sentence(call, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
