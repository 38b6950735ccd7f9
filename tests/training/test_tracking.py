"""The tracker counts what is there, and the model, its gradients and all generators are as they were."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.errors import CouldNotError, DataError, UsageError
from firstlight.training import track


class Moody(nn.Module):
    """Batch norm, dropout, a frozen weight, a buffer that counts calls."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)
        )
        self.register_buffer("calls", torch.zeros(1))
        self.body[0].weight.requires_grad_(False)
        self.fails = False

    def forward(self, x):
        self.calls += 1
        torch.rand(1)
        if self.fails and len(x) > 2:
            raise RuntimeError("out of luck")
        return self.body(x)


def picture(model):
    return (
        {name: value.clone() for name, value in model.state_dict().items()},
        [(name, module.training, set(vars(module))) for name, module in model.named_modules()],
        [(name, value.requires_grad, id(value), None if value.grad is None else value.grad.clone())
         for name, value in model.named_parameters()],
    )  # fmt: skip


def generators():
    state = np.random.get_state()  # noqa: NPY002
    return random.getstate(), state[1].tolist(), state[2:], torch.get_rng_state().tolist()


def same(before, after):
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    assert before[1] == after[1]
    for one, two in zip(before[2], after[2], strict=True):
        assert one[:3] == two[:3]
        assert (one[3] is None and two[3] is None) or torch.equal(one[3], two[3])


