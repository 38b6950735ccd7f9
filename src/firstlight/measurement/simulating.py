"""``simulate``: a fresh batch for every initialization, as in Labatie's ensembles.

Enters: a model and one batch for each simulation. Leaves: the Profile over all simulations. Initialization and data
then vary together, so spreads and standard errors speak of both; ``measure`` holds the data fixed instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from torch import nn

from firstlight.errors import DataError
from firstlight.measurement.measuring import measure
from firstlight.measurement.pooling import pool
from firstlight.measurement.seeding import initialization_seed
from firstlight.results.profile import Profile

__all__ = ["simulate"]


def simulate(
    model: nn.Module | Callable[..., nn.Module] | Any,
    batches: Iterable[Any],
    *,
    seed: int = 0,
    **options: Any,
) -> Profile:
    """Measure one new initialization on each batch.

    Args:
        model: As for ``measure``.
        batches: The data of each simulation, in any form that ``measure`` takes.
        seed: Names the initializations: number ``i`` of a seed is the same for ever.
        **options: Passed on to ``measure``.

    Returns:
        The profile over all simulations.
    """
    profiles = [
        measure(model, batch, inits=1, seed=_seed(seed, number), progress=False, **options)
        for number, batch in enumerate(batches)
    ]
    if not profiles:
        raise DataError("simulate(batches): the data yields no batch; expected one for each simulation")
    return pool(profiles)


def _seed(seed: int, number: int) -> int:
    return int(initialization_seed(seed, number).generate_state(1, np.uint64)[0])
