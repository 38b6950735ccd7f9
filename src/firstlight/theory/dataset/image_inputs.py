"""Pictures as they enter: their covariance over positions, and what memory the layers behind will need.

Enters: images (n, channels, …) and the layers. Leaves: the state that the first layer reads, with all pairs of
positions or those at the same position only; or the reason why neither fits.

K⁰_pq,ab = Σ_c x_ac(p) x_bc(q)/C. A stored pair of positions costs 8 n² bytes; counted is the most that is alive at
once: what enters a layer and what leaves it, and between the two axes of a convolution a third; in a residual unit
all its layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.layers import (
    Activation,
    AdaptivePool,
    Convolution,
    Dense,
    Layer,
    Norm,
    PositionPool,
    Residual,
    Unmodelled,
    walk,
)
from firstlight.errors import DataError, one_of
from firstlight.theory.covariance import NoRuleError
from firstlight.theory.dataset.gram import Statistics, batches_of
from firstlight.theory.dataset.image_gram import ImageGram
from firstlight.theory.dataset.position_pairs import PositionPairs
from firstlight.theory.dataset.positions import pool_matrix, pooled_shape, sources

__all__ = [
    "MEMORY",
    "POSITIONS",
    "Held",
    "axes_of_positions",
    "gram_of_images",
    "held_positions",
    "images_of",
    "statistics_of_images",
]

Array = NDArray[np.float64]

MEMORY = 4.0
"""Gigabytes that covariances over positions may take, without a word of the user."""

POSITIONS = ("auto", "pairs", "same")


@dataclass(frozen=True)
class Held:
    """What is held of the pairs of positions.

    Attributes:
        everything: All pairs, else the same position only.
        gigabytes: What that takes at most.
        refusal: Why it cannot be held, or nothing.
        note: What the choice leaves out, or nothing.
    """

    everything: bool
    gigabytes: float
    refusal: str = ""
    note: str = ""


def axes_of_positions(layers: Sequence[Layer]) -> int | None:
    """How many axes of positions the first layer that reads any reads; None for a network that reads none.

    >>> axes_of_positions([Convolution("", 3, 8, (5, 5))])
    2
    """
    for layer in walk(tuple(layers)):
        if isinstance(layer, Convolution | PositionPool):
            return len(layer.kernel)
        if isinstance(layer, AdaptivePool):
            return len(layer.output)
        if isinstance(layer, Dense | Activation | Unmodelled) or getattr(layer, "kind", "") == "Flatten":
            return None
    return None


def images_of(data: Array, layers: Sequence[Layer]) -> Array | None:
    """The inputs as (n, channels, …), where the network reads positions; None where it reads none."""
    axes = axes_of_positions(layers)
    if axes is None:
        return None
    first = next((layer for layer in walk(tuple(layers)) if isinstance(layer, Convolution)), None)
    channels = first.in_channels if first is not None else data.shape[1] if data.ndim > 1 else 0
    if data.ndim != axes + 2 or data.shape[1] != channels:
        expected = ", ".join(
            ["n", str(channels or "channels"), *["length", "height, width"][axes - 1 : axes]]
        )
        raise DataError(
            f"predict(data): expected inputs ({expected}) as the network's first layer reads them, "
            f"got shape {data.shape}"
        )
    return np.asarray(data, dtype=np.float64)


def gram_of_images(
    images: Array, *, everything: bool = True, batch_size: int | None = None, seed: int = 0
) -> ImageGram:
    """Mean products over channels, perturbed by noise of mean square 1.

    Args:
        images: (n, channels, …).
        everything: Hold all pairs of positions, else the same position only.
        batch_size: What batch norm takes together, in the order of the points.
        seed: Names the draws of layers that have to be sampled.

    >>> state = gram_of_images(np.array([[[1.0, 2.0]], [[0.0, 4.0]]]))  # two points, one channel, two positions
    >>> (state.entries * np.exp(state.log_scale)).round(12).tolist()
    [[[1.0, 0.0], [0.0, 0.0]], [[2.0, 4.0], [0.0, 0.0]], [[4.0, 8.0], [8.0, 16.0]]]
    """
    size, channels, *shape = images.shape
    if not np.isfinite(images).all():
        bad = int(np.flatnonzero(~np.isfinite(images).reshape(size, -1).all(axis=1))[0])
        raise DataError(f"inputs: expected finite numbers, got NaN or infinity in point {bad}")
    greatest = float(np.abs(images).max(initial=0.0)) or 1.0
    values = images.reshape(size, channels, -1).transpose(2, 0, 1) / greatest  # (position, point, channel)
    pairs = PositionPairs(len(values), everything)
    entries = np.empty((len(pairs), size, size))
    for p in range(len(values)):
        row = pairs.row(p)
        np.matmul(
            values[p], values[p : p + row.stop - row.start].transpose(0, 2, 1) / channels, out=entries[row]
        )
    own = entries[pairs.index(np.arange(len(values)), np.arange(len(values)))]
    entries[pairs.index(np.arange(len(values)), np.arange(len(values)))] = (own + own.transpose(0, 2, 1)) / 2
    return ImageGram(
        scales=np.ones(size * len(values)),
        log_scale=2 * math.log(greatest),
        log_noise=np.zeros(size * len(values)),
        common=values.mean(axis=2).ravel(),
        batches=batches_of(size, batch_size),
        observed=True,
        seed=seed,
        entries=entries,
        shape=tuple(shape),
        channels=channels,
        everything=everything,
    )


def statistics_of_images(images: Array) -> Statistics:
    """C and V of the inputs over points and positions, noise of mean square 1.

    >>> round(math.exp(statistics_of_images(np.array([[[1.0, 3.0]], [[2.0, 2.0]]])).log_data), 12)
    0.5
    """
    values = images.swapaxes(0, 1).reshape(images.shape[1], -1)  # (channel, row)
    with np.errstate(divide="ignore"):
        center, data = np.log(np.mean(values.mean(axis=1) ** 2)), np.log(np.mean(values.var(axis=1)))
        return Statistics(float(center), float(data), 0.0, float(np.logaddexp(center, data)))


def held_positions(
    layers: Sequence[Layer],
    size: int,
    shape: Sequence[int],
    *,
    positions: str = "auto",
    memory: float = MEMORY,
) -> Held:
    """Decide which pairs of positions are held.

    Args:
        layers: The network.
        size: Number of pictures.
        shape: Of a picture, without its channels.
        positions: ``"pairs"``, ``"same"``, or ``"auto"``: all pairs where they fit or something reads them.
        memory: Gigabytes that they may take.
    """
    if positions not in POSITIONS:
        raise one_of("predict(positions)", positions, POSITIONS)
    whole = _gigabytes(layers, size, shape, everything=True)
    same = _gigabytes(layers, size, shape, everything=False)
    reader = _reads_pairs(layers, shape)
    if positions == "pairs" or (positions == "auto" and (whole <= memory or reader)):
        return Held(True, whole, _refusal(whole, memory, size, reader))
    note = (
        f"only covariances at the same position are held ({same:.2g} GB; all pairs of positions: {whole:.3g} GB, "
        f"limit {memory:g} GB), which is all that flattening reads: C, V and γ of the convolutions are not given"
    )
    return Held(False, same, _refusal(same, memory, size, ""), note)


def _refusal(needed: float, memory: float, size: int, reader: str) -> str:
    if needed <= memory:
        return ""
    fitting = int(size * math.sqrt(memory / needed))
    fewer = f"pass samples={fitting}" if fitting >= 2 else "no two pictures fit: make them smaller"
    because = f", which {reader} reads" if reader else ""
    return (
        f"the covariance of {size} pictures over positions{because} takes {needed:.3g} GB, more than the limit of "
        f"{memory:g} GB; {fewer}, raise the limit by memory={math.ceil(needed)}, or measure it"
    )


def _reads_pairs(layers: Iterable[Layer], shape: Sequence[int]) -> str:
    """The address of the first layer that reads pairs of different positions, or nothing."""
    for layer, here, _ in _along(layers, tuple(shape)):
        if math.prod(here) == 1 or isinstance(layer, Dense):
            continue
        if isinstance(layer, Norm) and layer.kind == "batch":
            return layer.address
        if (
            isinstance(layer, PositionPool | AdaptivePool)
            and (pool_matrix(here, layer) != 0).sum(1).max() > 1
        ):
            return layer.address
    return ""


def _gigabytes(layers: Sequence[Layer], size: int, shape: Sequence[int], *, everything: bool) -> float:
    """Most that is alive at once."""

    def stored(here: Sequence[int]) -> int:
        return len(PositionPairs(math.prod(here), everything))

    def most(layers: Iterable[Layer], start: tuple[int, ...], inside: bool) -> int:
        peak, kept = stored(start), 0
        for layer, here, there in _along(layers, start, enter=False):
            working = stored(here) + stored(there)
            if isinstance(layer, Convolution) and len(here) > 1:
                working += stored((there[0], *here[1:]))
            if isinstance(layer, Residual):
                working += most(layer.body, here, True) + most(layer.shortcut, here, True)
            peak = max(peak, kept + working)
            kept += stored(there) if inside else 0
        return peak

    return 8e-9 * size**2 * (stored(shape) + most(layers, tuple(shape), False))  # the inputs stay alive


def _along(
    layers: Iterable[Layer], shape: tuple[int, ...], *, enter: bool = True
) -> Iterable[tuple[Layer, tuple[int, ...], tuple[int, ...]]]:
    """Layers with the positions before and behind, up to the first dense layer or one that cannot be followed."""
    for layer in layers:
        here = shape
        try:
            if isinstance(layer, Convolution):
                shape = tuple(table.shape[1] for table in sources(here, layer))
            elif isinstance(layer, PositionPool | AdaptivePool):
                shape = pooled_shape(here, layer)
            elif isinstance(layer, Residual):
                inner = list(_along(layer.body, here))
                yield from inner if enter else ()
                yield from _along(layer.shortcut, here) if enter else ()
                shape = inner[-1][2] if inner else here
        except NoRuleError:  # marked by the fold, with this reason
            return
        if isinstance(layer, Dense | Unmodelled):
            return
        yield layer, here, shape
