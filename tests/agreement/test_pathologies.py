"""Labatie's batch-normalized net on CIFAR-10 beside the sensitivity that his own program recorded.

A reduced ``benchmarks/agreement/pathologies.py``: fewer simulations.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import t as student_t

from firstlight.data import load
from firstlight.measurement.simulating import simulate
from firstlight.models import batch_norm_feedforward_net

RECORDED = {2: 0.507, 10: 2.183, 20: 4.248, 40: 8.383, 200: 41.42}
"""Mean log χ at each depth."""
SIMULATIONS, BATCH = 20, 64


@pytest.mark.slow
@pytest.mark.real_data
def test_sensitivity_of_the_feedforward_net(real_data: Callable[[str], Path], seed: int) -> None:
    pictures = load("cifar10", root=real_data("cifar10")).flatten()
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(pictures))[: SIMULATIONS * BATCH])
    batches = [standardized(pictures.take(part).inputs) for part in order.split(BATCH)]
    profile = simulate(
        lambda: batch_norm_feedforward_net(3072, depth=200, width=512, kernel=None),
        batches,
        seed=seed,
        quantities=[
            "sensitivity",
            "sensitivity_increment_activation",
            "center_variance",
            "data_variance",
            "gamma",
        ],
        layers=["norm*", "activation*"],
    )
    tolerance = student_t.ppf(1 - 0.01 / (2 * len(RECORDED)), SIMULATIONS - 1)
    for depth, recorded in RECORDED.items():
        logs = profile["log_sensitivity_init"].values[:, profile.layers.index(f"activation{depth}")]
        error = logs.std(ddof=1) / np.sqrt(SIMULATIONS)
        rounding = 0.005 if depth == 200 else 0.0005
        assert abs(logs.mean() - recorded) < tolerance * error + rounding, depth
    # Far inside, the activation multiplies χ by little more than for Gaussian signals: (1 − 1/π)^(−½) = 1.211.
    late = profile["sensitivity_increment_activation_init"].values[:, profile.layers.index("activation40")]
    assert 1.15 < late.mean() < 1.3


def standardized(pixels: torch.Tensor) -> torch.Tensor:
    """Each pixel over the batch; pixels that are constant in it become 0."""
    pixels = pixels.double()
    spread = pixels.std(0, correction=0)
    return ((pixels - pixels.mean(0)) / spread.where(spread > 0, torch.inf)).float()
