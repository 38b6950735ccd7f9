"""Scale, scale and bias, LSUV: what every layer gives on the calibration data, in nets of many shapes."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import prune

import firstlight as fl
from firstlight import models
from firstlight.errors import DataError, ModelError, UsageError
from firstlight.measurement.kinds import batch_norms, kind_of
from firstlight.remedies.data_dependent import (
    lsuv_initialization,
    scale_bias_initialization,
    scale_initialization,
)

PROMISED = 1e-3
BATCHES = 5


def points(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed % 2**31)
    return torch.randn(*shape, generator=generator) + 0.5


def dealt(x, count=BATCHES):
    """The mini-batches that data in memory are dealt out to, written independently of the package."""
    return [x[number::count] for number in range(count)]


def pre_activations(model, batches, mode="train"):
    """All values (row, unit) of each dense and convolutional layer, over its calls; batch by batch, as in training."""
    model = copy.deepcopy(model).eval()
    if mode == "train":
        for norm in batch_norms(model):
            norm.train()
    found: dict[str, list[torch.Tensor]] = {}

    def watch(name, module):
        def show(_, __, output):
            output = output[0] if isinstance(output, tuple) else output
            axis = 1 if kind_of(module) == "convolution" else -1
            found.setdefault(name, []).append(output.detach().double().movedim(axis, -1).flatten(0, -2))

        module.register_forward_hook(show)

    for name, module in model.named_modules():
        if kind_of(module) in ("dense", "convolution", "attention"):
            watch(name, module)
    with torch.no_grad():
        for batch in batches:
            model(**batch) if isinstance(batch, dict) else model(batch)
    return {name: torch.cat(rows) for name, rows in found.items()}


def off(rows):
    """By how much means of units differ from 0, and the variance of the layer from 1."""
    return float(rows.mean(0).abs().max()), abs(float(rows.var(0, correction=0).mean()) - 1)


def assert_centred_and_scaled(model, batches, *, mode="train", but=()):
    found = pre_activations(model, batches, mode)
    for name, rows in found.items():
        if name not in but:
            mean, variance = off(rows)
            assert mean < PROMISED, (name, mean)
            assert variance < PROMISED, (name, variance)
    return found


class Residual(nn.Module):
    """A functional activation, a sum, and a layer that two branches read."""

    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Linear(10, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(6))
        self.left, self.right = nn.Linear(width, width), nn.Linear(width, width)
        self.output = nn.Linear(2 * width, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + functional.gelu(block(x))
        return self.output(torch.cat([self.left(x).relu(), self.right(x).tanh()], 1))


class Defined(nn.Module):
    """Runs its layers in another order than it defines them."""

    def __init__(self):
        super().__init__()
        self.output, self.second, self.first = nn.Linear(30, 3), nn.Linear(30, 30), nn.Linear(10, 30)

    def forward(self, x):
        return self.output(self.second(self.first(x).relu()).relu())


class Wandering(nn.Module):
    """What it does depends on the data: no symbol could follow it."""

    def __init__(self):
        super().__init__()
        self.first, self.large, self.small = nn.Linear(10, 20), nn.Linear(20, 20), nn.Linear(20, 20)
        self.output = nn.Linear(20, 3)

    def forward(self, x):
        larger = bool(x.abs().mean() > 0.95)
        x = self.first(x).relu()
        x = self.large(x).relu() if larger else self.small(x).relu()
        return self.output(x)


class Keeping(nn.Module):
    """Keeps what it computed on itself until later in the same forward."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.output = nn.Linear(10, 20), nn.Linear(20, 20), nn.Linear(20, 3)

    def forward(self, x):
        self.kept = self.first(x).relu()
        y = self.second(self.kept).relu()
        return self.output(y + self.kept)


class Again(nn.Module):
    """One layer called several times in a row."""

    def __init__(self, times=2, width=40):
        super().__init__()
        self.first, self.again, self.output = (
            nn.Linear(10, width),
            nn.Linear(width, width),
            nn.Linear(width, 3),
        )
        self.times = times

    def forward(self, x):
        x = self.first(x).relu()
        for _ in range(self.times):
            x = self.again(x).relu()
        return self.output(x)


class Siamese(nn.Module):
    """One layer called on two different inputs."""

    def __init__(self):
        super().__init__()
        self.both, self.output = nn.Linear(5, 40), nn.Linear(80, 3)

    def forward(self, x):
        return self.output(torch.cat([self.both(x[:, :5]).relu(), self.both(3 * x[:, 5:]).relu()], 1))


