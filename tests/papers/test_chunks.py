"""Chunks: the first ones of a larger count are those of a smaller one, and all of them are one measurement."""

from __future__ import annotations

import numpy as np

import firstlight as fl
from firstlight.papers.chunks import chunk_seed, pooled
from firstlight.papers.work import Work
from firstlight.results.profile import Profile

QUANTITIES = ("gamma", "center_variance", "data_variance")


def work_in(folder, seed: int = 0) -> Work:
    return Work("variance/fig1", {}, seed, folder, shared=folder / "shared")


def measured(calls: list[tuple[int, int]]):
    def make(seed: int, inits: int) -> Profile:
        calls.append((seed, inits))
        blueprint = fl.Blueprint.mlp(inputs=5, depth=1, width=4)
        data = np.arange(20, dtype=np.float32).reshape(4, 5)
        return fl.measure(blueprint, data, inits=inits, seed=seed, quantities=QUANTITIES, progress=False)

    return make


def test_all_chunks_are_one_profile_and_none_is_made_twice(tmp_path):
    calls: list[tuple[int, int]] = []
    five = pooled(work_in(tmp_path), "nets", 5, measured(calls), chunk=2)
    assert [inits for _, inits in calls] == [2, 2, 1]
    assert five["gamma_init"].shape[0] == 5
    parts = [measured([])(seed, inits)["data_variance_init"].values for seed, inits in calls]
    np.testing.assert_array_equal(five["data_variance_init"].values, np.concatenate(parts))
    again = pooled(work_in(tmp_path), "nets", 5, measured(calls), chunk=2)
    assert len(calls) == 3
    np.testing.assert_array_equal(five["gamma_init"].values, again["gamma_init"].values)


def test_a_larger_count_goes_on_from_a_smaller_one(tmp_path):
    calls: list[tuple[int, int]] = []
    few = pooled(work_in(tmp_path), "nets", 2, measured(calls), chunk=2, made_from={"width": 4})
    more = pooled(work_in(tmp_path), "nets", 4, measured(calls), chunk=2, made_from={"width": 4})
    assert len(calls) == 2
    np.testing.assert_array_equal(few["gamma_init"].values, more["gamma_init"].values[:2])
    pooled(work_in(tmp_path), "nets", 2, measured(calls), chunk=2, made_from={"width": 5})
    assert len(calls) == 3


def test_chunks_of_neighbouring_seeds_differ():
    seeds = {chunk_seed(seed, number) for seed in range(30) for number in range(30)}
    assert len(seeds) == 900
