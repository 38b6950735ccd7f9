"""Figures 1 to 3 of Luther & Seung: theory for T inputs, ratios with positions as units, the read-out of gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.data.gaussian import gaussian_noise
from firstlight.models.kaiming import KaimingConvTranspose2d
from firstlight.models.unets import u_net
from firstlight.papers.variance import fig3
from firstlight.papers.variance.position_ratios import position_ratios
from firstlight.papers.variance.relu_nets import finite_sample, preactivations, relu_net, theory
from firstlight.papers.work import Work


def test_theory_for_few_inputs_is_what_wide_networks_measure(seed):
    """Width 1,000, depth 2: the finite-width part of m² and v² is below their scatter over 40 networks."""
    inputs, width = 10, 1000
    measured = fl.measure(
        lambda: relu_net(width, 2),
        gaussian_noise(inputs, width, seed=seed).inputs,
        inits=40,
        seed=seed,
        quantities=["gamma", "center_variance", "data_variance"],
        layers=["linear*"],
        progress=False,
    )
    expected = finite_sample(theory(2), inputs)
    drawn = np.sqrt(2 / (inputs * width))  # how far the inputs' own mean square and cosines may be off, each
    for name, key in (("center_variance", "m2"), ("data_variance", "v2")):
        found = preactivations(measured, name)
        error = np.hypot(found.std(0, ddof=1) / np.sqrt(len(found)), 2 * drawn)
        np.testing.assert_array_less(np.abs(found.mean(0) - expected[key]), 4 * error)
    assert expected["v2"][0] == pytest.approx(2 * 0.9)
    assert expected["m2"][0] == pytest.approx(2 * 0.1)


def ratios(folder, build, data, *, networks=2):
    work = Work("variance/fig2", {}, 0, folder, shared=folder / "shared")
    return position_ratios(work, "net", networks, build, lambda: data)


def test_channels_are_counted_as_measure_counts_them(tmp_path):
    data = torch.randn(5, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    net = u_net(width=2)
    found = ratios(tmp_path, lambda: net, data, networks=1)
    measured = fl.measure(
        net,
        data,
        inits=1,
        redraw="keep",
        quantities=["gamma", "center_variance", "data_variance"],
        progress=False,
    )
    assert list(found.coordinates["layer"].values) == measured.layers
    assert len(measured.layers) == 23
    np.testing.assert_allclose(
        found["channel_ratio"].values, measured["mean_std_ratio_init"].values, rtol=1e-4
    )


def test_positions_are_units_of_their_own(tmp_path):
    """Equation 9 by hand, on an up-convolution, where it differs from counting channels."""

    def build():
        return nn.Sequential(nn.ReLU(), KaimingConvTranspose2d(8, 4, 2))

    data = torch.randn(50, 8, 6, 6, generator=torch.Generator().manual_seed(1))
    found = ratios(tmp_path, build, data)
    # Again from the file, and by hand from the weights that the file's seed names.
    assert found["ratio"].shape == (2, 1)
    assert (found["ratio"] > 1.2 * found["channel_ratio"]).all()
    torch.manual_seed(0)
    net = build()
    outputs = net(data).detach().numpy().astype(np.float64)
    center, variance = outputs.mean(0) ** 2, outputs.var(0)
    expected = np.sqrt(center.sum() / variance.sum())
    kept = ratios(tmp_path / "kept", lambda: net, data, networks=1)
    assert float(kept["ratio"][0, 0]) == pytest.approx(expected, rel=1e-5)


def test_gradients_are_of_one_read_out_for_all_samples(monkeypatch):
    """L = w·x^L by autograd; behind the last batch norm a w for each sample leaves several times as much."""
    built = []

    def kept(*sizes, **options):
        built.append(relu_net(*sizes, **options))
        return built[-1]

    monkeypatch.setattr(fig3, "relu_net", kept)
    width, depth, inputs = 30, 4, 40
    profile = fig3._measured(3, "batch-norm", depth, {"width": width, "inputs": inputs}, seed=5, networks=1)
    net = built[-1].double()
    x = gaussian_noise(fig3.MINIBATCHES * inputs, width, seed=3).inputs[:inputs].double()
    activations = []
    for layer in net[:-1]:
        x = layer(x)
        if isinstance(layer, nn.ReLU):
            activations.append(x)
    read_out = net[-1].weight[0]
    gradients = torch.autograd.grad((x @ read_out).sum(), activations)
    expected = [float((gradient**2).mean().log()) for gradient in gradients]
    np.testing.assert_allclose(fig3._logs(profile)[0], expected, atol=1e-4)
    assert expected[-2] < expected[-1]  # the last batch norm takes away what is common to the samples
