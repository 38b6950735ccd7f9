"""Draws ``dataset_theory.svg``: how networks with one hidden layer guess on 512 MNIST images, by both theories
and by simulation.

    FIRSTLIGHT_DATA=… python docs/figures/dataset_theory.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch

import firstlight as fl
from firstlight import data
from firstlight.theory.predicting_data import predict_on

CASES = {
    "no norm": (None, None),
    "batch norm before": ("batch", "before"),
    "layer norm after": ("layer", "after"),
}
INITS = 300


def main() -> None:
    matplotlib.rcParams["svg.hashsalt"] = "firstlight"
    samples = data.load("mnist:even-odd", samples=512, standardize="none", flatten=True)
    inputs = samples.inputs.numpy().astype(np.float64).reshape(len(samples), -1)
    inputs = (inputs - inputs.mean()) / inputs.std()
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.1), sharey=True, layout="constrained")
    grid = np.linspace(0.001, 0.999, 400)
    for axis, (title, (norm, placement)) in zip(axes, CASES.items(), strict=True):
        blueprint = fl.Blueprint.mlp(inputs=784, depth=1, width=1000, norm=norm, placement=placement)
        population, profile = fl.predict(blueprint, samples=512), predict_on(blueprint, inputs)
        drawn = np.sort(np.asarray(profile.guesses.fractions)[:, 0])[::20]
        seen = np.sort(simulated(blueprint, inputs))
        axis.step(seen, np.arange(1, INITS + 1) / INITS, where="post", color="0.55", lw=1.5)
        axis.plot(drawn, np.arange(1, len(drawn) + 1) / len(drawn), color="C0")
        axis.plot(grid, np.asarray(population.guesses.cdf(grid)), color="C3", ls="--", lw=1)
        axis.set(title=title, xlabel="fraction guessed as even", xlim=(0, 1))
        print(
            f"{title}: γ = {float(profile.gamma[-1]):.2f}, for i.i.d. inputs {float(population.gamma[-1]):.2f}"
        )
    axes[0].set_ylabel("share of initializations below")
    names = [f"{INITS} networks", "dataset theory", "i.i.d. inputs"]
    axes[0].legend(axes[0].lines, names, loc="upper left", fontsize="small", frameon=False)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


def simulated(blueprint: fl.Blueprint, inputs: np.ndarray) -> np.ndarray:
    module, generator = blueprint.build(seed=0).train(), torch.Generator().manual_seed(0)
    batch, found = torch.from_numpy(inputs).float(), np.empty(INITS)
    with torch.no_grad():
        for init in range(INITS):
            blueprint.initialize(module, generator)
            found[init] = float((module(batch).argmax(dim=1) == 0).double().mean())
    return found


if __name__ == "__main__":
    main()
