"""Norms that were moved, against the same networks written by hand, parameter for parameter."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

from firstlight import models
from firstlight.errors import ModelError, UsageError
from firstlight.remedies.norm_placement import norm_after_activation, norm_before_activation
from firstlight.remedies.norm_types import convert_norm
from firstlight.remedies.repairing import apply_
from firstlight.remedies.surgery import Together, Vacated


def worn(model, seed):
    """The model as if it had been trained: no parameter, no running statistic stands where it is initialized."""
    generator = torch.Generator().manual_seed(seed % 2**31)
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("running_var"):
                tensor.copy_(0.5 + noise.abs())
            elif "norm" in name.rpartition(".")[0] or "bn" in name:
                tensor.add_(0.3 * noise)
            else:
                tensor.add_(0.02 * noise)
    return model


def logits(model, x):
    output = model(x)
    return output if isinstance(output, torch.Tensor) else output.logits


def both_modes(model, x):
    """Outputs in train and in eval mode, the first on a copy because it moves running statistics."""
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        train = logits(copy.deepcopy(model).train(), x)
        return train, logits(copy.deepcopy(model).eval(), x)


def assert_same_function(one, other, x):
    for mine, theirs in zip(both_modes(one, x), both_modes(other, x), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def assert_same_state(one, other):
    mine, theirs = one.state_dict(), other.state_dict()
    assert list(mine) == list(theirs)
    for name, value in mine.items():
        assert torch.equal(value, theirs[name]), name


PICTURES = (4, 3, 32, 32)

# Built twice by their own authors' hands: with the norm before, and after.
WRITTEN_TWICE = {
    "perceptron": (
        lambda place: models.mlp(6, depth=3, width=5, classes=2, norm="batch", placement=place),
        (8, 6),
    ),
    "layer norm": (
        lambda place: models.mlp(6, depth=2, width=5, classes=2, norm="layer", placement=place),
        (8, 6),
    ),
    "CNN-A": (lambda place: models.cnn_a(norm="batch", placement=place), PICTURES),
    "CNN-B": (lambda place: models.cnn_b(norm="batch", placement=place), PICTURES),
    "CNN-B, tanh": (
        lambda place: models.cnn_b(norm="batch", activation="tanh", pool="avg", placement=place),
        PICTURES,
    ),
    "ALL-CNN-C": (lambda place: models.all_cnn_c(norm="batch", placement=place), (2, 3, 16, 16)),
    "ResNet-9": (lambda place: models.resnet9(width=4, placement=place), PICTURES),
    "U-Net": (lambda place: models.u_net(width=2, norm="batch", placement=place), (2, 1, 32, 32)),
}


@pytest.mark.parametrize("name", WRITTEN_TWICE)
def test_moving_gives_the_network_that_is_written_by_hand(name, seed):
    make, shape = WRITTEN_TWICE[name]
    torch.manual_seed(seed % 2**31)
    before, reference, x = worn(make("before"), seed), make("after"), torch.randn(shape)
    after, edits = norm_after_activation(before)
    assert list(after.state_dict()) == list(reference.state_dict())
    reference.load_state_dict(before.state_dict())  # the same names hold the same tensors
    assert_same_state(after, reference)
    assert_same_function(after, reference, x)
    assert len(edits) == sum("norm" in part for part, _ in before.named_modules())
    assert type(after) is type(before)
    back, _ = norm_before_activation(after)
    assert_same_state(back, before)
    assert_same_function(back, before, x)


@pytest.mark.parametrize("variant", ["after-activation", "after-branch"])
def test_the_mixer_in_both_of_its_afters(variant, seed):
    options = {"hidden": 12, "token_hidden": 10, "channel_hidden": 7, "depth": 2, "patch": 8}
    torch.manual_seed(seed % 2**31)
    before, reference = models.mlp_mixer(**options), models.mlp_mixer(placement=variant, **options)
    x = torch.randn(PICTURES)
    after, edits = norm_after_activation(before, variant=variant)
    reference.load_state_dict(after.state_dict())
    assert list(after.state_dict()) == list(reference.state_dict())
    for (
        key,
        value,
    ) in before.state_dict().items():  # norms start at (1, 0), so even those of a new width agree
        if value.shape == reference.state_dict()[key].shape:
            assert torch.equal(value, reference.state_dict()[key]), key
    assert_same_function(after, reference, x)
    assert [edit.address for edit in edits] == [
        f"layers.{kind}{n}.branch.norm" for n in (1, 2) for kind in ("tokens", "channels")
    ]
    assert [item.address for item in edits.left] == ["norm"]
    assert (variant == "after-activation") == any("width 7 instead of 12" in edit.what for edit in edits)
    back, _ = norm_before_activation(after)
    assert_same_state(back, before)
    assert_same_function(back, before, x)


def test_a_norm_at_the_end_of_the_branch_keeps_its_parameters(seed):
    before = worn(models.mlp_mixer(hidden=6, token_hidden=5, channel_hidden=4, depth=1, patch=16), seed)
    after, _ = norm_after_activation(before, variant="after-branch")
    assert torch.equal(after.layers.channels1.branch.norm.weight, before.layers.channels1.branch.norm.weight)


def test_nested_sequences_and_slots(seed):
    before = nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), nn.ReLU(), nn.Linear(3, 2))
    worn(before, seed)
    reference = nn.Sequential(before[0][0], before[1], before[0][1], before[2])
    x = torch.randn(8, 4)
    after, edits = norm_after_activation(before)
    assert_same_function(after, copy.deepcopy(reference), x)
    assert isinstance(after[0][1], Vacated)
    assert isinstance(after[1], Together)
    assert (edits.made[0].after, edits.made[0].now) == ("behind 1 (ReLU)", "1.norm")
    back, _ = norm_before_activation(after)
    assert repr(back) == repr(before)
    assert_same_state(back, before)
    deep = nn.Sequential(
        nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Dropout(0.0), nn.Tanh()), nn.Linear(3, 2)
    )
    moved, _ = norm_after_activation(deep)
    assert [type(item).__name__ for item in moved[0]] == ["Linear", "Dropout", "Tanh", "LayerNorm"]


class Block(nn.Module):
    """A basic residual block as torchvision and most people write it: one ReLU, called twice."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class BlockAfter(Block):
    def forward(self, x):
        out = self.bn1(self.relu(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block=Block):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.blocks = nn.ModuleList([block(4, 4, 1), block(4, 8, 2)])
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def test_a_residual_network_whose_relu_is_called_twice(seed):
    before, reference, x = worn(ResNet(), seed), ResNet(BlockAfter), torch.randn(4, 3, 16, 16)
    reference.stem = nn.Sequential(reference.stem[0], reference.stem[2], reference.stem[1])
    after, edits = norm_after_activation(before)
    reference.load_state_dict(after.state_dict())
    assert_same_function(after, reference, x)
    assert set(after.state_dict()) == {key.replace("stem.1.", "stem.2.") for key in before.state_dict()}
    assert [edit.address for edit in edits] == ["stem.1", "blocks.0.bn1", "blocks.1.bn1"]
    assert {item.address for item in edits.left} == {"blocks.0.bn2", "blocks.1.bn2", "blocks.1.downsample.1"}
    assert all("it feeds" in item.reason for item in edits.left)
    assert type(after) is ResNet
    assert [type(block).__name__ for block in after.blocks] == ["Block", "Block"]
    assert any("GraphModule" in note for note in edits.notes)
    back, _ = norm_before_activation(after)
    assert_same_state(back, before)
    assert_same_function(back, before, x)


class Functional(nn.Module):
    """Activations and pools as functions."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3)
        self.norm1, self.norm2 = nn.BatchNorm2d(4), nn.GroupNorm(5, 5)
        self.fc, self.norm3 = nn.Linear(5, 6), nn.LayerNorm(6)
        self.spare = nn.Linear(2, 2)  # never called, and still there afterwards
        self.kept = "an attribute"

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm1(self.conv1(x)), inplace=True), 2)
        x = torch.tanh(self.norm2(self.conv2(x)))
        return self.norm3(self.fc(x.amax((2, 3)))).relu_()


class FunctionalAfter(Functional):
    def forward(self, x):
        x = self.norm1(functional.max_pool2d(functional.relu(self.conv1(x)), 2))
        x = self.norm2(torch.tanh(self.conv2(x)))
        return self.norm3(self.fc(x.amax((2, 3))).relu())


def test_activations_that_are_functions(seed):
    before, reference, x = worn(Functional(), seed), FunctionalAfter(), torch.randn(4, 3, 12, 12)
    after, edits = norm_after_activation(before)
    reference.load_state_dict(before.state_dict())
    assert_same_state(after, before)
    assert_same_function(after, reference, x)
    assert type(after).__name__ == "Functional"
    assert after.kept == "an attribute"
    assert [edit.after for edit in edits] == ["behind max_pool2d()", "behind tanh()", "behind relu()"]
    kept_in, _ = norm_after_activation(before, past_pool=False)
    difference = (both_modes(kept_in, x)[0] - both_modes(after, x)[0]).abs().max()
    assert difference > 0  # the statistics of a batch are not those of its maxima
    back, _ = norm_before_activation(after)
    assert_same_function(back, before, x)


class PreActivation(nn.Module):
    """norm → ReLU in place → convolution, beside a skip that still reads the input."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.bn, self.act, self.conv = nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        x = self.stem(x)
        return (x + self.conv(self.act(self.bn(x)))).mean((2, 3))


class PreActivationAfter(PreActivation):
    def forward(self, x):
        x = self.stem(x)
        return (x + self.conv(self.bn(functional.relu(x)))).mean((2, 3))


def test_an_activation_in_place_does_not_spoil_the_skip(seed):
    before, reference, x = worn(PreActivation(), seed), PreActivationAfter(), torch.randn(4, 3, 5, 5)
    after, edits = norm_after_activation(before)
    reference.load_state_dict(before.state_dict())
    assert_same_function(after, reference, x)
    assert any("no longer works in place" in note for note in edits.notes)


# Hugging Face


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


def resnet_after(model, x):
    """Hugging Face's ResNet with its norms after the activations, in our own words."""

    def convolved(part, x):
        return part.normalization(part.activation(part.convolution(x)))

    stem = model.resnet.embedder
    x = stem.embedder.normalization(stem.pooler(stem.embedder.activation(stem.embedder.convolution(x))))
    for stage in model.resnet.encoder.stages:
        for layer in stage.layers:
            *first, last = layer.layer
            y = x
            for part in first:
                y = convolved(part, y)
            y = last.normalization(last.convolution(y))
            x = layer.activation(y + layer.shortcut(x))
    return model.classifier(model.resnet.pooler(x))


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
def test_hugging_face_resnet(transformers, kind, seed):
    config = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[8, 16], depths=[2, 1], layer_type=kind, num_labels=3
    )
    before, x = worn(transformers.ResNetForImageClassification(config), seed), torch.randn(PICTURES)
    after, edits = norm_after_activation(before)
    assert type(after) is type(before)
    with torch.no_grad():
        for train in (False, True):
            reference = copy.deepcopy(before).train(train)
            mine = copy.deepcopy(after).train(train)
            torch.testing.assert_close(logits(mine, x), resnet_after(reference, x), rtol=0, atol=0)
    assert len(edits) == (4 if kind == "basic" else 7)
    for edit in edits:
        for name, tensor in before.get_submodule(edit.address).named_parameters():
            assert torch.equal(tensor, after.get_submodule(edit.now).get_parameter(name))
    back, _ = norm_before_activation(after)
    assert_same_state(back, before)
    assert_same_function(back, before, x)


