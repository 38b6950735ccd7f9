r"""Finite width: networks of the blueprint's own widths, drawn exactly in law, without a training framework.

Given the units of a layer on all points, those of the next dense layer are one product with new weights. Inputs
of more coordinates than there are points enter by a factor of X Xᵀ, which has the same law. So means carry a
Monte-Carlo error over the drawn networks and no other.

Leaves: C, V, γ and mean square with their standard errors, medians and values by network, and the counted
guesses. γ is the ratio of averages with the standard error of a ratio; ``gamma_median`` the median of each
network's own ratio, which a few networks of great scale do not rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import (
    Activation,
    Convolution,
    Dense,
    Layer,
    Norm,
    Pass,
    Pool,
    Residual,
    Unmodelled,
    walk,
)
from firstlight.errors import CouldNotError
from firstlight.results.guesses import Guesses
from firstlight.results.profile import Profile
from firstlight.results.provenance import Coverage, CoverageEntry, Provenance
from firstlight.theory.dataset.gram import batches_of
from firstlight.theory.predicting import NO_LABELS
from firstlight.theory.readout import factor

__all__ = ["profile_of_networks"]

Array = NDArray[np.float64]


def profile_of_networks(
    blueprint: Blueprint, points: Array, *, inits: int = 200, batch_size: int | None = None, seed: int = 0
) -> Profile:
    """Draw networks of finite width and average what they do to the points.

    Args:
        blueprint: Dense layers, norms, activations, pools and residual units.
        points: (n, d).
        inits: Number of networks, 2 or more.
        batch_size: Batch norm takes consecutive batches of this size.
        seed: Names the networks.
    """
    for layer in walk(blueprint.layers):
        if isinstance(layer, Convolution | Unmodelled):
            raise CouldNotError(
                f"{layer.address}: networks of finite width are drawn for dense layers, norms, activations, pools and "
                f"residual units, got a {type(layer).__name__}; measure it instead"
            )
    rows = [layer for layer in _in_order(blueprint.layers) if isinstance(layer, Dense | Residual)]
    draw = _Network(points, batches_of(len(points), batch_size))
    labels = blueprint.classes if blueprint.classes != 1 else None
    center, data = np.empty((inits, len(rows))), np.empty((inits, len(rows)))
    counts = np.zeros((inits, labels or 2), dtype=np.int64)
    ties = np.zeros(inits)
    for child, sequence in enumerate(np.random.SeedSequence(seed).spawn(inits)):
        outputs = draw(blueprint.layers, np.random.default_rng(sequence))
        center[child], data[child] = draw.trace(rows)
        if labels:
            counts[child] = np.bincount(outputs.argmax(axis=1), minlength=labels)
            greatest = outputs.max(axis=1, keepdims=True)
            ties[child] = np.mean((outputs == greatest).sum(axis=1) > 1)
    return Profile.from_layers(
        [row.address for row in rows],
        _averages(center, data),
        provenance=Provenance(
            engine="theory",
            model=blueprint.describe(),
            data=f"{len(points)} points of {points.shape[1]} coordinates",
            seed=seed,
            mode="train",
            settings={"theory": "finite networks", "inits": inits, "batch_size": batch_size},
            notes=(
                f"finite width: averages over {inits} networks drawn in law, with standard errors",
                "the norms' ε is taken as 0",
                "gamma is a ratio of averages; gamma_median is the median of each network's own ratio",
                *((NO_LABELS,) if blueprint.classes == 1 else ()),
            ),
        ),
        coverage=Coverage(
            tuple(
                CoverageEntry(layer.address, getattr(layer, "kind", type(layer).__name__.lower()), "modelled")
                for layer in _in_order(blueprint.layers)
            )
        ),
        guesses=Guesses.from_counts(counts, samples=len(points), ties=ties) if labels else None,
        kinds=["residual" if isinstance(row, Residual) else "dense" for row in rows],
    )


class _Network:
    """One network after the other on the same points."""

    def __init__(self, points: Array, batches: tuple[slice, ...]) -> None:
        self.points, self.batches = points, batches
        # what the first layer needs of the points, whatever their dimension
        self.compressed = (
            factor(points @ points.T) if points.shape[1] > len(points) and points.any() else points
        )
        self.seen: dict[int, tuple[float, float]] = {}

    def __call__(self, layers: Sequence[Layer], generator: np.random.Generator) -> Array:
        self.seen = {}
        return self._through(layers, self.points, generator)

    def trace(self, rows: Sequence[Layer]) -> tuple[list[float], list[float]]:
        """C and V of the rows, of the network drawn last."""
        found = [self.seen[id(row)] for row in rows]
        return [center for center, _ in found], [data for _, data in found]

    def _through(self, layers: Sequence[Layer], units: Array, generator: np.random.Generator) -> Array:
        for layer in layers:
            if isinstance(layer, Dense):
                units = self._dense(layer, units, generator)
            elif isinstance(layer, Activation):
                units = layer.function.value(units)
            elif isinstance(layer, Norm):
                units = self._normalized(layer, units)
            elif isinstance(layer, Pool):
                filled = units.shape[1] // layer.size * layer.size  # a remainder is left out, as torch does
                groups = units[:, :filled].reshape(len(units), -1, layer.size)
                units = groups.max(axis=2) if layer.kind == "max" else groups.mean(axis=2)
            elif isinstance(layer, Residual):
                branch = self._through(layer.body, units, generator)
                units = self._through(layer.shortcut, units, generator) + layer.scale * branch
            else:
                assert isinstance(layer, Pass)
            if isinstance(layer, Dense | Residual):
                mean = units.mean(axis=0)
                self.seen[id(layer)] = float(np.mean(mean**2)), float(np.mean(np.square(units - mean)))
        return units

    def _dense(self, layer: Dense, units: Array, generator: np.random.Generator) -> Array:
        if units is self.points:
            units = self.compressed
        weights = generator.standard_normal((units.shape[1], layer.fan_out))
        weights *= math.sqrt(layer.weight_variance / layer.fan_in)
        outputs = units @ weights
        if layer.bias_variance:
            outputs += math.sqrt(layer.bias_variance) * generator.standard_normal(layer.fan_out)
        return outputs

    def _normalized(self, layer: Norm, units: Array) -> Array:
        if layer.kind == "batch":
            normalized = np.empty_like(units)
            for place in self.batches:
                centered = units[place] - units[place].mean(axis=0)
                normalized[place] = _divided(centered, np.sqrt(np.mean(centered**2, axis=0, keepdims=True)))
            return normalized
        if layer.kind == "layer":
            units = units - units.mean(axis=1, keepdims=True)
        return _divided(units, np.sqrt(np.mean(units**2, axis=1, keepdims=True)))


def _divided(values: Array, by: Array) -> Array:
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0)


def _averages(center: Array, data: Array) -> dict[str, Array]:
    """Means over networks with standard errors; of the ratio of means by the delta method."""
    count = math.sqrt(len(center))
    mean_center, mean_data = center.mean(axis=0), data.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gamma, ratios = mean_center / mean_data, center / data
        departure = (center - gamma * data) / mean_data
    total = center + data
    return {
        "gamma": gamma,
        "gamma_stderr": departure.std(axis=0, ddof=1) / count,
        "gamma_median": np.median(ratios, axis=0),
        "gamma_init": ratios,
        "center_variance": mean_center,
        "center_variance_stderr": center.std(axis=0, ddof=1) / count,
        "center_variance_init": center,
        "data_variance": mean_data,
        "data_variance_stderr": data.std(axis=0, ddof=1) / count,
        "data_variance_init": data,
        "mean_square": total.mean(axis=0),
        "mean_square_stderr": total.std(axis=0, ddof=1) / count,
        "mean_square_median": np.median(total, axis=0),
    }


def _in_order(layers: Sequence[Layer]) -> list[Layer]:
    """Every layer in running order: branches before the sum that they enter."""
    found: list[Layer] = []
    for layer in layers:
        if isinstance(layer, Residual):
            found += [*_in_order(layer.body), *_in_order(layer.shortcut)]
        found.append(layer)
    return found
