"""Moments behind batch norm that follow from those before it are those of its output; where they do not follow, it is
reduced like anything else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.measurement import observing
from firstlight.measurement.layouts import arranged
from firstlight.measurement.observables import moments
from firstlight.measurement.through_batch_norm import Reduced, line, lines

CLASSES = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


def values(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float() * 2 + 0.7


def reduced(x):
    return Reduced.of(x, 1, moments.of_block(arranged(x, 1)))


def normed(norm, x):
    with torch.no_grad():
        return norm(x)


@pytest.mark.parametrize("shape", [(30, 6), (9, 6, 21), (5, 6, 7, 8), (4, 6, 3, 4, 5)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("plain", [True, False])
def test_the_line_gives_the_moments_of_the_output(shape, training, plain, seed):
    x = values(seed, *shape)
    norm = CLASSES[len(shape)](6, affine=not plain).train(training)
    generator = torch.Generator().manual_seed(seed)
    norm.running_mean.normal_(generator=generator)
    norm.running_var.uniform_(0.5, 2, generator=generator)
    if not plain:
        with torch.no_grad():
            norm.weight.normal_(generator=generator)
            norm.bias.normal_(generator=generator)
    made = normed(norm, x)
    found = line(norm, reduced(x), x, made)
    assert found is not None
    block = arranged(made, 1)
    known, summed = moments.mapped(reduced(x).moments, *found, block), moments.of_block(block)
    for name in ("mean", "m2", "m3", "m4", "absolute"):
        scale = made.std() if name == "mean" else getattr(summed, name).abs().max()
        torch.testing.assert_close(
            getattr(known, name), getattr(summed, name), rtol=1e-5, atol=1e-5 * float(scale)
        )


@pytest.mark.parametrize(
    "break_it",
    [
        lambda x: x.clone(),  # another tensor of the same values
        lambda x: x.mul_(1.0),  # changed in place
        lambda x: x[:-1],
        lambda x: None,
    ],
)
def test_nothing_where_it_does_not_follow(break_it, seed):
    x = values(seed, 30, 6)
    before, norm = reduced(x), nn.BatchNorm1d(6)
    assert line(norm, before, break_it(x), normed(norm, x)) is None


def test_nothing_where_other_units_were_reduced(seed):
    """A dense layer's units are on the last axis, those of the batch norm behind it on axis 1."""
    x = values(seed, 30, 6, 9)
    norm = nn.BatchNorm1d(6, affine=False)
    before = Reduced.of(x, -1, moments.of_block(arranged(x, -1)))
    assert line(norm, before, x, normed(norm, x)) is None


def test_only_torchs_own_norms_without_hooks_are_lines():
    norms = {
        "plain": nn.BatchNorm1d(6),
        "group": nn.GroupNorm(2, 6),
        "own": type("Own", (nn.BatchNorm1d,), {})(6),
    }
    norms["hooked"] = nn.BatchNorm1d(6)
    norms["hooked"].register_forward_hook(lambda module, args, output: output.relu())
    assert list(lines(nn.ModuleDict(norms))) == ["plain"]


def test_an_output_that_was_changed_is_not_the_line(seed):
    x = values(seed, 30, 6)
    norm = nn.BatchNorm1d(6)
    assert line(norm, reduced(x), x, normed(norm, x) * 1.001) is None


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_profile_is_the_same_either_way(mode, seed, monkeypatch):
    """Also with a norm that reads another tensor, and one whose output a hook of the user's changes."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
            self.conv2, self.norm2 = nn.Conv2d(8, 6, 3), nn.BatchNorm2d(6)
            self.norm3 = nn.BatchNorm2d(6)
            self.norm3.register_forward_hook(lambda module, args, output: output + 1)
            self.head = nn.Linear(6, 4)

        def forward(self, x):
            x = self.norm1(self.conv1(x)).relu()
            x = self.norm2(2 * self.conv2(x)).relu_()
            return self.head(self.norm3(x).mean((2, 3)))

    x = values(seed, 20, 3, 12, 12)
    found = []

    def noted(*arguments):
        found.append(line(*arguments))
        return found[-1]

    def profile():
        return fl.measure(Net(), x, inits=2, seed=seed, mode=mode, quantities=["standard", "sensitivity"])

    monkeypatch.setattr(observing, "line", noted)
    quick = profile()
    # norm1 reads what was reduced, norm2 does not; norm3 has a hook
    assert [item is not None for item in found] == [True, False] * 2
    monkeypatch.setattr(observing, "line", lambda *arguments: None)
    slow = profile()
    for name in ("center_variance", "data_variance", "kurtosis", "mean_absolute", "sensitivity"):
        np.testing.assert_allclose(getattr(quick, name), getattr(slow, name), rtol=1e-5, atol=1e-12)