class MLPAfter(nn.Module):
    """The feed-forward part of a transformer with its norm after the activation."""

    def __init__(self, mlp, epsilon):
        super().__init__()
        self.fc1, self.activation_fn, self.fc2 = mlp.fc1, mlp.activation_fn, mlp.fc2
        self.norm = nn.LayerNorm(mlp.fc1.out_features, eps=epsilon)

    def forward(self, x):
        return self.fc2(self.norm(self.activation_fn(self.fc1(x))))


def feed_forward_after(model, epsilon, variant):
    reference = copy.deepcopy(model)
    for layer in reference.modules():
        if hasattr(layer, "layernorm_after"):
            if variant == "after-activation":
                layer.mlp = MLPAfter(layer.mlp, epsilon)
            else:
                layer.mlp = nn.Sequential(layer.mlp, layer.layernorm_after)
            layer.layernorm_after = nn.Identity()
    return reference


def vit(transformers):
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        image_size=32,
        num_labels=3,
    )
    config.patch_size = 8
    return transformers.ViTForImageClassification(config)


def swin(transformers):
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4, num_labels=3
    )
    return transformers.SwinForImageClassification(config)


@pytest.mark.parametrize("variant", ["after-activation", "after-branch"])
@pytest.mark.parametrize("make", [vit, swin])
def test_the_feed_forward_part_of_vit_and_swin(transformers, make, variant, seed):
    torch.manual_seed(seed % 2**31)
    before, x = make(transformers), torch.randn(PICTURES)
    blocks = [name for name, _ in before.named_modules() if name.endswith("layernorm_after")]
    after, edits = norm_after_activation(before, variant=variant, example=x)
    epsilon = before.get_submodule(blocks[0]).eps
    with torch.no_grad():
        wanted = logits(feed_forward_after(before, epsilon, variant).eval(), x)
        torch.testing.assert_close(logits(after.eval(), x), wanted, rtol=0, atol=0)
    assert [edit.address for edit in edits] == blocks
    assert type(after) is type(before)
    back, _ = norm_before_activation(after, example=x)
    assert_same_state(back, before)
    assert_same_function(back, before, x)


