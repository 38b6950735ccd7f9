"""Phases: fixed points against long iteration and closed forms, regimes, and what norms do to them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firstlight as fl
from firstlight.errors import UsageError

WEIGHTS = np.linspace(0.5, 4.0, 15)
BIASES = np.linspace(0.0, 1.0, 6)


def test_relu_has_a_closed_form() -> None:
    diagram = fl.phases("relu", weight_variance=WEIGHTS, bias_variance=BIASES)
    w, b = WEIGHTS[:, None], BIASES[None, :]
    settles = (w < 2) & (b > 0)
    found = diagram.mean_square_star.values
    assert found[settles] == pytest.approx(
        np.divide(b, 1 - w / 2, out=np.zeros_like(found), where=settles)[settles], rel=1e-9
    )
    regimes = diagram["regime"].values
    assert set(regimes[settles]) == {"ordered"}
    assert set(regimes[(w > 2) & (b >= 0)]) == {"divergent"}
    assert set(regimes[(w < 2) & (b == 0)]) == {"dead"}
    assert diagram.slope.values == pytest.approx(np.broadcast_to(w / 2, found.shape), rel=1e-12)


def test_relu_at_the_edge_is_critical_without_biases_and_ramps_with_them() -> None:
    diagram = fl.phases("relu", weight_variance=2.0, bias_variance=[0.0, 0.1])
    assert list(diagram["regime"].values[0]) == ["critical", "divergent"]
    assert float(diagram.gamma_at_depth[0, 0]) == pytest.approx(
        float(fl.predict(fl.Blueprint.mlp(depth=50)).gamma[-1]), rel=1e-12
    )


@pytest.mark.parametrize("activation", ["tanh", "erf", "gelu", "sin"])
def test_gamma_at_depth_is_what_predict_says(activation: str) -> None:
    points = ([0.7, 1.9, 3.1], [0.0, 0.2, 0.6])
    diagram = fl.phases(
        activation, weight_variance=points[0], bias_variance=points[1], depth=12, input_mean=0.3
    )
    for i, w in enumerate(points[0]):
        for j, b in enumerate(points[1]):
            blueprint = fl.Blueprint.mlp(
                depth=12, activation=activation, weight_variance=w, bias_variance=b, input_mean=0.3
            )
            assert float(diagram.gamma_at_depth[i, j]) == pytest.approx(
                float(fl.predict(blueprint).gamma[-1]), rel=1e-7
            )


@settings(max_examples=12, deadline=None)
@given(w=st.floats(0.3, 4.0), b=st.floats(0.01, 1.0), activation=st.sampled_from(["tanh", "erf", "sigmoid"]))
def test_the_fixed_point_is_where_long_iteration_ends(w: float, b: float, activation: str) -> None:
    diagram = fl.phases(activation, weight_variance=w, bias_variance=b)
    slope = float(diagram.correlation_slope[0, 0])
    rate = max(
        slope,
        abs(math.exp(-1 / float(diagram.variance_depth_scale[0, 0])))
        if diagram.variance_depth_scale[0, 0]
        else 0,
    )
    if rate > 0.97:
        return  # a thousand layers would not reach it
    profile = fl.predict(
        fl.Blueprint.mlp(depth=1000, activation=activation, weight_variance=w, bias_variance=b)
    )
    assert float(profile.mean_square[-1]) == pytest.approx(float(diagram.mean_square_star[0, 0]), rel=1e-8)
    share = float(profile.center_variance[-1] / profile.mean_square[-1])
    assert share == pytest.approx(float(diagram.correlation_star[0, 0]), abs=1e-7)
    assert (str(diagram["regime"].values[0, 0]) == "chaotic") == (float(diagram.slope[0, 0]) > 1)


def test_the_depth_scale_is_the_rate_at_which_correlations_settle() -> None:
    diagram = fl.phases("tanh", weight_variance=2.5, bias_variance=0.05)
    c_star = float(diagram.correlation_star[0, 0])
    profile = fl.predict(
        fl.Blueprint.mlp(depth=130, activation="tanh", weight_variance=2.5, bias_variance=0.05)
    )
    distance = np.abs(profile.center_variance.values / profile.mean_square.values - c_star)
    rate = -1 / np.log(distance[121:] / distance[120:-1])  # e⁻¹⁰ from the end, where the map is linear
    assert float(diagram.depth_scale[0, 0]) == pytest.approx(rate.mean(), rel=1e-3)


def test_the_edge_of_chaos_of_tanh_without_biases_is_at_one() -> None:
    diagram = fl.phases("tanh", weight_variance=[0.99, 1.0, 1.01])
    assert list(diagram["regime"].values[:, 0]) == ["dead", "critical", "chaotic"]
    assert np.isinf(diagram.gamma_star.values[:2, 0]).all()
    assert float(diagram.gamma_star[2, 0]) == 0


@pytest.mark.parametrize(
    ("norm", "placement", "gamma"),
    [
        ("batch", "before", 1 / (math.pi - 1)),
        ("batch", "after", 0.0),
        ("layer", "after", 0.0),
        ("layer", "before", math.inf),
    ],
)
def test_norms_decide_where_relu_ends(norm: str, placement: str, gamma: float) -> None:
    diagram = fl.phases("relu", norm=norm, placement=placement, depth=20)
    assert float(diagram.gamma_star[0, 0]) == pytest.approx(gamma, rel=1e-9)
    blueprint = fl.Blueprint.mlp(depth=20, norm=norm, placement=placement)
    assert float(diagram.gamma_at_depth[0, 0]) == pytest.approx(
        float(fl.predict(blueprint).gamma[-1]), rel=1e-10
    )


def test_batch_norm_grows_noise_by_the_papers_factor() -> None:
    diagram = fl.phases("relu", norm="batch", placement="before")
    assert float(diagram.slope[0, 0]) == pytest.approx(1 / (1 - 1 / math.pi), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"weight_variance": -1.0}, ["weight_variance", "-1", "above 0"]),
        ({"bias_variance": [0.1, -0.2]}, ["bias_variance", "-0.2", "at least 0"]),
        ({"depth": 0}, ["depth", "at least 1", "0"]),
        ({"placement": "before"}, ["placement", "without a norm"]),
        ({"norm": "bach"}, ["norm", "did you mean 'batch'"]),
        ({"activation": "rleu"}, ["'rleu'", "did you mean 'relu'"]),
        ({"weight_variance": [[1.0]]}, ["weight_variance", "one-dimensional", "(1, 1)"]),
        ({"weight_variance": "x"}, ["weight_variance", "a list of numbers", "'x'"]),
        ({"input_mean": math.nan}, ["input_mean", "finite", "nan"]),
        ({"input_variance": 0.0}, ["input_variance", "above 0", "0.0"]),
        ({"input_variance": "1"}, ["input_variance", "above 0", "'1'"]),
        ({"depth": 2.5}, ["depth", "whole number", "2.5"]),
    ],
)
def test_misuse_is_one_sentence(arguments, words) -> None:
    with pytest.raises(UsageError) as caught:
        fl.phases(**arguments)
    assert all(word in str(caught.value) for word in words), str(caught.value)
