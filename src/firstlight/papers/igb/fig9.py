"""Figure 9: several classes; the law of one class's fraction and the fractions by rank, theory over histogram.

Appendix H: one hidden layer of ReLU units on Gaussian points, M outputs. γ does not depend on M. Fractions sorted in
each initialization show the bias that the symmetry between the labels hides. The paper compares each class with its
largest rival alone; the exact law is drawn beside that approximation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.gaussian import gaussian_noise
from firstlight.papers.figure import PaperFigure
from firstlight.papers.igb.largest_rival import fractions_against_largest_rival
from firstlight.papers.igb.perceptrons_on_noise import gamma_statement, measured_and_predicted
from firstlight.papers.work import Work
from firstlight.plots.guess_law import draw_guesses
from firstlight.plots.style import house_style, series_styles
from firstlight.results.arrays import Arrays
from firstlight.results.provenance import Provenance
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]


def _compute(work: Work) -> dict[str, Any]:
    """Theory, measurement and the paper's approximation for each number of classes, on the same points."""
    data = gaussian_noise(work["samples"], work["inputs"], seed=work.seed)
    results: dict[str, Any] = {}
    for classes in work["classes"]:
        blueprint = Blueprint.mlp(inputs=work["inputs"], depth=1, width=work["width"], classes=classes)
        found = measured_and_predicted(work, str(classes), blueprint, data)
        gamma = float(found[f"{classes}-theory"].gamma[-1])
        results |= found
        results[f"{classes}-largest-rival"] = work.piece(
            f"{classes}-largest-rival",
            partial(_approximation, gamma, classes, work["draws"], work["samples"], work.seed),
        )
    return results


def _approximation(gamma: float, classes: int, draws: int, samples: int, seed: int) -> Arrays:
    """Fractions of the first class, and those by rank; the first counted on as many points as the measured ones."""
    fractions = fractions_against_largest_rival(gamma, classes, draws, seed=seed)
    counted = np.random.default_rng([seed, classes]).binomial(samples, fractions[:, 0]) / samples
    ranked = -np.sort(-fractions, axis=1)
    return Arrays.of(
        {
            "fraction": ("draw", fractions[:, 0]),
            "counted": ("draw", counted),
            "ranked": ("rank", ranked.mean(0)),
            "ranked_stderr": ("rank", ranked.std(0, ddof=1) / math.sqrt(draws)),
        },
        provenance=Provenance(
            "theory",
            f"each of {classes} classes against its largest rival, γ = {gamma:.6g}",
            "i.i.d. inputs",
            seed=seed,
            settings={"draws": draws, "samples": samples},
        ),
    )


def _numbers(results: Mapping[str, Any]) -> list[int]:
    """Numbers of classes."""
    return sorted(int(name.split("-")[0]) for name in results if name.endswith("-theory"))


def _draw(results: Mapping[str, Any]) -> Figure:
    """Above the law of one class's fraction, below the mean fractions by rank; a column each number of classes."""
    from matplotlib.figure import Figure

    numbers = _numbers(results)
    with house_style():
        figure = Figure(figsize=(2.5 * len(numbers), 5.0), dpi=200, layout="constrained")
        axes = figure.subplots(2, len(numbers), squeeze=False)
        for column, classes in enumerate(numbers):
            _draw_law(axes[0, column], results, classes)
            _draw_ranks(axes[1, column], results, classes)
        axes[0, 0].set_ylabel("density over initializations")
        axes[1, 0].set_ylabel("mean fraction over initializations")
        axes[0, -1].legend(fontsize=6, loc="upper right", handlelength=1.4)
        axes[1, -1].legend(fontsize=6, loc="upper right", handlelength=1.4)
    return figure


def _draw_law(axes: Axes, results: Mapping[str, Any], classes: int) -> None:
    first, second, third = series_styles(3)
    measured, theory = results[f"{classes}-measured"].guesses, results[f"{classes}-theory"].guesses
    heights = [
        draw_guesses(axes, measured, first, "measured", bins=25),
        draw_guesses(axes, theory, second, "exact law"),
    ]
    approximate = results[f"{classes}-largest-rival"].variables["fraction"].values
    density, edges = np.histogram(approximate, bins=50, range=(0, 1), density=True)
    axes.plot(
        (edges[1:] + edges[:-1]) / 2,
        density,
        color=third.color,
        linestyle=third.linestyle,
        label="largest rival (paper)",
    )
    axes.set(title=f"{classes} classes", xlim=(0, 1), ylim=(0, 1.3 * max(heights)), xlabel="$G_c$")


