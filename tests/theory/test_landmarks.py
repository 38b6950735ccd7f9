"""Many points by a few columns of their covariance, against the whole covariance and against draws."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp

from firstlight.architecture.activations import activation
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import Activation, Dense, Layer, Norm, Pool, Residual
from firstlight.results.profile import Profile
from firstlight.theory.dataset.gram import Gram
from firstlight.theory.dataset.inputs import gram_of_inputs
from firstlight.theory.dataset.landmark_gram import LandmarkGram, landmark_gram_of_inputs
from firstlight.theory.dataset.landmark_readout import agreement_probability, outputs_of_landmarks
from firstlight.theory.dataset.landmark_unit_norm import DRAWS
from firstlight.theory.dataset.landmarks import choose_landmarks
from firstlight.theory.predicting import kernels_by
from firstlight.theory.predicting_data import predict_on
from firstlight.theory.propagation import propagate
from firstlight.theory.readout import read_out, read_out_of_factor

NORMS = [(None, None), *itertools.product(("batch", "layer", "rms"), ("before", "after"))]


def points(size: int = 300, dimension: int = 60, seed: int = 0) -> np.ndarray:
    """A spectrum that falls like a power and is never exhausted, points of different size, not centred."""
    generator = np.random.default_rng(seed)
    scores = generator.standard_normal((size, dimension)) / np.sqrt(np.arange(1, dimension + 1))
    scores *= generator.uniform(0.7, 1.5, (size, 1))
    return scores @ generator.standard_normal((dimension, dimension)) + 0.5


def perceptron(depth: int, norm: str | None, placement: str | None, name: str = "relu") -> Blueprint:
    return Blueprint.mlp(
        inputs=60, depth=depth, width=100, norm=norm, placement=placement, activation=name, classes=2
    )


def output(profile: Profile, name: str) -> float:
    return float(profile[name][-1])


DENSE = Dense("dense", 60, 100, 2.0)
BIASED = Dense("dense", 100, 100, 1.5, 0.2)
RELU, TANH = Activation("relu", activation("relu")), Activation("tanh", activation("tanh"))
LAYER, RMS = Norm("layer", "layer", 100), Norm("rms", "rms", 100)
STACKS: dict[str, tuple[Layer, ...]] = {
    "plain": (DENSE, RELU, DENSE, RELU, DENSE),
    "layer after": (DENSE, RELU, LAYER, DENSE, TANH, LAYER, DENSE),
    "rms before": (DENSE, RMS, TANH, BIASED, RMS, RELU, BIASED),
    "gelu": (BIASED, Activation("gelu", activation("gelu")), DENSE),
    "average pool": (DENSE, RELU, Pool("pool", "avg", 3), DENSE),
    "max pool": (DENSE, RELU, Pool("pool", "max", 3), DENSE),
    "residual": (DENSE, Residual("unit", (LAYER, TANH, DENSE), (), 0.7), DENSE),
    "inputs normed": (LAYER, DENSE, RELU, DENSE),
}


@pytest.mark.parametrize("stack", STACKS)
def test_every_elementwise_rule_is_exact(stack: str) -> None:
    """The columns, the diagonal, the common part and the noise are those of the whole covariance."""
    inputs = points(80)
    inputs[3] = inputs[4]
    inputs[7] = 0.0
    chosen = choose_landmarks(80, 24)
    whole: Gram = propagate(STACKS[stack], gram_of_inputs(inputs).dense(), kernels_by("auto"))[-1].state
    state = propagate(STACKS[stack], landmark_gram_of_inputs(inputs, chosen), kernels_by("auto"))[-1].state
    matrix, columns = whole.matrix() * math.exp(whole.log_scale), state.matrix() * math.exp(state.log_scale)
    assert columns == pytest.approx(matrix[:, chosen.columns], rel=1e-9, abs=1e-11 * matrix.max())
    assert state.diagonal * math.exp(state.log_scale) == pytest.approx(matrix.diagonal(), rel=1e-10)
    assert state.log_noise == pytest.approx(whole.log_noise, rel=1e-9)


def departures(inputs: np.ndarray, blueprint: Blueprint, landmarks: int, seeds: int) -> np.ndarray:
    """C, V and γ by landmarks less the exact ones, in standard errors (seed, quantity)."""
    exact = predict_on(blueprint, inputs, draws=10, landmarks=None)
    found = []
    for seed in range(seeds):
        profile = predict_on(blueprint, inputs, draws=10, landmarks=landmarks, seed=seed)
        found.append(
            [
                # what rounding leaves where the landmarks span everything is no error
                (output(profile, name) - output(exact, name))
                / (output(profile, f"{name}_stderr") + 1e-10 * output(exact, "mean_square"))
                for name in ("center_variance", "data_variance", "gamma")
            ]
        )
    return np.array(found)


@pytest.mark.parametrize("depth", [1, 3])
def test_standard_errors_cover(depth: int) -> None:
    """Two standard errors cover at their rate, over all norms and placements and eight choices of landmarks."""
    inputs = points()
    found = np.concatenate([departures(inputs, perceptron(depth, *norm), 80, 8) for norm in NORMS])
    assert np.abs(found).max() < 5
    for column in found.T:
        # a choice of landmarks serves all seven networks: as many independent trials as choices times two or three
        beyond = float(np.mean(np.abs(column) > 2))
        assert beyond <= binom.ppf(0.999, 16, 0.05) / 16


@pytest.mark.parametrize(("norm", "placement"), NORMS)
def test_everything_else_is_near(norm: str | None, placement: str | None) -> None:
    inputs = points()
    exact = predict_on(perceptron(3, norm, placement), inputs, draws=10, landmarks=None)
    found = predict_on(perceptron(3, norm, placement), inputs, draws=10, landmarks=150)
    assert found["mean_square"].values == pytest.approx(exact["mean_square"].values, rel=2e-3)
    assert found["mean_absolute"].values == pytest.approx(exact["mean_absolute"].values, rel=2e-3)
    assert found["kurtosis"].values == pytest.approx(exact["kurtosis"].values, rel=0.02)
    assert found["effective_rank"].values == pytest.approx(exact["effective_rank"].values, rel=0.05)
    assert found["sensitivity"].values == pytest.approx(exact["sensitivity"].values, rel=0.01)
    assert found["gradient_scale"].values == pytest.approx(exact["gradient_scale"].values, rel=0.01)
    assert found["sensitivity_increment_norm"].values == pytest.approx(
        exact["sensitivity_increment_norm"].values, rel=0.01
    )


def test_batch_norm_before_an_activation_without_a_closed_form(seed: int) -> None:
    """tanh behind batch norm, against batch-normalized Gaussian units themselves."""
    inputs = points(400)
    kernel = 2 * inputs @ inputs.T / 60
    values, vectors = np.linalg.eigh(kernel)
    half = vectors * np.sqrt(np.maximum(values, 0))
    generator, found = np.random.default_rng(seed), []
    for _ in range(30):
        units = half @ generator.standard_normal((400, 1000))
        units -= units.mean(axis=0)
        outputs = np.tanh(units / units.std(axis=0))
        found.append((2 * np.mean(outputs.mean(axis=0) ** 2), 2 * np.mean(outputs.var(axis=0))))
    mean, stderr = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(30)
    profile = predict_on(perceptron(1, "batch", "before", "tanh"), inputs, draws=10, landmarks=160, seed=seed)
    for place, name in enumerate(("center_variance", "data_variance")):
        error = math.hypot(stderr[place], output(profile, f"{name}_stderr"))
        assert abs(output(profile, name) - mean[place]) < 4 * error


@pytest.mark.parametrize(
    ("norm", "placement"), [(None, None), ("batch", "before"), ("batch", "after"), ("layer", "after")]
)
def test_guesses_follow_the_law_of_the_whole(norm: str | None, placement: str | None) -> None:
    inputs = points()
    exact = predict_on(perceptron(2, norm, placement), inputs, draws=4000, landmarks=None)
    found = predict_on(perceptron(2, norm, placement), inputs, draws=4000, landmarks=120, seed=1)
    fractions = [np.asarray(profile.guesses.fractions)[:, 0] for profile in (exact, found)]
    assert ks_2samp(*fractions).statistic < 1.95 * math.sqrt(2 / 4000)  # the 0.1 % value


def test_the_check_of_the_guesses_says_what_the_landmarks_miss() -> None:
    """Few landmarks: the drawn law is narrower, by what the check says."""
    inputs, labels = points(600), 3
    layers = STACKS["plain"]
    chosen = choose_landmarks(600, 60)
    state = propagate(layers, landmark_gram_of_inputs(inputs, chosen), kernels_by("auto"))[-1].state
    assert isinstance(state, LandmarkGram)
    outputs = outputs_of_landmarks(state)
    check = outputs.check(state, labels)
    drawn = read_out_of_factor(outputs.half, labels, alone=outputs.alone, draws=20_000, seed=0)
    whole = propagate(layers, gram_of_inputs(inputs), kernels_by("auto"))[-1].state
    exact = read_out(whole.matrix(), labels, draws=20_000, seed=1)
    for fractions, expected, error in (
        (drawn.fractions, check.deviation + check.error, 0.0),
        (exact.fractions, check.deviation, check.stderr),
    ):
        squares = np.sum(fractions**2, axis=1)
        agreement, stderr = squares.mean(), squares.std() / math.sqrt(len(squares))
        deviation = math.sqrt(agreement / labels - 1 / labels**2)
        by_draws = stderr / labels / (2 * deviation)
        # the exact deviation is a mean over 15 checks, the drawn one is off those by as much
        assert abs(deviation - expected) < 4 * math.hypot(by_draws, check.stderr)
        assert error <= check.stderr


@pytest.mark.parametrize("labels", [2, 3, 10])
@pytest.mark.parametrize("c", [-0.4, 0.0, 0.6, 0.98])
def test_chance_that_two_points_get_one_label(labels: int, c: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    first, other = generator.standard_normal((2, 100_000, labels))
    second = c * first + math.sqrt(1 - c * c) * other
    found = float(np.mean(first.argmax(axis=1) == second.argmax(axis=1)))
    expected = float(agreement_probability(labels)(np.array([c]))[0])
    assert abs(found - expected) < 4 * math.sqrt(expected * (1 - expected) / 100_000)


def test_memory_is_bounded_by_the_columns() -> None:
    """Four arrays of n × (m + q), the data and a constant; the whole covariance would be ten times as much."""
    size, landmarks = 6000, 96
    inputs = points(size)
    blueprint = perceptron(3, "layer", "after")
    tracemalloc.start()
    profile = predict_on(blueprint, inputs, draws=20, landmarks=landmarks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert output(profile, "gamma") > 0
    columns = 8 * size * (landmarks + landmarks // 4)
    assert peak < 4 * columns + 2 * inputs.nbytes + 20e6
    assert peak < 8 * size**2 / 8


def test_many_points_take_landmarks_by_themselves() -> None:
    inputs = points(5_200, 20)
    blueprint = Blueprint.mlp(inputs=20, depth=1, width=100)
    profile = predict_on(blueprint, inputs, draws=20)
    assert profile.provenance.settings["landmarks"] == 1024
    assert "1,024 landmarks and 256 checks" in " ".join(profile.provenance.notes)
    assert output(profile, "gamma_stderr") < 1e-3 * output(profile, "gamma")
    few = predict_on(blueprint, inputs[:50], draws=20)
    assert few.provenance.settings["landmarks"] is None
    assert "gamma_stderr" not in few.variables


def test_what_landmarks_cannot_do_is_said() -> None:
    inputs, blueprint = points(100), perceptron(1, "batch", "before")
    with pytest.raises(ValueError, match="90 landmarks and 22 checks need as many points, got 100"):
        predict_on(blueprint, inputs, landmarks=90)
    with pytest.raises(ValueError, match="expected 'auto', None or a whole number from 16, got 3"):
        predict_on(blueprint, inputs, landmarks=3)
    with pytest.raises(ValueError, match="expected the whole covariance to be carried, got landmarks"):
        predict_on(blueprint, inputs, landmarks=32, keep_covariance=True)
    profile = predict_on(blueprint, inputs, landmarks=32, batch_size=10)
    assert "mini-batches has no rule for landmarks" in profile.coverage.missing[0].reason
    alike = predict_on(perceptron(1, "batch", "before"), np.ones((100, 60)), landmarks=32)
    assert "do not differ" in alike.coverage.missing[0].reason


@pytest.mark.parametrize(("name", "pool"), [("relu", None), ("tanh", None), ("relu", 2), ("relu", -2)])
def test_batch_norm_behind_an_activation_unit_by_unit(name: str, pool: int | None, seed: int) -> None:
    """Columns and diagonal, against units drawn from all directions; ±2: the greatest, the mean of two."""
    inputs, size = points(200), abs(pool or 1)
    function = activation(name)
    layers: list[Layer] = [DENSE, Activation("activation", function)]
    if pool:
        layers.append(Pool("pool", "max" if pool > 0 else "avg", size))
    state = landmark_gram_of_inputs(inputs, choose_landmarks(200, 80, seed=seed), seed=seed)
    state = propagate((*layers, Norm("norm", "batch", 100)), state, kernels_by("auto"))[-1].state
    number = 40_000
    values, vectors = np.linalg.eigh(2 * inputs @ inputs.T / 60)
    half = vectors * np.sqrt(np.maximum(values, 0))
    generator = np.random.default_rng(seed)
    units = function.value(half @ generator.standard_normal((200, number * size)))
    groups = units.reshape(200, number, size)
    units = groups.max(axis=2) if pool and pool > 0 else groups.mean(axis=2)
    units -= units.mean(axis=0)
    units /= units.std(axis=0)
    drawn = units @ units.T / number
    square = units**2 @ (units**2).T / number - drawn**2
    error = np.sqrt(square * (1 / number + 1 / DRAWS))
    columns = state.matrix() * math.exp(state.log_scale)
    assert (np.abs(columns - drawn[:, state.columns]) < 5.5 * error[:, state.columns]).all()
    assert (np.abs(state.diagonal - drawn.diagonal()) < 5.5 * error.diagonal()).all()
    assert state.diagonal.mean() == pytest.approx(1, rel=1e-12)


def test_zero_and_identical_points(seed: int) -> None:
    inputs = points(120)
    inputs[:40] = 0.0
    profile = predict_on(perceptron(3, "layer", "before"), inputs, draws=50, landmarks=48, seed=seed)
    exact = predict_on(perceptron(3, "layer", "before"), inputs, draws=50, landmarks=None)
    assert abs(output(profile, "gamma") - output(exact, "gamma")) < 4 * output(profile, "gamma_stderr") + 1e-9
    assert any("40 points are 0" in note for note in profile.provenance.notes)
    alike = predict_on(perceptron(2, None, None), np.ones((120, 60)), draws=20, landmarks=48)
    assert output(alike, "data_variance") == 0
    assert output(alike, "gamma") == math.inf


@pytest.mark.parametrize("norm", [None, "batch", "layer", "rms"])
def test_depth_does_no_harm(norm: str | None) -> None:
    """Two hundred layers: finite, correlations in [−1, 1], γ as by the whole covariance."""
    inputs = points(100)
    blueprint = perceptron(200, norm, "before" if norm else None)
    profile = predict_on(blueprint, inputs, draws=20, landmarks=40)
    for quantity in ("log_mean_square", "log_data_variance", "log_noise_variance"):
        assert not np.isnan(profile[quantity].values).any()
    assert (np.abs(profile["correlation"].values) <= 1).all()
    if norm != "batch":
        exact = predict_on(blueprint, inputs, draws=20, landmarks=None)
        error = 4 * output(profile, "gamma_stderr") + 1e-6 * output(exact, "gamma")
        assert abs(output(profile, "gamma") - output(exact, "gamma")) < error


@pytest.mark.slow
@pytest.mark.real_data
def test_standard_errors_cover_on_pictures(real_data: Callable[[str], Path]) -> None:
    """MNIST, 2,000 images by 400 landmarks, all norms and placements, two depths, six choices."""
    from tests.agreement.test_dataset_theory import pictures

    inputs = pictures("mnist:even-odd,samples=2000", real_data)
    found = np.concatenate(
        [
            departures(
                inputs,
                Blueprint.mlp(inputs=784, depth=depth, norm=norm, placement=placement),
                400,
                6,
            )
            for depth in (1, 5)
            for norm, placement in NORMS
        ]
    )
    assert np.mean(np.abs(found) < 2) >= 0.9
    assert np.abs(found).max() < 5
