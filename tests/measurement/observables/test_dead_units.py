"""Dead units: counted in blocks as in one, through activations that write in place, for layers and for channels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.measurement.observables import dead_units


def test_blocks_are_one():
    rows = torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 3.0, 2.0]])
    whole = dead_units.update(dead_units.init(3), rows)
    first, second = (dead_units.update(dead_units.init(3), part) for part in (rows[:1], rows[1:]))
    parts = dead_units.merge(first, second)
    assert dead_units.finalize(whole) == dead_units.finalize(parts) == pytest.approx(2 / 3)


def test_too_little_or_not_finite_has_no_share():
    for rows in (torch.ones(1, 2), torch.tensor([[1.0], [math.nan]]), torch.tensor([[1.0], [math.inf]])):
        assert math.isnan(dead_units.finalize(dead_units.update(dead_units.init(rows.shape[1]), rows)))


def half_dead(activation: nn.Module) -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 8), activation, nn.Linear(8, 3))
    with torch.no_grad():
        net[0].bias[:4] = -100.0
    return net


@pytest.mark.parametrize("inplace", [False, True])
def test_a_layer_speaks_for_its_activation(inplace):
    data = torch.randn(64, 6, generator=torch.Generator().manual_seed(1))
    profile = fl.measure(
        lambda: half_dead(nn.ReLU(inplace)), data, inits=3, quantities="audit", progress=False
    )
    shares = profile["dead_units"].values
    assert shares[0] == pytest.approx(0.5, abs=0.13)  # of the other four one may be dead too
    assert math.isnan(shares[1])
    assert profile.coordinates["activation_behind"].values.tolist() == ["ReLU", ""]
    assert profile.layers == ["0", "2"]


def test_saturated_units_are_dead_too():
    profile = fl.measure(
        lambda: half_dead(nn.Tanh()), torch.randn(64, 6), inits=2, quantities="audit", progress=False
    )
    assert profile["dead_units"].values[0] == 0.5


def test_channels_are_units():
    def make():
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
        with torch.no_grad():
            net[0].bias[:3] = torch.tensor([-100.0, 100.0, 100.0])
        return net

    profile = fl.measure(make, torch.randn(16, 1, 8, 8), inits=2, quantities="audit", progress=False)
    assert profile["dead_units"].values[0] == 0.25
    assert profile.coordinates["positions"].values.tolist() == [36, 1]


def test_inputs_and_structure_are_told():
    data = 2 + torch.from_numpy(np.random.default_rng(0).standard_normal((500, 6))).float()

    def make():
        return nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 3))

    profile = fl.measure(make, data, inits=2, quantities="audit", progress=False)
    exact = data.double()
    assert float(profile["input_center_variance"]) == pytest.approx(
        float((exact.mean(0) ** 2).mean()), rel=1e-6
    )
    assert float(profile["input_data_variance"]) == pytest.approx(
        float(exact.var(0, correction=0).mean()), rel=1e-6
    )
    assert profile.coordinates["activation_behind"].values.tolist() == ["", "GELU", ""]


def test_an_audit_changes_no_number_of_the_standard_measurement():
    def make():
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    data = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))
    first = fl.measure(make, data, inits=4, progress=False)
    second = fl.measure(make, data, inits=4, quantities="audit", progress=False)
    for name in ("gamma_init", "kurtosis_init"):
        np.testing.assert_allclose(second[name].values, first[name].values, rtol=1e-4)
    assert np.array_equal(first.guesses.counts, second.guesses.counts)
