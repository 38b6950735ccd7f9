"""Dataset theory of convolutional networks against networks of 160 channels on the same pictures."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.building import Residual
from firstlight.measurement.measuring import measure
from firstlight.results.profile import Profile
from firstlight.theory.predicting_data import predict_on

WIDTH, INITS, LABELS = 160, 60, 32


def pictures(seed: int, *shape: int) -> torch.Tensor:
    """Neighbouring pixels alike, and a mean that is not 0."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(shape, generator=generator)
    return images + images.roll(1, dims=-1) + 0.5


def plain(mode: str = "zeros", stride: int = 1, function: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, padding=1, padding_mode=mode),
        function(),
        nn.Conv2d(WIDTH, WIDTH, 3, padding=1, stride=stride, padding_mode=mode),
        function(),
        nn.Flatten(),
        nn.Linear(WIDTH * (20 if stride == 1 else 6), LABELS),
    )


def pooled(*middle: nn.Module, end: nn.Module | None = None) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, padding=1),
        *middle,
        nn.ReLU(),
        nn.AvgPool2d(2, padding=(1, 0)),
        nn.Conv2d(WIDTH, WIDTH, (2, 1)),
        *([end] if end is not None else []),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(WIDTH, LABELS),
    )


def residual() -> nn.Module:
    def unit() -> nn.Module:
        body = nn.Sequential(
            nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        )
        return Residual(body, scale=0.7)

    down = nn.Sequential(nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1, stride=2))
    shortcut = nn.Conv2d(WIDTH, WIDTH, 1, stride=2)
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, padding=1),
        unit(),
        Residual(down, shortcut=shortcut),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(WIDTH, LABELS),
    )


def sequences(mode: str, dilation: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(3, WIDTH, 3, padding=2, padding_mode=mode, dilation=dilation),
        nn.LeakyReLU(0.2),
        nn.Conv1d(WIDTH, WIDTH, 2, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(WIDTH, LABELS),
    )


def compared(theory: Profile, found: Profile) -> dict[str, float]:
    """Distances in standard errors, by layer and quantity."""
    rows = list(found["gamma"].coords["layer"].values)
    distances = {}
    for number, address in enumerate(theory["gamma"].coords["layer"].values):
        at = rows.index(address)
        for name in ("center_variance", "data_variance", "mean_square"):
            ours = float(theory[name][number])
            if not math.isnan(ours):
                stderr = float(found[f"{name}_stderr"][at])
                # float32 leaves centres of 1e-7 where theory has none
                distances[f"{address}.{name}"] = (ours - float(found[name][at])) / max(stderr, 1e-6)
    return distances


def checked(module: nn.Module, data: torch.Tensor, seed: int, **options: object) -> Profile:
    torch.set_num_threads(1)
    blueprint = Blueprint.read(module, weight_variance=2.0, bias_variance=0.1)
    theory = predict_on(blueprint, data, seed=seed, draws=2000, **options)
    assert not [entry for entry in theory.coverage.entries if entry.reason]
    addresses = [str(address) for address in theory["gamma"].coords["layer"].values]
    found = measure(blueprint, data, inits=INITS, seed=seed, layers=addresses, progress=False)
    distances = compared(theory, found)
    assert max(map(abs, distances.values())) < 4.5, distances
    ours, theirs = (np.asarray(profile.guesses.fractions).max(axis=1) for profile in (theory, found))
    difference = ours.mean() - theirs.mean()
    assert abs(difference) < 4.5 * theirs.std(ddof=1) / math.sqrt(len(theirs))
    return theory


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
def test_paddings(mode: str, seed: int) -> None:
    theory = checked(plain(mode), pictures(seed, 8, 3, 5, 4), seed)
    same = predict_on(
        Blueprint.read(plain(mode), weight_variance=2.0, bias_variance=0.1),
        pictures(seed, 8, 3, 5, 4),
        positions="same",
        draws=100,
    )
    np.testing.assert_allclose(same.gamma[-1], theory.gamma[-1], rtol=1e-12)
    assert np.isnan(same.gamma[:-1]).all()


@pytest.mark.parametrize(
    "function", [lambda: nn.LeakyReLU(0.3), nn.Tanh, nn.GELU], ids=["leaky", "tanh", "gelu"]
)
def test_strides_and_activations(function: Callable[[], nn.Module], seed: int) -> None:
    checked(plain(stride=2, function=function), pictures(seed, 8, 3, 5, 4), seed)


@pytest.mark.parametrize(("mode", "dilation"), [("zeros", 2), ("circular", 1)])
def test_sequences(mode: str, dilation: int, seed: int) -> None:
    checked(sequences(mode, dilation), pictures(seed, 8, 3, 9), seed)


def test_pools(seed: int) -> None:
    checked(pooled(), pictures(seed, 8, 3, 6, 4), seed)


@pytest.mark.parametrize(
    "norm", [lambda: nn.BatchNorm2d(WIDTH), lambda: nn.GroupNorm(1, WIDTH)], ids=["batch", "layer"]
)
def test_norms_before_and_after(norm: Callable[[], nn.Module], seed: int) -> None:
    checked(pooled(norm(), end=norm()), pictures(seed, 24, 3, 6, 4), seed)
    after = nn.Sequential(
        nn.Conv2d(3, WIDTH, 3),
        nn.ReLU(),
        norm(),
        nn.Conv2d(WIDTH, WIDTH, 2),
        nn.ReLU(),
        norm(),
        nn.Flatten(),
        nn.Linear(WIDTH * 3, LABELS),
    )
    checked(after, pictures(seed, 24, 3, 6, 4), seed)


def test_residual_units(seed: int) -> None:
    checked(residual(), pictures(seed, 8, 3, 5, 4), seed)
