"""Pooled chunks are one long measurement; fresh batches vary with the initializations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import firstlight as fl
from firstlight.errors import DataError, UsageError
from firstlight.measurement.measuring import measure
from firstlight.measurement.pooling import pool
from firstlight.measurement.simulating import simulate

NET = fl.Blueprint.mlp(inputs=12, depth=2, width=16, classes=3, norm="batch", placement="before")
POINTS = torch.from_numpy(np.random.default_rng(3).standard_normal((30, 12))).float()


def measured(
    seed: int, *, inits: int = 3, data: torch.Tensor = POINTS, quantities: object = "all"
) -> fl.Profile:
    return measure(NET, data, inits=inits, seed=seed, quantities=quantities, progress=False)


def test_pool_of_one_changes_nothing() -> None:
    profile = measured(0)
    pooled = pool([profile])
    assert set(pooled.variables) == set(profile.variables)
    for name, item in profile.variables.items():
        assert np.array_equal(item.values, pooled.variables[name].values, equal_nan=True), name
    assert np.array_equal(profile.guesses.counts, pooled.guesses.counts)


def test_pool_reduces_all_initializations_at_once() -> None:
    parts = [measured(seed) for seed in (0, 1)]
    pooled = pool(parts)
    centers, variances = (
        np.concatenate([part[f"{name}_init"] for part in parts])
        for name in ("center_variance", "data_variance")
    )
    np.testing.assert_allclose(pooled.gamma, centers.sum(0) / variances.sum(0), rtol=1e-12)
    sensitivity = np.concatenate([part["sensitivity_init"] for part in parts])
    np.testing.assert_allclose(pooled.sensitivity, sensitivity.mean(0), rtol=1e-12)
    np.testing.assert_allclose(
        pooled["sensitivity_stderr"], sensitivity.std(0, ddof=1) / np.sqrt(6), rtol=1e-9
    )
    assert pooled.guesses.fractions.shape == (6, 3)
    assert pooled.provenance.settings["inits"] == 6
    assert pooled.provenance.settings["pooled_seeds"] == [0, 1]


def test_pool_survives_an_archive(tmp_path) -> None:
    profile = measured(0)
    again = fl.load(profile.save(tmp_path / "chunk.nc"))
    np.testing.assert_array_equal(pool([again, profile])["gamma_init"][:3], profile["gamma_init"])


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (list, "at least one profile, got none"),
        (lambda: [fl.predict(NET)], "expected measurements, got a profile by theory at position 0"),
        (
            lambda: [measured(0), measured(1, quantities="standard")],
            "position 1 has other layers or quantities",
        ),
        (
            lambda: [measured(0, quantities="gamma")],
            "ratio of averages; expected center_variance and data_variance",
        ),
        (
            lambda: [
                measured(0),
                measure(NET, POINTS, inits=3, quantities="all", mode="eval", progress=False),
            ],
            "of mode 'eval', the first of 'train'",
        ),
    ],
)
def test_pool_refuses(parts, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        pool(parts())


def test_simulate_takes_a_new_batch_and_new_weights_each_time() -> None:
    batches = [POINTS, POINTS, POINTS + 1]
    profile = simulate(NET, batches, seed=4, quantities="all")
    gamma = profile["gamma_init"].values[:, -1]
    assert len(set(gamma.tolist())) == 3
    again = simulate(NET, batches[:2], seed=4, quantities="all")
    np.testing.assert_array_equal(again["gamma_init"], profile["gamma_init"][:2])
    # a batch of its own: what the first layer sees of it
    alone = simulate(NET, [POINTS, POINTS, POINTS], seed=4, quantities="all")["center_variance_init"].values[
        :, 0
    ]
    np.testing.assert_array_equal(alone[:2], profile["center_variance_init"].values[:2, 0])
    assert alone[2] != profile["center_variance_init"].values[2, 0]


def test_simulate_refuses_no_batch() -> None:
    with pytest.raises(DataError, match="yields no batch; expected one for each simulation"):
        simulate(NET, [])
