"""Runs of several trajectories side by side.

Enters: trajectories with the same labels, splits and layers. Leaves: one over all their runs and all their steps; what
one of them did not record is NaN there (0 samples). Quantities that not all of them hold are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import UsageError
from firstlight.results.labelled import Variable, variable
from firstlight.results.provenance import Provenance

if TYPE_CHECKING:
    from firstlight.results.trajectory import Trajectory

__all__ = ["merged"]


def merged(parts: Sequence[Trajectory]) -> Trajectory:
    """Join along ``init``, in the order given."""
    if not parts:
        raise UsageError("Trajectory.merge: expected at least one trajectory, got none")
    first = parts[0]
    for number, part in enumerate(parts):
        for axis in ("label", "split", "layer"):
            here, there = (
                list(item.coordinates[axis].values) if axis in item.coordinates else None
                for item in (part, first)
            )
            if here != there:
                raise UsageError(
                    f"Trajectory.merge: the trajectory at position {number} has the {axis}s {here}, the first {there}; "
                    "expected runs of one task"
                )
    steps = np.unique(np.concatenate([part.steps for part in parts]))
    shared = [name for name in first.variables if all(name in part.variables for part in parts)]
    variables = {name: _joined([part.variables[name] for part in parts], parts, steps) for name in shared}
    inits = np.concatenate([part.coordinates["init"].values for part in parts])
    coordinates = {
        **first.coordinates,
        "init": variable("init", inits),
        "step": variable("step", steps),
    }
    return type(first)(variables, coordinates, _origin(parts), first.coverage)


def _joined(items: Sequence[Variable], parts: Sequence[Trajectory], steps: NDArray[np.int64]) -> Variable:
    dims = items[0].dims
    if "init" not in dims:
        return items[0]
    if "step" not in dims:
        return variable(dims, np.concatenate([item.values for item in items]))
    axis = dims.index("step")
    return variable(
        dims,
        np.concatenate(
            [
                _spread(item.values, axis, np.searchsorted(steps, part.steps), len(steps))
                for item, part in zip(items, parts, strict=True)
            ]
        ),
    )


def _spread(values: NDArray[Any], axis: int, places: NDArray[np.int64], length: int) -> NDArray[Any]:
    """The values at their places along the axis of steps; NaN, or 0 for counts, elsewhere."""
    shape = (*values.shape[:axis], length, *values.shape[axis + 1 :])
    whole = np.full(shape, 0 if values.dtype.kind in "iu" else np.nan, dtype=values.dtype)
    whole[(slice(None),) * axis + (places,)] = values
    return whole


def _origin(parts: Sequence[Trajectory]) -> Provenance:
    first = parts[0].provenance
    if len(parts) == 1:
        return first
    seeds = [part.provenance.seed for part in parts]
    notes = tuple(dict.fromkeys(note for part in parts for note in part.provenance.notes))
    settings = {
        **first.settings,
        "runs": sum(part.runs for part in parts),
        "merged": len(parts),
        "merged_seeds": seeds,
    }
    seed = first.seed if all(item == first.seed for item in seeds) else None
    return replace(first, seed=seed, settings=settings, notes=notes)
