"""The Monte-Carlo twin of every rule: the real torch module, applied to units drawn from the state that the
rule assumes.

Units m_i ~ N(0, C) and data N(0, V) are drawn directly, so the only error is sampling error. The tolerance
is the quantile of Student's t over independent replicas at which the whole family of comparisons fails once
in a hundred runs, plus the 1/units and 1/samples terms that a finite norm has by construction.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm as normal
from scipy.stats import t as student_t

from firstlight.architecture.activations import activation
from firstlight.architecture.layers import Activation, Dense, Norm, Pool
from firstlight.theory.logarithms import ZERO
from firstlight.theory.population import Population
from firstlight.theory.predicting import kernels_by
from firstlight.theory.propagation import propagate

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script.*:DeprecationWarning"  # raised inside torch when the first derivative rule is loaded
)

UNITS, SAMPLES, REPLICAS = 2400, 120, 24
COMPARISONS = 300
TOLERANCE = student_t.ppf(1 - 0.01 / (2 * COMPARISONS), REPLICAS - 1)
STATES = [(0.0, 1.0), (0.7, 0.6), (3.0, 0.2), (0.05, 2.0)]
MODULES = {
    "relu": torch.nn.ReLU(),
    "leaky_relu": torch.nn.LeakyReLU(0.01),
    "gelu": torch.nn.GELU(),
    "gelu_tanh": torch.nn.GELU(approximate="tanh"),
    "silu": torch.nn.SiLU(),
    "tanh": torch.nn.Tanh(),
    "erf": torch.erf,
    "sigmoid": torch.nn.Sigmoid(),
    "softplus": torch.nn.Softplus(),
    "elu": torch.nn.ELU(),
    "selu": torch.nn.SELU(),
    "mish": torch.nn.Mish(),
    "hardtanh": torch.nn.Hardtanh(),
    "abs": torch.abs,
    "linear": torch.nn.Identity(),
    "sin": torch.sin,
    "cos": torch.cos,
    "shifted_relu": lambda u: torch.relu(u) - 1 / math.sqrt(2 * math.pi),
}


def norm_over_units(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[1:], eps=0.0)


def norm_over_units_without_mean(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[1:], eps=0.0)


def norm_over_data(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.batch_norm(x, None, None, training=True, eps=1e-12)


NORMS = {
    "layer": (Norm("norm", "layer", UNITS), norm_over_units),
    "rms": (Norm("norm", "rms", UNITS), norm_over_units_without_mean),
    "batch": (Norm("norm", "batch", UNITS), norm_over_data),
}


def drawn(center: float, data: float, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Pre-activations of wide units over data, and noise independent of them."""
    options = {"generator": generator, "dtype": torch.float64}
    m = math.sqrt(center) * torch.randn(1, UNITS, **options)
    return m + math.sqrt(data) * torch.randn(SAMPLES, UNITS, **options), torch.randn(
        SAMPLES, UNITS, **options
    )


def statistics(values: torch.Tensor) -> np.ndarray:
    """(K_ab, V) of units over data, unbiased."""
    variance = values.var(dim=0, unbiased=True).mean()
    center = (values.mean(dim=0) ** 2).mean() - variance / len(values)
    return np.array([float(center), float(variance)])


