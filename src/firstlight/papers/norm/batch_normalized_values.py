"""The law of one batch-normalized value by batch size: what figures E.1 and E.2 share.

Enters: batch sizes and a number of batches. Leaves: a histogram of all values that torch's batch norm makes of Gaussian
batches, and one value of each batch, which are independent of each other, for tests. The paper's law leaves a point out
of its own statistics (eq. 27 to 29, law: eq. 49); frameworks do not, and theirs is a Beta law (``theory.minibatch``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from firstlight.papers.work import Work
from firstlight.plots.style import PALETTE, house_style
from firstlight.results.arrays import Arrays
from firstlight.results.provenance import Provenance
from firstlight.results.reproduction import Statement
from firstlight.theory.minibatch import MinibatchLaw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CRITICAL", "DEPARTS", "SCALES", "draw_values", "law_distance", "normalized_values", "tail_share"]

SCALES: Mapping[str, Mapping[str, Any]] = {
    "smoke": {"sizes": [5, 8, 32], "batches": 500},
    "small": {"sizes": [5, 8, 32, 512], "batches": 10_000},
    "paper": {"sizes": [5, 8, 32, 512], "batches": 100_000},
}
DEPARTS = {"small": ("the paper does not say which batch sizes it drew, nor how many values",)}
CRITICAL = 1.63
"""√N times the Kolmogorov–Smirnov distance that chance exceeds once in a hundred times."""

_EDGES = np.linspace(-6, 6, 121)
_VARIANTS = {"leave_one_out": "paper's law (eq. 49)", "exact": "exact law"}


def normalized_values(work: Work) -> dict[str, Arrays]:
    """The common piece, and the two laws on the same bins."""
    made_from = {**work.settings, "seed": work.seed}
    return {"values": work.common_piece("batch-normalized", made_from, partial(_values, work))}


def draw_values(results: Mapping[str, Any], *, logarithmic: bool) -> Figure:
    """A panel for each batch size: the histogram under both laws."""
    from matplotlib.figure import Figure

    values = results["values"]
    sizes = values.coordinates["size"].values
    with house_style():
        figure = Figure(figsize=(1.8 * len(sizes), 2.4), dpi=200, layout="constrained")
        for axes, size, counts in zip(
            figure.subplots(1, len(sizes)), sizes, values["counts"].values, strict=True
        ):
            reach = 3.0 if not logarithmic else 6.0
            axes.stairs(
                counts / counts.sum() / np.diff(_EDGES),
                _EDGES,
                fill=True,
                color="0.8",
                label="torch's batch norm",
            )
            _draw_densities(axes, int(size), reach)
            axes.set(title=f"batches of {size}", xlabel="$b$", xlim=(-reach, reach))
            if logarithmic:
                axes.set(yscale="log", ylim=(1e-5, 2))
            else:
                axes.set_ylim(0, 0.55)
        figure.axes[0].set_ylabel("density")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def law_distance(results: Mapping[str, Any], size: int, variant: str) -> tuple[float, float]:
    """Kolmogorov–Smirnov distance of one value a batch from a law, and what chance exceeds once in a hundred times."""
    first = np.sort(_first_values(results, size))
    law = MinibatchLaw(size, variant).cdf(first)
    places = np.arange(len(first) + 1) / len(first)
    distance = max(float((places[1:] - law).max()), float((law - places[:-1]).max()))
    return distance, CRITICAL / math.sqrt(len(first))


def tail_share(results: Mapping[str, Any], size: int, beyond: float, variant: str, says: str) -> Statement:
    """Share of values further out than ``beyond``, against a law."""
    first = _first_values(results, size)
    expected = 2 * float(MinibatchLaw(size, variant).cdf(np.array([-beyond]))[0])
    share = float((np.abs(first) > beyond).mean())
    return Statement(
        f"{says}: share of values with |b| > {beyond:g} in batches of {size}",
        "=",
        expected,
        share,
        math.sqrt(max(expected * (1 - expected), 0.0) / len(first)),
        because=""
        if variant == "exact"
        else f"a value is part of its own batch, so |b| ≤ √(B−1) = {math.sqrt(size - 1):.2f}, which the paper's law "
        "leaves out",
    )


def _values(work: Work) -> Arrays:
    generator = torch.Generator().manual_seed(work.seed)
    first, counts = [], []
    for size in work["sizes"]:
        norm = nn.BatchNorm1d(work["batches"], affine=False, eps=1e-12).train()
        with torch.no_grad():
            # a feature for each batch: (sample, batch)
            values = norm(
                torch.randn(size, work["batches"], generator=generator, dtype=torch.float64).float()
            )
        first.append(values[0].numpy())
        counts.append(np.histogram(values.numpy(), _EDGES)[0])
    return Arrays.of(
        {"first": (("size", "batch"), np.array(first)), "counts": (("size", "bin"), np.array(counts))},
        coordinates={"size": work["sizes"]},
        provenance=Provenance(
            "measurement",
            "torch BatchNorm1d, train mode",
            "N(0, 1)",
            seed=work.seed,
            settings=dict(work.settings),
        ),
    )


def _first_values(results: Mapping[str, Any], size: int) -> np.ndarray:
    values = results["values"]
    place = values.coordinates["size"].values.tolist().index(size)
    return np.asarray(values["first"].values[place], dtype=np.float64)


def _draw_densities(axes: Any, size: int, reach: float) -> None:
    for (variant, label), color, dashes in zip(
        _VARIANTS.items(), (PALETTE["vermillion"], PALETTE["blue"]), ("-", (0, (3, 1.2))), strict=True
    ):
        law = MinibatchLaw(size, variant)
        edge = min(reach, 0.9999 * law.support[1])
        places = np.linspace(-edge, edge, 601)
        axes.plot(places, law.pdf(places), color=color, linestyle=dashes, linewidth=1.1, label=label)
