"""γ behind each remedy of the structure is what theory predicts for the rewritten module, where theory can read it.

The remedies of the parameters, the data and the seed are held to theory in files of their own.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.remedies.registry import REMEDIES

POINTS = torch.randn(250, 60, generator=torch.Generator().manual_seed(0)) + 0.3


def perceptron(norm, placement, depth=3):
    return fl.Blueprint.mlp(inputs=60, depth=depth, width=200, classes=2, norm=norm, placement=placement)


class Residuals(nn.Module):
    """x + W φ(W norm(x)), twice."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(60, 150), nn.Linear(150, 2)
        self.units = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(150), "first": nn.Linear(150, 200), "act": nn.ReLU(),
                           "second": nn.Linear(200, 150)})
            for _ in range(2)
        )  # fmt: skip
        for item in self.modules():
            if isinstance(item, nn.Linear):
                nn.init.kaiming_normal_(item.weight)
                nn.init.zeros_(item.bias)

    def forward(self, x):
        x = self.stem(x)
        for unit in self.units:
            x = x + unit.second(unit.act(unit.first(unit.norm(x))))
        return self.head(x)


CASES = {
    "batch norm after": (lambda: perceptron("batch", "before"), "norm_after_activation", {}),
    "layer norm after": (lambda: perceptron("layer", "before"), "norm_after_activation", {}),
    "RMS norm after": (lambda: perceptron("rms", "before"), "norm_after_activation", {}),
    "layer norm before": (lambda: perceptron("layer", "after"), "norm_before_activation", {}),
    "batch norm before": (lambda: perceptron("batch", "after"), "norm_before_activation", {}),
    "batch norm to layer norm": (lambda: perceptron("batch", "before"), "convert_norm", {"to": "layer"}),
    "layer norm to RMS norm": (lambda: perceptron("layer", "after"), "convert_norm", {"to": "rms"}),
    "no norm": (lambda: perceptron("batch", "before"), "convert_norm", {"to": "none"}),
    "residual, after the activation": (lambda: Residuals, "norm_after_activation", {}),
    "residual, after the branch": (
        lambda: Residuals,
        "norm_after_activation",
        {"variant": "after-branch"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gamma_is_what_theory_predicts_for_the_rewritten_module(name):
    start, remedy, options = CASES[name]
    factory, change = fl.repair(start(), POINTS, [remedy], inits=64, progress=False, **options)
    torch.manual_seed(0)
    module = factory(seed=0) if hasattr(start(), "build") else factory()
    read = fl.Blueprint.read(module, weight_variance=2.0, bias_variance=0.0, example=POINTS[:2])
    predicted = float(fl.predict(read, data=POINTS.numpy(), draws=1).gamma[-1])
    difference = change.difference()
    # at γ = 0 there is nothing but rounding to compare
    assert abs(difference.after - predicted) < 4 * difference.after_stderr + 1e-9


def test_every_remedy_of_the_structure_that_needs_no_data_is_here():
    held = {remedy for _, remedy, _ in CASES.values()}
    assert held == {
        name for name, item in REMEDIES.items() if item.changes == "structure" and not item.needs_data
    }
