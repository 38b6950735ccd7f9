"""Gaussian averages: one scalar transfer, two million interpolated ones with tables built from nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from row import Row, median_seconds

from firstlight.architecture.activations import activation
from firstlight.theory.kernels.kernel import kernel_of
from firstlight.theory.kernels.table import tabulate

CALLS = 2000
POINTS = 2_000_000


def measure() -> Iterator[Row]:
    """Scalar calls by method, then tables by activation."""
    for name, target in (("relu", 6.0), ("leaky_relu", 6.0), ("erf", None), ("gelu", None), ("sin", None)):
        yield _scalar(name, target)
    for name in ("tanh", "hardtanh", "selu", "silu", "softsign"):
        yield _table(name)


def _scalar(name: str, target: float | None) -> Row:
    kernel = kernel_of(activation(name))

    def work() -> None:
        for _ in range(CALLS):
            kernel.transfer(1.3, 0.3, 0.7)

    return Row(f"{name}, transfer of three floats", median_seconds(work) / CALLS * 1e6, "µs", target)


def _table(name: str) -> Row:
    rng = np.random.default_rng(0)
    q, gamma = np.exp(rng.uniform(-7, 7, POINTS)), np.exp(rng.uniform(-14, 14, POINTS))
    c, rho = gamma / (1 + gamma), 1 / (1 + gamma)
    kernel = tabulate(kernel_of(activation(name)))
    began = time.perf_counter()
    kernel.transfer(q, c, rho)
    return Row(f"{name}, {POINTS:,} transfers, tables included", time.perf_counter() - began, "s", 8.0)