@pytest.fixture
def data(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(30, 6, generator=generator), torch.randint(3, (30,), generator=generator)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_look_leaves_no_trace(data, mode, fails):
    model = Moody().train()
    model.body[3].eval()
    nn.functional.cross_entropy(model(data[0]), data[1]).backward()
    model.fails = fails
    before, drawn = picture(model), generators()
    tracker = track(class_gradients=True, layers="standard")
    if fails:
        with pytest.raises(Exception, match="out of luck"):
            tracker.evaluate(0, model, data, mode=mode)
    else:
        tracker.evaluate(0, model, data, mode=mode)
        assert "gamma" in tracker.trajectory()
    same(before, picture(model))
    assert generators() == drawn


def test_a_look_between_forward_and_backward_does_no_harm(data):
    model = Moody().train()
    loss = nn.functional.cross_entropy(model(data[0]), data[1])
    track().evaluate(0, model, data)
    loss.backward()  # would complain of tensors changed in place


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_what_is_seen_is_what_the_model_says(data, mode):
    model = Moody()
    model.body[1].running_mean += 0.3
    tracker = track()
    tracker.evaluate(0, model, data, mode=mode)
    reference = copy.deepcopy(model).eval()
    reference.body[1].train(mode == "train")
    with torch.no_grad():
        logits = reference(data[0])
    found = tracker.trajectory()
    assert found["loss"].item() == pytest.approx(
        nn.functional.cross_entropy(logits, data[1]).item(), rel=1e-6
    )
    counted = torch.bincount(logits.argmax(1), minlength=3) / 30
    assert found["guess_fractions"].values.ravel() == pytest.approx(counted.numpy())


def test_gradients_of_classes_are_those_of_autograd(data):
    model = Moody().eval()
    tracker = track(class_gradients=True)
    tracker.evaluate(0, model, data, mode="eval", batch_size=7)
    for label, norm in enumerate(tracker.trajectory()["gradient_norm"].values[0, 0]):
        chosen = data[1] == label
        model.zero_grad()
        nn.functional.cross_entropy(model(data[0][chosen]), data[1][chosen]).backward()
        squares = [value.grad.square().sum() for value in model.parameters() if value.grad is not None]
        assert norm == pytest.approx(torch.stack(squares).sum().sqrt().item(), rel=1e-5)


def test_gamma_is_that_of_measure(data):
    model = Moody()
    tracker = track(layers="standard")
    tracker.evaluate(0, model, data)
    profile = fl.measure(model, data, inits=1, redraw="keep", layers="standard", progress=False)
    found = tracker.trajectory().quantity("gamma")
    assert found.layer.values.tolist() == profile.layers
    assert found.values.ravel() == pytest.approx(profile.gamma.values)


def test_batches_of_one_step_add_up(data):
    logits = torch.randn(30, 3)
    whole, cut = track(schedule=2), track(schedule=2)
    whole.update(0, logits, data[1])
    for part in (slice(0, 11), slice(11, 30)):
        cut.update(0, logits[part], data[1][part])
    cut.update(1, logits, data[1])  # not asked for
    for name in ("guess_fractions", "recall", "accuracy"):
        assert np.array_equal(whole.trajectory()[name].values, cut.trajectory()[name].values, equal_nan=True)
    assert cut.trajectory().steps.tolist() == [0]


@pytest.mark.parametrize(
    ("shape", "targets"), [((5, 7, 3), (5, 7)), ((5, 3, 4, 4), (5, 4, 4)), ((5, 3), (5,))]
)
def test_sequences_and_maps_have_a_guess_at_each_position(shape, targets):
    logits = torch.randn(shape)
    truth = torch.randint(3, targets)
    tracker = track()
    tracker.update(0, logits, truth)
    axis = 1 if len(shape) == 4 else -1
    right = (logits.argmax(axis) == truth).float().mean().item()
    assert tracker.trajectory()["accuracy"].item() == pytest.approx(right)


def test_the_logger_gets_each_record_once_and_whole(data):
    seen = []
    tracker = track(schedule=[0, 3], log=lambda values, step: seen.append((step, values)))
    for step in range(5):
        for _ in range(2):
            tracker.update(step, torch.eye(3)[data[1]], data[1])
    tracker.evaluate(3, Moody(), data, split="test")
    assert [step for step, _ in seen] == [0, 3, 3]
    assert seen[0][1]["class_bias/accuracy"] == 1.0
    assert "class_bias/test/max_fraction" in seen[2][1]


def test_a_state_goes_on(data):
    one, two = track(), track()
    one.evaluate(0, Moody(), data)
    two.load_state_dict(one.state_dict())
    for tracker in (one, two):
        tracker.update(1, torch.eye(3)[data[1]], data[1])
    assert one.trajectory().dataset.identical(two.trajectory().dataset)


def test_a_loss_of_yours(data):
    tracker = track(
        loss=lambda logits, targets: nn.functional.cross_entropy(logits, targets, label_smoothing=0.1)
    )
    logits = torch.randn(30, 3)
    tracker.update(0, logits, data[1])
    expected = nn.functional.cross_entropy(logits, data[1], label_smoothing=0.1).item()
    assert tracker.trajectory()["loss"].item() == pytest.approx(expected)


def test_misuse_is_told(data):
    tracker = track()
    with pytest.raises(CouldNotError, match="nothing was recorded yet; call update or evaluate"):
        tracker.trajectory()
    with pytest.raises(DataError, match="expected samples with targets, such as"):
        tracker.evaluate(0, Moody(), data[0])
    with pytest.raises(DataError, match=r"whole-number labels as targets, got torch\.float32"):
        tracker.evaluate(0, Moody(), (data[0], data[1].float()))
    with pytest.raises(UsageError, match="one for each of the 30 rows of logits, got 60"):
        tracker.update(0, torch.randn(30, 3), torch.stack([data[1], data[1]], 1))
    with pytest.raises(UsageError, match="expected one of 'train', 'eval', got 'evaluation'"):
        tracker.evaluate(0, Moody(), data, mode="evaluation")


@pytest.mark.parametrize("label", [3, -1])
def test_a_target_without_an_output_is_refused(label):
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    with pytest.raises(
        DataError, match=f"a target is {label}, but the model has 3 outputs, for labels 0 to 2"
    ):
        track().update(0, logits, torch.tensor([0, 1, label, -100]))


def test_another_number_of_labels_is_another_model():
    tracker = track()
    tracker.update(0, torch.zeros(4, 2), torch.zeros(4, dtype=torch.long))
    with pytest.raises(UsageError, match="step 1 of 'train': expected logits of 2 labels, as before, got 3"):
        tracker.update(1, torch.zeros(4, 3), torch.zeros(4, dtype=torch.long))
