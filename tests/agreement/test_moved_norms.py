"""After a norm was moved, the measured γ is the one that theory predicts for the module as it now stands."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import t as student

import firstlight as fl
from firstlight import models
from firstlight.remedies.norm_placement import norm_after_activation, norm_before_activation
from firstlight.remedies.norm_types import convert_norm

INITS, POINTS, WIDTH = 100, 96, 200
CASES = [
    *(
        (norm, depth, placement)
        for norm in ("batch", "layer", "rms")
        for depth in (1, 4)
        for placement in ("before", "after")
    )
]
LIMIT = float(student.ppf(1 - 1e-3 / (2 * len(CASES)), INITS - 1))
"""Standard errors that one case in a thousand of all together exceeds, by Bonferroni."""


def points(seed):
    """Gaussian points off the origin, so that a first layer without norm is biased too."""
    return torch.randn(POINTS, 60, generator=torch.Generator().manual_seed(seed % 2**31)) + 0.5


def agreement(module, data, seed):
    blueprint = fl.Blueprint.read(module, weight_variance=2.0, bias_variance=0.0)
    predicted = fl.predict(blueprint, data=data.double().numpy())
    measured = fl.measure(
        module,
        data,
        inits=INITS,
        seed=seed,
        quantities=["gamma", "center_variance", "data_variance"],
        progress=False,
    )
    return fl.compare(predicted, measured), predicted


@pytest.mark.parametrize(("norm", "depth", "placement"), CASES)
def test_theory_predicts_the_network_that_was_rewritten(norm, depth, placement, seed):
    made = models.mlp(60, depth=depth, width=WIDTH, classes=2, norm=norm, placement=placement)
    remedy = norm_after_activation if placement == "before" else norm_before_activation
    comparison, predicted = agreement(remedy(made)[0], points(seed), seed)
    assert abs(float(comparison.z().sel(layer="output"))) < LIMIT
    if (norm, placement) == ("batch", "before"):
        assert float(predicted.gamma[-1]) == pytest.approx(0, abs=1e-9)
    if norm == "rms":  # it only rescales, so behind a positively homogeneous activation nothing has changed
        other = fl.predict(
            fl.Blueprint.read(made, weight_variance=2.0, bias_variance=0.0),
            data=points(seed).double().numpy(),
        )
        assert float(other.gamma[-1]) == pytest.approx(float(predicted.gamma[-1]), rel=1e-4)


@pytest.mark.parametrize("to", ["layer", "rms"])
def test_theory_predicts_the_network_whose_norms_were_converted(to, seed):
    made = models.mlp(60, depth=3, width=WIDTH, classes=2, norm="batch")
    comparison, _ = agreement(convert_norm(made, to=to)[0], points(seed), seed)
    assert abs(float(comparison.z().sel(layer="output"))) < LIMIT


@pytest.mark.parametrize("norm", ["batch", "layer", "rms"])
def test_population_theory_knows_the_papers_numbers_of_the_rewritten_module(norm):
    """γ of one and of twenty hidden layers, before and behind, as the theory of the papers has them."""
    wanted = {
        "batch": (0.46694, 0.46694, 0.0, 0.0),
        "layer": (0.46694, 18.3905, 0.0, 0.0),
        "rms": (0.46694, 18.3905) * 2,
    }
    found = []
    for placement in ("before", "after"):
        for depth in (1, 20):
            net = models.mlp(1000, depth=depth, width=10, classes=2, norm=norm)
            net = norm_after_activation(net)[0] if placement == "after" else net
            blueprint = fl.Blueprint.read(net, weight_variance=2.0, bias_variance=0.0)
            found.append(float(fl.predict(blueprint).gamma[-1]))
    assert found == pytest.approx(wanted[norm], rel=1e-4, abs=1e-9)
