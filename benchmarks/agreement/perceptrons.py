"""Perceptrons of width 1,000 (one and twenty hidden layers), every norm and placement, beside theory.

    python benchmarks/agreement/perceptrons.py --inits 300

Inputs: 500 points of 1,000 independent N(0, 1) coordinates, the same for all initializations.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from chunks import complete, computed, write_table
from scipy.special import digamma, polygamma
from scipy.stats import binom

import firstlight as fl
from firstlight.data.gaussian import gaussian_noise
from firstlight.measurement.pooling import pool
from firstlight.theory.predicting_data import predict_on

NORMS = [
    (None, None),
    ("layer", "before"),
    ("batch", "before"),
    ("rms", "before"),
    ("batch", "after"),
    ("layer", "after"),
    ("rms", "after"),
]
QUANTITIES = ["guesses", "gamma", "center_variance", "data_variance", "mean_square"]
NARROW_RUNS = [(None, None, False), (None, None, True), ("layer", "before", False)]
POINTS, DIMENSIONS, WIDTH, NARROW, CHUNK = 500, 1000, 1000, 100, 50


def blueprint_of(depth: int, norm: str | None, placement: str | None, *, width: int = WIDTH) -> fl.Blueprint:
    """The perceptron."""
    return fl.Blueprint.mlp(
        inputs=DIMENSIONS,
        depth=depth,
        width=width,
        classes=2,
        activation="relu",
        norm=norm,
        placement=placement,
    )


def points() -> torch.Tensor:
    """The data set."""
    return gaussian_noise(POINTS, DIMENSIONS, seed=2026).inputs


def name_of(depth: int, norm: str | None, placement: str | None) -> str:
    """Where its chunks are."""
    return f"perceptrons/depth{depth}-{norm or 'none'}-{placement or 'none'}"


def run(depth: int, norm: str | None, placement: str | None, chunk: int) -> None:
    """Measure one chunk unless it is there."""
    blueprint, data = blueprint_of(depth, norm, placement), points()

    def measure(seed: int) -> fl.Profile:
        return fl.measure(blueprint, data, inits=CHUNK, seed=seed, quantities=QUANTITIES, progress=False)

    computed(name_of(depth, norm, placement), chunk, measure)


def theories(
    depth: int, norm: str | None, placement: str | None, data: torch.Tensor
) -> tuple[fl.Profile, fl.Profile]:
    """Population theory, with batch norm seeing as many points as there are, and theory of these very points."""
    blueprint = blueprint_of(depth, norm, placement)
    population = fl.predict(blueprint, batch_size=len(data) if norm == "batch" else None)
    return population, predict_on(blueprint, data)


def row_of(
    depth: int, norm: str | None, placement: str | None, measured: fl.Profile, data: torch.Tensor
) -> dict[str, Any]:
    """One network beside both theories."""
    row: dict[str, Any] = {
        "depth": depth,
        "norm": norm,
        "placement": placement,
        "initializations": len(measured["gamma_init"]),
        "gamma": float(measured.gamma[-1]),
        "stderr": float(measured["gamma_stderr"][-1]),
    }
    for name, theory in zip(("population", "dataset"), theories(depth, norm, placement, data), strict=True):
        found = fl.compare(theory, measured, seed=depth)
        z = np.asarray(found.z().values)
        row[name] = {
            "gamma": float(found["gamma_reference"][-1]),
            "z": float(z[-1]),
            "guess_distance": found.distance,
            "guess_p_value": found.p_value,
            "hidden_gamma": [float(value) for value in found["gamma_reference"].values[:-1]],
            "hidden_z": [float(value) for value in z[:-1]],
        }
        layers = [str(name) for name in found.coordinates["layer"].values[:-1]]
    row["hidden_layers"] = layers
    places = [measured.layers.index(name) for name in layers]
    row["hidden_gamma"] = [float(measured.gamma[place]) for place in places]
    row["hidden_stderr"] = [float(measured["gamma_stderr"][place]) for place in places]
    return row


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the family holds at level a while the least of them is at least a (Holm 1979)."""
    order = np.argsort(p_values)
    steps = np.asarray(p_values)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in adjusted]


