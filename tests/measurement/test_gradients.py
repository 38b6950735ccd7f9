"""Gradient scales against autograd by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import firstlight as fl
from firstlight.errors import CouldNotError, UsageError
from firstlight.measurement.seeding import initialization_seed, stream


def inputs(*shape):
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape))


@pytest.mark.parametrize("norm", [nn.Identity, lambda: nn.BatchNorm1d(9), lambda: nn.LayerNorm(9)])
def test_random_read_out(norm):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(7, 9), norm(), nn.ReLU(), nn.Linear(9, 4)).double(), inputs(20, 7)
    profile = fl.measure(model, x, inits=1, redraw="keep", quantities=["gradient_scale"], layers=["0", "2"])
    read_out = stream(initialization_seed(0, 0, 2)).standard_normal((20, 4), dtype=np.float32)
    first = model[0](x)
    bent = model[2](model[1](first))
    total = (model[3](bent) * torch.from_numpy(read_out)).sum()
    for position, gradient in enumerate(torch.autograd.grad(total, [first, bent])):
        assert float(profile.gradient_scale[position]) == pytest.approx((gradient**2).mean().item(), rel=1e-9)
    assert float(profile.gradient_scale[-1]) == pytest.approx((read_out**2).mean(), rel=1e-6)


def test_the_users_loss():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 4)).double()
    x, y = inputs(20, 7), torch.arange(20) % 4
    profile = fl.measure(
        model, (x, y), inits=1, redraw="keep", quantities="gradient_scale", loss=functional.cross_entropy
    )  # fmt: skip
    hidden = model[0](x)
    [gradient] = torch.autograd.grad(functional.cross_entropy(model[2](model[1](hidden)), y), [hidden])
    assert float(profile.gradient_scale[0]) == pytest.approx((gradient**2).mean().item(), rel=1e-9)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_loss_that_is_no_number():
    with pytest.raises(
        UsageError, match="expected a function of \\(output, target\\) that returns one number"
    ):
        fl.measure(
            lambda: nn.Linear(3, 2),
            inputs(4, 3).float(),
            inits=1,
            quantities="gradient_scale",
            loss=lambda output, target: output,
        )


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "slope"), [(True, -np.log(1 / (1 - 1 / np.pi))), (False, 0.0)])
def test_slopes_of_luther_and_seung(norm, slope):
    """Width 1,500, depth 50: log gradient falls by 0.3832 a layer with batch norm, by nothing without."""
    width, depth, inits = 1500, 50, 8
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width, bias=False), *([nn.BatchNorm1d(width)] if norm else []), nn.ReLU()]
    profile = fl.measure(
        nn.Sequential(*layers),
        torch.randn(100, width, generator=torch.Generator().manual_seed(0)),
        inits=inits,
        redraw="kaiming_normal",
        quantities="gradient_scale",
        layers=lambda name, module: isinstance(module, nn.ReLU),
    )
    logs = profile["log_gradient_scale_init"].values
    slopes = np.polyfit(np.arange(depth), logs.T, 1)[0]
    error = slopes.std(ddof=1) / np.sqrt(inits)
    # Finite width and batch shift the slope by a few parts in a hundred of it.
    assert slopes.mean() == pytest.approx(slope, abs=3 * error + 0.01)


def test_a_loss_sees_batches_of_a_stated_size():
    """A mean over a batch depends on the batch, so memory must not choose it."""
    x = torch.linspace(-1, 1, 60).reshape(10, 6)
    y = torch.arange(10) % 3
    ask = {"inits": 1, "quantities": ["gradient_scale"], "loss": nn.functional.cross_entropy}
    whole = fl.measure(nn.Linear(6, 3), (x, y), **ask)
    halves = fl.measure(nn.Linear(6, 3), (x, y), batch_size=5, **ask)
    assert "the loss saw all 10 samples as one batch" in whole.provenance.notes
    np.testing.assert_allclose(halves.gradient_scale, 4 * whole.gradient_scale, rtol=1e-5)


def test_a_loss_that_fails_is_told_with_its_reason():
    net = nn.Linear(6, 3)
    x = torch.linspace(-1, 1, 60).reshape(10, 6)
    with pytest.raises(
        UsageError, match=r"it failed on the model's output and the target: TypeError.*pass \(x, y\)"
    ):
        fl.measure(net, x, inits=1, quantities=["gradient_scale"], loss=nn.functional.cross_entropy)


def test_a_model_that_writes_over_what_it_needs_cannot_be_differentiated():
    class Overwriting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x):
            values = self.layer(x)
            result = values.exp()
            result.mul_(2.0)
            return result

    x = torch.linspace(-1, 1, 60).reshape(10, 6)
    with pytest.raises(
        CouldNotError, match=r"this model cannot be differentiated: .*; leave out gradient_scale"
    ):
        fl.measure(Overwriting, x, inits=1, quantities=["gradient_scale"])
