"""Noise against finite differences, with batch statistics held fixed, at any depth."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

import firstlight as fl
from firstlight.measurement.seeding import initialization_seed, stream
from firstlight.measurement.tangents import split, tangent_mode


def inputs(*shape):
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape))


def noise_of(x, seed=0, index=0):
    drawn = stream(initialization_seed(seed, index, 1)).standard_normal(tuple(x.shape), dtype=np.float32)
    return torch.from_numpy(drawn).to(x.dtype)


def every_output(model, x):
    outputs = []
    with torch.no_grad():
        for layer in model:
            x = layer(x)
            outputs.append(x)
    return outputs


def differences(model, x, step=1e-6):
    """Central differences along the very noise that the measurement draws."""
    noise = noise_of(x)
    pairs = zip(every_output(model, x + step * noise), every_output(model, x - step * noise), strict=True)
    return [(later - earlier) / (2 * step) for later, earlier in pairs]


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 4)),
        lambda: nn.Sequential(nn.Linear(7, 9), nn.LayerNorm(9), nn.GELU(), nn.Linear(9, 4)),
        lambda: nn.Sequential(nn.Linear(7, 9), nn.RMSNorm(9), nn.SiLU(), nn.Linear(9, 4)),
        lambda: nn.Sequential(nn.Linear(7, 9), nn.GroupNorm(3, 9), nn.ReLU(), nn.Linear(9, 4)),
    ],
)
def test_agrees_with_finite_differences(build):
    torch.manual_seed(0)
    model, x = build().double(), inputs(30, 7)
    profile = fl.measure(model, x, inits=1, redraw="keep", quantities="all", layers="all")
    signals, tangents = every_output(model, x), differences(model, x)
    reference = (noise_of(x) ** 2).mean() / x.var(0, correction=0).mean()
    for position, (signal, tangent) in enumerate(zip(signals, tangents, strict=True)):
        mean_square = (tangent**2).mean()
        chi = (mean_square / signal.var(0, correction=0).mean() / reference).sqrt()
        assert float(profile.noise_variance[position]) == pytest.approx(mean_square.item(), rel=1e-5)
        assert float(profile.sensitivity[position]) == pytest.approx(chi.item(), rel=1e-5)
        values = np.linalg.svd((tangent - tangent.mean(0)).numpy(), compute_uv=False) ** 2
        assert float(profile.noise_effective_rank[position]) == pytest.approx(
            values.sum() / values[0], rel=1e-4
        )


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_divides_noise_by_fixed_statistics(affine):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(7, 9), nn.BatchNorm1d(9, eps=1e-3, affine=affine), nn.Linear(9, 4)
    ).double()
    if affine:
        nn.init.uniform_(model[1].weight)
    x = inputs(30, 7)
    profile = fl.measure(model, x, inits=1, redraw="keep", quantities=["noise_variance"])
    with torch.no_grad():
        before = model[0](x)
        tangent = noise_of(x) @ model[0].weight.T / (before.var(0, correction=0) + 1e-3).sqrt()
        tangent = tangent * model[1].weight if affine else tangent
    assert float(profile.noise_variance[1]) == pytest.approx((tangent**2).mean().item(), rel=1e-6)
    after = tangent @ model[2].weight.detach().T
    assert float(profile.noise_variance[2]) == pytest.approx((after**2).mean().item(), rel=1e-6)


def test_a_signal_that_is_lost_on_the_way_is_told():
    def net():
        layers = [nn.Linear(8, 8, bias=False) for _ in range(20)]
        for layer in layers:  # 1e-2 a layer; float32 is normal down to 1.2e-38
            layer.weight.data.copy_(torch.eye(8) / 100)
        return nn.Sequential(*layers)

    said = r"the signal is below the normal range of float32 at \d of 20 layers \(first: 1[89]\)"
    notes = fl.measure(net, inputs(20, 8), inits=2).provenance.notes
    assert any(re.match(said, note) for note in notes)
    assert not fl.measure(lambda: net().double(), inputs(20, 8), inits=2).provenance.notes


@pytest.mark.parametrize("tokens", [True, False])
def test_noise_is_compared_with_the_signal_as_it_entered(tokens):
    """Whatever the model then writes into it."""

    class Net(nn.Module):
        def __init__(self, inplace):
            super().__init__()
            self.embedding = nn.Embedding(20, 5) if tokens else nn.Identity()
            self.inplace, self.head = inplace, nn.Linear(5, 3)

        def forward(self, x):
            x = self.embedding(x)
            return self.head(x.mul_(3) if self.inplace else x * 3)

    x = torch.arange(60).reshape(12, 5) % 20 if tokens else inputs(12, 5).float()
    written, kept = (
        fl.measure(lambda: Net(inplace), x, inits=2, quantities="sensitivity")  # noqa: B023
        for inplace in (True, False)
    )
    np.testing.assert_allclose(written.sensitivity, kept.sensitivity, rtol=1e-6)


def test_batch_norm_in_eval_mode():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 4)).double()
    model[1].running_var.fill_(4.0)
    x = inputs(30, 7)
    profile = fl.measure(model, x, inits=1, redraw="keep", quantities=["noise_variance"], mode="eval")
    tangents = differences(model.eval(), x)
    for position, layer in enumerate((0, 1, 3)):
        assert float(profile.noise_variance[position]) == pytest.approx(
            (tangents[layer] ** 2).mean().item(), rel=1e-5
        )


def test_convolutions_average_over_positions_and_channels():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 4, 3)).double()
    x = inputs(6, 3, 8, 8)
    profile = fl.measure(model, x, inits=1, redraw="keep", quantities=["sensitivity", "noise_variance"])
    tangent, signal = differences(model, x)[-1], every_output(model, x)[-1]
    assert float(profile.noise_variance[-1]) == pytest.approx((tangent**2).mean().item(), rel=1e-5)
    channels = lambda t: t.transpose(0, 1).flatten(1).var(1, correction=0).mean()  # noqa: E731
    chi = ((tangent**2).mean() / channels(signal) / ((noise_of(x) ** 2).mean() / channels(x))).sqrt()
    assert float(profile.sensitivity[-1]) == pytest.approx(chi.item(), rel=1e-5)


def test_increments_multiply_up():
    layers = [nn.Linear(7, 30), nn.BatchNorm1d(30), nn.ReLU(), nn.Linear(30, 30), nn.BatchNorm1d(30)]
    build = lambda: nn.Sequential(*layers, nn.ReLU(), nn.Linear(30, 4))  # noqa: E731
    profile = fl.measure(build().double(), inputs(60, 7), inits=1, quantities="all")
    chi = profile.sensitivity.values
    whole, norm, bent = (
        profile[f"sensitivity_increment{part}"].values for part in ("", "_norm", "_activation")
    )
    assert profile.layers == list("0123456")
    assert norm[4] == pytest.approx(chi[4] / chi[2])  # conv and norm together, from x to z
    assert bent[5] == pytest.approx(chi[5] / chi[4])
    assert whole[5] == pytest.approx(norm[4] * bent[5])  # Labatie's δχ = δ_norm · δ_φ
    assert whole[3] == pytest.approx(chi[3] / chi[0])
    assert norm[3] == pytest.approx(chi[1] / chi[0])
    assert bent[3] == pytest.approx(chi[2] / chi[1])


def test_a_thousand_layers_do_not_overflow():
    """e^0.19 a layer: in float32 the tangent would leave its range near layer 450 without rescaling."""
    layers = [nn.Linear(8, 16, bias=False)]
    for _ in range(1000):
        layers += [nn.Linear(16, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU()]
    model = nn.Sequential(*layers)
    profile = fl.measure(
        model,
        inputs(32, 8).float(),
        inits=1,
        redraw="kaiming_normal",
        layers=lambda name, module: isinstance(module, nn.ReLU),
        quantities=["sensitivity", "noise_variance", "gradient_scale"],
    )
    logs = profile["log_sensitivity"].values
    assert np.isfinite(logs).all()
    assert logs[-1] > 100
    assert np.isfinite(profile["log_gradient_scale"].values).all()


def test_rescaling_changes_nothing(monkeypatch):
    from firstlight.measurement import tangents

    layers = [nn.Linear(8, 16, bias=False)]
    for _ in range(60):
        layers += [nn.Linear(16, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU()]
    build = lambda: nn.Sequential(*(layer for layer in layers)).double()  # noqa: E731
    model, x = build(), inputs(32, 8)
    options = {"inits": 2, "redraw": "kaiming_normal", "batch_size": 16, "quantities": "all"}
    usual = fl.measure(model, x, **options)
    monkeypatch.setattr(tangents, "_BAND", 2)
    often = fl.measure(model, x, **options)
    for name in ("log_noise_variance_init", "log_gradient_scale_init", "noise_effective_rank_init"):
        np.testing.assert_allclose(often[name], usual[name], rtol=1e-9, err_msg=name)


def test_half_precision_is_rescaled_within_its_range():
    """Sixty layers without bias shrink noise and gradient by 2⁻⁴⁷ together, far below float16."""
    layers = [nn.Linear(48, 48, bias=False) for _ in range(60)]
    x, options = inputs(32, 48), {"inits": 2, "quantities": ["noise_variance", "gradient_scale"]}
    full = fl.measure(nn.Sequential(*layers), x, redraw="xavier_normal", **options)
    half = fl.measure(nn.Sequential(*layers).bfloat16(), x, redraw="xavier_normal", **options)
    small = fl.measure(lambda: nn.Sequential(*(nn.Linear(48, 48) for _ in range(60))).half(), x, **options)
    exact = fl.measure(lambda: nn.Sequential(*(nn.Linear(48, 48) for _ in range(60))), x, **options)
    for name in ("log_noise_variance", "log_gradient_scale"):
        np.testing.assert_allclose(half[name], full[name], atol=60 * 2**-7)
        np.testing.assert_allclose(small[name], exact[name], atol=60 * 2**-10)


def test_noise_that_is_lost_on_the_way_is_told():
    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(48, 48) for _ in range(60))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    profile = fl.measure(lambda: Chain().half(), inputs(32, 48), inits=1, quantities=["noise_variance"])
    [note] = profile.provenance.notes
    assert "the noise is 0 or unknown at" in note
    assert "left the range of float16" in note


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Linear(5, 7), (4, 5)),
        (lambda: nn.Linear(5, 7, bias=False), (4, 3, 5)),
        (lambda: nn.Conv1d(5, 6, 3, stride=2, padding=1), (4, 5, 9)),
        (lambda: nn.Conv2d(4, 6, 3, groups=2, padding="same", padding_mode="circular"), (4, 4, 9, 9)),
        (lambda: nn.Conv3d(2, 3, 2, dilation=2), (2, 2, 5, 5, 5)),
        (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), (2, 4, 5, 5)),
    ],
)
def test_linear_layers_pass_noise_as_torch_does(layer, shape, seed):
    torch.manual_seed(seed)
    module, x, dx = layer().double(), torch.randn(shape).double(), torch.randn(shape).double()
    with torch.no_grad():
        expected = torch.func.jvp(module, (x,), (dx,))
        with tangent_mode(module):
            signal, tangent = split(module(forward_ad.make_dual(x, dx)))
    torch.testing.assert_close(signal, expected[0])
    torch.testing.assert_close(tangent, expected[1])


def test_a_linear_layer_is_not_run_a_third_time(seed):
    """Torch's own rule also multiplies the signal with a noise on the weights, which is zero."""
    net, calls = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 3, 3)), []

    class Counted(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if "convolution" in str(function):
                calls.append(function)
            return function(*args, **(kwargs or {}))

    x = torch.randn(2, 2, 8, 8)
    with torch.no_grad(), tangent_mode(net), Counted():
        net(forward_ad.make_dual(x, torch.randn_like(x)))
    assert len(calls) == 4


def test_noise_on_a_weight_goes_by_torchs_rule(seed):
    """A layer whose weight is computed from the signal: its noise arrives too."""

    class Product(nn.Module):
        def forward(self, x):
            return nn.functional.linear(x, x[:3])

    x, dx = inputs(6, 4), inputs(6, 4).flip(0)
    expected = torch.func.jvp(Product(), (x,), (dx,))[1]
    with tangent_mode(Product()):
        tangent = split(Product()(forward_ad.make_dual(x, dx)))[1]
    torch.testing.assert_close(tangent, expected)