def test_swin_needs_an_example(transformers):
    with pytest.raises(ModelError, match=r"blocks\.0\.layernorm_before: .*SwinLayer.*pass example= data"):
        norm_after_activation(swin(transformers))


# An ordinary module


def moved(make):
    return norm_after_activation(make())[0]


ORDINARY = {
    "by order": (lambda: moved(lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())), (6, 4)),
    "by slots": (
        lambda: moved(lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), nn.ReLU())),
        (6, 4),
    ),
    "by a graph": (lambda: moved(ResNet), (4, 3, 8, 8)),
    "by the root's graph": (lambda: moved(Functional), (4, 3, 12, 12)),
}  # fmt: skip


@pytest.mark.filterwarnings(
    "ignore:`torch.jit:DeprecationWarning", "ignore:The TorchScript type system:UserWarning"
)
@pytest.mark.parametrize("name", ORDINARY)
def test_the_result_is_an_ordinary_module(name, seed, tmp_path):
    make, shape = ORDINARY[name]
    torch.manual_seed(seed % 2**31)
    model, x = worn(make(), seed), torch.randn(shape)
    assert_same_function(copy.deepcopy(model), model, x)
    assert_same_function(pickle.loads(pickle.dumps(model)), model, x)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    fresh = make()
    fresh.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert_same_function(fresh, model, x)
    compiled = torch.jit.script(copy.deepcopy(model).eval())
    buffer = io.BytesIO()
    torch.jit.save(compiled, buffer)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model.eval()(x))
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    output = model(x)
    (output * torch.randn_like(output)).sum().backward()  # a loss that a norm at the end does not fix
    optimizer.step()
    unused = {key for key, value in model.state_dict().items() if torch.equal(value, before[key])}
    assert all(key.startswith("spare") for key in unused)
    assert any(
        not torch.equal(value, before[key]) for key, value in model.state_dict().items() if "running" in key
    )


