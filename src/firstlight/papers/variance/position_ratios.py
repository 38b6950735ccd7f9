"""The mean-std ratio of convolutional networks with every position of every channel a unit, as equation 9 is written.

Enters: a network and pictures. Leaves: by layer r = √(Σ_i ⟨u_i⟩² / Σ_i Var u_i) over samples, where i runs over
channels and positions, and the same with i over channels and averages over positions too, as ``measure`` counts.

The two agree wherever a channel's mean is the same at all positions, and differ behind an up-convolution: each of the
2 × 2 outputs of one input position has weights and hence a mean of its own, which the second counts as variance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from firstlight.measurement.seeding import initialization_seed, seeded
from firstlight.measurement.taps import Tap, scout, tapped
from firstlight.papers.chunks import chunk_seed
from firstlight.papers.work import Work
from firstlight.results.arrays import Arrays
from firstlight.results.provenance import Provenance

__all__ = ["position_ratios"]

CHUNK = 4
"""Networks of a piece."""


def position_ratios(
    work: Work, name: str, networks: int, build: Callable[[], nn.Module], pictures: Callable[[], Tensor]
) -> Arrays:
    """Ratios of several networks on the same pictures.

    Args:
        work: Where the pieces are kept.
        name: Of the pieces; a number is appended.
        networks: How many are drawn.
        build: Makes a network with weights from torch's global random state.
        pictures: Makes the data.

    Returns:
        ``ratio`` and ``channel_ratio``, (init, layer).
    """
    parts = []
    for number, start in enumerate(range(0, networks, CHUNK)):
        members = min(CHUNK, networks - start)
        made = partial(_of_chunk, name, chunk_seed(work.seed, number), members, build, pictures)
        parts.append(work.piece(f"{name}-{number}", made))
    joined = {
        key: (("init", "layer"), np.concatenate([part.variables[key].values for part in parts]))
        for key in ("ratio", "channel_ratio")
    }
    layers = parts[0].coordinates["layer"].values
    return Arrays.of(joined, provenance=parts[0].provenance, coordinates={"layer": layers})


def _of_chunk(
    name: str, seed: int, networks: int, build: Callable[[], nn.Module], pictures: Callable[[], Tensor]
) -> Arrays:
    data = pictures()
    rows = []
    for index in range(networks):
        with seeded(initialization_seed(seed, index)):
            net = build()
        rows.append(_ratios(net, data))
    values = np.array([list(row.values()) for row in rows])  # (init, layer, kind of unit)
    return Arrays.of(
        {
            "ratio": (("init", "layer"), values[..., 0]),
            "channel_ratio": (("init", "layer"), values[..., 1]),
        },
        provenance=Provenance("measurement", name, f"pictures of shape {tuple(data.shape)}", seed=seed),
        coordinates={"layer": list(rows[0])},
    )


@torch.no_grad()
def _ratios(net: nn.Module, data: Tensor) -> dict[str, tuple[float, float]]:
    """Both ratios of each linear and convolutional layer, in running order."""
    plan, _ = scout(net, lambda: net(data[:2]), [data[:2]])
    taps = [tap for tap in plan.ran if tap.kind in ("convolution", "dense")]
    found: dict[str, tuple[float, float]] = {}

    def listen(tap: Tap, tensor: Tensor, args: object) -> None:
        values = tensor.double().flatten(2) if tensor.ndim > 2 else tensor.double()[..., None]
        mean, variance = values.mean(0), values.var(0, correction=0)  # (channel, position)
        centers = mean.mean(1)
        whole = variance.mean(1) + mean.var(1, correction=0)
        found[tap.key] = (
            float((mean**2).sum() / variance.sum()) ** 0.5,
            float((centers**2).sum() / whole.sum()) ** 0.5,
        )

    with tapped(net, taps, listen) as begin:
        begin()
        net(data)
    return found