def simulated(layers, center: float, data: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over replicas of (K_ab, V) behind the layers."""
    found = []
    for child in range(REPLICAS):
        values, _ = drawn(center, data, torch.Generator().manual_seed(1000 * seed + child))
        for layer in layers:
            values = layer(values)
        found.append(statistics(values))
    stacked = np.array(found)
    return stacked.mean(axis=0), stacked.std(axis=0, ddof=1) / math.sqrt(REPLICAS)


def predicted(layers, center: float, data: float) -> np.ndarray:
    log = math.log
    state = Population(ZERO, log(center) if center else ZERO, log(data), 0.0, gaussian=True)
    after = propagate(layers, state, kernels_by("auto"))[-1].state
    return np.exp([after.log_center, after.log_data])


def assert_twins(theory: np.ndarray, mean: np.ndarray, stderr: np.ndarray, slack: float = 0.0) -> None:
    distance = np.abs(theory - mean)
    allowed = TOLERANCE * stderr + slack * np.abs(theory).max()
    assert np.all(distance <= allowed), f"theory {theory}, simulation {mean} ± {stderr}"


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize(("center", "data"), STATES[:3])
def test_activation(name: str, center: float, data: float) -> None:
    layers = (Activation("activation", activation(name)),)
    mean, stderr = simulated([MODULES[name]], center, data, seed=1)
    assert_twins(predicted(layers, center, data), mean, stderr)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("placement", ["before", "after"])
@pytest.mark.parametrize(("center", "data"), STATES)
def test_norm(kind: str, placement: str, center: float, data: float) -> None:
    norm, module = NORMS[kind]
    relu = Activation("activation", activation("relu"))
    order = [(norm, module), (relu, torch.relu)]
    if placement == "after":
        order.reverse()
    mean, stderr = simulated([run for _, run in order], center, data, seed=2)
    theory = predicted(tuple(layer for layer, _ in order), center, data)
    if kind == "batch" and placement == "after":
        # a ReLU unit that is silent on every one of finitely many points is normalized to 0, not to variance 1
        theory = theory * (1 - silent_share(center, data))
    # batch norm over a finite batch leaves the bounded law of section 4, whose moments differ from the
    # Gaussian's by O(1/samples); a norm over finitely many units by O(1/units)
    assert_twins(theory, mean, stderr, slack=2 / SAMPLES if kind == "batch" else 4 / UNITS)


def silent_share(center: float, data: float) -> float:
    """E over units of P(all samples below 0): ∫ Φ(−m/√V)^samples dN(m; 0, C)."""
    if center == 0:
        return 0.5**SAMPLES
    m = np.linspace(-12, 12, 4001)
    density = np.exp(-(m**2) / 2) / math.sqrt(2 * math.pi)
    return float(np.trapezoid(density * normal.cdf(-m * math.sqrt(center / data)) ** SAMPLES, m))


@pytest.mark.parametrize(("kind", "size"), [("max", 2), ("max", 4), ("avg", 3)])
@pytest.mark.parametrize("name", ["relu", "tanh", "linear"])
@pytest.mark.parametrize(("center", "data"), STATES)
def test_pool(kind: str, size: int, name: str, center: float, data: float) -> None:
    layers = (Activation("activation", activation(name)), Pool("pool", kind, size))
    pool = torch.nn.MaxPool1d(size) if kind == "max" else torch.nn.AvgPool1d(size)
    mean, stderr = simulated([MODULES[name], pool], center, data, seed=3)
    assert_twins(predicted(layers, center, data), mean, stderr)


@pytest.mark.parametrize(("center", "data"), STATES)
def test_dense_draws_new_units(center: float, data: float) -> None:
    layers = (Activation("activation", activation("relu")), Dense("dense", UNITS, UNITS, 1.7, 0.3))
    found = []
    for child in range(REPLICAS):
        generator = torch.Generator().manual_seed(4000 + child)
        values, _ = drawn(center, data, generator)
        weights = torch.randn(UNITS, 300, generator=generator, dtype=torch.float64) * math.sqrt(1.7 / UNITS)
        biases = torch.randn(300, generator=generator, dtype=torch.float64) * math.sqrt(0.3)
        found.append(statistics(torch.relu(values) @ weights + biases))
    stacked = np.array(found)
    stderr = stacked.std(axis=0, ddof=1) / math.sqrt(REPLICAS)
    assert_twins(predicted(layers, center, data), stacked.mean(axis=0), stderr)


@pytest.mark.parametrize("name", ["relu", "gelu", "tanh", "hardtanh", "selu"])
@pytest.mark.parametrize("kind", [None, "layer", "batch"])
def test_noise_gain(name: str, kind: str | None) -> None:
    center, data = 0.7, 0.6
    layers = (*((NORMS[kind][0],) if kind else ()), Activation("activation", activation(name)))
    found = []
    for child in range(REPLICAS):
        values, noise = drawn(center, data, torch.Generator().manual_seed(5000 + child))
        scale = 1.0
        if kind == "layer":
            scale = values.std(dim=1, unbiased=False, keepdim=True)
            values = norm_over_units(values)
        elif kind == "batch":
            scale = values.std(dim=0, unbiased=False, keepdim=True)
            values = norm_over_data(values)
        _, moved = torch.func.jvp(MODULES[name], (values,), (noise / scale,))
        found.append(float((moved**2).mean()))
    mean, stderr = np.mean(found), np.std(found, ddof=1) / math.sqrt(REPLICAS)
    state = Population(ZERO, math.log(center), math.log(data), 0.0, gaussian=True)
    theory = math.exp(propagate(layers, state, kernels_by("auto"))[-1].state.log_noise)
    assert abs(theory - mean) <= TOLERANCE * stderr + (4 / SAMPLES) * theory * (kind == "batch"), (
        theory,
        mean,
        stderr,
    )


@pytest.mark.parametrize(("center", "data"), STATES)
def test_rms_norm_after_keeps_the_bias_and_layer_norm_after_does_not(center: float, data: float) -> None:
    relu = Activation("activation", activation("relu"))
    rms, layer = NORMS["rms"][0], NORMS["layer"][0]
    plain, with_rms, with_layer = (
        predicted(layers, center, data) for layers in ((relu,), (relu, rms), (relu, layer))
    )
    assert with_rms[0] / with_rms[1] == pytest.approx(plain[0] / plain[1], rel=1e-12)
    assert with_layer[0] / with_layer[1] < plain[0] / plain[1]
