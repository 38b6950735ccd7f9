"""Comparison of theory and measurement: accept what is true, reject what is not, say what could not be matched."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2, ks_2samp

import firstlight as fl
from firstlight.errors import UsageError

BLUEPRINT = fl.Blueprint.mlp(depth=2, width=800, inputs=400)


@pytest.fixture(scope="module")
def data() -> torch.Tensor:
    return torch.randn(300, 400, generator=torch.Generator().manual_seed(20))


@pytest.fixture(scope="module")
def measured(data: torch.Tensor) -> fl.Profile:
    return fl.measure(BLUEPRINT, data, inits=60, seed=0, progress=False)


def test_theory_agrees_with_its_own_network(measured: fl.Profile) -> None:
    found = fl.compare(fl.predict(BLUEPRINT), measured)
    assert found.unmatched == ()
    # three layers, three z-scores: a family of 3 at the 1 % level of the normal law
    assert np.abs(found.z("gamma").values).max() < 3.0
    assert found.p_value > 0.01


def test_the_first_layer_is_expected_to_show_the_scatter_of_n_points(measured: fl.Profile) -> None:
    found = fl.compare(fl.predict(BLUEPRINT), measured)
    assert float(found["gamma_reference"][0]) == pytest.approx((1 / 300) / (1 - 1 / 300), rel=1e-12)
    assert abs(float(found.z("gamma")[0])) < 4


def test_a_wrong_theory_is_rejected(measured: fl.Profile) -> None:
    other = fl.predict(fl.Blueprint.mlp(depth=2, width=800, inputs=400, activation="abs"))
    found = fl.compare(other, measured)
    assert np.abs(found.z("gamma").values[1:]).max() > 10
    neutral = fl.predict(fl.Blueprint.mlp(depth=2, width=800, inputs=400, norm="layer", placement="after"))
    assert fl.compare(neutral, measured).p_value < 0.01


def test_batch_norm_after_leaves_exactly_nothing(data: torch.Tensor) -> None:
    blueprint = fl.Blueprint.mlp(depth=2, width=200, inputs=400, norm="batch", placement="after")
    found = fl.compare(fl.predict(blueprint), fl.measure(blueprint, data, inits=20, progress=False))
    assert found["gamma_measured"].values[1:] == pytest.approx(0, abs=1e-9)
    assert np.abs(found.z("gamma").values[1:]) == pytest.approx(0)


def test_guesses_behind_batch_norm_after_scatter_less_than_independent_ones(seed: int) -> None:
    """A batch's outputs sum to zero: the variance of a count is 1 − 2/π of the binomial's."""
    from firstlight.diagnosis.comparing import guess_distance

    samples, inits = 400, 400
    blueprint = fl.Blueprint.mlp(depth=1, width=400, inputs=400, norm="batch", placement="after")
    points = torch.from_numpy(np.random.default_rng(seed).standard_normal((samples, 400)))
    theory = fl.predict(blueprint)
    for batch_size in (samples, samples // 4):
        measured = fl.measure(
            blueprint,
            points,
            inits=inits,
            seed=seed,
            batch_size=batch_size,
            quantities="standard",
            progress=False,
        )
        found = fl.compare(theory, measured)
        assert found.p_value > 0.01 / 2
        independent = guess_distance(theory.guesses, measured.guesses)
        assert independent[1] < 0.01
        counts = measured.guesses.fractions.values[:, 0]
        share = counts.var() / (0.25 / samples)
        assert abs(share - (1 - 2 / np.pi)) < 4 * share * np.sqrt(2 / inits)


def test_a_wrong_theory_is_rejected_however_small_the_signal(data: torch.Tensor) -> None:
    """Mean squares of 1e-12: no difference is small enough to be rounding for that alone."""
    options = {"depth": 2, "width": 300, "inputs": 400, "input_variance": 1e-12}
    measured = fl.measure(fl.Blueprint.mlp(**options), data * 1e-6, inits=20, progress=False)
    right, wrong = (
        fl.compare(fl.predict(fl.Blueprint.mlp(activation=name, **options)), measured)
        for name in ("relu", "abs")
    )
    for name in ("center_variance", "data_variance", "mean_square", "mean_absolute"):
        assert np.abs(wrong.z(name).values[1:]).max() > 10, name
        assert 0 < np.abs(right.z(name).values).max() < 6, name


def test_another_network_is_named(measured: fl.Profile, data: torch.Tensor) -> None:
    assert fl.compare(fl.predict(BLUEPRINT), measured).provenance.notes == ()
    other = fl.Blueprint.mlp(depth=3, width=800, inputs=400)
    assert "the reference is of another network: Blueprint.mlp(inputs=400, depth=3, width=800)" in repr(
        fl.compare(fl.predict(other), measured)
    )
    shuffled = torch.nn.Sequential()
    for name, sizes in {"linear2": (400, 50), "linear1": (50, 50), "output": (50, 2)}.items():
        shuffled.add_module(name, torch.nn.Linear(*sizes, bias=False))
    found = fl.compare(fl.predict(BLUEPRINT), fl.measure(shuffled, data, inits=3, progress=False))
    [note] = found.provenance.notes
    assert note == "the layers run in another order: where linear2 was measured, the reference has linear1"
    assert note in repr(found)


def test_another_mode_is_named(data: torch.Tensor) -> None:
    blueprint = fl.Blueprint.mlp(depth=1, width=50, inputs=400, norm="batch")
    found = fl.compare(
        fl.predict(blueprint), fl.measure(blueprint, data, inits=3, mode="eval", progress=False)
    )
    assert "the reference is for train mode, the measurement was in eval mode" in repr(found)


def test_many_labels_compare_the_largest_fraction(data: torch.Tensor) -> None:
    blueprint = fl.Blueprint.mlp(depth=1, width=800, inputs=400, classes=10)
    found = fl.compare(fl.predict(blueprint), fl.measure(blueprint, data, inits=60, progress=False))
    assert found.compared == "largest fraction"
    assert found.p_value > 0.01


def test_the_p_value_is_uniform_when_the_reference_is_true() -> None:
    """The share of p below 0.1 over 60 true references is binomial(60, 0.1): at most 15 in all but 0.1 % of runs."""
    from firstlight.diagnosis.comparing import guess_distance
    from firstlight.results.guess_law import GuessLaw
    from firstlight.results.guesses import Guesses

    law = GuessLaw(gamma=1.5)
    reference = Guesses.from_law(law)
    low = 0
    for child in range(60):
        fractions = law.sample(40, seed=1000 + child, samples=200)
        drawn = Guesses.from_counts(np.rint(np.asarray(fractions) * 200).astype(int))
        low += guess_distance(reference, drawn, draws=200)[1] < 0.1
    assert low <= 15


def test_the_distance_is_that_of_two_discrete_samples(seed: int) -> None:
    from firstlight.diagnosis.comparing import _distance

    generator = np.random.default_rng(seed)
    for count, size in ((1, 1), (7, 400), (60, 31), (200, 2000)):
        observed, pool = generator.integers(0, 30, count) / 30, np.sort(generator.integers(0, 31, size) / 30)
        assert _distance(observed, pool) == pytest.approx(ks_2samp(observed, pool).statistic, abs=1e-12)


def test_it_saves_prints_and_speaks_in_tables(measured: fl.Profile) -> None:
    found = fl.compare(fl.predict(BLUEPRINT), measured)
    assert "within 3 standard errors" in repr(found)
    assert "Kolmogorov–Smirnov" in repr(found)
    assert math.isclose(found.to_dict()["guesses"]["distance"], found.distance)
    assert list(found.to_dataframe().index) == measured.layers
    assert "<pre>" in found._repr_html_()


def test_misuse_is_one_sentence(measured: fl.Profile) -> None:
    with pytest.raises(UsageError, match=r"compare\(reference\): expected a Profile, got str"):
        fl.compare("theory", measured)
    with pytest.raises(UsageError, match=r"expected compare\(theory, measurement\); swap the two"):
        fl.compare(measured, fl.predict(BLUEPRINT))
    renamed = fl.predict(fl.Blueprint(layers=(fl.Blueprint.mlp(depth=1).layers[1],), inputs=1000, classes=2))
    stranger = fl.predict(fl.Blueprint.mlp(depth=1, residual=1))
    assert renamed.layers == ["linear1"]
    with pytest.raises(UsageError, match="share no layer address"):
        fl.compare(renamed, stranger)


@pytest.mark.parametrize("quantity", ["mean_square", "mean_absolute"])
def test_the_draw_of_the_data_is_an_error_of_every_scale(quantity: str, seed: int) -> None:
    """Over 25 draws of 60 points, Σz² at the first layer is χ² with 25 degrees of freedom, or less."""
    blueprint = fl.Blueprint.mlp(depth=1, width=300, inputs=20)
    theory, total = fl.predict(blueprint), 0.0
    for draw in range(25):
        points = torch.from_numpy(np.random.default_rng([seed, draw]).standard_normal((60, 20)))
        measured = fl.measure(blueprint, points, inits=12, seed=draw, progress=False)
        total += float(fl.compare(theory, measured, draws=1).z(quantity)[0]) ** 2
    assert total < chi2.ppf(1 - 1e-4, 25)
