"""Regimes of ReLU without a norm, where all is known: q' = σ_w² q/2 + σ_b², and χ_1 = σ_w²/2 for as long as q lives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import firstlight as fl


@pytest.mark.parametrize(
    ("weight", "bias", "regime", "mean_square"),
    [
        (1.0, 0.1, "ordered", 0.2),
        (1.9, 0.1, "ordered", 2.0),
        (1.999, 0.1, "ordered", 200.0),
        (2.0, 0.0, "critical", 2.0),
        (2.001, 0.1, "divergent", math.inf),
        (2.05, 0.0, "divergent", math.inf),
        (3.0, 0.1, "divergent", math.inf),
        (1.999, 0.0, "dead", 0.0),
        (1.0, 0.0, "dead", 0.0),
    ],
)
def test_relu(weight, bias, regime, mean_square):
    diagram = fl.phases("relu", weight_variance=weight, bias_variance=bias)
    assert str(diagram.regime.values[0, 0]) == regime
    assert float(diagram.mean_square_star[0, 0]) == pytest.approx(mean_square, rel=1e-9)


def test_relu_slope_is_half_the_weight_variance():
    weights = np.linspace(0.5, 1.9, 8)
    diagram = fl.phases("relu", weight_variance=weights, bias_variance=0.3)
    assert diagram.slope.values[:, 0] == pytest.approx(weights / 2, rel=1e-9)


def test_a_point_says_the_same_alone_and_in_a_grid():
    weights, biases = np.linspace(0.5, 4.0, 6), np.array([0.0, 0.05, 0.5])
    grid = fl.phases("tanh", weight_variance=weights, bias_variance=biases, depth=7)
    for i, weight in enumerate(weights):
        for j, bias in enumerate(biases):
            alone = fl.phases("tanh", weight_variance=weight, bias_variance=bias, depth=7)
            assert alone.regime.values[0, 0] == grid.regime.values[i, j]
            for name in ("gamma_at_depth", "mean_square_star", "slope", "correlation_star"):
                assert alone[name].values[0, 0] == pytest.approx(grid[name].values[i, j], rel=1e-6, abs=1e-9)
