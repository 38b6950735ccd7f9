"""Many initializations in chunks that are kept one by one, so that a sitting that was interrupted loses one chunk.

Enters: how to measure some initializations of a seed. Leaves: the Profile over all of them. A chunk is a work's own,
or common to the figures that name the same things it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from firstlight.measurement.pooling import pool
from firstlight.papers.work import Work
from firstlight.results.profile import Profile

__all__ = ["chunk_seed", "pooled"]


def pooled(
    work: Work,
    name: str,
    count: int,
    make: Callable[[int, int], Profile],
    *,
    chunk: int = 10,
    made_from: Mapping[str, Any] | None = None,
) -> Profile:
    """Measure ``count`` initializations, ``chunk`` at a time.

    Args:
        work: Where the chunks are kept.
        name: Of the pieces; a number is appended.
        count: Initializations in all.
        make: (seed, initializations) → their profile.
        chunk: Initializations of a piece; the first chunks of a larger count are those of a smaller one.
        made_from: What the chunks depend on beside the seed, where several figures read them.
    """
    parts = []
    for number, start in enumerate(range(0, count, chunk)):
        members, seed = min(chunk, count - start), chunk_seed(work.seed, number)
        made = partial(make, seed, members)
        piece = f"{name}-{number}"
        if made_from is None:
            parts.append(work.piece(piece, made))
        else:
            parts.append(work.common_piece(piece, {**made_from, "seed": seed, "inits": members}, made))
    return pool(parts)


def chunk_seed(seed: int, number: int) -> int:
    """The seed of a chunk: no two chunks of one seed share it, nor chunks of neighbouring seeds.

    >>> chunk_seed(0, 1) != chunk_seed(1, 0)
    True
    """
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint32)[0])
