"""Covariance of the outputs on 2,000 points at depth 20, side by side with neural-tangents where it is installed.

``NEURAL_TANGENTS_PYTHON`` names a python that has it (0.6.5 with jax 0.5.3). Its second call in this very run, in
float32, its default, then sets the targets: a quarter of its time for ReLU, two thirds for erf and GELU. Ours is
float64 throughout. Without it ours is reported alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import numpy as np
from row import Row, median_seconds

from firstlight.architecture.blueprint import Blueprint
from firstlight.theory.predicting_data import covariance_of_outputs, predict_on

POINTS, DIMENSION, DEPTH = 2000, 1000, 20
SHARES = {"relu": 1 / 4, "erf": 1 / 1.5, "gelu": 1 / 1.5}

PEER = f"""
import json, sys, time
import jax, numpy as np
jax.config.update("jax_enable_x64", sys.argv[1] == "64")
from neural_tangents import stax
found = {{}}
inputs = np.random.default_rng(0).standard_normal(({POINTS}, {DIMENSION}))
for name, activation in (("relu", stax.Relu), ("erf", stax.Erf), ("gelu", stax.Gelu)):
    layers = []
    for _ in range({DEPTH}):
        layers += [stax.Dense(1, W_std=2**0.5, b_std=0.0), activation()]
    kernel = stax.serial(*layers, stax.Dense(1, W_std=2**0.5, b_std=0.0))[2]
    kernel = jax.jit(kernel, static_argnames=("get", "x2"))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        kernel(inputs, None, "nngp").block_until_ready()
        times.append(time.perf_counter() - began)
    found[name] = min(times[1:])
print(json.dumps(found))
"""


def measure() -> Iterator[Row]:
    """Ours, theirs, and the memory of ours in units of one matrix."""
    inputs = np.random.default_rng(0).standard_normal((POINTS, DIMENSION))
    theirs, theirs_double = peer("32"), peer("64")
    for name, share in SHARES.items():
        blueprint = Blueprint.mlp(inputs=DIMENSION, depth=DEPTH, activation=name)
        label = f"{name}, {POINTS} points, depth {DEPTH}"
        target = theirs[name] * share if name in theirs else None
        seconds = median_seconds(
            lambda blueprint=blueprint: covariance_of_outputs(blueprint, inputs), repeats=5
        )
        yield Row(label, seconds, "s", target)
        if name in theirs:
            yield Row(f"{label}, neural-tangents, its default float32", theirs[name], "s")
            yield Row(f"{label}, neural-tangents, float64 as ours", theirs_double[name], "s")
        tracemalloc.start()
        covariance_of_outputs(blueprint, inputs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        yield Row(f"{label}, peak memory", peak / (8 * POINTS**2), "n × n matrices", 4.0)
    some = inputs[:512]
    blueprint = Blueprint.mlp(inputs=DIMENSION, depth=DEPTH)
    yield Row(
        "profile with guesses, relu, 512 points",
        median_seconds(lambda: predict_on(blueprint, some), repeats=3),
        "s",
    )


def peer(bits: str) -> dict[str, float]:
    """Seconds of the other implementation's second call, if there is one."""
    python = os.environ.get("NEURAL_TANGENTS_PYTHON")
    if not python:
        print("  NEURAL_TANGENTS_PYTHON is not set: ours alone", file=sys.stderr)
        return {}
    answer = subprocess.run([python, "-c", PEER, bits], capture_output=True, text=True, check=True, cwd="/")
    return {name: float(value) for name, value in json.loads(answer.stdout.splitlines()[-1]).items()}
