"""Two ways to see what a network hands from call to call, on symbols and by running: they see the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from firstlight import models
from firstlight.measurement.batches import as_batches
from firstlight.remedies.flow import Flow
from firstlight.remedies.following import flows
from firstlight.remedies.placing import Wish, decisions
from firstlight.remedies.recording import recorded

PICTURES = (2, 3, 32, 32)
CASES = {
    "perceptron": (lambda: models.mlp(4, depth=2, width=3, classes=2, norm="batch"), (4, 4)),
    "perceptron, after": (
        lambda: models.mlp(4, depth=2, width=3, classes=2, norm="batch", placement="after"),
        (4, 4),
    ),
    "ResNet-9": (lambda: models.resnet9(width=2), PICTURES),
    "ResNet-9, after": (lambda: models.resnet9(width=2, placement="after"), PICTURES),
    "U-Net": (lambda: models.u_net(width=2, norm="batch"), (1, 1, 32, 32)),
    "Mixer": (
        lambda: models.mlp_mixer(hidden=6, token_hidden=5, channel_hidden=4, depth=2, patch=16),
        PICTURES,
    ),
    "Mixer, after the branch": (
        lambda: models.mlp_mixer(
            placement="after-branch", hidden=6, token_hidden=5, channel_hidden=4, depth=2, patch=16
        ),
        PICTURES,
    ),
    "residual": (lambda: models.batch_norm_residual_net(units=2, width=4), PICTURES),
}
WISHES = [
    Wish(True, "after-activation", True), Wish(True, "after-branch", False),
    Wish(False, "auto", True), Wish(False, "before-activation", False), Wish(False, "before-block", True),
]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_symbols_and_running_agree_on_every_norm(name):
    make, shape = CASES[name]
    model = make()
    seen, failed = flows(model)
    ran = recorded(model, as_batches(torch.randn(shape), seed=0).first())
    assert failed == {}
    for wish in WISHES:
        by_symbols, by_running = decisions(seen, wish), decisions([ran], wish)
        assert {slot: item.outcome for slot, item in by_symbols.items()} == {
            slot: item.outcome for slot, item in by_running.items()
        }
        for slot, item in by_symbols.items():
            for part in ("anchor", "activation", "dense"):
                mine, theirs = getattr(item, part), getattr(by_running[slot], part)
                assert (mine is None) == (theirs is None)
                assert mine is None or mine.label == theirs.label


def test_recording_leaves_no_hook_and_sees_functions():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.norm = nn.Linear(3, 3), nn.LayerNorm(3)

        def forward(self, x):
            return {"logits": torch.relu(self.norm(self.fc(x))) + x}

    net = Net()
    flow = recorded(net, as_batches(torch.randn(4, 3), seed=0).first())
    assert [call.label for call in flow.calls] == ["input()", "fc", "norm", "relu()", "add()"]
    assert [call.label for call in flow.calls[-1].inputs] == ["relu()", "input()"]
    assert flow.calls[-1].returned
    assert not any(item._forward_hooks or item._forward_pre_hooks for item in net.modules())


def test_every_way_through_a_forward_is_followed():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            if x.shape[0] > 9:
                raise ValueError("too many")
            x = self.first(x) if x.sum() > 0 else x
            return self.second(x) if x.mean() > 1 else x

    seen, failed = flows(Net())
    ways = {tuple(call.slot for call in flow.calls if call.slot) for flow in seen}
    assert ways == {(), ("first",), ("second",), ("first", "second")}
    assert failed == {}


def test_a_part_that_cannot_be_followed_is_named_and_its_parts_are_looked_at():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

        def forward(self, x):
            return self.body(x) * int(x.sum())

    seen, failed = flows(nn.Sequential(Inner(), nn.Linear(3, 2)))
    assert failed.keys() == {"0"}
    assert "cannot be followed symbolically" in failed["0"]
    assert [flow.scope for flow in seen] == ["", "0.body"]
    assert isinstance(seen[0], Flow)
