"""The layers of a Profile as one table of rounded numbers.

Enters: a Profile. Leaves: a ``Table`` with a row for each layer, the quantities that matter most first. Every
number carries its standard error over initializations where there is one; what has outgrown float64 is written as a
power of ten.
"""

from __future__ import annotations

import math

from firstlight.reporting.document import Table
from firstlight.results.profile import Profile
from firstlight.results.quantities import QUANTITIES
from firstlight.results.rounding import with_stderr

__all__ = ["cell", "layer_table"]

COLUMNS = (
    "gamma",
    "center_variance",
    "data_variance",
    "mean_square",
    "sensitivity",
    "gradient_scale",
    "effective_rank",
)


def layer_table(profile: Profile, *, caption: str = "") -> Table:
    """A row for each layer."""
    names = [name for name in COLUMNS if name in profile.variables]
    layers = profile.layers
    kinds = (
        [str(kind) for kind in profile.coordinates["kind"].values]
        if "kind" in profile.coordinates
        else [""] * len(layers)
    )
    rows = tuple(
        (layer, kind, *(cell(profile, name, index) for name in names))
        for index, (layer, kind) in enumerate(zip(layers, kinds, strict=True))
    )
    return Table(
        ("layer", "kind", *(QUANTITIES[name].symbol for name in names)),
        rows,
        left=2,
        caption=caption,
        names=("layer", "kind", *names),
    )


def cell(profile: Profile, name: str, layer: int) -> str:
    """One number with its standard error."""
    log, spread = profile.variables.get(f"log_{name}"), profile.variables.get(f"{name}_stderr")
    return with_stderr(
        float(profile.variables[name].values[layer]),
        math.nan if spread is None else float(spread.values[layer]),
        log=None if log is None else float(log.values[layer]),
    )
