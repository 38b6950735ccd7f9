"""Labatie's nets measured, beside the same nets written out by hand: no module, no hook, no tangent.

With the same weights and noise every number of the paper's figures 3 to 5 is the same to rounding. At depth 200
rounding itself is amplified by e⁴¹, so independent simulations are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import t as student_t
from torch import Tensor, nn
from torch.nn import functional

import firstlight as fl
from firstlight.data import load
from firstlight.measurement.seeding import initialization_seed, stream
from firstlight.measurement.simulating import simulate
from firstlight.models import batch_norm_feedforward_net, batch_norm_residual_net, vanilla_net
from firstlight.papers.moments.simulations import fresh_batches

EPSILON = 1e-3
SIMULATIONS = 20
NETS = {
    "vanilla": partial(vanilla_net, depth=6),
    "feedforward": partial(batch_norm_feedforward_net, depth=6),
    "residual": partial(batch_norm_residual_net, units=4),
}
QUANTITIES = (
    "center_variance",
    "data_variance",
    "gamma",
    "kurtosis",
    "mean_absolute",
    "effective_rank",
    "noise_effective_rank",
    "sensitivity",
    "sensitivity_increment",
    "sensitivity_increment_norm",
    "sensitivity_increment_activation",
)


@pytest.mark.parametrize("kernel", [None, 3], ids=["dense", "convolutional"])
@pytest.mark.parametrize("kind", NETS)
def test_every_curve_on_the_same_weights_and_noise(kind: str, kernel: int | None, seed: int) -> None:
    torch.manual_seed(seed)
    net = NETS[kind](*((40,) if kernel is None else ()), width=12, kernel=kernel).double()
    x = torch.randn(24, 40).double() if kernel is None else torch.randn(5, 3, 8, 8).double()
    profile = fl.measure(
        net, x, inits=1, seed=seed, redraw="keep", quantities=QUANTITIES, layers="*", progress=False
    )
    assert not any("evenly spaced" in note for note in profile.provenance.notes)
    drawn = stream(initialization_seed(seed, 0, 1)).standard_normal(tuple(x.shape), dtype=np.float32)
    expected = curves(kind, matrices(net), x, torch.from_numpy(drawn).double())
    assert {quantity for quantity, _ in expected} >= {"log_sensitivity", *QUANTITIES[3:7], QUANTITIES[8]}
    for (quantity, layer), value in expected.items():
        found = profile[f"{quantity}_init"].values[0, profile.layers.index(layer)]
        assert found == pytest.approx(value, rel=1e-9, abs=1e-11), (quantity, layer)


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("kind", NETS)
def test_deep_curves_of_independent_simulations(
    kind: str, real_data: Callable[[str], Path], seed: int
) -> None:
    """Depth 200 (50 residual units of two layers), width 128, in single precision; χ reaches e⁴¹."""
    build = {
        "vanilla": partial(vanilla_net, 3072, depth=200, width=128, kernel=None),
        "feedforward": partial(batch_norm_feedforward_net, 3072, depth=200, width=128, kernel=None),
        "residual": partial(batch_norm_residual_net, 3072, units=50, width=128, kernel=None),
    }[kind]
    pictures = load("cifar10", root=real_data("cifar10"))
    batches = list(fresh_batches(pictures, 2 * SIMULATIONS, size=64, seed=seed, flatten=True))
    profile = simulate(build, batches[::2], seed=seed, quantities=QUANTITIES, layers="*")
    generator = torch.Generator().manual_seed(seed)
    plain: dict[tuple[str, str], list[float]] = {}
    for x in batches[1::2]:
        net = build()
        weights = [
            torch.randn(weight.shape, generator=generator) * ((2 if number else 1) / weight[0].numel()) ** 0.5
            for number, weight in enumerate(matrices(net))
        ]
        noise = torch.randn(x.shape, generator=generator)
        for place, value in curves(kind, weights, x, noise).items():
            plain.setdefault(place, []).append(value)
    chosen = [place for place in plain if depth_of(place[1]) in (2, 20, 50, 100, 200)]
    assert len(chosen) >= 20
    tolerance = student_t.ppf(1 - 0.01 / (2 * len(chosen)), SIMULATIONS - 1)
    for quantity, layer in chosen:
        expected = np.array(plain[quantity, layer])
        found = profile[f"{quantity}_init"].values[:, profile.layers.index(layer)]
        error = np.hypot(found.std(ddof=1), expected.std(ddof=1)) / np.sqrt(SIMULATIONS)
        assert abs(found.mean() - expected.mean()) < tolerance * error, (quantity, layer)


def matrices(net: nn.Module) -> list[Tensor]:
    """Weights of the linear maps, in running order."""
    return [weight.detach() for weight in net.parameters() if weight.ndim > 1]


def depth_of(layer: str) -> int:
    """Number of a layer or unit."""
    return int(layer.split(".")[0].lstrip("abcdefghijklmnopqrstuvwxyz"))


# The nets by hand


def curves(kind: str, weights: Iterable[Tensor], x: Tensor, dx: Tensor) -> dict[tuple[str, str], float]:
    """(quantity, layer) → number; ``kind`` is vanilla, feedforward or residual."""
    drawn = iter(weights)
    found: dict[tuple[str, str], float] = {}
    stack = _Pair(x, dx)
    entered = stack.log_ratio
    first = next(drawn)
    stack = stack.mapped(first, stride=2 if first.ndim == 4 else 1)
    walk = _residual if kind == "residual" else _feedforward
    for pair in walk(kind, drawn, stack, found):
        name, pair = pair
        found["log_sensitivity", name] = pair.log_ratio - entered
    return found


class _Pair:
    """Signal, noise and the logarithm of what the noise was divided by."""

    def __init__(self, x: Tensor, dx: Tensor, log_scale: float = 0.0) -> None:
        size = float(dx.double().square().mean().sqrt())
        self.x, self.dx, self.log_scale = x, dx / size, log_scale + math.log(size)

    @property
    def log_ratio(self) -> float:
        """Log √(μ2(dx)/μ2(x)): the noise about 0, the signal about the mean of each channel."""
        noise = 0.5 * math.log(float(self.dx.double().square().mean())) + self.log_scale
        return noise - 0.5 * math.log(float(rows_of(self.x).var(0, correction=0).mean()))

    def mapped(self, weight: Tensor, stride: int = 1) -> _Pair:
        def through(values: Tensor) -> Tensor:
            if weight.ndim == 2:
                return values @ weight.T
            side = weight.shape[-1] // 2
            padded = functional.pad(values, (side,) * 4, mode="circular") if side else values
            return functional.conv2d(padded, weight, stride=stride)

        return _Pair(through(self.x), through(self.dx), self.log_scale)

    def normalized(self) -> _Pair:
        axes = [0, *range(2, self.x.ndim)]
        deviation = (self.x.var(axes, correction=0, keepdim=True) + EPSILON).sqrt()
        centred = self.x - self.x.mean(axes, keepdim=True)
        return _Pair(centred / deviation, self.dx / deviation, self.log_scale)

    def bent(self) -> _Pair:
        return _Pair(self.x.clamp(min=0), self.dx * (self.x > 0), self.log_scale)

    def plus(self, other: _Pair) -> _Pair:
        noise = self.dx + other.dx * math.exp(other.log_scale - self.log_scale)
        return _Pair(self.x + other.x, noise, self.log_scale)


def _feedforward(
    kind: str, weights: Iterator[Tensor], before: _Pair, found: dict[tuple[str, str], float]
) -> Iterator[tuple[str, _Pair]]:
    for number, weight in enumerate(weights, start=1):
        mapped = before.mapped(weight)
        name = f"linear{number}" if weight.ndim == 2 else f"conv{number}"
        if kind == "feedforward":
            mapped, name = mapped.normalized(), f"norm{number}"
        after = mapped.bent()
        if number > 1:  # layer 1 is counted from the input, with the first linear map
            found["sensitivity_increment", f"activation{number}"] = _change(before, after)
            if kind == "feedforward":
                found["sensitivity_increment_norm", name] = _change(before, mapped)
        _observe(found, name, mapped, f"activation{number}", after)
        yield f"activation{number}", after
        before = after


def _residual(
    kind: str, weights: Iterator[Tensor], before: _Pair, found: dict[tuple[str, str], float]
) -> Iterator[tuple[str, _Pair]]:
    for number, (first, second) in enumerate(zip(weights, weights, strict=True), start=1):
        branch = before
        for layer, weight in enumerate((first, second), start=1):
            inside = f"unit{number}.branch."
            linear = f"{inside}linear{layer}" if weight.ndim == 2 else f"{inside}conv{layer}"
            normed = branch.normalized()
            bent = normed.bent()
            mapped = bent.mapped(weight)
            if number > 1:
                found["sensitivity_increment", linear] = _change(branch, mapped)
                found["sensitivity_increment_norm", linear] = _change(branch, normed)
                if layer == 1:
                    found["sensitivity_increment_norm", f"{inside}norm1"] = _change(branch, normed)
            _observe(found, f"{inside}norm{layer}", normed, f"{inside}activation{layer}", bent)
            branch = mapped
        before = before.plus(branch)
        yield f"unit{number}", before


def _observe(
    found: dict[tuple[str, str], float], entering: str, z: _Pair, leaving: str, after: _Pair
) -> None:
    """μ4 and ν1(|·|) of what the activation reads; ranks of what it makes, and its share of the increment."""
    rows = rows_of(z.x)
    centred = rows - rows.mean(0)
    found["kurtosis", entering] = float(
        ((centred**4).mean(0) / (centred**2).mean(0) ** 2).mean()  # each channel, then their mean
    )
    found["mean_absolute", entering] = float(rows.abs().mean())
    found["sensitivity_increment_activation", leaving] = _change(z, after)
    found["effective_rank", leaving] = _effective_rank(after.x)
    found["noise_effective_rank", leaving] = _effective_rank(after.dx)


def _change(before: _Pair, after: _Pair) -> float:
    return math.exp(after.log_ratio - before.log_ratio)


def _effective_rank(values: Tensor) -> float:
    rows = rows_of(values)
    singular = torch.linalg.svdvals(rows - rows.mean(0)).square()
    return float(singular.sum() / singular[0])


def rows_of(values: Tensor) -> Tensor:
    """(sample · position, channel) in double precision."""
    return values.double().movedim(1, -1).reshape(-1, values.shape[1])
