"""Luther & Seung's gradient slopes and mean-std ratio.

A reduced ``benchmarks/agreement/sample_variance.py``: width 300 and depth 30 instead of 3,000 and 50.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student_t

import firstlight as fl
from firstlight.data.gaussian import gaussian_noise
from firstlight.papers.variance.relu_nets import relu_net, total, with_read_out

pytestmark = pytest.mark.slow

DEPTH, WIDTH, NETWORKS = 30, 300, 12


def profile_of(*, batch_norm: bool, seed: int) -> fl.Profile:
    return fl.measure(
        lambda: with_read_out(relu_net(WIDTH, DEPTH, batch_norm=batch_norm), WIDTH),
        gaussian_noise(100, WIDTH, seed=50),
        inits=NETWORKS,
        seed=seed,
        quantities=["gamma", "gradient_scale"],
        layers=["linear*", "activation*"],
        loss=total,
        progress=False,
    )


@pytest.mark.parametrize(("batch_norm", "slope"), [(True, np.log(1 - 1 / np.pi)), (False, 0.0)])
def test_slope_of_the_gradient(batch_norm: bool, slope: float, seed: int) -> None:
    profile = profile_of(batch_norm=batch_norm, seed=seed)
    columns = [profile.layers.index(f"activation{number}") for number in range(1, DEPTH + 1)]
    logs = profile["log_gradient_scale_init"].values[:, columns]
    found = np.polyfit(np.arange(1, DEPTH + 1), logs.T, 1)[0]
    error = found.std(ddof=1) / np.sqrt(NETWORKS)
    # The slope at width N differs from the limit by O(1/N): theory.md, section 6, has 5/2N for one layer of Kaiming's.
    assert abs(found.mean() - slope) < student_t.ppf(0.995, NETWORKS - 1) * error + 5 / (2 * WIDTH)


def test_mean_std_ratio_stays_below_its_limit_and_approaches_it(seed: int) -> None:
    blueprint = fl.Blueprint.mlp(inputs=1000, depth=DEPTH, width=1000, classes=2, activation="relu")
    limit = np.sqrt(fl.predict(blueprint).gamma.values[:DEPTH])
    profile = profile_of(batch_norm=False, seed=seed)
    columns = [profile.layers.index(f"linear{number}") for number in range(1, DEPTH + 1)]
    ratios = profile["mean_std_ratio_init"].values[:, columns]
    mean, error = ratios.mean(0), ratios.std(0, ddof=1) / np.sqrt(NETWORKS)
    tolerance = student_t.ppf(1 - 0.01 / DEPTH, NETWORKS - 1)
    behind = slice(1, None)  # the first layer's limit is 0: 100 points have a mean of their own
    share = 1 / 100  # of V, found in C: what the limit itself is on 100 points
    expected = np.sqrt((limit**2 + share) / (1 - share))
    assert np.all(mean[behind] < expected[behind] + tolerance * error[behind])
    assert mean[4] > 0.9 * expected[4]  # 100 times as wide as deep: still close
    assert mean[-1] < expected[-1]
