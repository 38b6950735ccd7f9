"""Audits end to end: theory beside measurement, the other mode, notes instead of silence, and one line for a test."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.errors import DataError, ModelError, UsageError

POINTS = torch.randn(200, 20, generator=torch.Generator().manual_seed(3))
TARGETS = torch.arange(200) % 5


def batch_normed() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 30), nn.BatchNorm1d(30), nn.ReLU(), nn.Linear(30, 5))


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 5))


def dead() -> nn.Module:
    net = plain()
    with torch.no_grad():
        net[0].bias.fill_(-100.0)
    return net


def test_a_network_with_batch_norm_has_two_modes_and_a_theory():
    diagnosis = fl.audit(batch_normed, (POINTS[:60], TARGETS[:60]), inits=25, progress=False)
    assert diagnosis.other_mode is not None
    assert diagnosis.other_mode.provenance.mode == "eval"
    assert diagnosis["modes-differ"].status != "unknown"
    assert diagnosis.theory is not None
    assert diagnosis.comparison is not None
    assert diagnosis.theory.provenance.settings["theory"] == "dataset"
    assert diagnosis["high-initial-loss"].quantity == "initial_loss"
    assert {item.status for item in diagnosis} <= {"found", "absent", "undecided", "unknown"}
    assert diagnosis["dead-units"].layer in ("1", "0")


def test_a_network_without_batch_norm_has_one_mode():
    diagnosis = fl.audit(plain, POINTS, inits=5, theory=False, progress=False)
    assert diagnosis.other_mode is None
    assert diagnosis.theory is None
    assert diagnosis["high-initial-loss"].quantity == "even_loss"
    assert diagnosis["few-initializations"].found


def test_what_theory_cannot_say_is_told():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = plain()

        def forward(self, x):
            if x.sum() > 1e9:
                return x
            return self.inner(x)

    diagnosis = fl.audit(Own, POINTS, inits=5, progress=False)
    assert any("theory" in note for note in diagnosis.provenance.notes)


def test_the_population_stands_in_for_data_that_are_not_at_hand():
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(POINTS, TARGETS), batch_size=50)
    diagnosis = fl.audit(plain, loader, inits=5, progress=False)
    assert diagnosis.theory is not None
    assert any("Gaussian inputs in general" in note for note in diagnosis.provenance.notes)


def test_the_model_and_the_random_state_come_back_as_they_were():
    module = batch_normed()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    state = torch.random.get_rng_state()
    fl.audit(module, POINTS, inits=3, progress=False)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_a_policy_is_refused_before_anything_is_measured():
    def never():
        raise AssertionError("the model was built")

    with pytest.raises(UsageError, match="did you mean 'dead-units'"):
        fl.audit(never, POINTS, policy={"fail_on": ["dead-unit"]})


def test_a_broken_network_is_not_born_well():
    with pytest.raises(AssertionError) as failure:
        fl.assert_born_well(dead, POINTS, inits=12)
    message = str(failure.value)
    assert "constant-output: found" in message
    assert "the units behind some layer are dead" in message
    assert "what would change it: lsuv_initialization" in message


def test_a_healthy_network_is_born_well_unless_the_policy_says_otherwise():
    diagnosis = fl.assert_born_well(plain, POINTS, inits=12)
    assert diagnosis.passed
    with pytest.raises(AssertionError, match="few-initializations: found"):
        fl.assert_born_well(plain, POINTS, inits=12, policy={"fail_on": ["few-initializations"]})


def test_output_that_is_not_finite_is_a_finding_in_an_audit_and_an_error_in_a_measurement():
    class Logarithm(nn.Module):
        def forward(self, x):
            return torch.log(x)

    def make():
        return nn.Sequential(nn.Linear(20, 30), Logarithm(), nn.Linear(30, 5))

    diagnosis = fl.audit(make, POINTS, inits=4, theory=False, progress=False)
    assert not diagnosis.passed
    assert [item.id for item in diagnosis.failed] == ["non-finite-output"]
    assert diagnosis["non-finite-output"].layer == "2"
    with pytest.raises(ModelError, match="NaN or infinite"):
        fl.measure(make, POINTS, inits=2, progress=False)


class _Backward(torch.autograd.Function):
    """The identity with a backward rule and no forward-mode one."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class OneWay(nn.Module):
    def forward(self, x):
        return _Backward.apply(x)


class Overwriting(nn.Module):
    def forward(self, x):
        return _Backward.apply(x.exp()).mul_(2.0) if not x.requires_grad else x.exp().mul_(2.0)


def test_a_network_without_forward_derivatives_is_audited_without_noise():
    diagnosis = fl.audit(
        lambda: nn.Sequential(plain(), OneWay()), POINTS, inits=3, theory=False, progress=False
    )
    assert diagnosis["exploding-sensitivity"].status == "unknown"
    assert diagnosis["exploding-gradients"].status != "unknown"
    assert any("no derivative of the kind needed" in note for note in diagnosis.provenance.notes)


def test_a_network_without_any_derivative_is_audited_without_both():
    make = lambda: nn.Sequential(plain(), OneWay(), Overwriting())  # noqa: E731
    diagnosis = fl.audit(make, POINTS, inits=3, theory=False, progress=False)
    assert diagnosis["exploding-sensitivity"].status == diagnosis["exploding-gradients"].status == "unknown"
    assert diagnosis["deep-prejudice"].status != "unknown"
    assert any("cannot be differentiated" in note for note in diagnosis.provenance.notes)


def test_batches_that_can_be_read_once_serve_both_modes():
    halves = [(POINTS[:100], TARGETS[:100]), (POINTS[100:], TARGETS[100:])]
    expected = fl.audit(batch_normed, halves, inits=3, progress=False)
    got = fl.audit(batch_normed, iter(halves), inits=3, progress=False)
    assert got.profile.gamma.equals(expected.profile.gamma)
    assert got.other_mode.gamma.equals(expected.other_mode.gamma)
    fewer = fl.audit(batch_normed, iter(halves), inits=3, max_samples=120, progress=False)
    assert fewer.other_mode.guesses.samples == 120


def test_targets_that_the_model_has_no_output_for_are_refused():
    with pytest.raises(
        DataError,
        match=r"a target is 5, but the model has 5 outputs, for labels 0 to 4; give its last layer at least 8",
    ):
        fl.audit(plain, (POINTS, torch.arange(200) % 3 + 5), inits=3, progress=False)
    with pytest.raises(DataError, match="number labels from 0"):
        fl.audit(plain, (POINTS, -TARGETS), inits=3, progress=False)
    masked = torch.where(TARGETS == 4, -100, TARGETS)
    diagnosis = fl.audit(plain, (POINTS, masked), inits=3, theory=False, progress=False)
    assert diagnosis["high-initial-loss"].quantity == "initial_loss"
