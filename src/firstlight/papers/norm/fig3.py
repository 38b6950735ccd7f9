"""Figure 3: law of G_0 of perceptrons with batch or layer norm, before and after the ReLU, theory over histogram.

Section 4 and theorems 4.1 to 4.4: one hidden layer and twenty, unstructured random inputs and CIFAR-10. Two theories:
that of the population (i.i.d. inputs, the paper's) and that of the data set (the covariance of its points).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.measurement.measuring import measure
from firstlight.papers.figure import PaperFigure
from firstlight.papers.norm.data_sets import TITLES as DATA_TITLES
from firstlight.papers.norm.data_sets import data_set
from firstlight.papers.norm.networks import NORMED, TITLES, perceptron
from firstlight.papers.work import Work
from firstlight.plots.style import PALETTE, house_style
from firstlight.results.guesses import Guesses
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement
from firstlight.theory.predicting import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

DATA = ("noise", "cifar10")
DEPTHS = ("shallow", "deep")
"""One hidden layer, and as many as the settings say."""
_CRITICAL = 1.63
"""√N times the Kolmogorov–Smirnov distance that chance exceeds once in a hundred times."""


def _panels() -> Iterator[tuple[str, str, str, str]]:
    for name in NORMED:
        for depth in DEPTHS:
            for data in DATA:
                yield name, depth, data, f"{name}-{depth}-{data}"


def _compute(work: Work) -> dict[str, Profile]:
    """Measurement and both theories of each network on each data set."""
    samples = {name: data_set(name, work["samples"], seed=work.seed, root=work.data_root) for name in DATA}
    results = {}
    for name, depth, data, key in _panels():
        points = samples[data]
        blueprint = perceptron(name, inputs=points.shape[0], depth=1 if depth == "shallow" else work["depth"])
        made = {
            "population": partial(predict, blueprint, samples=work["samples"]),
            "dataset": partial(predict, blueprint, data=points, draws=work["draws"]),
            "measured": partial(
                measure,
                blueprint,
                points,
                inits=work["inits"],
                seed=work.seed,
                quantities=["guesses", "gamma"],
                layers="output",
                progress=work.progress,
            ),
        }
        for engine, make in made.items():
            results[f"{key}-{engine}"] = work.piece(f"{key}-{engine}", make)
    return results


def _draw(results: Mapping[str, Any]) -> Figure:
    """A column for each norm and data set, a row for each depth and placement."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.2, 6.6), dpi=200)
        axes = figure.subplots(4, 4, sharex=True)
        figure.subplots_adjust(left=0.09, right=0.99, bottom=0.07, top=0.9, wspace=0.3, hspace=0.3)
        for name, depth, data, key in _panels():
            norm, _, placement = name.partition("-")
            row = 2 * DEPTHS.index(depth) + (placement == "after")
            column = 2 * (norm == "layer") + DATA.index(data)
            panel = axes[row, column]
            _draw_laws(panel, results, key)
            panel.set_title(f"{TITLES[name]}, {DATA_TITLES[data]}", fontsize=7)
            if column == 0:
                panel.set_ylabel(f"depth {_layers(results, key)}\ndensity", fontsize=8)
            if row == 3:
                panel.set_xlabel("$G_0$")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper center", ncols=3)
    return figure


