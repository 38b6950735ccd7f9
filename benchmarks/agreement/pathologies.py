"""Labatie's fully-connected nets on CIFAR-10: sensitivity, ranks and moments by depth, beside the recorded curves.

    FIRSTLIGHT_DATA=DIR python benchmarks/agreement/pathologies.py --simulations 100

Depth 200 (residual: 100 units of two layers), width 512. A fresh batch of 64 training pictures for each simulation,
drawn without replacement, flattened and standardized per pixel over the batch; batch norm with ε = 1e-3.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from chunks import complete, computed, write_table

import firstlight as fl
from firstlight.data import load
from firstlight.measurement.pooling import pool
from firstlight.measurement.simulating import simulate
from firstlight.models import batch_norm_feedforward_net, batch_norm_residual_net, vanilla_net

PIXELS, WIDTH, DEPTH, UNITS, BATCH, CHUNK = 3072, 512, 200, 100, 64, 10
QUANTITIES = [
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
]
RECORDED = {2: 0.507, 10: 2.183, 20: 4.248, 40: 8.383, 200: 41.42}
"""Mean log χ of the batch-normalized feed-forward net by Labatie's own program."""
AT = (2, 10, 20, 40, 100, 200)


def batches(count: int, *, seed: int) -> Iterator[torch.Tensor]:
    """Fresh batches: flattened, then standardized per pixel; pixels that are constant in a batch become 0."""
    pictures = load("cifar10").flatten()
    order = np.random.default_rng(seed).permutation(len(pictures))
    for number in range(count):
        chosen = torch.from_numpy(order[number * BATCH : (number + 1) * BATCH])
        pixels = pictures.take(chosen).inputs.double()
        spread = pixels.std(0, correction=0)
        yield ((pixels - pixels.mean(0)) / spread.where(spread > 0, torch.inf)).float()


def vanilla() -> torch.nn.Module:
    """linear → ReLU."""
    return vanilla_net(PIXELS, depth=DEPTH, width=WIDTH, kernel=None)


def feedforward() -> torch.nn.Module:
    """linear → BN → ReLU."""
    return batch_norm_feedforward_net(PIXELS, depth=DEPTH, width=WIDTH, kernel=None)


def residual() -> torch.nn.Module:
    """x + [BN → ReLU → linear] × 2."""
    return batch_norm_residual_net(PIXELS, units=UNITS, width=WIDTH, kernel=None)


def _in_chain(name: str, module: torch.nn.Module) -> bool:
    return name.startswith(("linear", "norm", "activation"))


def _in_units(name: str, module: torch.nn.Module) -> bool:
    return name.startswith("unit")


NETS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[[str, torch.nn.Module], bool]]] = {
    "feedforward": (feedforward, _in_chain),
    "vanilla": (vanilla, _in_chain),
    "residual": (residual, _in_units),
}


def run(net: str, chunk: int) -> None:
    """Simulate one chunk unless it is there."""
    factory, layers = NETS[net]

    def measure(seed: int) -> fl.Profile:
        return simulate(factory, batches(CHUNK, seed=seed), seed=seed, quantities=QUANTITIES, layers=layers)

    computed(f"pathologies/{net}", chunk, measure)


def rows_of(net: str, profile: fl.Profile) -> list[dict[str, Any]]:
    """What is reported of one net at some depths."""
    rows = []
    for depth in AT:
        if net == "residual":
            if depth > UNITS:
                continue
            # as in figure 5: χ behind a unit, everything else at its first layer
            whole = f"unit{depth}"
            bent, normed = (f"unit{depth}.branch.{name}1" for name in ("activation", "norm"))
        else:
            whole = bent = f"activation{depth}"
            normed = f"norm{depth}" if net == "feedforward" else f"linear{depth}"
        row: dict[str, Any] = {"net": net, "depth": depth, "simulations": len(profile["gamma_init"])}
        logs = at(profile, "log_sensitivity_init", whole)
        row["log_sensitivity"] = spread_of(logs)
        row["log_data_variance"] = spread_of(np.log(at(profile, "data_variance_init", whole)))
        for name in ("effective_rank", "noise_effective_rank"):
            row[name] = spread_of(at(profile, f"{name}_init", bent))
        row["kurtosis"] = spread_of(at(profile, "kurtosis_init", normed))
        row["mean_absolute"] = spread_of(at(profile, "mean_absolute_init", normed))
        row["increment_norm"] = spread_of(at(profile, "sensitivity_increment_norm_init", normed))
        row["increment_activation"] = spread_of(at(profile, "sensitivity_increment_activation_init", bent))
        if net == "feedforward":
            row["recorded_log_sensitivity"] = RECORDED.get(depth)
        rows.append(row)
    return rows


def at(profile: fl.Profile, name: str, layer: str) -> np.ndarray:
    """Per-simulation values at a layer."""
    return np.asarray(profile.variables[name].values[:, profile.layers.index(layer)])


def spread_of(values: np.ndarray) -> dict[str, float] | None:
    """Mean, its standard error, standard deviation and the 16th and 84th percentiles."""
    if not np.isfinite(values).all():
        return None
    deviation = float(values.std(ddof=1))
    low, middle, high = np.percentile(values, (16, 50, 84))
    return {
        "mean": float(values.mean()),
        "stderr": deviation / np.sqrt(len(values)),
        "sd": deviation,
        "p16": float(low),
        "median": float(middle),
        "p84": float(high),
    }


def main() -> None:
    """Simulate what is missing, and write the table of all that is there."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--simulations", type=int, default=100, help=f"of each net, by {CHUNK}")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    for chunk in range(-(-options.simulations // CHUNK)):
        for net in NETS:
            run(net, chunk)
    rows = [row for net in NETS for row in rows_of(net, pool(complete(f"pathologies/{net}")))]
    settings = {"width": WIDTH, "depth": DEPTH, "residual_units": UNITS, "batch": BATCH, "epsilon": 1e-3}
    print(write_table("pathologies", settings, rows))


if __name__ == "__main__":
    main()