# What is refused, and what is left


class TwoActivations(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.relu, self.tanh = nn.ReLU(), nn.Tanh()

    def forward(self, x):
        return self.tanh(self.norm(self.fc2(self.relu(self.norm(self.fc1(x))))))


class SharedNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.relu = nn.LayerNorm(4), None, nn.ReLU()
        self.two = self.one

    def forward(self, x):
        return self.relu(self.two(self.relu(self.one(x))))


class Skipped(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.relu = nn.LayerNorm(4), nn.ReLU()

    def forward(self, x):
        y = self.norm(x)
        return self.relu(y) + y


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.relu = nn.LayerNorm(4), nn.ReLU()

    def forward(self, x):
        for _ in range(int(x.sum() > 0) + 1):
            x = self.relu(self.norm(x))
        return x


class Branching(nn.Module):
    """Two ways, and the norm stands differently in them."""

    def __init__(self):
        super().__init__()
        self.norm, self.relu, self.tanh = nn.LayerNorm(4), nn.ReLU(), nn.Tanh()

    def forward(self, x):
        return self.relu(self.norm(x)) if x.sum() > 0 else self.tanh(self.norm(x))


class ByMode(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x):
        return functional.dropout(functional.relu(self.norm(self.fc(x))), 0.5, training=self.training)


class WithoutGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x):
        with torch.no_grad():
            x = self.fc(x)
        return functional.relu(self.norm(x))


def quantized():
    """A model whose linear map is quantized."""
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it will offer this elsewhere
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear})


def scripted():
    return torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.ReLU()))


def weight_normed():
    model = models.mlp_mixer(hidden=6, token_hidden=5, channel_hidden=4, depth=1, patch=16)
    nn.utils.parametrizations.weight_norm(model.layers.channels1.branch.norm, dim=None)
    return model


