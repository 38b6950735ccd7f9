"""Figure 12: CNN-B on CIFAR-100; the fraction of one of a hundred classes in two variants, linear and log-log.

Appendix I.1.3. Without bias the histogram would peak at 1/100. It peaks at 0 instead: most classes get no picture at
all. Between 0 and the rest lies the gap that D pictures cannot resolve, 1/D.

Where CIFAR-100 is not at hand, a hundred classes of Tiny ImageNet stand in, each 2 × 2 pixels averaged into one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch.nn.functional import avg_pool2d

from firstlight.data.cifar import cifar100
from firstlight.data.samples import Samples
from firstlight.data.tiny_imagenet_pictures import tiny_imagenet
from firstlight.models.guessing_cnns import cnn_b
from firstlight.papers.figure import PaperFigure
from firstlight.papers.igb.guesses_on_pictures import (
    VARIANTS,
    measured_guesses,
    statements_of_variants,
    variant_of,
)
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guesses import Guesses
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE", "hundred_classes"]

CLASSES = 100
TITLES = {"tanh-avg-pool": "tanh + average-pool", "relu-max-pool": "ReLU + max-pool"}


def hundred_classes(name: str, samples: int, *, seed: int, root: Any = None) -> Samples:
    """So many pictures of a hundred classes, 32 × 32, standardized: ``"cifar100"`` or ``"tiny-imagenet"``."""
    if name == "cifar100":
        return cifar100(root=root).subset(samples, seed=seed).standardize("per-channel")
    # decoding is what costs: about twice as many as are drawn have one of the first hundred classes
    large = tiny_imagenet(samples=4 * samples, seed=seed, root=root)
    drawn = large.select(range(CLASSES)).first(samples)
    return Samples.from_tensors(
        avg_pool2d(drawn.inputs, 2),
        drawn.labels,
        label_names=drawn.label_names,
        name="tiny-imagenet-32",
        title=f"{drawn.description}; 2 × 2 pixels averaged",
    ).standardize("per-channel")


def _compute(work: Work) -> dict[str, Any]:
    data = hundred_classes(work["data"], work["samples"], seed=work.seed, root=work.data_root)
    return measured_guesses(work, {name: variant_of(cnn_b, name, classes=CLASSES) for name in VARIANTS}, data)


def _draw(results: Mapping[str, Any]) -> Figure:
    """A column each variant: linear axes above, log-log below, where 0 has a place of its own at the left."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.0, 5.2), dpi=200, layout="constrained")
        axes = figure.subplots(2, len(VARIANTS))
        for column, (name, title) in enumerate(TITLES.items()):
            _draw_linear(axes[0, column], results, name)
            _draw_logarithmic(axes[1, column], results, name)
            axes[0, column].set_title(f"CNN-B, {title}")
            axes[0, column].legend(fontsize=7)
        axes[0, 0].set_ylabel("density")
        axes[1, 0].set_ylabel("share of (class, initialization)")
    return figure


def _laws(results: Mapping[str, Any], name: str) -> list[tuple[str, Guesses]]:
    measured = results[f"{name}-measured"]
    guesses = measured.guesses
    return [
        (f"measured, {guesses.draws:,} initializations", guesses),
        (f"law at its $\\gamma$ = {float(measured.gamma[-1]):.3g}", results[f"{name}-law"]),
        ("no bias", Guesses.from_law(GuessLaw(0.0, CLASSES), samples=guesses.samples)),
    ]


def _draw_linear(axes: Axes, results: Mapping[str, Any], name: str) -> None:
    edges = np.linspace(0.0, 1.0, 51)
    for (label, item), style in zip(_laws(results, name), series_styles(3), strict=True):
        density = np.diff(np.concatenate([[0.0], item.cdf(edges[1:])])) * 50
        filled = label.startswith("measured")
        axes.stairs(
            density,
            edges,
            fill=filled,
            color=style.color,
            alpha=0.3 if filled else 1.0,
            linestyle="-" if filled else style.linestyle,
            label=label,
        )
    axes.axvline(1 / CLASSES, color="0.6", linewidth=0.6)
    axes.set(xlim=(0, 1), xlabel="$G_c$")


def _draw_logarithmic(axes: Axes, results: Mapping[str, Any], name: str) -> None:
    """Share of each count; counts beyond ten are gathered in bins that double at each second."""
    measured = results[f"{name}-measured"].guesses
    samples = measured.samples
    bounds = _count_bins(samples)
    places = np.sqrt(np.maximum(bounds[:-1], 0.25) * (bounds[1:] - 1).clip(0.25)) / samples
    for (label, item), style in zip(_laws(results, name), series_styles(3), strict=True):
        share = np.diff(np.concatenate([[0.0], item.cdf((bounds[1:] - 1) / samples)]))
        axes.plot(
            places,
            np.where(share > 0, share, np.nan),
            color=style.color,
            linestyle=style.linestyle,
            marker=style.marker,
            label=label,
        )
    axes.axvline(1 / CLASSES, color="0.6", linewidth=0.6)
    least = 0.3 / (measured.draws * CLASSES)  # below one class of one initialization
    axes.set(
        xscale="log", yscale="log", ylim=(least, 2), xlabel="$G_c$; the point at the far left is $G_c = 0$"
    )


def _count_bins(samples: int) -> NDArray[np.int64]:
    """First counts of the bins, and one past the last: 0, 1, …, 10, then growing by √2.

    >>> _count_bins(20).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 20, 21]
    """
    grown = 10 * np.sqrt(2) ** np.arange(1, 2 * math.log2(max(samples / 10, 1)) + 1)
    small = np.arange(min(10, samples) + 1)
    inner = np.rint(grown).astype(np.int64)
    return np.unique(np.concatenate([small, inner[inner <= samples], [samples + 1]]))


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What appendix I.1.3 says."""
    said = list(statements_of_variants(results, "I.1.3"))
    for name, title in TITLES.items():
        guesses = results[f"{name}-measured"].guesses
        empty = (guesses.fractions.values == 0).mean(1)  # share of the classes, by initialization
        error = float(empty.std(ddof=1)) / math.sqrt(len(empty))
        neutral = (1 - 1 / CLASSES) ** guesses.samples
        said.append(
            Statement(
                f"{title}: most of the time a class gets no picture (I.1.3)",
                ">",
                0.5,
                float(empty.mean()),
                error,
                because="the fewer the pictures, the more classes get none",
            )
        )
        said.append(
            Statement(
                f"{title}: more classes get none than counting {guesses.samples} pictures without bias leaves empty",
                ">",
                neutral,
                float(empty.mean()),
                error,
            )
        )
    return said


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"data": "tiny-imagenet", "samples": 10, "inits": 6},
        "small": {"data": "tiny-imagenet", "samples": 160, "inits": 50},
        "paper": {"data": "cifar100", "samples": 10_000, "inits": 5000},
    },
    departs={
        "smoke": ("the first 100 classes of Tiny ImageNet at 32 × 32 pixels stand in for CIFAR-100",),
        "small": (
            "the first 100 classes of Tiny ImageNet at 32 × 32 pixels stand in for CIFAR-100",
            "160 pictures and 50 initializations",
        ),
        "paper": ("the text does not say how many initializations",),
    },
)