class Tied(nn.Module):
    """Two layers with one weight and a bias each."""

    def __init__(self, bias=True):
        super().__init__()
        self.first = nn.Linear(10, 30)
        self.one, self.other = nn.Linear(30, 30, bias=bias), nn.Linear(30, 30, bias=bias)
        self.other.weight = self.one.weight
        self.output = nn.Linear(30, 3)

    def forward(self, x):
        return self.output(self.other(self.one(self.first(x).relu()).relu()).relu())


NETS = {
    "perceptron": (lambda: models.mlp(10, depth=12, width=30, classes=4), (100, 10)),
    "tanh": (lambda: models.mlp(10, depth=5, width=30, classes=4, activation="tanh"), (100, 10)),
    "layer norm": (lambda: models.mlp(10, depth=5, width=30, classes=4, norm="layer"), (100, 10)),
    "batch norm": (lambda: models.mlp(10, depth=5, width=30, classes=4, norm="batch"), (100, 10)),
    "batch norm after": (
        lambda: models.mlp(10, depth=5, width=30, classes=4, norm="batch", placement="after"),
        (100, 10),
    ),
    "residual and branching": (Residual, (100, 10)),
    "defined in another order": (Defined, (100, 10)),
    "state on itself": (Keeping, (100, 10)),
    "U-Net": (lambda: models.u_net(width=4), (10, 1, 32, 32)),
    "U-Net, batch norm": (lambda: models.u_net(width=4, norm="batch"), (10, 1, 32, 32)),
    "ResNet-9": (lambda: models.resnet9(width=4, norm=None), (20, 3, 32, 32)),
    "ResNet-9, batch norm": (lambda: models.resnet9(width=4), (20, 3, 32, 32)),
    "ALL-CNN-C": (lambda: models.all_cnn_c(), (10, 3, 32, 32)),
    "mixer": (lambda: models.mlp_mixer(), (10, 3, 32, 32)),
    "grouped and transposed": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 8, 3, groups=4, bias=False),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 6, 2, stride=2, groups=2, bias=False),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(6 * 144, 3),
        ),
        (30, 4, 8, 8),
    ),
}  # fmt: skip


