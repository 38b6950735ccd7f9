"""Members side by side are the members alone, to the rounding of one multiplication."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.measurement import ensembles
from firstlight.measurement.side_by_side import MEMBERS, first_layer

SAMPLES = torch.from_numpy(np.random.default_rng(5).standard_normal((3000, 400))).float()


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


NETS = {
    "plain": lambda: nn.Sequential(nn.Linear(400, 30), nn.ReLU(), nn.Linear(30, 5)),
    "flattened": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(400, 30, bias=False), nn.Tanh(), nn.Linear(30, 2)
    ),
    "in place": lambda: nn.Sequential(
        nn.Linear(400, 20), nn.ReLU(inplace=True), nn.BatchNorm1d(20), nn.Linear(20, 3)
    ),
    "norm": lambda: nn.Sequential(
        nn.Linear(400, 20), nn.LayerNorm(20), nn.GELU(), nn.Linear(20, 20), nn.Linear(20, 3)
    ),
    "first alone": lambda: nn.Sequential(nn.Linear(400, 3)),
}


def profiles(build, monkeypatch, data=SAMPLES, **options):
    """Side by side and one by one."""
    used = []
    beside = ensembles.observe_side_by_side

    def noted(*arguments):
        found = beside(*arguments)
        used.append(found is not None)
        return found

    options = {"inits": 2 * MEMBERS + 1, "seed": 3, "progress": False, **options}
    monkeypatch.setattr(ensembles, "_SMALL_WORK", 1)  # or they would be stacked
    monkeypatch.setattr(ensembles, "observe_side_by_side", noted)
    quick = fl.measure(build, data, **options)
    monkeypatch.setattr(ensembles, "first_layer", lambda *arguments: None)
    slow = fl.measure(build, data, **options)
    return quick, slow, used


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("batch_size", [None, 700])
def test_nothing_changes_but_rounding(name, batch_size, monkeypatch):
    quick, slow, used = profiles(NETS[name], monkeypatch, batch_size=batch_size, layers="all")
    assert used == [True, True]  # and the ninth alone
    assert quick.variables.keys() == slow.variables.keys()
    for key in ("center_variance_init", "data_variance_init", "kurtosis", "mean_absolute"):
        np.testing.assert_allclose(quick[key], slow[key], rtol=1e-4, atol=1e-9)
    # a sample on the boundary between two labels may fall to the other side
    assert np.abs(quick.guesses.counts - slow.guesses.counts).sum() <= 4


def test_ranks_and_logits_too(monkeypatch):
    quick, slow, used = profiles(
        NETS["plain"], monkeypatch, quantities=["effective_rank", "logits", "dead_units"]
    )
    assert used == [True, True]
    np.testing.assert_allclose(quick.effective_rank, slow.effective_rank, rtol=1e-3)
    np.testing.assert_allclose(quick["dead_units"], slow["dead_units"])


def test_a_built_module_is_drawn_anew_for_each(monkeypatch):
    quick, slow, used = profiles(NETS["plain"](), monkeypatch)
    assert used == [True, True]
    np.testing.assert_allclose(quick["gamma_init"], slow["gamma_init"], rtol=1e-4)
    assert len(np.unique(quick["gamma_init"].values[:, -1])) == 2 * MEMBERS + 1


def test_what_draws_on_its_way_runs_alone(monkeypatch):
    def build():
        return nn.Sequential(nn.Linear(400, 30), Noisy(), nn.Linear(30, 5))

    quick, slow, used = profiles(build, monkeypatch)
    assert used == [False]  # tried once
    np.testing.assert_array_equal(quick["gamma_init"], slow["gamma_init"])


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Sequential(nn.Linear(400, 300), nn.Linear(300, 5)),  # wide
        lambda: nn.Sequential(nn.ReLU(), nn.Linear(400, 30)),
        lambda: nn.Sequential(nn.Conv1d(1, 3, 3)),
        lambda: nn.Linear(400, 30),
        lambda: nn.Sequential(type("Own", (nn.Linear,), {})(400, 30)),
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(400, 30))),
    ],
)
def test_other_beginnings_are_left_alone(build):
    assert first_layer(build(), 12_000) is None


def test_hooks_of_the_users_are_left_alone():
    net = NETS["plain"]()
    assert first_layer(net, 12_000) is net[0]
    assert first_layer(net, 200_000) is None  # a small part of the work
    net[0].register_forward_pre_hook(lambda module, args: None)
    assert first_layer(net, 12_000) is None
