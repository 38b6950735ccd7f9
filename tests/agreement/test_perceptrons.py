"""Perceptrons of width 1,000 beside theory, and what width 100 does to the scale of the signal.

A reduced ``benchmarks/agreement/perceptrons.py``.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma, polygamma
from scipy.stats import binom
from scipy.stats import t as student_t

import firstlight as fl
from firstlight.data.gaussian import gaussian_noise
from firstlight.theory.predicting_data import predict_on

pytestmark = pytest.mark.slow

NORMS = [
    (None, None),
    ("batch", "before"),
    ("layer", "before"),
    ("rms", "before"),
    ("batch", "after"),
    ("layer", "after"),
    ("rms", "after"),
]
POINTS = gaussian_noise(200, 1000, seed=17)
QUANTITIES = ["guesses", "gamma", "center_variance", "data_variance", "mean_square"]


def perceptron(depth: int, norm: str | None, placement: str | None, *, width: int = 1000) -> fl.Blueprint:
    return fl.Blueprint.mlp(
        inputs=1000, depth=depth, width=width, classes=2, activation="relu", norm=norm, placement=placement
    )


def measured(blueprint: fl.Blueprint, inits: int, seed: int, data: object = POINTS.inputs, **options: object):
    return fl.measure(
        blueprint, data, inits=inits, seed=seed, quantities=QUANTITIES, progress=False, **options
    )


@pytest.mark.parametrize(("norm", "placement"), NORMS)
def test_one_hidden_layer(norm: str | None, placement: str | None, seed: int) -> None:
    blueprint = perceptron(1, norm, placement)
    inits, points = 300, len(POINTS.inputs)
    profile = measured(blueprint, inits, seed)
    # The family of 7 networks, two theories, two γ and one law each, fails once in a hundred runs.
    tolerance = student_t.ppf(1 - 0.01 / (2 * 42), inits - 1)
    for theory in (
        fl.predict(blueprint, batch_size=points if norm == "batch" else None),
        predict_on(blueprint, POINTS.inputs),
    ):
        found = fl.compare(theory, profile, seed=1, draws=20_000)  # p goes down to 1/20,001
        assert np.abs(found.z().values).max() < tolerance
        assert found.p_value > 0.01 / 42


@pytest.mark.parametrize(("norm", "placement"), [("layer", "before"), ("rms", "after")])
def test_twenty_hidden_layers_with_a_norm(norm: str, placement: str, seed: int) -> None:
    blueprint = perceptron(20, norm, placement)
    inits = 12
    found = fl.compare(predict_on(blueprint, POINTS.inputs), measured(blueprint, inits, seed), seed=1)
    z = found.z().values[1:]  # the first layer sees the inputs alone, and is in the test above
    tolerance = student_t.ppf(1 - 0.01 / (2 * 2 * len(z)), inits - 1)
    assert np.abs(z).max() < tolerance


def test_layer_norm_after_leaves_a_bias_of_one_over_width(seed: int) -> None:
    r"""Correlations c of two points scatter by 1/N at each layer, and f(c) = ac + bc² turns scatter into a mean.

    a = ¼/(½ − 1/2π) and b = (1/4π)/(½ − 1/2π); the stationary scatter is v = 1/(N(1 − a²)), and γ → bv/(1 − a).
    """
    width, inits, points = 250, 60, 100
    half = 0.5 - 1 / (2 * np.pi)
    slope, bend = 0.25 / half, 1 / (4 * np.pi) / half
    floor = bend / (1 - slope**2) / (1 - slope) / width
    data = gaussian_noise(points, 1000, seed=23).inputs
    profile = measured(perceptron(20, "layer", "after", width=width), inits, seed, data)
    theory = fl.compare(fl.predict(perceptron(20, "layer", "after")), profile)
    last = {
        name: float(theory[f"gamma_{name}"].sel(layer="linear20"))
        for name in ("measured", "reference", "stderr")
    }
    excess, error = last["measured"] - last["reference"], last["stderr"]
    assert excess > 5 * error  # population theory has none of it
    assert abs(excess - floor) < student_t.ppf(0.995, inits - 1) * error + 0.1 * floor


def test_batch_norm_leaves_the_spread_between_points(seed: int) -> None:
    """Behind twenty batch norms a unit's values have heavier tails than a Gaussian's, the more so the narrower."""
    points = 100
    data = gaussian_noise(points, 1000, seed=23).inputs
    excess = {}
    for width, inits in ((250, 24), (500, 24)):
        profile = fl.measure(
            perceptron(20, "batch", "before", width=width),
            data,
            inits=inits,
            seed=seed,
            quantities="kurtosis",
            layers="norm20",
            progress=False,
        )
        gaussian = 3 * (points - 1) / (points + 1)
        excess[width] = float(profile.kurtosis[0]) - gaussian, float(profile["kurtosis_stderr"][0])
    (narrow, narrow_error), (wide, wide_error) = excess[250], excess[500]
    assert wide > 5 * wide_error
    # halving the width at least doubles it: 1/N, and more where it is no longer small
    assert narrow + 4 * np.hypot(narrow_error, 2 * wide_error) > 2 * wide


def test_narrow_nets_without_norm_fall_below_population_theory(seed: int) -> None:
    """The ratio of averages at width 100, layer 20; layer norm before the activation does not fall."""
    theory = float(fl.predict(perceptron(20, None, None)).gamma[-1])
    plain = measured(perceptron(20, None, None, width=100), 300, seed)
    normed = measured(perceptron(20, "layer", "before", width=100), 300, seed)
    place = plain.layers.index("linear20")
    hidden = float(fl.predict(perceptron(20, None, None)).gamma[19])
    assert float(plain.gamma[place]) + 4 * float(plain["gamma_stderr"][place]) < hidden
    assert float(normed.gamma[-1]) > theory - 4 * float(normed["gamma_stderr"][-1])


@pytest.mark.parametrize("depth", [5, 20])
def test_scale_of_narrow_nets_is_log_normal(depth: int, seed: int) -> None:
    r"""Points that agree: log ν2 is a sum of independent log (2/N) Σ ReLU(z)², nearly N(−5l/2N, 5l/N)."""
    width, inits = 100, 400
    data = gaussian_noise(8, 1000, mean=1.0, variance=1e-6, seed=5).inputs
    profile = measured(perceptron(depth, None, None, width=width), inits, seed, data, layers="activation*")
    logs = np.log(profile["mean_square_init"].values[:, profile.layers.index(f"activation{depth}")])
    active = np.arange(1, width + 1)
    probability = binom.pmf(active, width, 0.5)
    means = digamma(active / 2) + np.log(4 / width)
    mean = probability @ means
    variance = probability @ (polygamma(1, active / 2) + means**2) - mean**2
    # the two approximations of theory.md, section 6, for one layer
    assert mean == pytest.approx(-5 / (2 * width), rel=0.05)
    assert variance == pytest.approx(5 / width, rel=0.05)
    tolerance = student_t.ppf(1 - 0.01 / 8, inits - 1)
    deviation = logs.std(ddof=1)
    assert abs(logs.mean() - depth * mean) < tolerance * deviation / np.sqrt(inits)
    assert abs(deviation / np.sqrt(depth * variance) - 1) < tolerance / np.sqrt(2 * (inits - 1))