class TestScaleAndBias:
    @pytest.mark.parametrize("mode", ["train", "eval"])
    @pytest.mark.parametrize("name", NETS)
    def test_every_pre_activation_has_mean_0_and_variance_1(self, name, mode, seed):
        make, shape = NETS[name]
        torch.manual_seed(seed)
        x = points(*shape, seed=seed)
        model, edits = scale_bias_initialization(make(), x, mode=mode)
        found = assert_centred_and_scaled(model, dealt(x), mode=mode)
        assert [edit.address for edit in edits] == list(found)
        assert {item.address for item in edits.left} <= {"class_token"}

    def test_whatever_the_weights_were_multiplied_by(self, seed):
        torch.manual_seed(seed)
        net, x = models.mlp(10, depth=4, width=30, classes=4), points(100, 10)
        other = copy.deepcopy(net)
        with torch.no_grad():
            for number, weight in enumerate(other.parameters()):
                weight.mul_(10.0 ** (number % 5 - 3))
        one, two = (scale_bias_initialization(item, x)[0] for item in (net, other))
        for name, value in one.state_dict().items():
            torch.testing.assert_close(two.state_dict()[name], value, rtol=1e-4, atol=1e-5)

    def test_against_the_equations_written_out(self, seed):
        """Equations 13 and 14 in float64 on weights of mean square 1, with the bias scaled along."""
        torch.manual_seed(seed)
        x = points(60, 10, seed=seed).double()
        net = models.mlp(10, depth=4, width=20, classes=3).double()
        made, _ = scale_bias_initialization(net, x)
        scaled, _ = scale_initialization(net, x)
        for given, centers in ((made, True), (scaled, False)):
            values = x
            for name in ("linear1", "linear2", "linear3", "linear4", "output"):
                weight = net.get_submodule(name).weight.detach()
                weight = weight / weight.square().mean().sqrt()
                u = values @ weight.T
                bias = -u.mean(0) if centers else torch.zeros(len(weight), dtype=torch.float64)
                factor = 1 / torch.sqrt((u + bias).square().mean() + 1e-5)
                mine = given.get_submodule(name)
                torch.testing.assert_close(mine.weight, factor * weight, rtol=1e-9, atol=1e-12)
                torch.testing.assert_close(mine.bias, factor * bias, rtol=1e-9, atol=1e-9)
                values = (factor * (u + bias)).relu()

    @pytest.mark.parametrize("dropout", [False, True])
    def test_dropout_drops_only_where_it_is_asked_to(self, dropout, seed):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(10, 400), nn.ReLU(), nn.Dropout(0.5), nn.Linear(400, 300))
        x = points(500, 10, seed=seed)
        model, _ = scale_bias_initialization(net, x, dropout=dropout)
        values = model.eval()(x).detach()
        # Halved at random and doubled, inputs have the same mean and E d² = 2: the weight is smaller then.
        hidden = model[1](model[0](x)).detach()
        expected = 1.0
        if dropout:
            expected = float(
                hidden.var(0, correction=0).sum() / (hidden.square().mean(0) * 2 - hidden.mean(0) ** 2).sum()
            )
        assert float(values.var(0, correction=0).mean()) == pytest.approx(
            expected, rel=0.05 if dropout else 1e-4
        )
        assert net[2].training
        assert model.training is False

    def test_batch_norm_sees_mini_batches_in_train_mode_and_running_statistics_in_eval(self, seed):
        torch.manual_seed(seed)
        net, x = models.mlp(10, depth=3, width=20, classes=4, norm="batch"), points(50, 10, seed=seed)
        train, evaluated = (scale_bias_initialization(net, x, mode=mode)[0] for mode in ("train", "eval"))
        assert_centred_and_scaled(train, dealt(x), mode="train")
        assert_centred_and_scaled(evaluated, dealt(x), mode="eval")
        with pytest.raises(AssertionError):  # ten samples at a time are not fifty
            assert_centred_and_scaled(train, [x], mode="train")
        for name, value in train.state_dict().items():
            if "running" in name or "tracked" in name:
                assert torch.equal(value, net.state_dict()[name])

    def test_layers_without_a_bias_get_one_unless_a_norm_takes_the_means_away(self, seed):
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Linear(10, 20, bias=False), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 3, bias=False)
        )
        x = points(60, 10, seed=seed)
        model, edits = scale_bias_initialization(net, x)
        assert model[0].bias is None
        assert isinstance(model[3].bias, nn.Parameter)
        assert [(item.address, item.reason) for item in edits.left] == [
            ("0", "got no bias: 1 behind it takes the means away")
        ]
        assert any("had no bias and got one" in note for note in edits.notes)
        assert net[3].bias is None
        model, edits = scale_bias_initialization(net, x, mode="eval")
        assert_centred_and_scaled(model, dealt(x), mode="eval")
        model, edits = scale_bias_initialization(net, x, create_biases=False)
        assert model[3].bias is None
        assert edits.left[-1].address == "3"
        assert "create_biases=True" in edits.left[-1].reason
        assert off(pre_activations(model, dealt(x))["3"])[1] < PROMISED

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
    def test_precisions(self, dtype, seed):
        torch.manual_seed(seed)
        net, x = models.mlp(10, depth=3, width=30, classes=4).to(dtype), points(100, 10, seed=seed)
        model, _ = scale_bias_initialization(net, x)
        for rows in pre_activations(model, [part.to(dtype) for part in dealt(x)]).values():
            mean, variance = off(rows)
            allowed = max(PROMISED, 4 * torch.finfo(dtype).eps)  # values, weights and biases are rounded
            assert mean < allowed
            assert variance < allowed
        assert {value.dtype for value in model.parameters()} == {dtype}


