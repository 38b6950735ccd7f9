"""Covariance of pictures against loops over every index, against the dense theory, and its own invariants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from torch import nn

from firstlight.architecture.activations import activation
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.building import Residual
from firstlight.architecture.layers import PositionPool
from firstlight.theory.dataset.image_gram import ImageGram
from firstlight.theory.dataset.image_inputs import gram_of_images
from firstlight.theory.dataset.position_pairs import PairMatrix
from firstlight.theory.kernels.kernel import kernel_of
from firstlight.theory.predicting_data import predict_on
from firstlight.theory.propagation import propagate

MODES = {"zeros": "constant", "circular": "wrap", "reflect": "reflect", "replicate": "edge"}


def images(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape) + 0.3


def whole(state: ImageGram) -> np.ndarray:
    """K over rows (position, point), from the pairs that are stored."""
    matrix = PairMatrix(state.pairs, state.plain_entries()).among(np.arange(state.size))
    return matrix * math.exp(state.log_scale)


# -- an implementation with nothing but loops -------------------------------------------------------------------------


def looped_inputs(x: np.ndarray) -> dict:
    n, channels, *shape = x.shape
    places = list(itertools.product(*map(range, shape)))
    return {
        (a, p, b, q): sum(x[(a, c, *p)] * x[(b, c, *q)] for c in range(channels)) / channels
        for a in range(n)
        for b in range(n)
        for p in places
        for q in places
    }


def looped_convolution(k: dict, n: int, shape: tuple, layer: nn.Module) -> tuple[dict, tuple]:
    """Pads an array of position names as numpy does, then slides the kernel over it."""
    names = np.arange(math.prod(shape)).reshape(shape)
    around = [(size, size) for size in layer.padding]
    options = {"constant_values": -1} if layer.padding_mode == "zeros" else {}
    padded = np.pad(names, around, mode=MODES[layer.padding_mode], **options)
    reach = [d * (size - 1) + 1 for d, size in zip(layer.dilation, layer.kernel_size, strict=True)]
    behind = tuple((size - r) // s + 1 for size, r, s in zip(padded.shape, reach, layer.stride, strict=True))
    places, offsets = (
        list(itertools.product(*map(range, sizes))) for sizes in (behind, tuple(layer.kernel_size))
    )

    def read(p: tuple, o: tuple) -> tuple | None:
        at = tuple(i * s + j * d for i, s, j, d in zip(p, layer.stride, o, layer.dilation, strict=True))
        return None if padded[at] < 0 else tuple(int(i) for i in np.unravel_index(padded[at], shape))

    out = {}
    for a, p, b, q in itertools.product(range(n), places, range(n), places):
        total = 0.0
        for o in offsets:
            first, second = read(p, o), read(q, o)
            if first is not None and second is not None:
                total += k[(a, first, b, second)]
        out[(a, p, b, q)] = 2.0 * total / len(offsets) + 0.1
    return out, behind


def looped_leaky(k: dict, slope: float) -> dict:
    out = {}
    for a, p, b, q in k:
        first, second = k[(a, p, a, p)], k[(b, q, b, q)]
        scale = math.sqrt(first * second)
        c = min(max(k[(a, p, b, q)] / scale, -1.0), 1.0)

        def relu(c: float) -> float:
            return (math.sqrt(1 - c * c) + (math.pi - math.acos(c)) * c) / (2 * math.pi)

        # leaky = relu(u) − slope·relu(−u)
        out[(a, p, b, q)] = scale * ((1 + slope**2) * relu(c) - 2 * slope * relu(-c))
    return out


def looped_pool(k: dict, n: int, shape: tuple, size: int) -> tuple[dict, tuple]:
    behind = tuple(side // size for side in shape)
    places, offsets = (list(itertools.product(*map(range, s))) for s in (behind, (size,) * len(shape)))
    out = {}
    for a, p, b, q in itertools.product(range(n), places, range(n), places):
        values = [
            k[
                (
                    a,
                    tuple(size * i + j for i, j in zip(p, o, strict=True)),
                    b,
                    tuple(size * i + j for i, j in zip(q, r, strict=True)),
                )
            ]
            for o in offsets
            for r in offsets
        ]
        out[(a, p, b, q)] = sum(values) / len(values)
    return out, behind


def looped_flatten(k: dict, n: int, shape: tuple) -> np.ndarray:
    places = list(itertools.product(*map(range, shape)))
    return np.array(
        [[sum(k[(a, p, b, p)] for p in places) / len(places) for b in range(n)] for a in range(n)]
    )


CONVOLUTIONS: list[Callable[[], nn.Module]] = [
    *(lambda mode=mode: nn.Conv2d(2, 5, 3, padding=1, padding_mode=mode) for mode in MODES),
    lambda: nn.Conv2d(2, 5, (2, 3), stride=(1, 2), padding=(0, 1)),
    lambda: nn.Conv2d(2, 5, 2, dilation=(2, 1), padding=(1, 0), padding_mode="reflect"),
    lambda: nn.Conv2d(2, 5, 1, stride=2),
    lambda: nn.Conv1d(2, 5, 3, padding=2, stride=2),
    lambda: nn.Conv1d(2, 5, 3, padding=2, padding_mode="circular"),
    lambda: nn.Conv1d(2, 5, 2, dilation=3, padding=1, padding_mode="replicate"),
    lambda: nn.Conv3d(2, 5, (1, 2, 2)),
]


@pytest.mark.parametrize("make", CONVOLUTIONS)
@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_loops_over_every_index(make: Callable[[], nn.Module], slope: float, seed: int) -> None:
    first = make()
    dimensions = len(first.kernel_size)
    shape = {1: (7,), 2: (4, 3), 3: (2, 3, 2)}[dimensions]
    x = images(seed, 3, 2, *shape)
    second = type(first)(5, 4, 2, padding=1)
    k, behind = looped_convolution(looped_inputs(x), 3, shape, first)
    k, behind = looped_convolution(looped_leaky(k, slope), 3, behind, second)
    k = looped_leaky(k, slope)
    layers = (first, nn.LeakyReLU(slope), second, nn.LeakyReLU(slope))
    blueprint = Blueprint.read(nn.Sequential(*layers), weight_variance=2.0, bias_variance=0.1)
    kernel = kernel_of(activation(f"leaky_relu:negative_slope={slope}"))
    places = list(itertools.product(*map(range, behind)))
    rows = [(a, p) for p in places for a in range(3)]
    expected = np.array([[k[(a, p, b, q)] for b, q in rows] for a, p in rows])
    flat = looped_flatten(k, 3, behind)
    for everything in (True, False):
        state = gram_of_images(x, everything=everything)
        state = propagate(blueprint.layers, state, lambda function, pooled: kernel)[-1].state
        np.testing.assert_allclose(state.matrix() * math.exp(state.log_scale), flat, rtol=1e-10)
        if everything:
            np.testing.assert_allclose(whole(state), expected, rtol=1e-10)
            size = min(behind)
            if size > 1:
                pooled, there = looped_pool(k, 3, behind, 2)
                pool = PositionPool("", (2,) * dimensions, (2,) * dimensions, (0,) * dimensions)
                found, _ = state.pool_positions(pool)
                np.testing.assert_allclose(
                    found.matrix() * math.exp(found.log_scale), looped_flatten(pooled, 3, there), rtol=1e-10
                )
            center, data = state.center_and_data()
            assert center * math.exp(state.log_scale) == pytest.approx(expected.mean(), rel=1e-10)
            assert data * math.exp(state.log_scale) == pytest.approx(
                np.trace(expected) / len(expected) - expected.mean(), rel=1e-9
            )


# -- one position is a dense layer ------------------------------------------------------------------------------------


def network(
    linear: Callable[[int, int], nn.Module], norm: nn.Module | None, function: nn.Module
) -> nn.Module:
    """A stem, a residual unit and two more layers."""
    normed = [norm] if norm is not None else []
    unit = Residual(nn.Sequential(linear(8, 8), *normed, function, linear(8, 8)), scale=0.5)
    behind = [linear(8, 8), function, *normed, linear(8, 8), *normed, function]
    return nn.Sequential(linear(6, 8), *normed, function, linear(8, 8), unit, *behind)


@pytest.mark.parametrize(
    ("norm", "same"),
    [(None, None), (nn.GroupNorm(1, 8), nn.LayerNorm(8)), (nn.BatchNorm2d(8), nn.BatchNorm1d(8))],
    ids=["none", "layer", "batch"],
)
@pytest.mark.parametrize("function", [nn.ReLU(), nn.Tanh(), nn.GELU()], ids=["relu", "tanh", "gelu"])
def test_pictures_of_one_pixel_are_points(
    norm: nn.Module | None, same: nn.Module | None, function: nn.Module, seed: int
) -> None:
    x = images(seed, 12, 6)
    variances = {"weight_variance": 1.7, "bias_variance": 0.2}
    first = nn.Sequential(
        network(lambda m, n: nn.Conv2d(m, n, 1), norm, function), nn.Flatten(), nn.Linear(8, 3)
    )
    second = nn.Sequential(network(nn.Linear, same, function), nn.Flatten(), nn.Linear(8, 3))
    ours = predict_on(Blueprint.read(first, **variances), x[:, :, None, None], draws=200)
    theirs = predict_on(Blueprint.read(second, **variances), x, draws=200)
    if isinstance(norm, nn.BatchNorm2d) and not isinstance(function, nn.ReLU):
        assert "homogeneous" in str(ours.coverage)
        return
    names = ["gamma", "center_variance", "data_variance", "mean_square", "kurtosis", "mean_absolute"]
    names += ["effective_rank", "noise_variance", "sensitivity", "sensitivity_increment", "gradient_scale"]
    for name in names:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-8, err_msg=name)
    np.testing.assert_allclose(ours["correlation"], theirs["correlation"], rtol=1e-8)
