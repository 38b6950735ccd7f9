r"""How a wide network guesses on n given points: draws of its outputs, which are a Gaussian process.

Enters: the covariance K of one output on the points. Leaves: the fraction of the points on which each label is
the greatest, one row for each drawn initialization. Labels are independent copies of the process, O = A ξ with A
Aᵀ = K; the greatest is counted. For two labels only the difference matters, another copy of the same process up
to scale.

A has one column for each direction of K that matters: leaving out a part p of tr(HKH) moves labels on at most
~√p/π of the points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import CouldNotError, UsageError

__all__ = ["Readout", "factor", "read_out", "read_out_of_factor"]

Array = NDArray[np.float64]

LEFT_OUT = 1e-9
"""Part of tr(HKH) that may be left out: it moves fewer than 1e-5 of the labels."""

_CHUNK = 1 << 22


@dataclass(frozen=True)
class Readout:
    """Guesses of drawn initializations.

    Attributes:
        fractions: ``(init, label)``.
        favoured: For each point, how often it gets the label that its initialization favours, ``(sample,)``. (The
            chance that two
            initializations give a point the same label is 1/M for every point, because labels are exchangeable.)
        directions: Number of directions of K that were drawn.
    """

    fractions: Array
    favoured: Array
    directions: int


def read_out(
    covariance: Array, labels: int, *, draws: int = 10_000, seed: int = 0, shared: int | None = None
) -> Readout:
    """Draw initializations and count the labels that they give to the points.

    Args:
        covariance: K (n, n), in any unit.
        labels: M, 2 or more.
        draws: Number of initializations.
        seed: Names them.
        shared: Units of a linear layer that all labels read; without it each label has a process of its own.

    >>> alike = read_out(np.ones((5, 5)), 3, draws=4)  # points that are one get one label
    >>> bool((alike.fractions.max(axis=1) == 1).all())
    True
    """
    return read_out_of_factor(factor(covariance), labels, draws=draws, seed=seed, shared=shared)


def read_out_of_factor(
    half: Array,
    labels: int,
    *,
    alone: Array | None = None,
    draws: int = 10_000,
    seed: int = 0,
    shared: int | None = None,
) -> Readout:
    """Draw initializations of O = A ξ + H(δ ε) and count their labels.

    Args:
        half: A (n, r).
        labels: M, 2 or more.
        alone: δ (n,): deviation of what each point has for itself, its mean over the points taken off; nothing
            without it.
        draws: Number of initializations.
        seed: Names them.
        shared: Units of a linear layer that all labels read. It gives ξ of the labels the covariance R Rᵀ/units of
            that initialization's R (label, unit); two labels have but one process, whose scale decides nothing.
    """
    if labels < 2 or draws < 1:
        raise UsageError(f"read_out: expected 2 labels or more and 1 draw or more, got {labels} and {draws}")
    half = half.astype(np.float32)
    own = None if alone is None or not alone.any() else alone.astype(np.float32)[:, None]
    points, directions = half.shape
    generator = np.random.default_rng(seed)
    counts = np.empty((draws, labels), dtype=np.int64)
    favoured = np.zeros(points)
    copies = 1 if labels == 2 else labels
    rows = max(1, min(draws, _CHUNK // (points * copies)))
    for start in range(0, draws, rows):
        number = min(rows, draws - start)
        units = generator.standard_normal((directions, number * copies), dtype=np.float32)
        if shared is not None and copies > 1:
            units = _through_shared(units, copies, shared, generator)
        outputs = half @ units
        if own is not None:
            rest = own * generator.standard_normal(outputs.shape, dtype=np.float32)
            outputs += rest - rest.mean(axis=0)
        outputs = outputs.reshape(points, number, copies)
        labelled = (outputs[:, :, 0] < 0).astype(np.intp) if labels == 2 else outputs.argmax(axis=2)
        offset = labelled + labels * np.arange(number)
        part = np.bincount(offset.ravel(), minlength=number * labels).reshape(number, labels)
        counts[start : start + number] = part
        favoured += (labelled == part.argmax(axis=1)).sum(axis=1)
    return Readout(counts / points, favoured / draws, directions)


def _through_shared(
    units: NDArray[np.float32], labels: int, shared: int, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Give the labels of each initialization the covariance of a read-out of ``shared`` units."""
    mixed = units.reshape(len(units), -1, labels)
    for number in range(mixed.shape[1]):
        weights = _factor_of_products(shared, labels, generator)
        mixed[:, number] = mixed[:, number, : len(weights)] @ weights
    return mixed.reshape(units.shape)


def _factor_of_products(rows: int, columns: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """A matrix B whose BᵀB has the law of GᵀG/rows, G (rows, columns) of standard normals.

    G itself where it has fewer rows than columns, else Bartlett's triangle: normals, and on the diagonal roots of χ².
    """
    drawn = generator.standard_normal((min(rows, columns), columns))
    if rows >= columns:
        drawn = np.triu(drawn, 1)
        np.fill_diagonal(drawn, np.sqrt(generator.chisquare(rows - np.arange(columns))))
    return np.asarray(drawn / np.sqrt(rows), dtype=np.float32)


def factor(covariance: Array) -> Array:
    """A with A Aᵀ = K, directions that rounding made negative or that nobody would notice left out."""
    if not np.isfinite(covariance).all():
        raise CouldNotError("read-out: expected a finite covariance of the outputs, got NaN or infinity")
    values, vectors = np.linalg.eigh(covariance)
    if values[-1] <= 0:
        raise CouldNotError(
            "read-out: all outputs are 0, so there is no greatest label; give the network biases"
        )
    spread = float(np.trace(covariance) - covariance.mean() * len(covariance))
    budget = LEFT_OUT * spread
    positive = np.maximum(values, 0.0)
    kept = np.cumsum(positive) > budget
    kept &= positive > 1e-14 * values[-1]
    kept[-1] = True
    return np.asarray(vectors[:, kept] * np.sqrt(positive[kept]))
