"""Figure 4 of Luther & Seung: the starts differ in nothing else, the best rate is the fastest, lost runs count."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from firstlight.data.samples import Samples
from firstlight.papers.variance import fig4
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory

STEPS = [0, 1, 4]
SIZES = {"width": 4, "first": 5, "batch": 4}
SHAPES = {"all-cnn-c": (20, 3, 16, 16), "u-net": (20, 1, 32, 32)}


def runs_with(losses) -> Trajectory:
    """Runs of two classes with these mean losses, (run, step)."""
    losses = np.asarray(losses, dtype=float)[:, :, None]
    halves = np.full((*losses.shape, 2), 5.0)
    return Trajectory.from_counts(
        steps=STEPS,
        splits=["train"],
        guesses=halves,
        right=halves / 2,
        totals=halves,
        losses=losses,
        provenance=Provenance("measurement", "a network", "data"),
    )


def affine(module: nn.Module) -> list[nn.Module]:
    return [item for item in module.modules() if isinstance(item, nn.Conv2d | nn.ConvTranspose2d | nn.Linear)]


def outputs_of(layers, module, inputs):
    found = []
    hooks = [layer.register_forward_hook(lambda *call: found.append(call[2])) for layer in layers]
    with torch.no_grad():
        module(inputs)
    for hook in hooks:
        hook.remove()
    assert len(found) == len(layers)
    return found


@pytest.mark.parametrize("network", fig4.NETWORKS)
def test_starts_differ_by_a_factor_of_each_layer_and_by_biases(network, seed):
    """One draw of weights for all; mean square 1 of each layer, and no mean of any unit, over the mini-batches."""
    inputs = torch.randn(SHAPES[network], generator=torch.Generator().manual_seed(seed)) + 0.5
    made = {}
    for start in fig4.STARTS:
        torch.manual_seed(seed)
        made[start] = fig4._network(network, start, SIZES, inputs)
    drawn = affine(made["batch-norm"])
    for start in ("scale", "scale-bias"):
        layers = affine(made[start])
        assert len(layers) == len(drawn)
        for layer, first in zip(layers, drawn, strict=True):
            factor = layer.weight.norm() / first.weight.norm()
            torch.testing.assert_close(layer.weight, factor * first.weight)
            assert start == "scale-bias" or not layer.bias.any()
        for found in outputs_of(layers, made[start], inputs):
            assert float(found.square().mean()) == pytest.approx(1, abs=2e-3)
            means = found.transpose(0, 1).flatten(1).mean(1)
            assert (float(means.abs().max()) < 1e-3) == (start == "scale-bias")


def test_norms_stand_behind_every_hidden_layer_and_nowhere_else():
    torch.manual_seed(0)
    for network, hidden in (("all-cnn-c", 9), ("u-net", 22)):
        for start in fig4.STARTS:
            made = fig4._network(network, start, SIZES, torch.randn(SHAPES[network]))
            count = sum(isinstance(item, nn.BatchNorm2d) for item in made.modules())
            assert count == (hidden if start == "batch-norm" else 0)


def test_the_best_rate_is_the_fastest_of_those_that_lose_no_run():
    found = {
        "u-net-scale-sgd-0.001": runs_with([[1, 1, 0], [1, 1, 0]]),  # (1 + 1.5)/4
        "u-net-scale-sgd-0.003": runs_with([[1, 0.2, 0.5], [1, 0.2, 0.5]]),  # (0.6 + 1.05)/4
        "u-net-scale-sgd-0.01": runs_with([[1, 0, 0], [1, np.inf, np.inf]]),
        "u-net-scale-bias-sgd-0.01": runs_with([[0, 0, 0], [0, 0, 0]]),
    }
    rate, runs = fig4._best(
        {name: item for name, item in found.items() if "bias" not in name}, "u-net", "scale", "sgd"
    )
    assert rate == 0.003
    np.testing.assert_allclose(fig4._mean_losses(runs), 1.65 / 4)
    assert np.isinf(fig4._mean_losses(found["u-net-scale-sgd-0.01"])).tolist() == [False, True]


def test_names_of_starts_do_not_run_into_each_other():
    """``scale`` is where ``scale-bias`` begins."""
    found = {
        fig4._name("u-net", start, "adam", 0.00003): runs_with([[level] * 3] * 2)
        for start, level in (("scale", 1.0), ("scale-bias", 0.5), ("batch-norm", 0.25))
    }
    for start, level in (("scale", 1.0), ("scale-bias", 0.5), ("batch-norm", 0.25)):
        rate, runs = fig4._best(found, "u-net", start, "adam")
        assert rate == 0.00003
        assert float(runs.quantity("loss").values.mean()) == level


def test_a_difference_is_taken_seed_by_seed():
    losses = np.array([1.0, 3.0, 8.0])
    held = fig4._lower("lower", losses, losses - [0.10, 0.11, 0.12], "why")
    assert held.agrees
    assert not held.because
    assert held.measured == pytest.approx(0.11)
    assert held.stderr == pytest.approx(0.01 / math.sqrt(3))
    turned = fig4._lower("lower", losses - 0.1, losses, "why")
    assert not turned.agrees
    assert turned.because == "scale + bias is lower in 0 of 3 runs (0.90, 2.90, 7.90; 1.00, 3.00, 8.00); why"
    unsure = fig4._lower("lower", losses, losses - [0.1, 2.0, -0.1], "why")
    assert not unsure.agrees
    assert unsure.because.startswith(
        "scale + bias is lower in 2 of 3 runs (1.00, 3.00, 8.00; 0.90, 1.00, 8.10)"
    )


def test_a_lost_run_is_no_smaller_sample():
    lost = fig4._lower("lower", np.array([np.inf, 2.0, 2.0]), np.array([1.0, 1.0, 1.1]), "why")
    assert not lost.agrees
    assert math.isnan(lost.measured)
    assert lost.because.startswith("at each of its rates")


def test_squares_keep_their_labels():
    pixels = torch.arange(2 * 64 * 64).reshape(2, 64, 64)
    slices = Samples.from_tensors(pixels[:, None].float(), pixels % 2, label_names=("even", "odd"))
    cut = fig4._tiles(slices, 32)
    assert len(cut) == 8
    assert torch.equal(cut.inputs[:, 0].long() % 2, cut.labels)
    assert torch.equal(cut.inputs[1, 0].long(), pixels[0, :32, 32:])


def test_smaller_pictures_are_averages_of_blocks(seed):
    pictures = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    samples = Samples.from_tensors(pictures, torch.tensor([0, 1, 1]), label_names=("a", "b"))
    small = fig4._halved(samples, 16)
    torch.testing.assert_close(small.inputs[2, 1, 0, 3], pictures[2, 1, :2, 6:8].mean())
    assert fig4._halved(samples, 32) is samples
