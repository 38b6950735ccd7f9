"""Covariance of pictures against loops over every index, against the dense theory, and its own invariants."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from torch import nn

from firstlight.architecture.activations import activation
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.building import Residual
from firstlight.architecture.layers import PositionPool
from firstlight.errors import DataError, UsageError
from firstlight.theory.dataset.dense_gram import DenseGram
from firstlight.theory.dataset.image_batch_norm import standardized as standardized_images
from firstlight.theory.dataset.image_gram import ImageGram
from firstlight.theory.dataset.image_inputs import gram_of_images, held_positions
from firstlight.theory.dataset.position_pairs import PairMatrix
from firstlight.theory.dataset.standardized_gram import standardized
from firstlight.theory.kernels.kernel import kernel_of
from firstlight.theory.predicting_data import covariance_of_outputs, predict_on
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
    """A stem, a residual unit and two more layers; batch norm never behind an activation.

    There points divide each unit by its own deviation, pictures all of them by the mean variance.
    """
    normed = [norm] if norm is not None else []
    last = [] if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d) else normed
    unit = Residual(nn.Sequential(linear(8, 8), *normed, function, linear(8, 8)), scale=0.5)
    behind = [linear(8, 8), function, *last, linear(8, 8), *normed, function]
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


# -- batch norm over points and positions -----------------------------------------------------------------------------


def test_batch_norm_before_an_activation_against_all_directions(seed: int) -> None:
    """With few directions taken one by one, against the rule for points over rows, which takes them all."""
    relu = kernel_of(activation("relu"))
    state = gram_of_images(images(seed, 20, 3, 4, 4)).mix().average(relu).mix()
    taken = standardized_images(state)
    assert taken.eigenvalues.size < state.size // 3
    assert taken.rest[0] > 0
    points = DenseGram(
        scales=np.ones(state.size),
        log_scale=state.log_scale,
        log_noise=state.log_noise,
        batches=(slice(0, state.size),),
        gaussian=True,
        entries=PairMatrix(state.pairs, state.plain_entries()).among(np.arange(state.size)),
    )
    ours, theirs = taken.average(relu), standardized(points).average(relu)
    # ‖T‖² ≤ 1e-6 of (tr G)², which is worth five times as much of K
    np.testing.assert_allclose(whole(ours), theirs.matrix(), atol=1e-5)
    np.testing.assert_allclose(ours.common, theirs.common, rtol=1e-4)
    np.testing.assert_allclose(ours.log_noise, theirs.log_noise, atol=1e-5)


def test_mini_batches_behind_an_activation(seed: int) -> None:
    relu = kernel_of(activation("relu"))
    state = gram_of_images(images(seed, 6, 3, 2, 2), batch_size=4).mix().average(relu)
    found = whole(state.standardize_units(None))
    matrix = whole(state)
    batch = np.tile([0, 0, 0, 0, 1, 1], 4)
    center = np.eye(24) - (batch[:, None] == batch) / np.array([16, 8])[batch]
    centered = center @ matrix @ center.T
    variance = np.array([centered.diagonal()[batch == b].mean() for b in (0, 1)])[batch]
    np.testing.assert_allclose(found, centered / np.sqrt(np.outer(variance, variance)), atol=1e-12)


# -- what always holds ------------------------------------------------------------------------------------------------


def deep(depth: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(2, 4, 3, padding=1)]
    for _ in range(depth):
        layers += [nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1)]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("everything", [True, False])
def test_positive_semi_definite_with_duplicates_constants_and_nothing(everything: bool, seed: int) -> None:
    x = images(seed, 6, 2, 4, 3)
    x[1], x[2], x[3] = x[0], 0.0, 1.0
    x[4, :, :2] = 0.0  # black at some positions
    blueprint = Blueprint.read(deep(40), weight_variance=2.0, bias_variance=0.0)
    relu = kernel_of(activation("relu"))
    for step in propagate(
        blueprint.layers, gram_of_images(x, everything=everything), lambda function, pooled: relu
    ):
        state = step.state
        blocks = state.plain_entries()
        assert np.isfinite(blocks).all()
        matrices = [whole(state) * math.exp(-state.log_scale)] if everything else list(blocks)
        for matrix in matrices:
            np.testing.assert_array_equal(matrix, matrix.T)
            size = max(matrix.diagonal().max(), 1e-300)
            assert np.linalg.eigvalsh(matrix)[0] > -1e-13 * len(matrix) * size
            deviation = np.sqrt(matrix.diagonal())
            assert (np.abs(matrix) <= np.outer(deviation, deviation) * (1 + 1e-12)).all()
    profile = predict_on(blueprint, x)
    assert "1 points are 0 in every coordinate" in " ".join(profile.provenance.notes)


def test_thousand_layers_stay_finite(seed: int) -> None:
    module = nn.Sequential(deep(1000), nn.Flatten(), nn.Linear(24, 2))
    blueprint = Blueprint.read(module, weight_variance=2.0, bias_variance=0.0)
    profile = predict_on(blueprint, images(seed, 3, 2, 3, 2), positions="same", draws=100)
    assert np.isfinite(profile.gamma[-1])
    for name in ("log_mean_square", "log_gradient_scale", "log_noise_variance"):
        assert np.isfinite(profile[name]).all()


# -- what has no rule, and what does not fit --------------------------------------------------------------------------


def with_end(*end: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), *end)


GLOBAL = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
REASONS = [
    ([nn.Conv2d(4, 4, 3, groups=2)], "2 groups of channels do not mix"),
    ([nn.MaxPool2d(2)], "takes the largest of neighbouring positions"),
    ([nn.Conv2d(4, 4, 9)], "reaches over 9 positions, more than the 4 there are"),
    ([nn.Conv2d(3, 4, 1)], "reads 3 channels, and there are 4"),
    ([nn.Linear(4, 3)], "reads 4 inputs, and a picture has 4 channels at 16 positions"),
    ([nn.LayerNorm(4)], "normalizes the last 1 axes of a picture"),
    ([nn.Flatten(), nn.BatchNorm1d(64)], "takes each position by itself"),
    (
        [nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.Tanh()],
        "known are homogeneous activations",
    ),
    ([nn.Flatten(), nn.AvgPool1d(2)], "positions of one channel"),
    ([nn.Flatten(), nn.Linear(64, 4), nn.Conv2d(4, 4, 1)], "what comes here has none"),
]


@pytest.mark.parametrize(("end", "reason"), REASONS, ids=[reason for _, reason in REASONS])
def test_reasons(end: list[nn.Module], reason: str, seed: int) -> None:
    profile = predict_on(Blueprint.read(with_end(*end)), images(seed, 4, 2, 4, 4))
    assert reason in " ".join(entry.reason for entry in profile.coverage.entries)


def test_what_does_not_fit_says_what_would(seed: int) -> None:
    x = images(seed, 40, 2, 8, 8)
    blueprint = Blueprint.read(with_end(*GLOBAL))
    profile = predict_on(blueprint, x, memory=0.05)
    first = profile.coverage.entries[0]
    needed = held_positions(blueprint.layers, 40, (8, 8)).gigabytes
    fitting = int(40 * math.sqrt(0.05 / needed))
    # K⁰, what enters and leaves the convolution, and what lies between its two axes: 4 · 8 bytes · 40² · 64·65/2
    assert needed == pytest.approx(4 * 8e-9 * 1600 * 64 * 65 / 2)
    assert f"takes {needed:.3g} GB, more than the limit of 0.05 GB" in first.reason
    assert "which 2 reads" in first.reason
    assert f"samples={fitting}" in first.reason
    assert np.isnan(profile.gamma).all()
    assert np.isfinite(predict_on(blueprint, x, memory=0.05, samples=fitting).gamma).all()
    flat = Blueprint.read(with_end(nn.Flatten(), nn.Linear(256, 2)))
    same = predict_on(flat, x, memory=0.05)
    np.testing.assert_allclose(same.gamma[-1], predict_on(flat, x).gamma[-1], rtol=1e-12)
    assert "only covariances at the same position are held" in " ".join(same.provenance.notes)
    with pytest.raises(UsageError, match="expected one of 'auto', 'pairs', 'same', got 'some'"):
        predict_on(flat, x, positions="some")
    with pytest.raises(DataError, match=r"expected inputs \(n, 2, height, width\).*got shape \(40, 128\)"):
        predict_on(flat, x.reshape(40, -1))


def test_memory_stays_within_the_estimate(seed: int) -> None:
    x = images(seed, 40, 2, 8, 8)
    blueprint = Blueprint.read(
        with_end(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), *GLOBAL)
    )
    estimate = held_positions(blueprint.layers, 40, (8, 8)).gigabytes
    predict_on(blueprint, x[:4], draws=10)
    tracemalloc.start()
    predict_on(blueprint, x, draws=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1e9 * estimate  # blocks that are worked on, and arrays over rows


def test_last_convolution_pooled_gives_the_guesses(seed: int) -> None:
    x = images(seed, 10, 2, 4, 4)
    variances = {"weight_variance": 2.0, "bias_variance": 0.0}
    first = with_end(nn.Conv2d(4, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    second = with_end(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 3, 1), nn.Flatten())
    # a 1 × 1 convolution and the mean over positions commute
    ours, other = (predict_on(Blueprint.read(module, **variances), x) for module in (first, second))
    assert ours.guesses.fractions.shape[1] == 3
    greatest = [np.asarray(profile.guesses.fractions).max(axis=1) for profile in (ours, other)]
    stderr = math.hypot(*(values.std() / 100 for values in greatest))  # of 10,000 draws each
    assert abs(greatest[0].mean() - greatest[1].mean()) < 4 * stderr
    np.testing.assert_allclose(ours.gamma[-1], other.gamma[-1], rtol=1e-9)


def test_covariance_that_is_kept_is_what_flattening_reads(seed: int) -> None:
    x = images(seed, 5, 2, 4, 4)
    blueprint = Blueprint.read(
        with_end(nn.Flatten(), nn.Linear(64, 2)), weight_variance=1.0, bias_variance=0.0
    )
    kept = predict_on(blueprint, x, keep_covariance=True)["covariance"]
    np.testing.assert_allclose(kept[-1], covariance_of_outputs(blueprint, x), rtol=1e-12)
    flat = np.einsum("acp,bcp->ab", x.reshape(5, 2, 16), x.reshape(5, 2, 16)) / 32
    one = Blueprint.read(nn.Sequential(nn.Conv2d(2, 4, 1), nn.ReLU()), weight_variance=1.0, bias_variance=0.0)
    np.testing.assert_allclose(predict_on(one, x, keep_covariance=True)["covariance"][0], flat, rtol=1e-12)