def _draw_laws(axes: Axes, results: Mapping[str, Any], key: str) -> None:
    """Both counted on as many points as the measurement, so that a neutral law has its width."""
    measured, population, dataset = (
        results[f"{key}-{engine}"].guesses for engine in ("measured", "population", "dataset")
    )
    points = results[f"{key}-measured"].provenance.settings["samples"]
    spread = float(np.abs(measured.fractions.values[:, 0] - 0.5).max())
    share = max(1, round((1.0 if spread > 0.3 else 2 * spread) * points / 20))  # counts in a bin
    edges = (np.append(np.arange(0, points + 1 - share // 2, share), points + 1) - 0.5) / points
    shown: tuple[tuple[Guesses, str, dict[str, Any]], ...] = (
        (measured, "measured", {"fill": True, "color": "0.8"}),
        (population, "population theory", {"color": PALETTE["vermillion"], "linewidth": 1.3}),
        (
            dataset,
            "data-set theory",
            {"color": PALETTE["blue"], "linewidth": 1.1, "linestyle": (0, (3, 1.2))},
        ),
    )
    for guesses, label, style in shown:
        heights = np.diff(guesses.cdf(edges)) / np.diff(edges)
        axes.stairs(heights, edges, label=label, **style)
    axes.set_xlim(0, 1)
    axes.tick_params(labelsize=6)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    said = [_same_law(results, depth="shallow", data="noise")]
    for data in DATA:
        said += [
            _stays(results, "batch-before", data),
            _grows(results, "layer-before", data),
        ]
    for name, _, data, key in _panels():
        where = f"{TITLES[name]}, depth {_layers(results, key)}, {DATA_TITLES[data]}"
        if name.endswith("after"):
            said.append(_concentrates(results[f"{key}-measured"], where))
        said.append(_fits(results, key, "population", f"{where}: the theory's curve matches (figure 3)"))
        said.append(_fits(results, key, "dataset", f"{where}: data-set theory matches (ours)"))
    return said


def _fits(results: Mapping[str, Any], key: str, engine: str, says: str) -> Statement:
    """Largest distance of two distribution functions against what chance exceeds once in a hundred times."""
    theory, measured = results[f"{key}-{engine}"], results[f"{key}-measured"]
    reach = _CRITICAL / math.sqrt(measured.guesses.draws)
    distance = _distance(theory.guesses, measured.guesses)
    return Statement(
        f"{says}: Kolmogorov–Smirnov distance",
        "<",
        reach,
        distance,
        because=f"γ measured {_told(measured)} at width 100, by theory of infinite width "
        f"{float(theory.gamma[-1]):.3g}" + ("" if distance < reach else f"; {_reason(key, engine)}"),
    )


def _reason(key: str, engine: str) -> str:
    """Why a theory may miss: the networks are 100 wide, and the data are not i.i.d."""
    name, depth, data = key.rsplit("-", 2)
    if name == "batch-after":
        return (
            "batch norm over these very points leaves no centre, so only counting scatters, by the correlations "
            "between points, which differ from those of "
            + ("i.i.d. ones" if engine == "population" else "infinite width")
        )
    if depth == "deep":
        return "over many layers a width of 100 is not infinite"
    return "the pictures are correlated" if data == "cifar10" else "100 units are not infinitely many"


def _layers(results: Mapping[str, Any], key: str) -> int:
    """Hidden layers of that network."""
    return len(results[f"{key}-population"].gamma) - 1


def _told(profile: Profile) -> str:
    """γ of the output with its standard error."""
    return f"{float(profile.gamma[-1]):.3g} ± {float(profile['gamma_stderr'][-1]):.1g}"


def _same_law(results: Mapping[str, Any], *, depth: str, data: str) -> Statement:
    first, second = (results[f"{norm}-before-{depth}-{data}-measured"].guesses for norm in ("batch", "layer"))
    return Statement(
        "BN and LN before the ReLU have the same law in one hidden layer (section 4.1): "
        "Kolmogorov–Smirnov distance",
        "<",
        _CRITICAL * math.sqrt(1 / first.draws + 1 / second.draws),
        _distance(first, second),
    )


def _stays(results: Mapping[str, Any], name: str, data: str) -> Statement:
    return _by_depth(results, name, data, "=", "depth does not amplify the prejudice", "theorem 4.1")


def _grows(results: Mapping[str, Any], name: str, data: str) -> Statement:
    return _by_depth(results, name, data, ">", "depth amplifies the prejudice", "theorem 4.3")


def _by_depth(
    results: Mapping[str, Any], name: str, data: str, relation: str, says: str, where: str
) -> Statement:
    """How much more the favourite gets on average in a deep network than in a shallow one."""
    shallow, deep = (results[f"{name}-{depth}-{data}-measured"] for depth in DEPTHS)
    greatest = [item.guesses.max.values for item in (deep, shallow)]
    errors = [float(values.std(ddof=1)) / math.sqrt(len(values)) for values in greatest]
    return Statement(
        f"{TITLES[name]}, {DATA_TITLES[data]}: {says}; mean of max G_c over many hidden layers − in one ({where})",
        relation,
        0.0,
        float(greatest[0].mean() - greatest[1].mean()),
        math.hypot(*errors),
        because=f"γ as a ratio of averages: {_told(deep)} over many, {_told(shallow)} in one, width 100",
    )


def _concentrates(profile: Profile, where: str) -> Statement:
    assert profile.guesses is not None  # they were asked for
    fractions = profile.guesses.fractions.values[:, 0]
    share = float((np.abs(fractions - 0.5) < 0.1).mean())
    return Statement(
        f"{where}: the law is a narrow peak at ½; more initializations than not have 0.4 < G_0 < 0.6 "
        "(theorems 4.2, 4.4)",
        ">",
        0.5,
        share,
        math.sqrt(share * (1 - share) / len(fractions)),
    )


def _distance(first: Guesses, second: Guesses) -> float:
    places = np.unique(np.concatenate([item.fractions.values[:, 0] for item in (first, second)]))
    return float(np.abs(first.cdf(places) - second.cdf(places)).max())


FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {"samples": 30, "inits": 6, "depth": 2, "draws": 100},
        "small": {"samples": 400, "inits": 250, "depth": 20, "draws": 10_000},
        "paper": {"samples": 20_000, "inits": 5000, "depth": 20, "draws": 100_000},
    },
    departs={"small": ("400 points of each data set and 250 initializations instead of 5,000",)},
)