def _draw_ranks(axes: Axes, results: Mapping[str, Any], classes: int) -> None:
    first, second, third = series_styles(3)
    measured, theory = results[f"{classes}-measured"].guesses, results[f"{classes}-theory"].guesses
    approximate = results[f"{classes}-largest-rival"].variables["ranked"].values
    ranks = np.arange(classes)
    axes.bar(
        ranks,
        measured.ranked.values,
        color=first.color,
        alpha=0.3,
        label="measured",
    )
    for values, style, label in (
        (theory.ranked.values, second, "exact law"),
        (approximate, third, "largest rival (paper)"),
    ):
        axes.plot(
            ranks, values, color=style.color, linestyle=style.linestyle, marker=style.marker, label=label
        )
    axes.axhline(1 / classes, color="0.6", linewidth=0.6, zorder=0)
    axes.set(xlabel="rank", xticks=ranks, ylim=(0, None))


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What appendix H says of several classes."""
    said = []
    for classes in _numbers(results):
        measured, theory = results[f"{classes}-measured"], results[f"{classes}-theory"]
        says = f"{classes} classes: γ is 1/(π−1), whatever their number"
        said.append(gamma_statement(says, 1 / (math.pi - 1), measured))
        own = measured.guesses.fractions.values[:, 0]
        said.append(
            Statement(
                f"{classes} classes: the labels are alike over the ensemble, ⟨G_0⟩ = 1/{classes}",
                "=",
                1 / classes,
                float(own.mean()),
                float(own.std(ddof=1)) / math.sqrt(len(own)),
            )
        )
        for rank, ordinal in ((0, "greatest"), (classes - 1, "smallest")):
            error = math.hypot(
                float(measured.guesses.ranked_stderr.values[rank]),
                float(theory.guesses.ranked_stderr.values[rank]),
            )
            said.append(
                Statement(
                    f"{classes} classes: mean {ordinal} fraction, by the exact law (ours)",
                    "=",
                    float(theory.guesses.ranked.values[rank]),
                    float(measured.guesses.ranked.values[rank]),
                    error,
                )
            )
        said += _law_statements(results, classes, own)
    return said


def _law_statements(results: Mapping[str, Any], classes: int, own: np.ndarray) -> Sequence[Statement]:
    """Distances of Kolmogorov and Smirnov between each law, counted, and what was measured, by the 99.7 % quantile."""
    from scipy.stats import ks_2samp

    exact = results[f"{classes}-theory"].guesses.fractions.values[:, 0]
    approximate = results[f"{classes}-largest-rival"].variables["counted"].values
    too_much = "a point goes to a class only if it beats all its rivals; against the largest alone each gets too much"
    return [
        Statement(
            f"{classes} classes: the law of G_0 is {says}: Kolmogorov–Smirnov distance",
            "<",
            1.8 * math.sqrt(1 / len(own) + 1 / len(drawn)),
            float(ks_2samp(own, drawn).statistic),
            because=because if classes > 2 else "",
        )
        for says, drawn, because in (
            ("that against the largest rival (appendix H)", approximate, too_much),
            ("the exact one (ours)", exact, ""),
        )
    ]


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"classes": [2, 4], "samples": 100, "inputs": 100, "width": 50, "inits": 20, "draws": 500},
        "small": {
            "classes": [2, 4, 10],
            "samples": 500,
            "inputs": 1000,
            "width": 300,
            "inits": 400,
            "draws": 20_000,
        },
        "paper": {
            "classes": [2, 4, 10],
            "samples": 20_000,
            "inputs": 3072,
            "width": 10_000,
            "inits": 10_000,
            "draws": 1_000_000,
        },
    },
    departs={
        "small": ("500 points of 1,000 coordinates, 300 hidden units and 400 initializations",),
        "paper": (
            "the text has lost the numbers of classes and the sizes of data, network and ensemble; these are ours",
        ),
    },
)