class TestTensorsThatServeSeveralCalls:
    @pytest.mark.parametrize("times", [2, 3])
    def test_all_calls_of_a_module_are_taken_together(self, times, seed):
        torch.manual_seed(seed)
        x = points(200, 10, seed=seed)
        model, edits = scale_bias_initialization(Again(times), x)
        assert_centred_and_scaled(model, dealt(x))
        [told] = [note for note in edits.notes if "several calls (again)" in note]
        assert "passes of the data" in told

    def test_calls_on_different_inputs(self, seed):
        torch.manual_seed(seed)
        x = points(200, 10, seed=seed)
        model, _ = scale_bias_initialization(Siamese(), x)
        assert_centred_and_scaled(model, dealt(x))

    @pytest.mark.parametrize("bias", [True, False])
    def test_a_weight_of_two_layers(self, bias, seed):
        """Each has its own means; the variance that becomes 1 is over both."""
        torch.manual_seed(seed)
        x = points(200, 10, seed=seed)
        model, _ = scale_bias_initialization(Tied(bias), x)
        assert model.one.weight is model.other.weight
        assert model.one.bias is not model.other.bias
        found = assert_centred_and_scaled(model, dealt(x), but=("one", "other"))
        for name in ("one", "other"):
            assert off(found[name])[0] < PROMISED
        both = torch.stack([found[name].var(0, correction=0).mean() for name in ("one", "other")])
        assert abs(float(both.mean()) - 1) < PROMISED

    def test_scale_of_a_module_that_is_called_again(self, seed):
        torch.manual_seed(seed)
        x = points(200, 10, seed=seed)
        model, _ = scale_initialization(Again(5), x)
        for rows in pre_activations(model, dealt(x)).values():
            assert abs(float(rows.square().mean()) - 1) < PROMISED

    def test_what_cannot_be_settled_is_refused_and_nothing_is_changed(self, seed):
        """A sum that grows at each of sixteen calls of one layer: its last calls cannot be like its first."""

        class Growing(Again):
            def forward(self, x):
                x = self.first(x).relu()
                for _ in range(self.times):
                    x = x + self.again(x).relu()
                return self.output(x)

        torch.manual_seed(seed)
        net, x = Growing(16), points(100, 10, seed=seed)
        before = copy.deepcopy(net.state_dict())
        with pytest.raises(
            ModelError, match=r"again: one weight or bias serves several calls \(up to 16 .* nothing was"
        ):
            scale_bias_initialization(net, x, in_place=True)
        for name, value in before.items():
            assert torch.equal(net.state_dict()[name], value)
        model, _ = scale_bias_initialization(net, x, layers=["~again"])
        assert_centred_and_scaled(model, dealt(x), but=("again",))


class TestScale:
    @pytest.mark.parametrize("name", NETS)
    def test_every_layer_has_mean_square_1_and_no_bias(self, name, seed):
        make, shape = NETS[name]
        torch.manual_seed(seed)
        x = points(*shape, seed=seed)
        model, _ = scale_initialization(make(), x)
        for rows in pre_activations(model, dealt(x)).values():
            assert abs(float(rows.square().mean()) - 1) < PROMISED
        for module in model.modules():
            if kind_of(module) in ("dense", "convolution") and module.bias is not None:
                assert not bool(module.bias.any())


class TestLSUV:
    @pytest.mark.parametrize("name", NETS)
    def test_every_layer_has_variance_1_and_orthogonal_weights(self, name, seed):
        make, shape = NETS[name]
        torch.manual_seed(seed)
        x = points(*shape, seed=seed)
        model, _ = lsuv_initialization(make(), x)
        for layer, rows in pre_activations(model, dealt(x)).items():
            assert abs(float(rows.var(correction=0)) - 1) < PROMISED
            module = model.get_submodule(layer)
            for part in module.weight.detach().chunk(getattr(module, "groups", 1)):
                flat = part.flatten(1)
                gram = flat @ flat.T if len(flat) <= flat.shape[1] else flat.T @ flat
                scale = float(gram.diagonal().mean())
                torch.testing.assert_close(gram / scale, torch.eye(len(gram)), rtol=0, atol=1e-4)

    def test_the_draw_follows_torchs_generator(self):
        net, x = models.mlp(10, depth=2, width=20, classes=3), points(50, 10)
        made = []
        for number in (1, 1, 2):
            torch.manual_seed(number)
            made.append(lsuv_initialization(net, x)[0].linear1.weight)
        assert torch.equal(made[0], made[1])
        assert not torch.equal(made[0], made[2])


class Keeper:
    """A hook that keeps the first argument of each call."""

    def __init__(self, seen):
        self.seen = seen

    def __call__(self, module, args):
        self.seen.append((module, args[0]))


