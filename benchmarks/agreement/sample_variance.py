"""Luther & Seung: slope of the gradient's mean square, and the mean-std ratio by width, for depth 50.

    python benchmarks/agreement/sample_variance.py --networks 30 --widths 30 100 300 1000

100 inputs of as many N(0, 1) coordinates as the net is wide, one data set for each width. Gradients of a random linear
read-out of the last activation, one for all inputs. Kaiming: linear → ReLU; batch norm: linear → BN → ReLU, all inputs
in one batch.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from chunks import complete, computed, write_table
from torch import nn

import firstlight as fl
from firstlight.data.gaussian import gaussian_noise
from firstlight.measurement.pooling import pool
from firstlight.papers.variance.relu_nets import relu_net, total, with_read_out

DEPTH, POINTS = 50, 100
WIDTHS = (30, 100, 300, 1000)
QUANTITIES = ["gamma", "center_variance", "data_variance", "mean_square", "gradient_scale"]
SLOPES = {"batch": float(np.log(1 - 1 / np.pi)), "kaiming": 0.0}
AT = (1, 2, 5, 10, 20, 30, 40, 50)


def chunk_of(width: int) -> int:
    """Networks in a chunk."""
    return 10 if width <= 300 else 2


def run(kind: str, width: int, chunk: int) -> None:
    """Measure one chunk unless it is there."""
    data = gaussian_noise(POINTS, width, seed=50).inputs

    def factory() -> nn.Module:
        return with_read_out(relu_net(width, DEPTH, batch_norm=kind == "batch"), width)

    def measure(seed: int) -> fl.Profile:
        return fl.measure(
            factory,
            data,
            inits=chunk_of(width),
            seed=seed,
            quantities=QUANTITIES,
            layers=["linear*", "activation*"],
            loss=total,
            progress=False,
        )

    computed(f"sample_variance/{kind}-width{width}", chunk, measure)


def slopes(profile: fl.Profile, *, depth: int = DEPTH) -> np.ndarray:
    """Least-squares slope of log ⟨(∂L/∂x^l)²⟩ against l, for each network, from layer 1 to the last."""
    columns = [profile.layers.index(f"activation{number}") for number in range(1, depth + 1)]
    logs = profile.variables["log_gradient_scale_init"].values[:, columns]
    return np.asarray(np.polyfit(np.arange(1, depth + 1), logs.T, 1)[0])


def theory_ratio(*, depth: int = DEPTH) -> np.ndarray:
    """√γ by layer in the limit of infinite width, without norm."""
    blueprint = fl.Blueprint.mlp(inputs=1000, depth=depth, width=1000, classes=2, activation="relu")
    return np.sqrt(np.asarray(fl.predict(blueprint).gamma.values)[:depth])


def summary(values: np.ndarray) -> dict[str, float]:
    """Mean over networks, its standard error, and the standard deviation."""
    deviation = float(values.std(ddof=1))
    return {"mean": float(values.mean()), "stderr": deviation / np.sqrt(len(values)), "sd": deviation}


def row_of(kind: str, width: int, profile: fl.Profile) -> dict[str, Any]:
    """What is reported of one ensemble."""
    found = slopes(profile)
    row: dict[str, Any] = {
        "kind": kind,
        "width": width,
        "networks": len(found),
        "slope": summary(found),
        "slope_theory": SLOPES[kind],
    }
    if kind == "kaiming":
        curve = theory_ratio()
        ratios = profile.variables["mean_std_ratio_init"].values
        gamma, error = profile.gamma.values, profile.variables["gamma_stderr"].values
        row["mean_std_ratio"] = [
            {
                "layer": number,
                "theory": float(curve[number - 1]),
                **summary(ratios[:, profile.layers.index(f"linear{number}")]),
                "gamma_of_averages": float(gamma[profile.layers.index(f"linear{number}")]),
                "gamma_stderr": float(error[profile.layers.index(f"linear{number}")]),
            }
            for number in AT
        ]
    return row


def main() -> None:
    """Measure what is missing, and write the table of all that is there."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--networks", type=int, default=30, help="of each kind and width")
    arguments.add_argument("--widths", type=int, nargs="+", default=list(WIDTHS))
    options = arguments.parse_args()
    torch.set_num_threads(1)
    for width in options.widths:
        for chunk in range(-(-options.networks // chunk_of(width))):
            for kind in SLOPES:
                run(kind, width, chunk)
    rows = []
    for kind in SLOPES:
        for width in (30, 100, 300, 1000, 3000):
            chunks = complete(f"sample_variance/{kind}-width{width}")
            if chunks:
                rows.append(row_of(kind, width, pool(chunks)))
    print(write_table("sample_variance", {"depth": DEPTH, "points": POINTS, "epsilon": 1e-5}, rows))


if __name__ == "__main__":
    main()