REFUSED = {
    "two activations": (TwoActivations, r"norm: it is shared by two activations, relu and tanh"),
    "shared norm": (SharedNorm, r"one: it is the same module as two"),
    "used elsewhere": (Skipped, r"norm: its output is used by relu and also by add\(\)"),
    "dynamic": (Dynamic, r"norm: the model \(Dynamic\): its forward cannot be followed symbolically"),
    "ways that differ": (Branching, r"norm: it is shared by two activations"),
    "by mode": (ByMode, r"one thing in train mode and another in eval mode"),
    "no grad": (WithoutGradient, r"no_grad or autocast, which a graph does not hold"),
    "script": (scripted, r"compiled TorchScript"),
    "quantized": (quantized, r"0 \(Linear\) is quantized"),
    "weight norm": (weight_normed, r"channels1\.branch\.norm: .*is parametrized"),
    "no norm": (lambda: nn.Sequential(nn.Linear(4, 2)), r"found no norm to move in Sequential: it has none"),
    "no activation": (lambda: nn.Sequential(nn.Linear(4, 2), nn.LayerNorm(2)), r"1: no activation follows it"),
    "no module": (lambda: "a word", r"expected an nn.Module, got str"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_and_nothing_is_changed(name):
    make, reason = REFUSED[name]
    model = make()
    shown = repr(model)
    with pytest.raises(ModelError, match=reason):
        norm_after_activation(model)
    with pytest.raises(ModelError, match=reason):
        norm_after_activation(model, in_place=True)
    assert repr(model) == shown


def test_a_refused_norm_can_be_left_out():
    model = nn.Sequential(Skipped(), nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU())
    with pytest.raises(ModelError, match=r"leave them out by layers=\['~0\.norm'\]"):
        norm_after_activation(model)
    after, edits = norm_after_activation(model, layers=["~0.norm"])
    assert [edit.address for edit in edits] == ["2"]
    assert isinstance(after[3], nn.LayerNorm)


def test_moving_where_nothing_is_left_to_move_changes_nothing():
    model = models.mlp(4, depth=2, width=3, classes=2, norm="layer", placement="after")
    after, edits = norm_after_activation(model)
    assert (len(edits), [item.reason for item in edits.left]) == (
        0,
        ["it stands behind its activation already"] * 2,
    )
    assert_same_state(after, model)


def test_a_question_of_the_data_is_no_obstacle_where_both_answers_agree(seed):
    class Asking(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.norm, self.act = nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU()

        def forward(self, x):
            if x.shape[1] != 4:
                raise ValueError("four, please")
            y = self.act(self.norm(self.fc(x)))
            return y + 1 if x.sum() > 0 else y

    before = worn(Asking(), seed)
    after, edits = norm_after_activation(before)
    assert type(after) is Asking
    assert len(edits) == 1
    x = torch.randn(3, 4)
    wanted = before.norm(functional.relu(before.fc(x)))
    torch.testing.assert_close(after(x), wanted + 1 if x.sum() > 0 else wanted)


def test_activations_of_the_users_own_class(seed):
    class Swish(nn.Module):
        def forward(self, x):
            return x * torch.sigmoid(x)

    class Half(nn.Module):
        def forward(self, x):
            return 0.5 * x

    before = worn(nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), Swish(), nn.LayerNorm(3), Half()), seed)
    after, edits = norm_after_activation(before)
    assert [edit.address for edit in edits] == ["1"]
    assert [type(item).__name__ for item in after] == ["Linear", "Swish", "LayerNorm", "LayerNorm", "Half"]
    assert [item.reason for item in edits.left] == ["it stands behind its activation already"]


def test_unknown_variants_are_listed():
    with pytest.raises(UsageError, match="expected one of 'after-activation', 'after-branch', got 'behind'"):
        norm_after_activation(nn.ReLU(), variant="behind")
    with pytest.raises(UsageError, match="'auto', 'before-activation', 'before-block'"):
        norm_before_activation(nn.ReLU(), variant="x")


def test_in_place_keeps_the_parameters_and_their_optimizer():
    model = models.resnet9(width=2)
    weights = {id(item) for item in model.parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    edits = apply_(model, "norm_after_activation")
    assert len(edits) == 8
    assert {id(item) for item in model.parameters()} == weights
    kept = model.block1.norm.weight.clone()
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    optimizer.step()
    assert not torch.equal(model.block1.norm.weight, kept)
    assert [name for name, _ in model.block2.named_children()] == ["conv", "activation", "pool", "norm"]


def test_in_place_is_refused_where_the_model_itself_would_become_a_graph():
    model = Functional()
    shown = repr(model)
    with pytest.raises(ModelError, match="cannot be done in place; use the model that repair returns"):
        apply_(model, "norm_after_activation")
    assert repr(model) == shown


# Architectures of strangers


class AxisNorm(nn.LayerNorm):
    """Layer norm of channels, as ConvNeXt's authors write it."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class DenselyJoined(nn.Module):
    """norm → ReLU in place → convolution on everything that came before, joined (DenseNet)."""

    def __init__(self, growth=4):
        super().__init__()
        self.conv0 = nn.Conv2d(3, 8, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(8 + growth * n) for n in range(3)])
        self.relu = nn.ModuleList([nn.ReLU(inplace=True) for _ in range(3)])
        self.convs = nn.ModuleList([nn.Conv2d(8 + growth * n, growth, 3, padding=1) for n in range(3)])
        self.head = nn.Linear(20, 5)

    def activated(self, norm, relu, x):
        return relu(norm(x))

    def forward(self, x):
        made = [self.conv0(x)]
        for norm, relu, conv in zip(self.norms, self.relu, self.convs, strict=True):
            made.append(conv(self.activated(norm, relu, torch.cat(made, 1))))
        return self.head(torch.cat(made, 1).mean((2, 3)))


class DenselyJoinedAfter(DenselyJoined):
    def activated(self, norm, relu, x):
        return norm(functional.relu(x))


class Gate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, 2, 1), nn.Conv2d(2, channels, 1)
        self.act, self.gate = nn.SiLU(), nn.Sigmoid()

    def forward(self, x):
        return x * self.gate(self.fc2(self.act(self.fc1(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    """An inverted residual with a gate (EfficientNet)."""

    def __init__(self, channels):
        super().__init__()
        wide = 3 * channels
        self.block = nn.Sequential(
            nn.Sequential(nn.Conv2d(channels, wide, 1), nn.BatchNorm2d(wide), nn.SiLU(inplace=True)),
            Gate(wide),
            nn.Sequential(nn.Conv2d(wide, channels, 1), nn.BatchNorm2d(channels)),
        )

    def forward(self, x):
        return x + self.block(x)


def efficient(after=False):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.SiLU(), Inverted(4), nn.Flatten(), nn.Linear(900, 5)
    )
    if after:
        model = nn.Sequential(model[0], model[2], model[1], *model[3:])
        first = model[3].block[0]
        model[3].block[0] = nn.Sequential(first[0], first[2], first[1])
    return model


@pytest.mark.parametrize(
    ("make", "make_after", "names"),
    [(DenselyJoined, DenselyJoinedAfter, "before"), (efficient, lambda: efficient(True), "after")],
)
def test_networks_of_strangers(make, make_after, names, seed):
    torch.manual_seed(seed % 2**31)
    before, reference, x = worn(make(), seed), make_after(), torch.randn(PICTURES)
    after, edits = norm_after_activation(before)
    reference.load_state_dict((after if names == "after" else before).state_dict())
    assert_same_function(after, reference, x)
    for edit in edits:
        moved_norm = after.get_submodule(edit.now or edit.address).state_dict()
        for key, value in before.get_submodule(edit.address).state_dict().items():
            assert torch.equal(value, moved_norm[key])
    assert len(edits) == (3 if make is DenselyJoined else 2)
    back, _ = norm_before_activation(after)
    assert_same_state(back, before)
    assert_same_function(back, before, x)


def test_parts_that_run_as_one_piece_are_left_whole():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    with pytest.raises(ModelError, match=r"0\.norm1: it is a part of 0 \(TransformerEncoderLayer\)"):
        convert_norm(nn.Sequential(layer), to="rms")
    model = nn.Sequential(layer, nn.LayerNorm(8))
    after, edits = convert_norm(model, to="rms", example=torch.randn(2, 3, 8))
    assert [edit.address for edit in edits] == ["1"]
    assert {item.address for item in edits.left} == {"0.norm1", "0.norm2"}
    with torch.no_grad():
        assert after.eval()(torch.randn(2, 3, 8)).shape == (2, 3, 8)


def test_a_norm_with_a_forward_of_its_own_is_no_known_norm():
    with pytest.raises(
        ModelError, match=r"1 \(AxisNorm\): it is no norm of torch's own .* forward of its own"
    ):
        convert_norm(
            nn.Sequential(nn.Conv2d(3, 4, 1), AxisNorm(4)), to="rms", example=torch.randn(2, 3, 4, 4)
        )