class TestAttention:
    @pytest.mark.parametrize("bias", [True, False])
    def test_the_projections_of_torchs_attention(self, bias, seed):
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, bias=bias),
            nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, norm_first=True, bias=bias),
        )
        x = points(60, 7, 16, seed=seed)
        for mode in (True, False):
            model, edits = scale_bias_initialization(net.train(mode), x)
            assert not edits.left
            for name, rows in pre_activations(
                model, dealt(x)
            ).items():  # of an attention, the output projection
                assert max(off(rows)) < PROMISED, name
            seen: list[tuple[nn.Module, torch.Tensor]] = []
            keep = Keeper(seen)
            for number in (0, 1):
                model.get_submodule(f"{number}.self_attn").register_forward_pre_hook(keep)
            with torch.no_grad():
                model.train()(x)  # not by the fused path of evaluation
            assert len(seen) == 2
            for attention, given in seen:
                for weight, own in zip(
                    attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True
                ):
                    projected = functional.linear(given, weight, own).detach().double().flatten(0, -2)
                    assert max(off(projected)) < PROMISED
            assert [edit.what.split(":")[0] for edit in edits][:4] == [
                f"{part} projection of MultiheadAttention" for part in ("query", "key", "value", "output")
            ]

    def test_keys_and_values_of_other_widths(self, seed):
        class Crossed(nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = nn.MultiheadAttention(8, 2, kdim=6, vdim=4, batch_first=True)

            def forward(self, x):
                return self.attention(x, value=x[..., :4], key=x[..., :6])[0]

        torch.manual_seed(seed)
        x = points(60, 5, 8, seed=seed)
        model, edits = scale_bias_initialization(Crossed(), x)
        assert len(edits) == 4
        attention = model.attention
        places = ((attention.q_proj_weight, 8), (attention.k_proj_weight, 6), (attention.v_proj_weight, 4))
        for (weight, width), bias in zip(places, attention.in_proj_bias.chunk(3), strict=True):
            projected = functional.linear(x[..., :width], weight, bias).detach().double().flatten(0, -2)
            assert max(off(projected)) < PROMISED
        assert max(off(model(x).detach().double().flatten(0, -2))) < PROMISED


HUGGING_FACE = {
    "ResNet": ("pictures", lambda t: t.ResNetForImageClassification(
        t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 2], layer_type="basic"))),
    "ViT": ("pictures", lambda t: t.ViTForImageClassification(
        t.ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                    image_size=32, patch_size=8))),
    "Swin": ("pictures", lambda t: t.SwinForImageClassification(
        t.SwinConfig(image_size=32, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4))),
    "BERT": ("tokens", lambda t: t.BertForSequenceClassification(
        t.BertConfig(vocab_size=100, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                     intermediate_size=32))),
    "GPT-2": ("tokens", lambda t: t.GPT2LMHeadModel(
        t.GPT2Config(vocab_size=100, n_embd=16, n_layer=2, n_head=2, n_positions=32))),
}  # fmt: skip


class TestHuggingFace:
    @pytest.mark.parametrize("mode", ["train", "eval"])
    @pytest.mark.parametrize("name", HUGGING_FACE)
    def test_every_layer_of_tiny_configurations(self, name, mode, seed):
        transformers = pytest.importorskip("transformers")
        kind, build = HUGGING_FACE[name]
        torch.manual_seed(seed)
        if kind == "pictures":
            data = {"pixel_values": points(20, 3, 32, 32, seed=seed)}
        else:
            data = {"input_ids": torch.randint(0, 100, (40, 9))}
        model, edits = scale_bias_initialization(build(transformers), data, mode=mode)
        batches = [{key: value[number::5] for key, value in data.items()} for number in range(5)]
        found = pre_activations(model, batches, mode)
        left = {item.address: item.reason for item in edits.left}
        for layer, rows in found.items():
            mean, variance = off(rows)
            if layer == "lm_head":
                assert "also belongs to a module that is no affine map" in left[layer]
                continue
            assert variance < PROMISED, (layer, variance)
            if "takes the means away" not in left.get(layer, ""):
                assert mean < PROMISED, (layer, mean)
        assert sum("takes the means away" in reason for reason in left.values()) == (
            len(batch_norms(model)) if mode == "train" else 0
        )


