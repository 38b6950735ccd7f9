"""Leading 1/width terms against sample correlations and networks drawn at that width."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import Dense
from firstlight.errors import CouldNotError, UsageError
from firstlight.theory.dataset import leading_width
from firstlight.theory.dataset.leading_width import width_terms
from firstlight.theory.predicting_data import predict_on
from firstlight.theory.readout import _factor_of_products, read_out

SLOPES = {"relu": (0.0, 1.0), "leaky": (0.3, 1.0), "abs": (-1.0, 1.0)}


def block(name, norm):
    return leading_width._Block(Dense("one", 1, 1), SLOPES[name], norm, 1.0)


def pairs(name, c, generator, shape):
    """Activations of two points, (…, 2)."""
    u = generator.standard_normal((*shape, 2))
    u[..., 1] = c * u[..., 0] + math.sqrt(1 - c * c) * u[..., 1]
    left, right = SLOPES[name]
    return np.where(u > 0, right * u, left * u)


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("c", [-0.7, 0.0, 0.4, 0.95])
@pytest.mark.parametrize("norm", ["layer", "rms", None])
def test_a_step_is_that_of_a_sample_correlation(name, c, norm, seed):
    """Mean and variance over many averages of N units; what is left out is of order 1/N²."""
    units, draws = 250, 20_000
    values = np.concatenate(
        [pairs(name, c, np.random.default_rng([seed, k]), (draws // 20, units)) for k in range(20)]
    )
    if norm == "layer":
        values = values - values.mean(axis=1, keepdims=True)
    (xx, yy), xy = np.moveaxis((values**2).mean(axis=1), 1, 0), (values[..., 0] * values[..., 1]).mean(axis=1)
    lengths = np.sqrt(xx * yy) if norm is None else np.ones(draws)
    found = xy / np.sqrt(xx * yy)
    mean = np.average(found, weights=lengths)
    moments = leading_width._Moments.at(np.array([c]), block(name, norm))
    bias = moments.weighted_bias if norm is None else moments.bias
    expected = moments.map[0] + bias[0] / units
    beyond = 40 / units**2
    assert abs(mean - expected) < 4 * found.std() / math.sqrt(draws) + beyond
    spread = (found - found.mean()) ** 2 * units
    assert abs(spread.mean() - moments.noise[0]) < 4 * spread.std() / math.sqrt(draws) + beyond * units
    if norm is None:
        square = (np.array(SLOPES[name]) ** 2).sum() / 2
        fall = 1 - (moments.fourth - moments.squares[0]) / (4 * units)
        error = lengths.std() / math.sqrt(draws) / square
        assert abs(lengths.mean() / square - fall) < 4 * error + beyond


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("norm", ["layer", None])
def test_slope_and_curvature_are_those_of_the_map(name, norm):
    c, step = np.linspace(-0.9, 0.9, 7), 1e-4
    below, here, above = (leading_width._Moments.at(c + move, block(name, norm)) for move in (-step, 0, step))
    np.testing.assert_allclose(here.slope, (above.map - below.map) / (2 * step), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        here.curvature, (above.map - 2 * here.map + below.map) / step**2, rtol=1e-4, atol=1e-6
    )


def points(seed, number=40, inputs=30):
    generator = np.random.default_rng(seed)
    return generator.standard_normal((number, inputs)) + 0.4 * generator.standard_normal(inputs)


CHAINS = [
    ("relu", None),
    ("relu", "layer"),
    ("relu", "rms"),
    ("abs", "layer"),
    ("leaky_relu:negative_slope=0.3", None),
    ("leaky_relu:negative_slope=0.3", "layer"),
]


@pytest.mark.parametrize(("activation", "norm"), CHAINS)
def test_networks_of_that_width_agree(activation, norm, seed):
    """γ of an output of 150 units, which tell it well; behind layer norms the limit is seen to be another one."""
    blueprint = Blueprint.mlp(
        inputs=30,
        depth=8,
        width=150,
        classes=150,
        activation=activation,
        norm=norm,
        placement="after" if norm else None,
    )
    x = points(seed)
    drawn = predict_on(blueprint, x, width="finite", inits=400, seed=seed)
    leading, limit = (predict_on(blueprint, x, width=width, draws=1) for width in ("leading", "infinite"))
    error = float(drawn["gamma_stderr"][-1])
    assert abs(float(leading.gamma[-1]) - float(drawn.gamma[-1])) < 4 * error
    if norm == "layer":  # the others differ by a few percent
        assert abs(float(limit.gamma[-1]) - float(drawn.gamma[-1])) > 4 * error
    np.testing.assert_allclose(leading.mean_square, limit.mean_square, rtol=1e-12)
    np.testing.assert_allclose(leading.sensitivity, limit.sensitivity)
    assert any("leading 1/width" in note for note in leading.provenance.notes)


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_labels_that_share_units_guess_less_evenly(norm, seed):
    """The mean of max G over ten labels, against networks of that width; without shared units it is too small."""
    blueprint = Blueprint.mlp(inputs=30, depth=4, width=40, classes=10, norm=norm, placement="after")
    x = points(seed)
    drawn = predict_on(blueprint, x, width="finite", inits=1500, seed=seed)
    leading, limit = (
        predict_on(blueprint, x, width=width, draws=4000, seed=seed) for width in ("leading", "infinite")
    )
    found, near, far = (
        np.asarray(profile.guesses.fractions).max(axis=1) for profile in (drawn, leading, limit)
    )
    error = math.hypot(found.std() / math.sqrt(len(found)), near.std() / math.sqrt(len(near)))
    assert abs(near.mean() - found.mean()) < abs(far.mean() - found.mean()) / 3
    assert found.mean() - far.mean() > 4 * error


def test_the_limit_of_great_width_is_the_limit():
    x = points(1)
    for norm in (None, "layer"):
        blueprint = Blueprint.mlp(
            inputs=30, depth=5, width=10**9, norm=norm, placement="after" if norm else None
        )
        leading, limit = (predict_on(blueprint, x, width=width, draws=1) for width in ("leading", "infinite"))
        np.testing.assert_allclose(leading.gamma, limit.gamma, rtol=1e-6)


def test_biases_behind_a_norm_and_a_covariance_that_is_asked_for(seed):
    blueprint = Blueprint.mlp(
        inputs=30, depth=3, width=80, classes=80, norm="layer", placement="after", bias_variance=0.1
    )
    first = [
        replace(layer, bias_variance=0.0) if layer.address == "linear1" else layer
        for layer in blueprint.layers
    ]
    blueprint, x = replace(blueprint, layers=tuple(first)), points(seed)
    drawn = predict_on(blueprint, x, width="finite", inits=600, seed=seed)
    leading = predict_on(blueprint, x, width="leading", draws=1, keep_covariance=True)
    assert abs(float(leading.gamma[-1]) - float(drawn.gamma[-1])) < 4 * float(drawn["gamma_stderr"][-1])
    kept = leading.covariance.values[-1]
    center = kept.mean()
    assert float(leading.gamma[-1]) == pytest.approx(center / (np.trace(kept) / len(kept) - center), rel=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"activation": "tanh"}, "multiple of u on either side of 0"),
        ({"norm": "layer", "placement": "before"}, "multiple of u on either side of 0"),
        ({"bias_variance": 0.1}, "a dense layer without biases, or a norm before it"),
        ({"depth": 2, "residual": 2}, "leading terms of the width are known for"),
    ],
)
def test_other_networks_are_refused_where_they_leave_the_form(options, words):
    blueprint = Blueprint.mlp(**{"inputs": 30, "depth": 2, "width": 20, **options})
    with pytest.raises(CouldNotError, match=words) as refusal:
        predict_on(blueprint, points(0), width="leading")
    assert "width='finite'" in str(refusal.value)


def test_landmarks_and_points_of_zero_length_are_refused():
    blueprint = Blueprint.mlp(inputs=30, depth=2, width=20)
    with pytest.raises(UsageError, match="got landmarks"):
        predict_on(blueprint, points(0), width="leading", landmarks=16)
    x = points(0)
    x[3] = 0
    normed = Blueprint.mlp(inputs=30, depth=2, width=20, norm="layer", placement="after")
    with pytest.raises(CouldNotError, match="points that are 0"):
        predict_on(normed, x, width="leading")


def test_depths_beyond_the_width_are_told():
    blueprint = Blueprint.mlp(inputs=30, depth=40, width=10, norm="layer", placement="after")
    assert width_terms(blueprint.layers).spread > leading_width.LARGEST_SPREAD
    profile = predict_on(blueprint, points(0), width="leading", draws=1)
    assert any("terms beyond the leading ones matter" in note for note in profile.provenance.notes)


@pytest.mark.parametrize("rows", [3, 12, 500])
def test_products_of_shared_units(rows, seed):
    """BᵀB has mean 1 and entries of variance 1/rows, on the diagonal 2/rows, whichever way it is drawn."""
    generator = np.random.default_rng(seed)
    found = np.stack([b.T @ b for b in (_factor_of_products(rows, 6, generator) for _ in range(4000))])
    deviation = np.sqrt((1 + np.eye(6)) / rows)
    assert np.all(np.abs(found.mean(axis=0) - np.eye(6)) < 5 * deviation / math.sqrt(4000))
    squares = (found - np.eye(6)) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - deviation**2) < 5 * squares.std(axis=0) / math.sqrt(4000))


def test_two_labels_do_not_feel_shared_units():
    covariance = np.cov(points(2))
    alone, shared = (read_out(covariance, 2, draws=50, seed=3, shared=units) for units in (None, 4))
    np.testing.assert_array_equal(alone.fractions, shared.fractions)
