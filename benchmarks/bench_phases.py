"""``phases`` on 200 × 200 points at depth 50: the ReLU family within 2 s, any other named activation within 15 s."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from row import Row

import firstlight as fl
from firstlight.architecture.activations import activation, activation_names

POINTS, DEPTH = 200, 50


def measure() -> Iterator[Row]:
    """One row for each named activation; a single run each, because the slow ones need no repetition."""
    fl.phases("relu", depth=1)  # imports
    for name in sorted(activation_names(), key=lambda name: (activation(name).slopes is None, name)):
        began = time.perf_counter()
        fl.phases(
            name,
            weight_variance=np.linspace(0.5, 4.0, POINTS),
            bias_variance=np.linspace(0.0, 1.0, POINTS),
            depth=DEPTH,
        )
        target = 2.0 if activation(name).slopes is not None else 15.0
        yield Row(f"{name}, {POINTS} × {POINTS}, depth {DEPTH}", time.perf_counter() - began, "s", target)
