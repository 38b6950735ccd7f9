"""``predict`` at depth 1,000, after imports: ReLU without a norm within 50 ms, the others reported."""

from __future__ import annotations

from collections.abc import Iterator

from row import Row, median_seconds

import firstlight as fl

DEPTH = 1000


def measure() -> Iterator[Row]:
    """One row for each activation, norm and pool."""
    yield _row("relu, no norm", 0.050, activation="relu")
    for norm in ("batch", "layer", "rms"):
        for placement in ("before", "after"):
            yield _row(
                f"relu, {norm} norm {placement}", None, activation="relu", norm=norm, placement=placement
            )
    for activation in ("tanh", "erf", "gelu", "silu", "elu", "softplus", "sin", "hardtanh"):
        yield _row(f"{activation}, no norm", None, activation=activation)
    yield _row("relu, max-pool 4", None, activation="relu", pool=("max", 4))
    yield _row("relu, 500 residual units, batch norm", None, activation="relu", norm="batch", residual=500)
    yield _row("relu, batches of 32", None, batch_size=32, activation="relu", norm="batch")


def _row(name: str, target: float | None, *, batch_size: int | None = None, **network: object) -> Row:
    blueprint = fl.Blueprint.mlp(depth=DEPTH, width=1000, **network)
    seconds = median_seconds(lambda: fl.predict(blueprint, batch_size=batch_size))
    return Row(f"{name}, depth {DEPTH:,}", seconds, "s", target)
