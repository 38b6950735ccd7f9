"""Filtered training: initializations sorted by their G_0, then trained; what figures 2, 4 and G.1 to G.8 share.

Enters: a figure's settings and the names of networks. Leaves: for each network its ``births`` (guess fractions of all
that were drawn) and its ``runs`` (a ``Trajectory`` with a training and a test split). The pieces are common, so that a
figure of the training set and one of the test set are two views of the same runs.

A start is neutral where |f_0 − f_1| < 0.1 and prejudiced where it is > 0.9, on the training set in train mode
(appendix G.2). Rank 0 of a run is the class that it preferred at birth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from firstlight.errors import CouldNotError
from firstlight.papers.norm.data_sets import data_set
from firstlight.papers.norm.networks import perceptron
from firstlight.papers.work import Work
from firstlight.results.arrays import Arrays
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory
from firstlight.training.filtering import filter_initializations
from firstlight.training.recipes import Recipe
from firstlight.training.running import train

__all__ = ["NEUTRAL", "PREJUDICED", "SETTINGS", "departures", "filtered_runs", "group"]

NEUTRAL, PREJUDICED = 0.1, 0.9
"""Thresholds of |f_0 − f_1|, from the paper's programs."""

_SHALLOW = {"depth": 1, "rates": {"plain": 1e-5, "batch": 1e-5, "layer": 1e-5}}
_DEEP = {"depth": 20, "rates": {"batch": 5e-4, "layer": 1e-3}}
_PAPER = {
    "samples": None,
    "test_samples": None,
    "batch_size": 512,
    "epochs": 80,
    "runs": 20,
    "redraws": 1000,
    "least_draws": 5000,
}
_SMOKE = {
    "samples": 64,
    "test_samples": 32,
    "batch_size": 32,
    "epochs": 2,
    "runs": 1,
    "redraws": 5,
    "least_draws": 5,
}


_WHOLE: Mapping[str, Any] = {"samples": None, "test_samples": None}


def _scales(data: str, model: Mapping[str, Any], **small: Any) -> dict[str, dict[str, Any]]:
    base = {"data": data, **model}
    return {
        "smoke": {**base, **_SMOKE},
        "small": {**base, "batch_size": 512, "redraws": 300, "least_draws": 300, **small},
        "paper": {**base, **_PAPER},
    }


SETTINGS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "gaussian": _scales("gaussian", _SHALLOW, **_WHOLE, looked_at=4096, epochs=24, runs=3),
    "c2-b": _scales(
        "c2-b", _SHALLOW, samples=2048, test_samples=1000, epochs=60, runs=3, redraws=150, least_draws=150
    ),
    "even-odd": _scales("even-odd", _SHALLOW, samples=3072, test_samples=1000, epochs=50, runs=3),
    "gaussian-deep": _scales(
        "gaussian", _DEEP, **_WHOLE, looked_at=2048, epochs=4, runs=3, redraws=150, least_draws=150
    ),
}
"""By experiment and scale."""


def departures(experiment: str) -> dict[str, tuple[str, ...]]:
    """How the small scale is not the paper's, in a sentence."""
    small, paper = SETTINGS[experiment]["small"], SETTINGS[experiment]["paper"]
    said = [
        f"{small['epochs']} epochs instead of {paper['epochs']}, up to {small['runs']} runs of each group, "
        f"{small['redraws']} draws without a find end the search (paper's program: {paper['redraws']}); learning rate "
        "and batch size are the paper's"
    ]
    if small["samples"] is not None:
        said.append(f"{small['samples']:,} training points, drawn from all")
    if "looked_at" in small:
        said.append(f"starts and records are counted on {small['looked_at']:,} of the training points")
    return {"small": tuple(said)}


def filtered_runs(work: Work, networks: Iterable[str]) -> dict[str, Any]:
    """``NAME-births`` and ``NAME-runs`` of each network."""
    results: dict[str, Any] = {}
    load = _loader(work)
    for name in networks:
        rate = work["rates"][name.partition("-")[0]]
        made_from = {**work.settings, "rates": rate, "network": name, "seed": work.seed}
        place = f"{work['data']}-{work['depth']}-{name}"
        births = work.common_piece(f"births-{place}", made_from, partial(_births, work, name, load))
        runs = work.common_piece(f"runs-{place}", made_from, partial(_runs, work, name, rate, births, load))
        results |= {f"{name}-births": births, f"{name}-runs": runs}
    return results


def group(results: Mapping[str, Any], name: str, kind: str) -> Trajectory | None:
    """Runs of a network that were born ``"neutral"``, ``"prejudiced"`` or are ``"unfiltered"``; None for none."""
    runs: Trajectory = results[f"{name}-runs"]
    try:
        if kind == "neutral":
            return runs.neutral(NEUTRAL)
        if kind == "prejudiced":
            return runs.prejudiced(PREJUDICED)
        first = int(results[f"{name}-births"]["unfiltered"])
        return runs.select(np.asarray(runs.coordinates["init"].values) < first)
    except CouldNotError:
        return None


Loader = Callable[[bool], Any]


def _loader(work: Work) -> Loader:
    """Training or test data, read when they are first asked for."""
    read: dict[bool, Any] = {}

    def load(train: bool) -> Any:
        if train not in read:
            samples = work["samples" if train else "test_samples"]
            read[train] = data_set(work["data"], samples, seed=work.seed, root=work.data_root, train=train)
        return read[train]

    return load


def _births(work: Work, name: str, load: Loader) -> Arrays:
    """Draw until both groups are full, or many draws in a row brought nothing."""
    data = load(True)
    blueprint = perceptron(name, inputs=data.shape[0], depth=work["depth"])
    found = filter_initializations(
        blueprint,
        data,
        runs=work["runs"],
        neutral_below=NEUTRAL,
        prejudiced_above=PREJUDICED,
        redraws=work["redraws"],
        max_samples=work.settings.get("looked_at"),
        least_draws=work["least_draws"],
        seed=work.seed,
        progress=work.progress,
    )
    chosen = np.isin(np.arange(found.drawn), [*found.neutral, *found.prejudiced])
    # behind a norm that follows the ReLU, and without one, random draws are trained as they come, too
    unfiltered = 0 if name.endswith("before") else min(work["runs"], found.drawn)
    return Arrays.of(
        {
            "fractions": (("init", "label"), found.fractions),
            "chosen": ("init", chosen),
            "unfiltered": ((), unfiltered),
        },
        provenance=Provenance(
            "measurement",
            blueprint.describe(),
            data.description,
            seed=work.seed,
            mode="train",
            settings={name: work[name] for name in ("runs", "redraws", "least_draws")},
        ),
    )


def _runs(work: Work, name: str, rate: float, births: Arrays, load: Loader) -> Trajectory:
    """Train what was chosen; where nothing was, the first draw, so that there is something to look at."""
    data = load(True)
    numbers = {*np.flatnonzero(births["chosen"].values).tolist(), *range(int(births["unfiltered"]))} or {0}
    return train(
        perceptron(name, inputs=data.shape[0], depth=work["depth"]),
        data,
        test=load(False),
        recipe=Recipe(rate=rate, batch_size=work["batch_size"], epochs=work["epochs"]),
        runs=sorted(numbers),
        evaluation_samples=work.settings.get("looked_at"),
        seed=work.seed,
        progress=work.progress,
    )
