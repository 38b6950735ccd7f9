"""Labatie's simulations: a fresh batch of pictures and fresh weights each time; moments of signal and noise by layer.

Enters: which net, fully connected or convolutional, and its sizes. Leaves: the Profile over all simulations, and from
it curves by depth. A batch of CIFAR-10 is drawn without replacement and standardized over itself: per channel for
convolutions; flattened, hence per pixel, for fully-connected nets. Noise is i.i.d. N(0, 1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firstlight.data.loading import load
from firstlight.data.samples import Samples
from firstlight.measurement.simulating import simulate
from firstlight.models.pathology_nets import (
    batch_norm_feedforward_net,
    batch_norm_residual_net,
    vanilla_net,
)
from firstlight.papers.chunks import pooled
from firstlight.papers.work import Work
from firstlight.results.profile import Profile

__all__ = [
    "EVOLUTION",
    "FEED_FORWARD_DEPARTURES",
    "FEED_FORWARD_SCALES",
    "GEOMETRIES",
    "Curve",
    "along",
    "fresh_batches",
    "simulated",
]

Array = NDArray[np.float64]

GEOMETRIES = {"dense": "fully connected", "convolutional": "convolutional, periodic boundaries"}
"""The two kinds of nets, with the words for them."""

FEED_FORWARD_SCALES: Mapping[str, Mapping[str, Any]] = {
    "smoke": {
        "dense": {"length": 6, "width": 16, "batch": 8, "simulations": 2, "every": 2},
        "convolutional": {"length": 6, "width": 4, "batch": 2, "simulations": 2, "every": 2},
    },
    "small": {
        "dense": {"length": 200, "width": 512, "batch": 64, "simulations": 24, "every": 10},
        "convolutional": {"length": 200, "width": 64, "batch": 12, "simulations": 12, "every": 10},
    },
    "paper": {
        "dense": {"length": 200, "width": 512, "batch": 64, "simulations": 1000, "every": 2},
        "convolutional": {"length": 200, "width": 512, "batch": 64, "simulations": 1000, "every": 2},
    },
}
"""Sizes of figures 3 and 4: feed-forward nets, without and with batch norm."""

FEED_FORWARD_DEPARTURES: Mapping[str, tuple[str, ...]] = {
    "small": (
        "24 simulations (fully connected) and 12 (convolutional) instead of 1,000",
        "every 10th layer instead of every 2nd",
        "convolutions of 64 channels on 12 pictures instead of 512 channels on 64",
    )
}
"""How they are not the paper's."""

EVOLUTION = (
    "gamma",
    "center_variance",
    "data_variance",
    "mean_square",
    "kurtosis",
    "mean_absolute",
    "effective_rank",
    "noise_variance",
    "noise_effective_rank",
    "sensitivity",
    "sensitivity_increment",
    "sensitivity_increment_norm",
    "sensitivity_increment_activation",
)
"""What figures 3 to 5 show."""

_NETS: Mapping[str, tuple[Callable[..., nn.Module], str]] = {
    "vanilla": (vanilla_net, "depth"),
    "feedforward": (batch_norm_feedforward_net, "depth"),
    "residual": (batch_norm_residual_net, "units"),
}


@dataclass(frozen=True)
class Curve:
    """One quantity by depth.

    Attributes:
        depths: Layers or units, ascending.
        values: (simulation, depth).
    """

    depths: Array
    values: Array

    @property
    def mean(self) -> Array:
        """Over simulations."""
        return np.asarray(self.values.mean(0))

    def at(self, depth: int) -> Array:
        """Values of the simulations at one depth."""
        return np.asarray(self.values[:, np.flatnonzero(self.depths == depth)[0]])


def simulated(
    work: Work, net: str, geometry: str, *, quantities: tuple[str, ...] = EVOLUTION, chunk: int = 10
) -> Profile:
    """Simulate one net.

    Args:
        work: Its setting named ``geometry`` gives ``length`` (layers or units), ``width``, ``batch``, ``simulations``
            and ``every``, the distance of the recorded layers; the first two are always recorded.
        net: ``"vanilla"``, ``"feedforward"`` or ``"residual"``.
        geometry: A key of ``GEOMETRIES``.
        quantities: What to measure.
        chunk: Simulations of a piece.
    """
    of = work[geometry]
    return pooled(
        work,
        geometry,
        of["simulations"],
        partial(_simulate, work, net, geometry, quantities),
        chunk=chunk,
    )


def _simulate(
    work: Work, net: str, geometry: str, quantities: tuple[str, ...], seed: int, simulations: int
) -> Profile:
    of = work[geometry]
    pictures = load("cifar10", root=work.data_root)
    dense = geometry == "dense"
    build, length = _NETS[net]
    inputs = int(np.prod(pictures.shape)) if dense else pictures.shape[0]
    options = {length: of["length"], "width": of["width"], "kernel": None if dense else 3}
    return simulate(
        partial(build, inputs, **options),
        fresh_batches(pictures, simulations, size=of["batch"], seed=seed, flatten=dense),
        seed=seed,
        quantities=quantities,
        layers=partial(_is_recorded, of["every"]),
    )


def fresh_batches(pictures: Samples, count: int, *, size: int, seed: int, flatten: bool) -> Iterator[Tensor]:
    """``count`` batches that share no picture, each standardized over itself; a constant pixel becomes 0."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(pictures)))
    for number in range(count):
        batch = pictures.take(order[number * size : (number + 1) * size])
        if flatten:
            yield batch.standardize("batch", constant="zero").inputs.flatten(1)
        else:
            yield batch.standardize("per-channel").inputs


def _is_recorded(every: int, name: str, module: nn.Module) -> bool:
    """Whether a layer's number is 0 (what enters the stack), 1, 2 or a multiple of ``every``; of a unit, layer 1."""
    found = re.fullmatch(r"(?:linear|conv|norm|activation|unit)(\d+)(?:\.branch\.(?:\w+)1)?", name)
    return found is not None and (int(found[1]) < 3 or int(found[1]) % every == 0)


def along(profile: Profile, quantity: str, address: str, *, start: int = 1) -> Curve:
    """One quantity at the layers whose address is ``address`` with a number for ``{}``, from number ``start`` on.

    In an address, ``linear`` stands for convolutions too.
    """
    pattern = re.escape(address).replace(r"\{\}", r"(\d+)").replace("linear", "(?:linear|conv)")
    found = [(re.fullmatch(pattern, name), column) for column, name in enumerate(profile.layers)]
    numbered = sorted({int(match[1]): column for match, column in found if match}.items())
    kept = [(number, column) for number, column in numbered if number >= start]
    values = profile.variables[f"{quantity}_init"].values[:, [column for _, column in kept]]
    return Curve(np.array([number for number, _ in kept], dtype=np.float64), np.asarray(values))
