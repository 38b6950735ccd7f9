"""Dataset theory against simulated networks on real images: writes one table.

    python benchmarks/agreement_dataset.py                                   # the whole table: an hour on one core
    python benchmarks/agreement_dataset.py --data mnist --depths 1 5 --inits 150
    python benchmarks/agreement_dataset.py --finite 300 --data mnist         # wide theory's misses beside finite width

512 images, pixels of all of them together at mean 0 and variance 1, perceptrons of width 1,000. For each case: γ
simulated with its standard error, γ predicted, their distance in standard errors, and the Kolmogorov–Smirnov
distance of G_0 (of max G for many labels) beside its critical value at 1 %, in the limit of wide layers and where they
are known with the leading 1/width terms. Every case has networks of its own. They
are kept in chunks of 50 below ``results/agreement_dataset``, so a run that is cut short goes on where it stopped, and
a table after a change of the theory simulates nothing anew.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from firstlight import data
from firstlight.architecture.blueprint import Blueprint
from firstlight.results.profile import Profile
from firstlight.theory.predicting_data import predict_on

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results"
TASKS = {"mnist": "mnist:even-odd", "cifar10": "cifar10:c2-b", "tiny_imagenet": "tiny_imagenet"}
NORMS = [(None, None)] + [
    (norm, place) for place in ("before", "after") for norm in ("batch", "layer", "rms")
]
CHUNK = 50
CRITICAL = 1.63
"""Kolmogorov–Smirnov at 1 %, in units of √(1/m + 1/n)."""


@dataclass(frozen=True)
class Case:
    """One network on one data set."""

    data: str
    depth: int
    norm: str | None
    placement: str | None

    @property
    def name(self) -> str:
        return f"{self.data}-{self.depth}-{f'{self.norm}-{self.placement}' if self.norm else 'none'}"

    def blueprint(self, inputs: int, labels: int) -> Blueprint:
        return Blueprint.mlp(
            inputs=inputs,
            depth=self.depth,
            width=1000,
            classes=labels,
            norm=self.norm,
            placement=self.placement,
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", nargs="+", default=list(TASKS), choices=list(TASKS))
    arguments.add_argument("--depths", nargs="+", type=int, default=[1, 5, 20])
    arguments.add_argument("--inits", type=int, default=300)
    arguments.add_argument(
        "--finite", type=int, default=0, help='networks of width="finite" where a case misses'
    )
    options = arguments.parse_args()
    rows = []
    for depth in options.depths:
        for name in options.data:
            inputs, labels = points(name)
            for norm, placement in NORMS:
                case = Case(name, depth, norm, placement)
                rows.append(row(case, inputs, labels, options.inits, options.finite))
                print(" ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
                (RESULTS / "agreement_dataset.json").write_text(
                    json.dumps(rows, indent=1) + "\n", encoding="utf-8"
                )
    for title, prefix in (
        ("in the limit", ""),
        ("with leading 1/width terms where they are known", "leading_"),
    ):
        near = sum(abs(found.get(f"{prefix}distance", found["distance"])) < 3 for found in rows)
        below = sum(found.get(f"{prefix}ks", found["ks"]) < found["critical"] for found in rows)
        print(
            f"{len(rows)} cases {title}: gamma within 3 standard errors in {near}, "
            f"KS below its 1 % value in {below}"
        )


def points(name: str) -> tuple[Array, int]:
    """Images as one matrix, and the number of labels."""
    samples = data.load(TASKS[name], samples=512, standardize="none", flatten=True)
    inputs = samples.inputs.numpy().astype(np.float64).reshape(len(samples), -1)
    return (inputs - inputs.mean()) / inputs.std(), len(samples.label_names)


def row(case: Case, inputs: Array, labels: int, inits: int, finite: int) -> dict[str, object]:
    """Theory beside the networks of one case."""
    blueprint = case.blueprint(inputs.shape[1], labels)
    began = time.perf_counter()
    profile = predict_on(blueprint, inputs, draws=None if labels == 2 else 2000)
    seconds = time.perf_counter() - began
    center, spread, guesses = simulated(case, blueprint, inputs, labels, inits).T
    gamma, stderr = ratio(center, spread)
    draws = len(profile.guesses.fractions)

    def scores(profile: Profile) -> list[float]:
        """γ, how many standard errors it is off, and the Kolmogorov–Smirnov distance of the guesses."""
        predicted = float(profile.gamma[-1])
        drawn = one_fraction(np.asarray(profile.guesses.fractions))
        # single precision leaves a γ of 1e-12 where theory has 0
        distance = (predicted - gamma) / max(stderr, 1e-9)
        return [round(predicted, 4), round(distance, 2), round(float(ks_2samp(drawn, guesses).statistic), 4)]

    found: dict[str, object] = {
        "data": case.data,
        "depth": case.depth,
        "norm": f"{case.norm} {case.placement}" if case.norm else "none",
        "simulated": round(gamma, 4),
        "stderr": round(stderr, 4),
        **dict(zip(("predicted", "distance", "ks"), scores(profile), strict=True)),
        "critical": round(CRITICAL * math.sqrt(1 / inits + 1 / draws), 4),
        "seconds": round(seconds, 2),
    }
    if case.placement != "before":
        leading = predict_on(blueprint, inputs, draws=None if labels == 2 else 2000, width="leading")
        found.update(zip(("leading", "leading_distance", "leading_ks"), scores(leading), strict=True))
    if finite and (abs(found["distance"]) >= 3 or found["ks"] >= found["critical"]):
        narrow = predict_on(blueprint, inputs, width="finite", inits=finite, seed=1)
        error = max(math.hypot(stderr, float(narrow["gamma_stderr"][-1])), 1e-9)
        of_narrow = one_fraction(np.asarray(narrow.guesses.fractions))
        found["finite"] = round(float(narrow.gamma[-1]), 4)
        found["finite_distance"] = round((found["finite"] - gamma) / error, 2)
        found["finite_ks"] = round(float(ks_2samp(of_narrow, guesses).statistic), 4)
        found["finite_critical"] = round(CRITICAL * math.sqrt(1 / inits + 1 / finite), 4)
    return found


def simulated(case: Case, blueprint: Blueprint, inputs: Array, labels: int, inits: int) -> Array:
    """C, V and the fraction of each network, (init, 3): read where they are there, else drawn and kept."""
    found = []
    module, batch = None, torch.from_numpy(inputs).float()
    for number in range(math.ceil(inits / CHUNK)):
        path = RESULTS / "agreement_dataset" / f"{case.name}-{number:02}.npy"
        if not path.exists():
            module = module or blueprint.build(seed=0).train()
            generator = torch.Generator().manual_seed(zlib.crc32(path.stem.encode()))
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, np.array([drawn(blueprint, module, batch, generator) for _ in range(CHUNK)]))
        found.append(np.load(path))
    return np.concatenate(found)[:inits]


@torch.no_grad()
def drawn(
    blueprint: Blueprint, module: torch.nn.Module, batch: torch.Tensor, generator: torch.Generator
) -> tuple[float, float, float]:
    """C, V and G_0 (max G for many labels) of one network."""
    blueprint.initialize(module, generator)
    outputs = module(batch).double().numpy()
    counts = np.bincount(outputs.argmax(axis=1), minlength=outputs.shape[1]) / len(outputs)
    return (
        (outputs.mean(axis=0) ** 2).mean(),
        outputs.var(axis=0).mean(),
        float(one_fraction(counts[None])[0]),
    )


def one_fraction(fractions: Array) -> Array:
    """G_0 of two labels, max G of more."""
    return fractions[:, 0] if fractions.shape[1] == 2 else fractions.max(axis=1)


def ratio(center: Array, spread: Array) -> tuple[float, float]:
    """Ratio of means with its standard error."""
    gamma = float(center.mean() / spread.mean())
    departure = (center - gamma * spread) / spread.mean()
    return gamma, float(departure.std(ddof=1)) / math.sqrt(len(center))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
