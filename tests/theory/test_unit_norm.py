"""Batch norm behind an activation divides each unit by its own deviation: against units drawn here, by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from firstlight.architecture.blueprint import Blueprint
from firstlight.theory.dataset.standardized_gram import DRAWS
from firstlight.theory.predicting import predict
from firstlight.theory.predicting_data import covariance_of_outputs

Array = np.ndarray
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda u: np.maximum(u, 0),
    "tanh": np.tanh,
    "abs": np.abs,
    "cos": np.cos,
}


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        *((name, None) for name in ACTIVATIONS),
        ("tanh", ("avg", 3)),
        ("relu", ("avg", 3)),
        ("relu", ("max", 2)),
    ],
)
@pytest.mark.parametrize("batch_size", [None, 6, 5])
def test_each_unit_is_divided_by_its_own_deviation(
    name: str, batch_size: int | None, pool: tuple[str, int] | None, seed: int
) -> None:
    """Twelve points in six dimensions: dividing by the mean variance is off by up to 1.5 here."""
    generator = np.random.default_rng(seed)
    points = generator.standard_normal((12, 6)) + 0.4 * generator.standard_normal(6)
    blueprint = Blueprint.mlp(
        inputs=6, depth=1, activation=name, norm="batch", placement="after", bias_variance=0.1, pool=pool
    )
    theory = covariance_of_outputs(blueprint, points, batch_size=batch_size)
    number, (kind, size) = 200_000, pool or ("avg", 1)
    before = 2 * points @ points.T / 6 + 0.1
    values, vectors = np.linalg.eigh(before)
    half = vectors * np.sqrt(np.maximum(values, 0))
    units = ACTIVATIONS[name](generator.standard_normal((number, size, 12)) @ half.T)
    units = units.max(axis=1) if kind == "max" else units.mean(axis=1)
    for start in range(0, 12, batch_size or 12):
        batch = units[:, start : start + (batch_size or 12)]
        batch -= batch.mean(axis=1, keepdims=True)
        deviation = batch.std(axis=1, keepdims=True)
        batch /= np.where(deviation > 1e-9, deviation, np.inf)
    drawn = 2 * units.T @ units / number + 0.1
    square = 4 * (units**2).T @ units**2 / number - (drawn - 0.1) ** 2
    error = np.sqrt(
        np.maximum(square, 0) * (1 / number + 1 / DRAWS)
    )  # of the draws here and of those of the theory
    assert (np.abs(theory - drawn) < 5 * error + 1e-9).all(), (np.abs(theory - drawn) / error).max()


@pytest.mark.parametrize(("name", "pool"), [("relu", None), ("tanh", None), ("relu", ("max", 2))])
@pytest.mark.parametrize("batch_size", [None, 20])
def test_noise_is_divided_by_each_units_own_variance(
    name: str, pool: tuple[str, int] | None, batch_size: int | None, seed: int
) -> None:
    """D of the output is σ_w⁴ ⟨E φ'²/s²⟩; by the mean variance it would be a tenth less behind ReLU."""
    generator = np.random.default_rng(seed)
    points = generator.standard_normal((40, 30)) * np.geomspace(3, 0.3, 30)
    blueprint = Blueprint.mlp(inputs=30, depth=1, activation=name, norm="batch", placement="after", pool=pool)
    profile = predict(blueprint, data=points, draws=10, batch_size=batch_size)
    number, size = 40_000, pool[1] if pool else 1
    values, vectors = np.linalg.eigh(2 * points @ points.T / 30)
    before = generator.standard_normal((number, size, 40)) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    before = before.max(axis=1)  # both activations rise
    units = ACTIVATIONS[name](before)
    slopes = (before > 0) if name == "relu" else (1 - np.tanh(before) ** 2) ** 2
    found = np.concatenate(
        [
            slopes[:, start : start + (batch_size or 40)]
            / units[:, start : start + (batch_size or 40)].var(axis=1, keepdims=True)
            for start in range(0, 40, batch_size or 40)
        ],
        axis=1,
    ).mean(axis=1)
    expected, error = 4 * found.mean(), 4 * found.std() * math.sqrt(1 / number + 1 / DRAWS)
    assert float(profile["noise_variance"][-1]) == pytest.approx(expected, abs=4 * error)


def test_two_points_are_told_apart_or_dead() -> None:
    """Two opposite points of one dimension: a ReLU unit knows one of them, always, and batch norm says ±1."""
    blueprint = Blueprint.mlp(inputs=1, depth=1, norm="batch", placement="after", weight_variance=1.0)
    found = covariance_of_outputs(blueprint, np.array([[1.0], [-1.0]]))
    assert found == pytest.approx(np.array([[1.0, -1.0], [-1.0, 1.0]]), abs=1e-12)


def test_a_unit_that_is_dead_on_the_batch_leaves_as_nothing() -> None:
    """Two points at a right angle: both are negative for a quarter of the units."""
    blueprint = Blueprint.mlp(inputs=2, depth=1, norm="batch", placement="after", weight_variance=1.0)
    found = covariance_of_outputs(blueprint, np.eye(2))
    error = math.sqrt(0.25 * 0.75 / DRAWS)
    assert found[0, 0] == pytest.approx(0.75, abs=4 * error)
    assert found[0, 1] == pytest.approx(-found[0, 0], rel=1e-12)


def test_the_centre_variance_is_nothing_and_the_matrix_a_covariance() -> None:
    points = np.random.default_rng(0).standard_normal((40, 8))
    profile = predict(
        Blueprint.mlp(inputs=8, depth=4, norm="batch", placement="after"),
        data=points,
        draws=10,
        keep_covariance=True,
    )
    assert np.abs(profile.center_variance[1:]).max() < 1e-12
    for matrix in profile.covariance.values:
        assert (matrix == matrix.T).all()
        assert np.linalg.eigvalsh(matrix)[0] >= -1e-12 * np.trace(matrix)


def test_the_same_seed_names_the_same_draws() -> None:
    points = np.random.default_rng(1).standard_normal((20, 4))
    blueprint = Blueprint.mlp(inputs=4, depth=2, norm="batch", placement="after")
    first, again, other = (
        predict(blueprint, data=points, draws=10, seed=seed, keep_covariance=True).covariance.values[-1]
        for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
