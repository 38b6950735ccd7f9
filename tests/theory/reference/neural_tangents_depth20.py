"""Writes ``neural_tangents_depth20.json``: infinite-width kernels by an independent implementation.

Needs an environment with neural-tangents 0.6.5, jax 0.5.3 and jaxlib 0.5.3; run it there.
"""

import json
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from neural_tangents import stax  # noqa: E402

DEPTH = 20
ACTIVATIONS = {"relu": stax.Relu, "erf": stax.Erf, "gelu": stax.Gelu}


def main() -> None:
    inputs = np.random.default_rng(7).standard_normal((6, 5)) * 1.3 + 0.4
    record = {
        "inputs": inputs.tolist(),
        "depth": DEPTH,
        "weight_variance": 2.0,
        "bias_variance": 0.0,
        "kernels": {},
    }
    for name, activation in ACTIVATIONS.items():
        layers = []
        for _ in range(DEPTH):
            layers += [stax.Dense(1, W_std=2**0.5, b_std=0.0), activation()]
        kernel = stax.serial(*layers, stax.Dense(1, W_std=2**0.5, b_std=0.0))[2]
        record["kernels"][name] = np.asarray(kernel(inputs, None, "nngp")).tolist()
    Path(__file__).with_suffix(".json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