class TestWhatIsLeft:
    def net(self):
        return models.mlp(10, depth=3, width=20, classes=3)

    def test_frozen_layers(self):
        net, x = self.net(), points(60, 10)
        net.linear2.weight.requires_grad_(False)
        model, edits = scale_bias_initialization(net, x)
        assert [(item.address, item.reason) for item in edits.left] == [
            ("linear2", "its weight is frozen (requires_grad=False)")
        ]
        assert torch.equal(model.linear2.weight, net.linear2.weight)
        assert_centred_and_scaled(model, dealt(x), but=("linear2",))
        assert not model.linear2.weight.requires_grad

    def test_layers_that_give_nothing_or_always_the_same(self):
        net, x = self.net(), points(60, 10)
        with torch.no_grad():
            net.linear2.weight.zero_()
            net.linear2.bias.zero_()
        with pytest.raises(ModelError, match="nothing was changed"):
            scale_bias_initialization(net, torch.ones(10, 10))
        model, edits = scale_bias_initialization(net, x)
        left = {item.address: item.reason for item in edits.left}
        assert left["linear2"] == "its output is 0 for every calibration sample"
        assert left["linear3"] == "its output is 0 for every calibration sample"
        assert [edit.address for edit in edits] == ["linear1"]
        assert torch.equal(model.linear3.weight, net.linear3.weight)
        with torch.no_grad():
            net.linear2.bias.fill_(1.0)
        left = {item.address: item.reason for item in scale_bias_initialization(net, x)[1].left}
        assert left["linear3"] == "its output does not vary over the calibration data"

    def test_dead_units_do_not_disturb_the_others(self):
        net, x = self.net(), points(60, 10)
        with torch.no_grad():
            net.linear2.weight[:10].zero_()
        model, edits = scale_bias_initialization(net, x)
        assert not edits.left
        assert_centred_and_scaled(model, dealt(x))

    def test_one_sample(self):
        net = self.net()
        with pytest.raises(ModelError, match=r"does not vary over the calibration data.*nothing was changed"):
            scale_bias_initialization(net, points(1, 10))
        model, edits = scale_initialization(net, points(1, 10))
        assert float(model(points(1, 10)).detach().square().mean()) == pytest.approx(1, rel=1e-4)
        assert "1 mini-batch of 1 samples" in edits.notes[0]
        assert "5 were asked for" in edits.notes[0]
        pictures, _ = scale_bias_initialization(
            models.resnet9(width=4, norm=None), points(1, 3, 32, 32), layers=["*conv"]
        )
        assert_centred_and_scaled(pictures, [points(1, 3, 32, 32)], but=("output",))

    def test_what_the_forward_does_not_call(self):
        class Idle(nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.idle = nn.Linear(10, 3), nn.Linear(10, 3, bias=False)

            def forward(self, x):
                return self.used(x)

        model, edits = scale_bias_initialization(Idle(), points(60, 10))
        assert [(item.address, item.reason) for item in edits.left] == [
            ("idle", "the forward did not call it")
        ]
        assert model.idle.bias is None

    def test_recurrent_layers_and_functions(self):
        class Mixed(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm, self.output = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)
                self.own = nn.Parameter(torch.randn(3, 3))

            def forward(self, x):
                return functional.linear(self.output(self.lstm(x)[0][:, -1]), self.own)

        _, edits = scale_bias_initialization(Mixed(), points(60, 5, 4))
        reasons = [(item.address, item.reason) for item in edits.left]
        assert ("lstm", "LSTM holds weights, and is no dense or convolutional layer") in reasons
        assert any(
            address == "" and "linear is called as a function" in reason for address, reason in reasons
        )
        assert [edit.address for edit in edits] == ["output"]

    def test_a_weight_that_is_also_an_embedding(self):
        class Speaker(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.hidden, self.output = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 20)
                self.output.weight = self.words.weight

            def forward(self, x):
                return self.output(self.hidden(self.words(x).mean(1)))

        net = Speaker()
        model, edits = scale_bias_initialization(net, torch.randint(0, 20, (50, 4)))
        assert [item.address for item in edits.left] == ["output"]
        assert torch.equal(model.words.weight, net.words.weight)

    def test_control_flow_that_depends_on_the_data(self, seed):
        torch.manual_seed(seed)
        net, x = Wandering(), points(100, 10, seed=seed)
        batches = [(x[number::5] * (1 + number % 2), torch.zeros(20)) for number in range(5)]
        ways = [float(batch.abs().mean()) > 0.95 for batch, _ in batches]
        assert len(set(ways)) == 2
        model, edits = scale_bias_initialization(net, batches)
        assert_centred_and_scaled(model, [batch for batch, _ in batches])
        assert any("not all of the 5 mini-batches came to" in note for note in edits.notes)

    def test_layers_chosen_by_name(self):
        _, edits = scale_bias_initialization(self.net(), points(60, 10), layers=["~output"])
        assert [item.address for item in edits.left] == ["output"]
        with pytest.raises(UsageError, match="matches no layer"):
            scale_bias_initialization(self.net(), points(60, 10), layers=["nothing"])


class TestWeightsThatAreComputed:
    @pytest.mark.parametrize("remedy", [scale_initialization, scale_bias_initialization])
    def test_weight_norm(self, remedy, seed):
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(10, 20)), nn.ReLU(), nn.Linear(20, 3)
        )
        x = points(60, 10, seed=seed)
        model, edits = remedy(net, x)
        assert not edits.left
        for rows in pre_activations(model, dealt(x)).values():
            assert abs(float(rows.square().mean()) - 1) < PROMISED
        pickled = copy.deepcopy(model).state_dict()
        assert {*pickled} == {*net.state_dict()}

    @pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
    def test_weight_norm_by_a_hook_and_pruning(self, seed):
        torch.manual_seed(seed)
        x = points(60, 10, seed=seed)
        normed, pruned = nn.utils.weight_norm(nn.Linear(10, 20)), nn.Linear(20, 3)
        prune.random_unstructured(pruned, "weight", 0.5)
        net = nn.Sequential(normed, nn.ReLU(), pruned)
        _, edits = scale_bias_initialization(
            net, x, in_place=True
        )  # torch cannot copy what a hook has computed
        assert not edits.left
        with torch.no_grad():
            hidden = net[0](x)
            assert max(off(hidden.double())) < PROMISED
            assert max(off(net(x).double())) < PROMISED
        assert bool((net[2].weight == 0).any())

    @pytest.mark.parametrize(
        "parametrize", [nn.utils.parametrizations.spectral_norm, nn.utils.parametrizations.orthogonal]
    )
    def test_weights_whose_scale_is_fixed(self, parametrize, seed):
        torch.manual_seed(seed)
        net = nn.Sequential(parametrize(nn.Linear(10, 10)), nn.ReLU(), nn.Linear(10, 3))
        x = points(60, 10, seed=seed)
        model, edits = scale_bias_initialization(net, x)
        assert [item.address for item in edits.left] == ["0"]
        assert "parametrization" in edits.left[0].reason
        torch.testing.assert_close(model.eval()[0](x), net.eval()[0](x), rtol=1e-6, atol=1e-6)
        assert max(off(pre_activations(model, dealt(x))["2"])) < PROMISED

    def test_a_subclass_that_does_more(self, seed):
        class Squashed(nn.Linear):
            def forward(self, x):
                return super().forward(x).tanh()

        class Honest(nn.Linear):
            def forward(self, x):
                return x @ self.weight.T + self.bias

        torch.manual_seed(seed)
        net = nn.Sequential(Honest(10, 20), Squashed(20, 20), nn.Linear(20, 3))
        x = points(60, 10, seed=seed)
        model, edits = scale_bias_initialization(net, x)
        assert [(item.address, item.reason) for item in edits.left] == [
            ("1", "the forward of Squashed is not W x + b")
        ]
        assert torch.equal(model[1].weight, net[1].weight)
        assert torch.equal(model[1].bias, net[1].bias)
        assert_centred_and_scaled(model, dealt(x), but=("1",))

    @pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
    @pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
    def test_quantized_and_lazy_modules(self):
        lazy = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.Linear(5, 3))
        with pytest.raises(
            ModelError, match=r"0 \(LazyLinear\) is lazy and has no weights yet; run the model once"
        ):
            scale_bias_initialization(lazy, points(60, 10))
        quantized = nn.Sequential(torch.ao.nn.quantized.dynamic.Linear(10, 3))
        with pytest.raises(ModelError, match="quantized: its scales"):
            scale_bias_initialization(quantized, points(60, 10))


