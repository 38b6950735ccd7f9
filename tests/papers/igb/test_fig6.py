"""Centres of the outputs by their definition, on the networks that ``measure`` draws."""

from __future__ import annotations

import numpy as np
import pytest

import firstlight as fl
from firstlight.data.gaussian import gaussian_noise
from firstlight.papers.igb.fig6 import output_centers


def test_centers_are_the_means_over_the_first_points(seed):
    blueprint = fl.Blueprint.mlp(inputs=20, depth=1, width=30)
    data = gaussian_noise(40, 20, seed=seed)
    found = output_centers(blueprint, data, [10, 40], inits=6, seed=seed)["center"].values
    assert found.shape == (6, 2, 2)
    for place, size in enumerate((10, 40)):
        measured = fl.measure(
            blueprint,
            data.first(size),
            inits=6,
            seed=seed,
            quantities=["center_variance"],
            layers="output",
            progress=False,
        )
        expected = measured.variables["center_variance_init"].values[:, -1]
        assert (found[:, place] ** 2).mean(-1) == pytest.approx(expected, rel=1e-4)


def test_networks_come_one_by_one_from_the_seed(seed):
    blueprint = fl.Blueprint.mlp(inputs=5, depth=1, width=4)
    data = gaussian_noise(8, 5, seed=seed)
    few = output_centers(blueprint, data, [8], inits=2, seed=seed)["center"].values
    more = output_centers(blueprint, data, [8], inits=3, seed=seed)["center"].values
    np.testing.assert_array_equal(few, more[:2])
    assert not np.array_equal(more[0], more[1])
