"""What every model promises: shapes, laws of weights, re-drawing, tracing, forward-mode derivatives."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from firstlight import models
from firstlight.models import (
    KaimingConv2d,
    KaimingConvTranspose2d,
    KaimingLinear,
    all_cnn_c,
    batch_norm_feedforward_net,
    batch_norm_residual_net,
    cnn_a,
    cnn_b,
    mhlp,
    mlp_mixer,
    resnet9,
    shlp,
    u_net,
    vanilla_net,
)


def cnn_b_on_digits():
    return cnn_b(channels=1, side=28, classes=2, norm="batch", placement="after")


def flat_feedforward_net():
    return batch_norm_feedforward_net(3072, depth=3, width=64, kernel=None)


# (factory, shape of one input, shape of one output)
CASES = {
    "shlp": (shlp, (1000,), (2,)),
    "shlp on pictures": (lambda: shlp(3072, norm="batch"), (3, 32, 32), (2,)),
    "mhlp, layer norm after": (lambda: mhlp(50, norm="layer", placement="after"), (50,), (2,)),
    "mhlp, rms norm, tanh": (lambda: mhlp(50, norm="rms", activation="tanh", classes=5), (50,), (5,)),
    "cnn_a": (cnn_a, (3, 32, 32), (2,)),
    "cnn_a without bias": (lambda: cnn_a(activation="tanh", pool="avg"), (3, 32, 32), (2,)),
    "cnn_b": (cnn_b, (3, 32, 32), (10,)),
    "cnn_b on digits, norm after": (cnn_b_on_digits, (1, 28, 28), (2,)),
    "all_cnn_c": (all_cnn_c, (3, 32, 32), (10,)),
    "all_cnn_c, batch norm": (lambda: all_cnn_c(norm="batch"), (3, 32, 32), (10,)),
    "u_net": (lambda: u_net(width=4), (1, 32, 32), (2, 32, 32)),
    "u_net, batch norm": (lambda: u_net(width=4, norm="batch"), (1, 48, 64), (2, 48, 64)),
    "resnet9": (lambda: resnet9(width=8), (3, 32, 32), (10,)),
    "resnet9, norm after": (lambda: resnet9(width=8, placement="after"), (3, 32, 32), (10,)),
    "resnet9, no norm": (lambda: resnet9(width=8, norm=None), (3, 32, 32), (10,)),
    "mixer": (mlp_mixer, (3, 32, 32), (10,)),
    "mixer, norm after the activation": (lambda: mlp_mixer(placement="after-activation", depth=2), (3, 32, 32), (10,)),
    "mixer, norm after the branch": (lambda: mlp_mixer(placement="after-branch", depth=2), (3, 32, 32), (10,)),
    "mixer, averaged tokens": (lambda: mlp_mixer(class_token=False, depth=2, classes=2), (3, 32, 32), (2,)),
    "vanilla": (lambda: vanilla_net(depth=3, width=8), (3, 32, 32), (8, 16, 16)),
    "vanilla, symmetric": (lambda: vanilla_net(depth=3, width=8, boundary="symmetric"), (3, 32, 32), (8, 16, 16)),
    "vanilla, kernel 1": (lambda: vanilla_net(depth=3, width=8, kernel=1), (3, 8, 8), (8, 8, 8)),
    "feed-forward": (lambda: batch_norm_feedforward_net(depth=3, width=8), (3, 32, 32), (8, 16, 16)),
    "feed-forward, fully connected": (flat_feedforward_net, (3, 32, 32), (64,)),
    "residual": (lambda: batch_norm_residual_net(units=3, width=8), (3, 32, 32), (8, 16, 16)),
    "residual, fully connected": (lambda: batch_norm_residual_net(64, units=3, width=32, kernel=None), (64,), (32,)),
}  # fmt: skip

every_model = pytest.mark.parametrize(("factory", "inputs", "outputs"), CASES.values(), ids=CASES.keys())
KAIMING = (KaimingLinear, KaimingConv2d, KaimingConvTranspose2d)


@every_model
def test_shapes(factory, inputs, outputs):
    model = factory()
    result = model(torch.randn(4, *inputs))
    assert result.shape == (4, *outputs)
    assert torch.isfinite(result).all()


@every_model
def test_redrawn_by_their_own_resets_they_are_as_if_built_anew(factory, inputs, outputs):
    """Same seed, same weights: so a reset draws the law of the constructor, and no parameter is forgotten."""
    torch.manual_seed(1)
    built = factory()
    torch.manual_seed(2)
    redrawn = factory()
    before = {name: value.clone() for name, value in redrawn.named_parameters()}
    torch.manual_seed(1)
    for name, module in redrawn.named_modules():
        owns = list(module.parameters(recurse=False))
        assert hasattr(module, "reset_parameters") or not owns, name
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    for (name, expected), (_, value) in zip(
        built.named_parameters(), redrawn.named_parameters(), strict=True
    ):
        assert torch.equal(value, expected), name
        drawn = value.ndim > 1
        assert not drawn or not torch.equal(value, before[name]), name


@every_model
def test_the_law_of_the_weights(factory, inputs, outputs):
    """Mean 0, variance σ_w²/fan_in, fourth moment of a Gaussian; biases 0."""
    layers = [module for module in factory().modules() if isinstance(module, KAIMING)]
    assert layers
    scaled = []
    for layer in layers:
        fan_in = layer.in_features if isinstance(layer, KaimingLinear) else layer.in_channels
        if isinstance(layer, KaimingConv2d):
            fan_in *= math.prod(layer.kernel_size)
        scaled.append(layer.weight.detach().double().flatten() * math.sqrt(fan_in / layer.weight_variance))
        assert layer.bias is None or (layer.bias == 0).all()
        count = len(scaled[-1])
        # Variance of N standard Gaussians: standard error √(2/N); up to 23 layers a model.
        assert scaled[-1].square().mean() == pytest.approx(1, abs=5.5 * math.sqrt(2 / count))
    values = torch.cat(scaled)
    assert values.mean() == pytest.approx(0, abs=5 / math.sqrt(len(values)))
    assert (values**4).mean() == pytest.approx(3, abs=5 * math.sqrt(96 / len(values)))


@every_model
def test_traceable(factory, inputs, outputs):
    model = factory()
    traced = torch.fx.symbolic_trace(model)
    x = torch.randn(4, *inputs)
    torch.testing.assert_close(traced(x), model(x))


# torch's own forward-mode rules are still registered through its deprecated scripting.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@every_model
def test_forward_mode_derivative(factory, inputs, outputs):
    """The tangent is the limit of differences (float64, eval mode: batch norm of a batch is another network)."""
    model = factory().double().eval()
    x, dx = torch.randn(2, 3, *inputs, dtype=torch.float64)
    _, tangent = torch.func.jvp(model, (x,), (dx,))
    # A small step leaves nearly all kinks uncrossed: compare up to those.
    step = 1e-7
    difference = (model(x + step * dx) - model(x - step * dx)) / (2 * step)
    assert tangent.shape == (3, *outputs)
    error = (tangent - difference).norm() / tangent.norm()
    assert error < 1e-3


@every_model
def test_building_uses_the_global_random_state(factory, inputs, outputs):
    torch.manual_seed(5)
    one = factory()
    torch.manual_seed(5)
    other = factory()
    for first, second in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(first, second)


@every_model
def test_norms_start_with_scale_one_and_shift_zero(factory, inputs, outputs):
    for module in factory().modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


def test_exported_names_are_there():
    assert sorted(models.__all__) == models.__all__
    assert all(hasattr(models, name) for name in models.__all__)


def test_up_convolution_adds_up_its_inputs():
    """fan_in of an up-convolution is its input channels: unit inputs give outputs of mean square σ_w²."""
    layer = KaimingConvTranspose2d(64, 32, 2)
    outputs = torch.stack([KaimingConvTranspose2d(64, 32, 2)(torch.ones(1, 64, 1, 1)) for _ in range(200)])
    assert layer(torch.ones(1, 64, 5, 7)).shape == (1, 32, 10, 14)
    # Every output is a sum of 64 Gaussians of variance 2/64: N(0, 2), 200 · 32 · 4 of them independent.
    count = outputs.numel()
    assert outputs.detach().double().square().mean() == pytest.approx(2, abs=5 * 2 * math.sqrt(2 / count))