class TestData:
    def test_a_loader_gives_its_first_mini_batches(self):
        x = points(100, 10)
        loader = [(x[start : start + 10], torch.zeros(10)) for start in range(0, 100, 10)]
        net = models.mlp(10, depth=3, width=20, classes=3)
        model, edits = scale_bias_initialization(net, loader)
        assert_centred_and_scaled(model, [batch for batch, _ in loader[:5]])
        assert max(off(pre_activations(model, [x])["output"])) > PROMISED
        assert edits.notes[0].startswith("calibrated on 5 mini-batches of 10 samples")
        model, _ = scale_bias_initialization(net, loader, batches=10)
        assert_centred_and_scaled(model, [x])

    def test_mini_batches_of_different_shapes(self):
        """Pictures of several sizes, which no single tensor holds."""
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
        )
        pictures = [points(4, 3, side, side, seed=side) for side in (8, 9, 12, 16)]
        model, edits = scale_bias_initialization(net, [(item, torch.zeros(4)) for item in pictures])
        assert_centred_and_scaled(model, pictures)
        assert "4 mini-batches of 4 samples" in edits.notes[0]

    def test_data_in_memory_are_dealt_out_wholly(self):
        x = points(101, 10)
        model, edits = scale_bias_initialization(models.mlp(10, depth=3, width=20, classes=3), x)
        assert_centred_and_scaled(model, [x])
        assert edits.notes[0].startswith("calibrated on 5 mini-batches of 20 to 21 samples")

    def test_batch_size(self):
        x = points(1000, 10)
        _, edits = scale_bias_initialization(models.mlp(10, depth=1, width=20, classes=3), x, batch_size=32)
        assert edits.notes[0].startswith("calibrated on 5 mini-batches of 32 samples")

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            (
                {"mode": "test"},
                UsageError,
                r"scale_bias_initialization\(mode\): expected one of 'train', 'eval'",
            ),
            ({"batches": 0}, UsageError, r"\(batches\): expected a whole number of at least 1, got 0"),
            ({"epsilon": -1}, UsageError, r"\(epsilon\): expected a number from 0 to 1, got -1"),
            ({"data": torch.full((50, 10), math.nan)}, DataError, "NaN inputs in 10 of 10 samples"),
            ({"data": points(50, 7)}, ModelError, "failed on a batch of shape"),
        ],
    )
    def test_wrong_arguments(self, options, error, words):
        net = models.mlp(10, depth=1, width=20, classes=3)
        before = copy.deepcopy(net.state_dict())
        with pytest.raises(error, match=words):
            scale_bias_initialization(net, **{"data": points(50, 10), "in_place": True, **options})
        for name, value in before.items():
            assert torch.equal(net.state_dict()[name], value)

    def test_values_that_overflow(self):
        net = models.mlp(10, depth=3, width=20, classes=3)
        with torch.no_grad():
            net.linear2.weight.mul_(1e38)
            net.linear2.bias.fill_(math.inf)
        before = copy.deepcopy(net.state_dict())
        with pytest.raises(ModelError, match=r"output of linear2 \(KaimingLinear\) is NaN or infinite"):
            scale_initialization(net, points(60, 10), in_place=True)
        for name, value in before.items():
            assert torch.equal(net.state_dict()[name], value)

    def test_a_model_without_layers(self):
        with pytest.raises(ModelError, match="found no dense or convolutional layer in Sequential"):
            scale_initialization(nn.Sequential(nn.ReLU()), points(60, 10))


