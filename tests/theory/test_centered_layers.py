"""Layers whose biases are minus the means over the data: H K H, against simulated networks and population theory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firstlight.architecture.activations import activation
from firstlight.architecture.layers import Activation, Dense
from firstlight.theory.dataset.inputs import gram_of_inputs
from firstlight.theory.population import population_of_inputs
from firstlight.theory.predicting import kernels_by
from firstlight.theory.propagation import propagate

POINTS = 30


def inputs(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((POINTS, 8)) + 0.4


def stack(name: str, *, centered: bool) -> tuple[Dense | Activation, ...]:
    return (
        Dense("one", 8, 100, centered=True),
        Activation("phi", activation(name)),
        Dense("two", 100, 100, 1.7, 0.3, centered=centered),
    )


def matrix_of(state: object) -> np.ndarray:
    return np.asarray(state.matrix() * np.exp(state.log_scale))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_the_matrix_loses_its_means(name: str, seed: int) -> None:
    """What is centred has no bias besides."""
    for state in (gram_of_inputs(inputs(seed)), gram_of_inputs(inputs(seed)).dense()):
        with_means, without = (
            matrix_of(propagate(stack(name, centered=centered), state, kernels_by("auto"))[-1].state)
            for centered in (False, True)
        )
        h = np.eye(POINTS) - 1 / POINTS
        np.testing.assert_allclose(without, h @ with_means @ h, rtol=0, atol=1e-12 * with_means.max())
        np.testing.assert_allclose(without.mean(0), 0, atol=1e-12 * with_means.max())


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_against_networks_that_were_centred(name: str, seed: int) -> None:
    """Mean products over the last units of 400 networks with 400 hidden units, each centred layer by layer."""
    x, width, networks = inputs(seed), 400, 400
    expected = matrix_of(
        propagate(stack(name, centered=True), gram_of_inputs(x), kernels_by("auto"))[-1].state
    )
    generator = np.random.default_rng(seed + 1)
    function = {"relu": lambda u: np.maximum(u, 0), "tanh": np.tanh}[name]
    found = np.empty((networks, POINTS, POINTS))
    for number in range(networks):
        u = x @ generator.standard_normal((8, width)) * np.sqrt(2 / 8)
        u = function(u - u.mean(0)) @ generator.standard_normal((width, width)) * np.sqrt(1.7 / width)
        u -= u.mean(0)
        found[number] = u @ u.T / width
    error = found.std(0, ddof=1) / np.sqrt(networks)
    deviation = (found.mean(0) - expected) / error
    # 465 entries that depend on each other: by Bonferroni 0.1 % for all of them is 4.7 standard errors.
    assert np.abs(deviation).max() < 4.7


def test_population_theory_has_no_centre_then() -> None:
    """From V = 2 and C = 0, ReLU leaves 2 (½ − 1/2π) of variance."""
    steps = propagate(stack("relu", centered=True), population_of_inputs(0.5, 1.0), kernels_by("auto"))
    assert steps[0].state.log_center == steps[-1].state.log_center == -math.inf
    assert math.exp(steps[0].state.log_data) == pytest.approx(2.0)
    assert math.exp(steps[-1].state.log_data) == pytest.approx(1.7 * 2 * (0.5 - 0.5 / math.pi), rel=1e-12)
