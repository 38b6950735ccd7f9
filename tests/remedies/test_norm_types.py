"""Norms of another type, against networks that were built with it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight import models
from firstlight.errors import ModelError, UsageError
from firstlight.remedies.axis_norms import ChannelRMSNorm, LastAxisBatchNorm
from firstlight.remedies.norm_types import NORM_TYPES, convert_norm


def scaled(model, seed):
    """The model with scales that differ from unit to unit."""
    generator = torch.Generator().manual_seed(seed % 2**31)
    with torch.no_grad():
        for module in model.modules():
            if "Norm" in type(module).__name__:
                module.weight.add_(0.3 * torch.randn(module.weight.shape, generator=generator))
    return model


@pytest.mark.parametrize("old", ["batch", "layer", "rms"])
@pytest.mark.parametrize("new", ["batch", "layer", "rms"])
def test_a_perceptron_becomes_the_one_that_is_built_so(old, new, seed):
    before = scaled(models.mlp(5, depth=2, width=4, classes=3, norm=old), seed)
    reference = models.mlp(5, depth=2, width=4, classes=3, norm=new)
    converted, edits = convert_norm(before, to=new)
    reference.load_state_dict(converted.state_dict())
    assert repr(converted) == repr(reference)
    x = torch.randn(7, 5)
    torch.testing.assert_close(converted(x), reference(x), rtol=0, atol=0)
    assert torch.equal(converted.norm1.weight, before.norm1.weight)
    assert torch.equal(converted.linear2.weight, before.linear2.weight)
    assert (len(edits), len(edits.left)) == ((0, 2) if old == new else (2, 0))


@pytest.mark.parametrize("to", NORM_TYPES)
def test_a_convolutional_network_runs_with_every_type(to, seed):
    before = scaled(models.resnet9(width=4), seed)
    converted, edits = convert_norm(before, to=to, groups=4)
    expected = {"batch": "BatchNorm2d", "layer": "GroupNorm", "group": "GroupNorm", "rms": "ChannelRMSNorm",
                "instance": "InstanceNorm2d", "none": "Identity"}[to]  # fmt: skip
    assert type(converted.block1.norm).__name__ == expected
    x = torch.randn(3, 3, 32, 32)
    converted(x).sum().backward()
    assert len(edits) == (0 if to == "batch" else 8)
    if to not in ("none", "batch"):
        assert torch.equal(converted.block3.norm.weight, before.block3.norm.weight)
        back, _ = convert_norm(converted, to="batch")
        back.load_state_dict({**back.state_dict(), **before.state_dict()})
        torch.testing.assert_close(back(x), before(x))


def test_channels_of_each_sample_by_hand():
    x, norm = torch.randn(3, 5, 4, 2), ChannelRMSNorm(5, eps=0.0)
    torch.testing.assert_close(norm(x).square().mean((1, 2, 3)), torch.ones(3))
    torch.testing.assert_close(norm(x), x / x.square().mean((1, 2, 3), keepdim=True).sqrt())


def test_units_of_the_last_axis_by_hand():
    x, norm = torch.randn(6, 5, 4), LastAxisBatchNorm(4)
    expected = (x - x.mean((0, 1))) / (x.var((0, 1), correction=0) + norm.eps).sqrt()
    torch.testing.assert_close(norm(x), expected)


def test_tokens_keep_their_axis(seed):
    before = models.mlp_mixer(hidden=6, token_hidden=5, channel_hidden=4, depth=1, patch=16)
    converted, _ = convert_norm(before, to="batch")
    assert {type(item) for item in converted.modules() if "Norm" in type(item).__name__} == {
        LastAxisBatchNorm
    }
    assert converted(torch.randn(4, 3, 32, 32)).shape == (4, 10)
    with pytest.raises(
        ModelError,
        match=r"group norm takes channels on the second axis; .* may have positions; pass example=",
    ):
        convert_norm(before, to="group")
    with pytest.raises(ModelError, match=r"its input has 3 axes"):
        convert_norm(before, to="instance", example=torch.randn(4, 3, 32, 32))


def test_an_example_tells_the_axes():
    before = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU())
    assert isinstance(convert_norm(before, to="batch")[0][1], LastAxisBatchNorm)
    assert type(convert_norm(before, to="batch", example=torch.randn(5, 4))[0][1]) is nn.BatchNorm1d
    assert isinstance(convert_norm(before, to="batch", example=torch.randn(5, 3, 4))[0][1], LastAxisBatchNorm)
    assert convert_norm(before, to="group", groups=4, example=torch.randn(5, 4))[0][1].num_groups == 2
    with pytest.raises(ModelError, match="nothing says how many its input has"):
        convert_norm(nn.Sequential(nn.GroupNorm(2, 4)), to="batch")


def test_some_norms_only_and_refusals():
    net = models.mlp(5, depth=3, width=4, classes=2, norm="batch")
    converted, edits = convert_norm(net, to="none", layers=["norm*", "~norm2"])
    assert [edit.address for edit in edits] == ["norm1", "norm3"]
    assert isinstance(converted.norm2, nn.BatchNorm1d)
    with pytest.raises(
        UsageError, match="expected one of 'batch', 'layer', 'group', 'rms', 'instance', 'none', got 'bach'"
    ):
        convert_norm(net, to="bach")
    with pytest.raises(ModelError, match="found no norm in Sequential"):
        convert_norm(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(ModelError, match=r"norm1 \(BatchNorm1d\): instance norm needs positions"):
        convert_norm(net, to="instance")
    shared = copy.deepcopy(net)
    shared.norm2 = shared.norm1
    both, _ = convert_norm(shared, to="layer")
    assert both.norm1 is both.norm2


def test_what_was_learnt_and_cannot_go_along_is_said():
    net = models.mlp(5, depth=1, width=4, classes=2, norm="layer")
    with torch.no_grad():
        net.norm1.bias.add_(1)
    assert any("shifts" in note for note in convert_norm(net, to="rms")[1].notes)
    assert any("begin at (0, 1)" in note for note in convert_norm(net, to="batch")[1].notes)


def test_theory_reads_what_was_converted():
    converted, _ = convert_norm(models.mlp(50, depth=3, width=40, classes=2, norm="batch"), to="layer")
    built = models.mlp(50, depth=3, width=40, classes=2, norm="layer")
    ours, theirs = (
        fl.predict(fl.Blueprint.read(module, weight_variance=2.0, bias_variance=0.0))
        for module in (converted, built)
    )
    assert ours.gamma.equals(theirs.gamma)