def test_the_model_is_ordinary_afterwards(seed):
    torch.manual_seed(seed)
    net, x = models.resnet9(width=4), points(20, 3, 32, 32)
    model, _ = scale_bias_initialization(net, x)
    assert type(model) is type(net)
    assert not any(item._forward_hooks or item._forward_pre_hooks for item in model.modules())
    assert list(model.state_dict()) == list(net.state_dict())
    again = pickle.loads(pickle.dumps(model))
    torch.testing.assert_close(again(x), model(x), rtol=0, atol=0)


def test_every_layer_runs_once_however_deep_the_network():
    """One pass of the mini-batches: each layer multiplies its inputs once for each, and once more to see what runs."""
    for depth in (4, 16):
        calls: list[tuple[nn.Module, torch.Tensor]] = []
        net = models.mlp(10, depth=depth, width=20, classes=3)
        for module in net.modules():
            if isinstance(module, nn.Linear):
                module.register_forward_pre_hook(Keeper(calls))
        Keeper.__deepcopy__ = lambda self, memo: self  # the copies that run count where the model counts
        try:
            scale_bias_initialization(net, points(100, 10))
        finally:
            del Keeper.__deepcopy__
        assert len(calls) == (depth + 1) * (BATCHES + 1)


def test_repairing_says_that_gradients_explode():
    def make():
        return models.mlp(150, depth=30, width=150, classes=10)

    x = points(200, 150)
    _, change = fl.repair(make, x, ["scale_bias_initialization"], inits=16, progress=False)
    diagnosis = fl.diagnose(change.after)
    assert diagnosis["exploding-gradients"].found
    assert not fl.diagnose(change.before)["exploding-gradients"].found
    [warning] = [note for note in change.notes if note.startswith("warning")]
    assert "gradients explode towards the input at linear1" in warning
    assert "gradients explode towards the input" in str(change)
    assert float(change.after.gamma[-1]) < 1e-6
