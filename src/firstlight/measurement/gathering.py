"""What is kept of initializations that are done: one number a quantity and layer, and the guess counts.

Enters: ``Seen``, one after the other. Leaves: tables (init, layer). Rows are stacked into blocks as they
come, so that thousands of small arrays do not lie between the large ones that come and go.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firstlight.measurement.observing import Seen

__all__ = ["Gathered"]

_BLOCK = 16


class Gathered:
    """The initializations that are complete, in order."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, NDArray[np.float64]]] = []
        self._counts: list[NDArray[np.int64]] = []
        self._ties: list[float] = []
        self._whole: list[dict[str, float]] = []
        self._recent: list[Seen] = []
        self._done = 0
        self.samples = 0
        self.batch_sizes: set[int] = set()

    def __len__(self) -> int:
        return self._done + len(self._recent)

    def add(self, seen: Seen) -> None:
        """Take in the next initialization."""
        self._recent.append(seen)
        self.samples = seen.samples
        self.batch_sizes |= seen.batch_sizes
        if len(self._recent) == _BLOCK:
            self._stack()

    @property
    def tables(self) -> dict[str, NDArray[np.float64]]:
        """Values of shape (init, layer) by quantity, as they were measured."""
        self._stack()
        return {name: np.concatenate([block[name] for block in self._blocks]) for name in self._blocks[0]}

    @property
    def guesses(self) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Counts (init, label) and the fraction of ties (init,), where guesses were counted."""
        self._stack()
        return (np.concatenate(self._counts), np.array(self._ties)) if self._counts else None

    @property
    def whole(self) -> dict[str, NDArray[np.float64]]:
        """Numbers of the whole network, (init,) by name."""
        self._stack()
        return {name: np.array([row[name] for row in self._whole]) for name in next(iter(self._whole), {})}

    def _stack(self) -> None:
        recent, self._recent = self._recent, []
        if not recent:
            return
        self._done += len(recent)
        self._blocks.append(
            {name: np.stack([item.values[name] for item in recent]) for name in recent[0].values}
        )
        self._whole += [item.whole for item in recent if item.whole]
        counted = [item.guesses for item in recent if item.guesses is not None]
        if counted:
            self._counts.append(np.stack([item.counts.numpy() for item in counted]))
            self._ties += [item.ties / item.rows for item in counted]
