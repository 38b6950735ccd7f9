"""Sizes and places: parameter counts known from elsewhere, the order of layers, and where the norm sits."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from firstlight.architecture.blueprint import Blueprint
from firstlight.errors import UsageError
from firstlight.models import (
    all_cnn_c,
    batch_norm_feedforward_net,
    batch_norm_residual_net,
    cnn_a,
    cnn_b,
    mhlp,
    mlp,
    mlp_mixer,
    resnet9,
    shlp,
    u_net,
    vanilla_net,
)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def order(model: nn.Module) -> list[str]:
    return [name.rstrip("0123456789") for name, _ in model.named_children()]


class TestPerceptrons:
    def test_sizes(self):
        assert count(shlp()) == 1000 * 100 + 100 + 100 * 2 + 2
        assert count(mhlp()) == 1000 * 100 + 100 + 19 * (100 * 100 + 100) + 100 * 2 + 2
        assert count(shlp(norm="layer")) == count(shlp()) + 200

    @pytest.mark.parametrize("norm", ["batch", "layer", "rms"])
    @pytest.mark.parametrize("placement", ["before", "after"])
    def test_the_same_names_and_layers_as_the_blueprint(self, norm, placement):
        ours = mlp(10, depth=3, width=6, classes=4, norm=norm, placement=placement)
        blueprint = Blueprint.mlp(
            inputs=10, depth=3, width=6, classes=4, activation="relu", norm=norm, placement=placement
        )
        built = blueprint.build(seed=0)
        described = [(name, module.extra_repr()) for name, module in ours.named_children()]
        assert described == [(name, module.extra_repr()) for name, module in built.named_children()]
        ours.load_state_dict(built.state_dict())
        x = torch.randn(5, 10)
        torch.testing.assert_close(ours(x), built(x))

    def test_norm_in_every_hidden_layer_and_not_at_the_output(self):
        before = order(mhlp(norm="batch"))
        assert before == ["flatten", *["linear", "norm", "activation"] * 20, "output"]
        after = order(mhlp(norm="batch", placement="after"))
        assert after == ["flatten", *["linear", "activation", "norm"] * 20, "output"]


class TestGuessingCnns:
    def test_cnn_a(self):
        model = cnn_a()
        assert order(model) == [
            "conv",
            "activation",
            "pool",
            "conv",
            "activation",
            "pool",
            "flatten",
            "output",
        ]
        assert count(model) == (3 * 25 + 1) * 16 + (16 * 25 + 1) * 64 + (64 * 4 * 4 + 1) * 2

    def test_cnn_b(self):
        model = cnn_b()
        channels = [3, 16, 32, 32, 64, 32, 16, 16]
        convolutions = sum((a * 25 + 1) * b for a, b in itertools.pairwise(channels))
        assert count(model) == convolutions + (16 * 7 * 7 + 1) * 10
        assert order(model) == [*["conv", "activation", "pool"] * 7, "flatten", "output"]

    def test_cnn_b_sizes_of_the_maps(self):
        sizes, x = [], torch.zeros(1, 3, 32, 32)
        for name, module in cnn_b().named_children():
            x = module(x)
            if name.startswith("pool"):
                sizes.append(tuple(x.shape[1:]))
        expected = [(16, 32), (32, 32), (32, 32), (64, 32), (32, 32), (16, 16), (16, 7)]
        assert sizes == [(channels, side, side) for channels, side in expected]

    @pytest.mark.parametrize("make", [cnn_a, cnn_b])
    def test_variants(self, make):
        biased, unbiased = make(), make(activation="tanh", pool="avg")
        kinds = {type(module) for module in biased.modules()}, {type(module) for module in unbiased.modules()}
        assert nn.ReLU in kinds[0]
        assert nn.MaxPool2d in kinds[0]
        assert nn.Tanh in kinds[1]
        assert nn.AvgPool2d in kinds[1]
        assert order(make(norm="batch"))[:4] == ["conv", "norm", "activation", "pool"]
        assert order(make(norm="batch", placement="after"))[:4] == ["conv", "activation", "pool", "norm"]


class TestAllCnn:
    def test_sizes(self):
        model = all_cnn_c()
        # The original network has 1.37 million; the linear layer of Luther & Seung adds 10 · 10 + 10.
        assert count(all_cnn_c(output_layer=False)) == 1_369_738
        assert count(model) == 1_369_738 + 110
        assert sum(isinstance(module, nn.Conv2d) for module in model.modules()) == 9
        assert order(model)[-3:] == ["pool", "flatten", "output"]

    def test_width(self):
        kinds = [module for module in all_cnn_c(width=5).modules() if isinstance(module, nn.Conv2d)]
        assert [module.out_channels for module in kinds] == [5, 5, 5, 10, 10, 10, 10, 10, 10]

    def test_sizes_of_the_maps(self):
        sides, x = [], torch.zeros(1, 3, 32, 32)
        for name, module in all_cnn_c().named_children():
            if name == "pool":
                break
            x = module(x)
            if name.startswith("conv"):
                sides.append(x.shape[-1])
        assert sides == [32, 32, 16, 16, 16, 8, 8, 8, 8]

    def test_reflection_leaves_a_constant_picture_constant(self):
        maps = all_cnn_c()[:18](torch.full((1, 3, 32, 32), 0.7))
        torch.testing.assert_close(maps, maps[:, :, :1, :1].expand_as(maps))

    def test_norm_placement(self):
        assert order(all_cnn_c(norm="batch"))[:3] == ["conv", "norm", "activation"]
        assert order(all_cnn_c(norm="batch", placement="after"))[:3] == ["conv", "activation", "norm"]


class TestUNet:
    def test_sizes(self):
        model = u_net()
        convolutions = [
            module for module in model.modules() if isinstance(module, nn.Conv2d | nn.ConvTranspose2d)
        ]
        assert len(convolutions) == 23
        assert sum(isinstance(module, nn.MaxPool2d) for module in model.modules()) == 4
        pairs = [
            (1, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512),
            (512, 1024), (1024, 1024), (1024, 512), (512, 512), (512, 256), (256, 256), (256, 128), (128, 128),
            (128, 64), (64, 64),
        ]  # fmt: skip
        raised = [(1024, 512), (512, 256), (256, 128), (128, 64)]
        expected = sum((9 * a + 1) * b for a, b in pairs) + sum((4 * a + 1) * b for a, b in raised) + 65 * 2
        assert count(model) == expected

    def test_every_convolution_of_three_reflects(self):
        kernels = {
            (module.kernel_size, module.padding, module.padding_mode)
            for module in u_net(width=2).modules()
            if isinstance(module, nn.Conv2d)
        }
        assert kernels == {((3, 3), (1, 1), "reflect"), ((1, 1), (0, 0), "zeros")}

    def test_what_is_kept_on_the_way_down_reaches_the_output(self):
        model = u_net(width=2)
        x = torch.randn(1, 1, 32, 32)
        with torch.no_grad():
            whole = model(x)
            for parameter in model.bottom.parameters():
                parameter.zero_()
            for layer in (model.raise4, model.raise3, model.raise2, model.raise1):
                layer.conv.weight.zero_()
            # With everything below cut off, only the topmost connection is left.
            alone = model.output(model.up1(torch.cat([model.down1(x), torch.zeros(1, 2, 32, 32)], dim=1)))
            torch.testing.assert_close(model(x), alone)
        assert not torch.allclose(whole, alone)

    def test_norm_placement(self):
        block = order(u_net(width=2, norm="batch").up2)
        assert block == ["conv", "norm", "activation"] * 2
        assert (
            order(u_net(width=2, norm="batch", placement="after").up2) == ["conv", "activation", "norm"] * 2
        )
        assert order(u_net(width=2, norm="batch").raise3) == ["conv", "norm", "activation"]


class TestResNet9:
    def test_sizes(self):
        # 6,575,370 is what the network's public descriptions state.
        assert count(resnet9()) == 6_575_370
        assert count(resnet9(placement="after")) == 6_575_370

    def test_norm_placement(self):
        before, after = resnet9(width=2), resnet9(width=2, placement="after")
        assert order(before.block2) == ["conv", "norm", "activation", "pool"]
        assert order(after.block2) == ["conv", "activation", "pool", "norm"]
        assert order(before.residual1.block1) == ["conv", "norm", "activation"]
        assert order(after.residual1.block1) == ["conv", "activation", "norm"]
        assert order(before.block1) == ["conv", "norm", "activation"]

    def test_the_sum_is_not_normalized(self):
        stage = resnet9(width=2).residual1
        x = torch.randn(3, 4, 8, 8)
        torch.testing.assert_close(stage(x), x + stage.block2(stage.block1(x)))


class TestMixer:
    def test_sizes(self):
        tokens, hidden, inside, channel = 65, 128, 512, 64
        layer = tokens * inside + inside + inside * tokens + tokens + 2 * hidden
        layer += hidden * channel + channel + channel * hidden + hidden + 2 * hidden
        rest = 3 * 16 * hidden + hidden + hidden + 2 * hidden + hidden * 10 + 10
        assert count(mlp_mixer()) == 8 * layer + rest

    @pytest.mark.parametrize(
        ("placement", "expected"),
        [
            ("before", ["norm", "fc", "activation", "fc"]),
            ("after-activation", ["fc", "activation", "norm", "fc"]),
            ("after-branch", ["fc", "activation", "fc", "norm"]),
        ],
    )
    def test_norm_placement(self, placement, expected):
        model = mlp_mixer(placement=placement)
        for unit in model.layers:
            assert order(unit.branch) == expected
        assert isinstance(model.norm, nn.LayerNorm)

    def test_norms_have_the_width_of_what_they_norm(self):
        inside = mlp_mixer(placement="after-activation").layers
        assert inside.tokens1.branch.norm.normalized_shape == (128,)
        assert inside.channels1.branch.norm.normalized_shape == (64,)

    def test_residual(self):
        unit = mlp_mixer().layers.tokens3
        x = torch.randn(2, 65, 128)
        torch.testing.assert_close(unit(x), x + unit.branch(x))

    def test_tokens_are_mixed_the_same_way_for_every_unit(self):
        unit = mlp_mixer(placement="after-branch").layers.tokens1
        x = torch.randn(2, 65, 128)
        permutation = torch.randperm(128)
        torch.testing.assert_close(
            unit(x)[:, :, permutation], unit(x[:, :, permutation]), rtol=1e-4, atol=1e-5
        )

    def test_averaged_tokens_do_not_know_their_order_before_mixing(self):
        model = mlp_mixer(class_token=False, depth=1, patch=16)
        assert model.class_token is None
        assert model.layers.tokens1.branch.fc1.in_channels == 4

    def test_the_token_mlp_keeps_the_default_law(self):
        weight = mlp_mixer().layers.tokens1.branch.fc1.weight.detach()
        # torch's default is uniform on ±1/√fan_in.
        assert weight.abs().max() <= 1 / 65**0.5
        assert weight.var() == pytest.approx(1 / (3 * 65), rel=0.05)

    def test_sides_are_multiples_of_the_patch(self):
        with pytest.raises(
            UsageError, match=r"mlp_mixer: side: expected a multiple of the patch \(4\), got 30"
        ):
            mlp_mixer(side=30)

    def test_after_alone_is_ambiguous(self):
        with pytest.raises(
            UsageError, match="expected one of 'before', 'after-activation', 'after-branch', got 'after'"
        ):
            mlp_mixer(placement="after")


class TestPathologyNets:
    def test_default_sizes(self):
        assert order(vanilla_net(kernel=None, inputs=8)).count("linear") == 201
        assert order(batch_norm_feedforward_net(8, width=4, kernel=None)).count("norm") == 200
        assert order(batch_norm_residual_net(8, width=4, kernel=None)).count("unit") == 500

    def test_order_of_layers(self):
        assert order(vanilla_net(depth=2)) == ["conv", *["conv", "activation"] * 2]
        assert order(batch_norm_feedforward_net(depth=2, width=4)) == [
            "conv",
            *["conv", "norm", "activation"] * 2,
        ]
        unit = batch_norm_residual_net(units=1, width=4).unit1
        assert order(unit.branch) == ["norm", "activation", "conv"] * 2
        x = torch.randn(2, 4, 8, 8)
        torch.testing.assert_close(unit(x), x + unit.branch(x))

    def test_no_biases_and_the_papers_epsilon(self):
        for model in (
            batch_norm_feedforward_net(depth=2, width=4),
            batch_norm_residual_net(units=2, width=4),
        ):
            for module in model.modules():
                if isinstance(module, nn.Conv2d | nn.Linear):
                    assert module.bias is None
                if isinstance(module, nn.BatchNorm2d):
                    assert module.eps == 1e-3

    def test_first_layer_keeps_the_mean_square_and_the_others_double_it(self):
        convolutions = [module for module in vanilla_net(depth=3).modules() if isinstance(module, nn.Conv2d)]
        assert [module.weight_variance for module in convolutions] == [1.0, 2.0, 2.0, 2.0]
        assert [module.stride for module in convolutions] == [(2, 2), (1, 1), (1, 1), (1, 1)]

    @pytest.mark.parametrize("make", [vanilla_net, batch_norm_feedforward_net])
    def test_periodic_boundaries_commute_with_rolling(self, make):
        model = make(depth=3, width=8)
        x = torch.randn(4, 3, 16, 16)
        rolled = model(x.roll((4, 2), dims=(2, 3)))
        torch.testing.assert_close(rolled, model(x).roll((2, 1), dims=(2, 3)), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("boundary", ["symmetric", "zeros"])
    def test_other_boundaries_do_not(self, boundary):
        model = vanilla_net(depth=3, width=8, boundary=boundary)
        x = torch.randn(4, 3, 16, 16)
        rolled = model(x.roll((4, 2), dims=(2, 3)))
        assert not torch.allclose(rolled, model(x).roll((2, 1), dims=(2, 3)), rtol=1e-2, atol=1e-2)

    def test_symmetric_boundaries_repeat_the_edge(self):
        model = vanilla_net(depth=1, width=8, boundary="symmetric")
        x = torch.randn(2, 3, 8, 8)
        # A picture continued by its mirror image, edge included, seen through the first convolution alone.
        mirrored = torch.cat([x[..., :1].flip(-1), x, x[..., -1:].flip(-1)], dim=-1)
        mirrored = torch.cat([mirrored[:, :, :1], mirrored, mirrored[:, :, -1:]], dim=-2)
        expected = nn.functional.conv2d(mirrored, model.conv0.weight, stride=2)
        torch.testing.assert_close(model.conv0(x), expected)

    def test_refusals(self):
        with pytest.raises(UsageError, match="kernel: expected 1, 3 or None"):
            vanilla_net(kernel=5)
        with pytest.raises(
            UsageError, match="boundary: expected one of 'periodic', 'symmetric', 'zeros', got 'circular'"
        ):
            vanilla_net(boundary="circular")
        with pytest.raises(UsageError, match="batch_norm_residual_net: depth: expected at least 1, got 0"):
            batch_norm_residual_net(units=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mlp(3, depth=0, width=4, classes=2), "mlp: depth: expected at least 1, got 0"),
        (
            lambda: shlp(norm="lyaer"),
            "mlp: norm: expected one of 'batch', 'layer', 'rms', got 'lyaer'; did you mean 'layer'",
        ),
        (lambda: shlp(norm="batch", placement="behind"), "mlp: placement: expected one of 'before', 'after'"),
        (lambda: shlp(activation="rleu"), "mlp: activation: .* got 'rleu'; did you mean 'relu'"),
        (lambda: cnn_a(pool="mean"), "cnn_a: pool: expected one of 'max', 'avg', got 'mean'"),
        (lambda: cnn_b(norm="layer"), "cnn_b: norm: expected one of 'batch', got 'layer'"),
        (lambda: cnn_a(side=4), "cnn_a: pictures are too small at block 2: side: expected at least 1"),
        (lambda: resnet9(classes=0), "resnet9: classes: expected at least 1, got 0"),
        (
            lambda: u_net(placement="within"),
            "u_net: placement: expected one of 'before', 'after', got 'within'",
        ),
        (lambda: all_cnn_c(norm="rms"), "all_cnn_c: norm: expected one of 'batch', got 'rms'"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(UsageError, match=message):
        make()
