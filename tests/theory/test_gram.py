"""The data set's covariance: pair averages, both Gram states, an independent implementation, hard inputs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest

from firstlight.architecture.activations import activation
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import Activation, Dense, Norm, Pool, Residual
from firstlight.theory.dataset.inputs import gram_of_inputs
from firstlight.theory.dataset.norm_quadrature import inverse_square_length, length_rule
from firstlight.theory.dataset.one_variance import along_variances
from firstlight.theory.dataset.products import pair_averages
from firstlight.theory.kernels.kernel import kernel_of
from firstlight.theory.kernels.max_pool import MaxPoolKernel
from firstlight.theory.kernels.numerical import NumericalKernel
from firstlight.theory.predicting import kernels_by
from firstlight.theory.predicting_data import covariance_of_outputs, predict_on
from firstlight.theory.propagation import propagate

REFERENCE = Path(__file__).parent / "reference" / "neural_tangents_depth20.json"
NAMES = ("relu", "leaky_relu", "shifted_relu", "abs", "erf", "gelu", "sin", "cos", "tanh", "softplus", "elu")


def points(size: int = 40, dimension: int = 12, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((size, dimension)) * np.geomspace(1.5, 0.3, dimension) + 0.3


@pytest.mark.parametrize("name", NAMES)
def test_pair_averages_are_the_kernels_own(name: str) -> None:
    generator = np.random.default_rng(0)
    q = generator.uniform(0.3, 3.0, 12)
    c = generator.uniform(-1, 1, (12, 12))
    c = (c + c.T) / 2
    np.fill_diagonal(c, 1)
    kernel = kernel_of(activation(name))
    averages = pair_averages(kernel, q)
    found = averages.block(slice(0, 12), slice(0, 12), c.copy())
    assert found == pytest.approx(np.asarray(kernel.product(q[:, None], q[None, :], c)), abs=1e-9)
    assert averages.mean == pytest.approx(np.asarray(kernel.mean(q)), abs=1e-10)
    assert averages.mean_square == pytest.approx(np.asarray(kernel.mean_square(q)), rel=1e-10)
    assert averages.gain == pytest.approx(np.asarray(kernel.gain(q)), rel=1e-10)


@pytest.mark.parametrize("name", ["hardtanh", "elu"])
def test_duplicates_keep_what_a_truncated_series_leaves_out(name: str) -> None:
    kernel = kernel_of(activation(name))
    q = np.array([0.7, 0.7, 2.0])
    c = np.ones((3, 3))
    c[2, :2] = c[:2, 2] = 0.4
    found = pair_averages(kernel, q).block(slice(0, 3), slice(0, 3), c.copy())
    assert found[0, 1] == pytest.approx(float(kernel.mean_square(0.7)), rel=1e-5)


@pytest.mark.parametrize("name", ["tanh", "silu", "mish", "hardtanh", "selu"])
@pytest.mark.parametrize("c", [0.5, 0.9, -0.9])
def test_points_of_sizes_decades_apart(name: str, c: float) -> None:
    kernel = kernel_of(activation(name))
    q = np.array([0.1, 0.3, 1.0, 1.0, 1.6, 3.0]) ** 2
    found = pair_averages(kernel, q, greatest=lambda: 0.9999)
    block = found.block(slice(0, 6), slice(0, 6), np.full((6, 6), c))
    size = np.sqrt(np.asarray(kernel.mean_square(q)))
    exact = np.asarray(kernel.product(q[:, None], q, c))
    assert np.abs(block - exact).max() == pytest.approx(0, abs=1e-11 * size.max() ** 2)
    assert np.abs((block - exact) / np.multiply.outer(size, size)).max() < 1e-10


@pytest.mark.parametrize("name", ["hardtanh", "relu6", "tanh"])
def test_one_average_at_many_variances(name: str) -> None:
    kernel = kernel_of(activation(name))
    q = np.geomspace(1e-3, 9.0, 400)
    of_all = along_variances(lambda variance: np.array(kernel.mean_square(variance)), q)
    assert of_all == pytest.approx(np.asarray(kernel.mean_square(q)), rel=1e-11)
    assert isinstance(kernel, NumericalKernel)
    of_all = along_variances(lambda variance: kernel.moments(variance).coefficients(96), q)
    for at in (0, 57, 200, 398):
        assert of_all[at] == pytest.approx(kernel.moments(float(q[at])).coefficients(96), abs=1e-11)


def test_max_pool_of_points_of_all_sizes() -> None:
    kernel = MaxPoolKernel(activation("relu"), 4)
    q = np.array([0.2, 1.0, 7.0])
    c = np.array([[1, 0.3, -0.8], [0.3, 1, 0.95], [-0.8, 0.95, 1]])
    found = pair_averages(kernel, q).block(slice(0, 3), slice(0, 3), c.copy())
    assert found == pytest.approx(np.asarray(kernel.product(q[:, None], q[None, :], c)), rel=1e-9)


@pytest.mark.parametrize("name", ["relu", "erf", "gelu"])
def test_twenty_layers_agree_with_an_independent_implementation(name: str) -> None:
    record = json.loads(REFERENCE.read_text())
    blueprint = Blueprint.mlp(inputs=5, depth=record["depth"], activation=name)
    found = covariance_of_outputs(blueprint, np.array(record["inputs"]))
    assert found == pytest.approx(np.array(record["kernels"][name]), rel=1e-11)


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_one_pair_by_brute_force(name: str) -> None:
    """The two-dimensional Gaussian integral itself, by mpmath."""
    inputs = np.array([[1.0, 0.2], [0.5, -0.9]])
    k = 2.0 * inputs @ inputs.T / 2
    phi = {"relu": lambda u: max(u, 0), "tanh": mpmath.tanh}[name]
    a, own = math.sqrt(k[0, 0]), math.sqrt(k[1, 1] - k[0, 1] ** 2 / k[0, 0])

    def along(x: mpmath.mpf) -> mpmath.mpf:
        place = k[0, 1] / a * x
        cut = sorted({-9, 9, max(-9, min(9, -place / own))})
        smooth = mpmath.quad(lambda y: phi(place + own * y) * mpmath.npdf(y), cut, maxdegree=5)
        return phi(a * x) * mpmath.npdf(x) * smooth

    with mpmath.workdps(15):
        exact = 2 * float(mpmath.quad(along, [-9, 0, 9], maxdegree=5))
    found = covariance_of_outputs(Blueprint.mlp(inputs=2, depth=1, activation=name), inputs)
    assert found[0, 1] == pytest.approx(exact, rel=1e-8)


DENSE = Dense("dense", 12, 100, 2.0)
BIASED = Dense("dense", 100, 100, 1.5, 0.2)
RELU, TANH = Activation("relu", activation("relu")), Activation("tanh", activation("tanh"))
LAYER, RMS = Norm("layer", "layer", 100), Norm("rms", "rms", 100)
STACKS = {
    "plain": (DENSE, RELU, DENSE, RELU, DENSE),
    "layer before": (DENSE, LAYER, RELU, DENSE, LAYER, RELU, DENSE),
    "layer after": (DENSE, RELU, LAYER, DENSE, RELU, LAYER, DENSE),
    "rms after": (DENSE, RELU, RMS, DENSE, RELU, RMS, DENSE),
    "biases": (DENSE, LAYER, TANH, BIASED, TANH, BIASED),
    "average pool": (DENSE, RELU, Pool("pool", "avg", 3), DENSE),
    "residual": (DENSE, Residual("unit", (RELU, DENSE), (), 0.7), DENSE),
    "normed residual": (DENSE, Residual("unit", (LAYER, TANH, DENSE)), DENSE),
    "inputs normed": (LAYER, DENSE, RELU, DENSE),
}


@pytest.mark.parametrize("stack", STACKS)
def test_one_function_of_the_angles_is_the_matrix(stack: str) -> None:
    """Every rule, on the state that holds a function and on the state that holds a matrix."""
    composed = gram_of_inputs(points())
    states = [
        propagate(STACKS[stack], state, kernels_by("auto"))[-1].state
        for state in (composed, composed.dense())
    ]
    matrices = [state.matrix() * math.exp(state.log_scale) for state in states]
    assert matrices[0] == pytest.approx(matrices[1], rel=1e-9, abs=1e-11 * matrices[1].max())
    assert states[0].center_and_data()[1] * math.exp(states[0].log_scale) == pytest.approx(
        states[1].center_and_data()[1] * math.exp(states[1].log_scale), rel=1e-9
    )
    assert states[0].log_noise == pytest.approx(states[1].log_noise, rel=1e-10)


@pytest.mark.parametrize("name", ["relu", "abs", "gelu"])
@pytest.mark.parametrize(
    ("norm", "placement"), [(None, None), ("layer", "before"), ("layer", "after"), ("rms", "after")]
)
def test_a_thousand_layers_stay_a_covariance(name: str, norm: str | None, placement: str | None) -> None:
    blueprint = Blueprint.mlp(
        inputs=12, depth=1000, width=100, activation=name, norm=norm, placement=placement
    )
    inputs = points(20)
    inputs[3] = inputs[4]
    profile = predict_on(blueprint, inputs, draws=20, keep_covariance=False)
    for quantity in ("log_gamma", "log_mean_square", "log_data_variance", "log_noise_variance"):
        assert not np.isnan(profile[quantity].values).any()


@pytest.mark.parametrize("norm", [None, "batch", "layer", "rms"])
@pytest.mark.parametrize("placement", ["before", "after"])
def test_every_layer_is_a_covariance(norm: str | None, placement: str) -> None:
    blueprint = Blueprint.mlp(
        inputs=12, depth=6, width=100, norm=norm, placement=placement if norm else None, classes=3
    )
    profile = predict_on(blueprint, points(), draws=50, keep_covariance=True)
    for matrix in profile.covariance.values:
        assert (matrix == matrix.T).all()
        assert np.linalg.eigvalsh(matrix)[0] >= -1e-11 * np.trace(matrix)
    assert (np.abs(profile["correlation"].values) <= 1).all()
    assert profile.center_variance.values + profile.data_variance.values == pytest.approx(
        profile.mean_square.values
    )
    matrix = profile.covariance.values[-1]
    assert float(profile.center_variance[-1]) == pytest.approx(matrix.mean(), rel=1e-8, abs=1e-12)
    centred = matrix - matrix.mean(0) - matrix.mean(1)[:, None] + matrix.mean()
    assert float(profile.effective_rank[-1]) == pytest.approx(
        np.trace(centred) / np.linalg.eigvalsh(centred)[-1], rel=1e-6
    )


@pytest.mark.parametrize("norm", [None, "layer", "rms"])
def test_a_zero_input_stays_zero_and_is_said(norm: str | None) -> None:
    inputs = points(10)
    inputs[[2, 7]] = 0.0
    blueprint = Blueprint.mlp(inputs=12, depth=3, norm=norm)
    found = covariance_of_outputs(blueprint, inputs)
    assert not found[2].any()
    assert not found[:, 7].any()
    assert np.isfinite(found).all()
    profile = predict_on(blueprint, inputs, draws=20)
    assert any("2 points are 0" in note for note in profile.provenance.notes)


@pytest.mark.parametrize("name", ["tanh", "silu", "elu", "hardtanh", "gelu"])
@pytest.mark.parametrize(
    ("norm", "placement"), [(None, None), ("layer", "before"), ("layer", "after"), ("rms", "after")]
)
def test_a_zero_input_is_no_small_input(name: str, norm: str | None, placement: str | None) -> None:
    """φ(0) = 0 to the last bit: a norm would make of 1e-300 what it makes of any other point."""
    inputs = points(7)
    inputs[2] = 0.0
    blueprint = Blueprint.mlp(inputs=12, depth=2, activation=name, norm=norm, placement=placement)
    found = covariance_of_outputs(blueprint, inputs)
    assert not found[2].any()
    assert not found[:, 2].any()
    others = covariance_of_outputs(blueprint, np.delete(inputs, 2, axis=0))
    assert np.delete(np.delete(found, 2, 0), 2, 1) == pytest.approx(others, rel=1e-9, abs=1e-12)


def test_identical_inputs_have_no_variance() -> None:
    profile = predict_on(Blueprint.mlp(inputs=12, depth=2), np.ones((8, 12)), draws=20)
    assert float(profile.data_variance[-1]) == 0
    assert float(profile.gamma[-1]) == math.inf
    normed = predict_on(Blueprint.mlp(inputs=12, depth=2, norm="batch"), np.ones((8, 12)), draws=20)
    assert "do not differ" in normed.coverage.missing[0].reason


def test_eigenvalues_of_the_batch_give_the_noise_gain() -> None:
    eigenvalues = np.geomspace(1.0, 0.01, 12)
    generator = np.random.default_rng(1)
    inverse = 1 / (eigenvalues @ generator.standard_normal((12, 400_000)) ** 2)
    stderr = inverse.std() / math.sqrt(inverse.size)
    assert abs(inverse_square_length(eigenvalues) - inverse.mean()) < 4 * stderr
    assert inverse_square_length(np.ones(2)) == math.inf


@pytest.mark.parametrize(
    "eigenvalues", [np.ones(400), np.geomspace(1, 1e-8, 30), np.array([1.0, 1.0]), np.array([3.0])]
)
def test_the_length_rule_keeps_the_mean_square_at_one(eigenvalues: np.ndarray) -> None:
    rule = length_rule(eigenvalues)
    spectrum = eigenvalues[:, None] / (1 + 2 * np.multiply.outer(eigenvalues, rule.nodes))
    # Σ ẑ² is the number of points whatever the vector: the traces sum to 1
    assert float(spectrum.sum(axis=0) @ rule.weights) == pytest.approx(1, rel=1e-8)


@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_batch_norm_before_the_activation_against_drawn_units(name: str, batch_size: int | None) -> None:
    function = activation(name)
    layers = (DENSE, Norm("norm", "batch", 100), Activation("phi", function))
    steps = propagate(layers, gram_of_inputs(points(48), batch_size=batch_size), kernels_by("auto"))
    state, before = steps[-1].state, steps[0].state
    root = np.linalg.cholesky(before.matrix() + 1e-13 * np.eye(48))
    generator = np.random.default_rng(3)
    found = []
    for _ in range(60):
        units = root @ generator.standard_normal((48, 3000))
        scaled, slope = np.empty_like(units), np.empty_like(units)
        for place in before.batches:
            centred = units[place] - units[place].mean(axis=0)
            deviation = centred.std(axis=0)
            scaled[place], slope[place] = centred / deviation, 1 / deviation
        values = function.value(scaled)
        product = values @ values.T / 3000
        found.append(
            [
                product.mean(),
                np.trace(product) / 48 - product.mean(),
                np.mean((function.derivative(scaled) * slope) ** 2),
            ]
        )
    mean, stderr = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(60)
    center, data = state.center_and_data()
    # units were drawn from K without its scale, and the noise starts at what the dense layer made of 1
    noise = np.exp(state.log_noise).mean() * math.exp(before.log_scale) / np.exp(before.log_noise).mean()
    theory = np.array([center, data, noise])
    sampled = 4 * state.error * np.array([1.0, 1.0, 1.0]) * theory
    assert (np.abs(theory - mean) <= 4 * stderr + sampled).all(), (theory, mean, stderr, state.error)


def test_data_that_make_no_sense_are_refused() -> None:
    blueprint = Blueprint.mlp(inputs=12, depth=1)
    with pytest.raises(ValueError, match="expected 12 coordinates a point, as the network reads, got 5"):
        predict_on(blueprint, np.ones((4, 5)))
    with pytest.raises(ValueError, match="NaN or infinity in point 1"):
        predict_on(blueprint, np.array([[0.0] * 12, [math.nan] * 12]))
    with pytest.raises(ValueError, match="two points or more"):
        predict_on(blueprint, np.ones((1, 12)))
    with pytest.raises(ValueError, match="expected 'exact' with data"):
        predict_on(blueprint, points(), batch_law="leave_one_out")
    with pytest.raises(ValueError, match="choose a batch size"):
        predict_on(Blueprint.mlp(inputs=12, depth=1, norm="batch"), points(9), batch_size=4)