def run_narrow(norm: str | None, placement: str | None, agreeing: bool, chunk: int) -> None:
    """Measure one chunk of the net of width 100, on independent points or on points that agree (c = 0.99)."""
    blueprint = blueprint_of(20, norm, placement, width=NARROW)
    data = (
        gaussian_noise(100, DIMENSIONS, mean=0.99**0.5, variance=0.01, seed=2027).inputs
        if agreeing
        else points()
    )

    def measure(seed: int) -> fl.Profile:
        layers = ["linear*", "activation*"]
        return fl.measure(
            blueprint, data, inits=CHUNK, seed=seed, quantities=QUANTITIES, layers=layers, progress=False
        )

    computed(narrow_name(norm, placement, agreeing), chunk, measure)


def narrow_name(norm: str | None, placement: str | None, agreeing: bool) -> str:
    """Where its chunks are."""
    return f"perceptrons/narrow-{norm or 'none'}-{placement or 'none'}{'-agreeing' * agreeing}"


def one_layer(width: int) -> tuple[float, float]:
    """Mean and variance of log (2/N) Σ ReLU(z)², exactly: K ~ Binomial(N, ½) units are on, and their sum is χ²_K."""
    active = np.arange(1, width + 1)
    probability = binom.pmf(active, width, 0.5)
    means = digamma(active / 2) + np.log(4 / width)
    mean = float(probability @ means)
    return mean, float(probability @ (polygamma(1, active / 2) + means**2)) - mean**2


def scale_of(norm: str | None, agreeing: bool, measured: fl.Profile) -> dict[str, Any]:
    """Law over initializations of log ν2 behind the ReLUs, beside N(−5l/2N, 5l/N) and the exact law of one point."""
    mean, variance = one_layer(NARROW)
    rows = []
    for number in (1, 2, 5, 10, 15, 20):
        values = measured["mean_square_init"].values[:, measured.layers.index(f"activation{number}")]
        logs = np.log(values)
        count, deviation = len(logs), float(logs.std(ddof=1))
        rows.append(
            {
                "layer": number,
                "median": float(np.median(logs)),
                "median_stderr": deviation * float(np.sqrt(np.pi / 2 / count)),
                "mean": float(logs.mean()),
                "mean_stderr": deviation / float(np.sqrt(count)),
                "sd": deviation,
                "sd_stderr": deviation / float(np.sqrt(2 * (count - 1))),
                "mean_of_one_point": number * mean,
                "sd_of_one_point": float(np.sqrt(number * variance)),
                "median_by_section_6": -5 * number / (2 * NARROW),
                "sd_by_section_6": float(np.sqrt(5 * number / NARROW)),
            }
        )
    return {
        "width": NARROW,
        "norm": norm,
        "points": "agreeing" if agreeing else "independent",
        "initializations": len(measured["gamma_init"]),
        "gamma": float(measured.gamma[-1]),
        "stderr": float(measured["gamma_stderr"][-1]),
        "log_mean_square": rows,
    }


def table() -> dict[str, Any]:
    """Everything that is there."""
    data = points()
    rows = []
    for depth in (1, 20):
        for norm, placement in NORMS:
            chunks = complete(name_of(depth, norm, placement))
            if chunks:
                rows.append(row_of(depth, norm, placement, pool(chunks), data))
    for name in ("population", "dataset"):
        # where theory and measurement are neutral alike, every point is guessed at random or by rounding alone
        for row, adjusted in zip(rows, holm([row[name]["guess_p_value"] for row in rows]), strict=True):
            row[name]["guess_p_value_holm"] = adjusted
    narrow = [
        scale_of(norm, agreeing, pool(chunks))
        for norm, placement, agreeing in NARROW_RUNS
        if (chunks := complete(narrow_name(norm, placement, agreeing)))
    ]
    return {"wide": rows, "narrow": narrow}


def main() -> None:
    """Measure what is missing, and write the table of all that is there."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument(
        "--inits", type=int, default=300, help=f"initializations of each network, by {CHUNK}"
    )
    arguments.add_argument(
        "--deep-inits", type=int, help="as many of the deep ones, where that takes too long"
    )
    options = arguments.parse_args()
    torch.set_num_threads(1)
    for chunk in range(-(-options.inits // CHUNK)):
        for norm, placement in NORMS:
            run(1, norm, placement, chunk)
        for norm, placement, agreeing in NARROW_RUNS:
            run_narrow(norm, placement, agreeing, chunk)
    for chunk in range(-(-(options.deep_inits or options.inits) // CHUNK)):
        for norm, placement in NORMS:
            run(20, norm, placement, chunk)
    settings = {"points": POINTS, "dimensions": DIMENSIONS, "width": WIDTH}
    print(write_table("perceptrons", settings, [table()]))


if __name__ == "__main__":
    main()
