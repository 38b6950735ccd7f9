"""What the steps of the fold say of themselves, for both theories: the increments of χ, and what was modelled.

Enters: the trace of ``propagation.py``. Leaves: values by ``id(step)``, and a ``Coverage``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from firstlight.architecture.layers import Activation, Convolution, Dense, Norm, Pool, Residual
from firstlight.results.provenance import Coverage, CoverageEntry
from firstlight.theory.propagation import Step, steps_in_order

__all__ = ["INCREMENTS", "coverage_of", "increments_of"]

INCREMENTS = ("sensitivity_increment", "sensitivity_increment_norm", "sensitivity_increment_activation")


def increments_of(steps: Sequence[Step[Any]]) -> dict[int, dict[str, float]]:
    """δχ since the dense layer or convolution before (at a residual sum: since the stream entered), by cause."""
    found: dict[int, dict[str, float]] = {}
    logs = {"norm": 0.0, "activation": 0.0, "all": 0.0}
    for step in steps:
        if isinstance(step.layer, Residual):
            found.update(increments_of(step.body))
            found.update(increments_of(step.shortcut))
        change = 0.5 * float(step.state.log_noise_to_data - step.before.log_noise_to_data)
        logs["all"] += change
        if isinstance(step.layer, Norm):
            logs["norm"] += change
        elif isinstance(step.layer, Activation | Pool):
            logs["activation"] += change
        if isinstance(step.layer, Convolution | Dense | Residual):
            found[id(step)] = {
                "sensitivity_increment": math.exp(logs["all"]),
                "sensitivity_increment_norm": math.exp(logs["norm"]),
                "sensitivity_increment_activation": math.exp(logs["activation"]),
            }
            logs = dict.fromkeys(logs, 0.0)
    return found


def coverage_of(steps: Sequence[Step[Any]]) -> Coverage:
    """Every layer in running order, modelled or not, with the reason."""
    return Coverage(
        tuple(
            CoverageEntry(
                step.layer.address,
                getattr(step.layer, "kind", type(step.layer).__name__.lower()),
                "unmodelled" if step.reason else "modelled",
                step.reason,
            )
            for step in steps_in_order(steps)
        )
    )
