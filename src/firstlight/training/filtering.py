"""Initializations sorted by how they guess at birth: neutral and prejudiced ones.

Enters: a model, data and two thresholds. Leaves: which initializations of the seed fall into each group, and how many
had to be drawn. As in Francazi et al. (2026) the guesses are those of one pass over all training data in train mode,
and of two labels

    |f_0 − f_1| < 0.1   neutral,        |f_0 − f_1| > 0.9   prejudiced.

By theory a draw is neutral or prejudiced with P(|2Φ(√γ ξ) − 1| < 0.1) and P(|2Φ(√γ ξ) − 1| > 0.9), ξ ~ N(0, 1): 0.15
and 0.016 for a ReLU perceptron of one hidden layer (γ = 0.467), and where γ = 0 no draw is prejudiced, however many
are made.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firstlight.errors import UsageError, one_of
from firstlight.measurement.initialization import drawing
from firstlight.measurement.seeding import random_state_preserved
from firstlight.training.examples import examples
from firstlight.training.looking import look, probe
from firstlight.training.snapshots import Snapshots

__all__ = ["Filtered", "filter_initializations"]

_GROUPS = ("neutral", "prejudiced")
_BETWEEN = 20.0
"""Seconds of work between two snapshots."""


@dataclass(frozen=True, eq=False, repr=False)
class Filtered:
    """Initializations by group.

    Attributes:
        neutral: Numbers of the neutral initializations found, in the order of drawing.
        prejudiced: Numbers of the prejudiced ones.
        fractions: Guess fractions of every initialization drawn, ``(init, label)``.
        measure: What was compared with the thresholds: ``"gap"`` or ``"max"``.
        neutral_below: Threshold of the first group.
        prejudiced_above: Threshold of the second.
        wanted: How many were looked for in each group.
    """

    neutral: tuple[int, ...]
    prejudiced: tuple[int, ...]
    fractions: NDArray[np.float64]
    measure: str
    neutral_below: float
    prejudiced_above: float
    wanted: int

    @property
    def drawn(self) -> int:
        """How many initializations were drawn."""
        return len(self.fractions)

    @property
    def values(self) -> NDArray[np.float64]:
        """What was compared with the thresholds, ``(init,)``."""
        return _MEASURES[self.measure](self.fractions)

    def share(self, group: str) -> tuple[float, float]:
        """Share of all draws that fall into a group, and its standard error."""
        if group not in _GROUPS:
            raise one_of("filtered.share(group)", group, _GROUPS)
        found = (
            self.values < self.neutral_below if group == "neutral" else self.values > self.prejudiced_above
        )
        share = float(found.mean())
        return share, float(np.sqrt(share * (1 - share) / self.drawn))

    def __repr__(self) -> str:
        what = "|f_0 − f_1|" if self.measure == "gap" else "max_c G_c"
        return (
            f"<Filtered: {self.drawn:,} initializations drawn; {what} < {self.neutral_below:g}: "
            f"{len(self.neutral)} of {self.wanted} wanted; > {self.prejudiced_above:g}: "
            f"{len(self.prejudiced)} of {self.wanted}>"
        )


def filter_initializations(
    model: nn.Module | Callable[..., nn.Module] | Any,
    data: Any,
    *,
    runs: int = 20,
    groups: Sequence[str] = _GROUPS,
    neutral_below: float = 0.1,
    prejudiced_above: float = 0.9,
    measure: str = "gap",
    redraws: int = 1000,
    least_draws: int = 0,
    seed: int = 0,
    mode: str = "train",
    batch_size: int | None = None,
    max_samples: int | None = None,
    redraw: str | Callable[[nn.Module], object] | None = None,
    resume: str | Path | None = None,
    progress: bool = True,
) -> Filtered:
    """Draw initializations 0, 1, 2 … until each group is full, or ``redraws`` in a row brought nothing that is wanted.

    Args:
        model: As for ``train``.
        data: Training data, as for ``train``.
        runs: How many initializations are wanted in each group.
        groups: Which groups are wanted: ``"neutral"``, ``"prejudiced"`` or both.
        neutral_below: Largest value of a neutral initialization.
        prejudiced_above: Smallest value of a prejudiced one.
        measure: ``"gap"``, the greatest minus the smallest guess fraction (``|f_0 − f_1|`` for two labels), or
            ``"max"``, the greatest one.
        redraws: How many draws without a find end the search.
        least_draws: Go on drawing up to this many, finds or not: for the law of the fractions, and for shares that a
            search which stops at a find would overstate.
        seed: Names the initializations, as in ``measure`` and ``train``.
        mode: ``"train"`` or ``"eval"``.
        batch_size: Samples in a batch; all at once where memory bears it.
        max_samples: At most so many samples.
        redraw: How weights are drawn, as for ``measure``.
        resume: A folder in which an interrupted search is gone on with.
        progress: Whether to show a bar on a terminal.
    """
    _check(runs, groups, neutral_below, prejudiced_above, measure, redraws, least_draws)
    given = examples(data)
    with random_state_preserved():
        draw = drawing(model, seed=seed, redraw=redraw)
        seen = probe(
            copy.deepcopy(draw.module_of(0)),
            given.source,
            mode=mode,
            seed=seed,
            batch_size=batch_size,
            max_samples=max_samples,
        )
        settings = {
            "model": draw.description,
            "data": given.description,
            "seed": seed,
            "mode": mode,
            "redraw": draw.method,
            "batch_size": seen.batches.largest,
            "samples": seen.batches.samples,
        }
        snapshots = None if resume is None else Snapshots(resume, settings)
        search = _Search(
            runs, tuple(groups), neutral_below, prejudiced_above, _MEASURES[measure], redraws, least_draws
        )
        state = None if snapshots is None else snapshots.load("draws")
        for fractions in () if state is None else state["fractions"].numpy():
            if search.wants:
                search.take(fractions)
        with _bar(progress, runs * len(groups)) as bar:
            saved = time.monotonic()
            while search.wants:
                found = look(draw.module_of(len(search.fractions)), seen).guesses[0].double()
                search.take((found / found.sum()).numpy())
                bar.n = search.count
                bar.set_postfix(drawn=len(search.fractions), refresh=False)
                bar.update(0)
                if snapshots is not None and (time.monotonic() - saved > _BETWEEN or not search.wants):
                    snapshots.save("draws", {"fractions": torch.tensor(np.array(search.fractions))})
                    saved = time.monotonic()
    return Filtered(
        tuple(search.found["neutral"]),
        tuple(search.found["prejudiced"]),
        np.array(search.fractions),
        measure,
        neutral_below,
        prejudiced_above,
        runs,
    )


_MEASURES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "gap": lambda fractions: np.asarray(fractions.max(-1) - fractions.min(-1)),
    "max": lambda fractions: np.asarray(fractions.max(-1)),
}


class _Search:
    """What was found so far."""

    def __init__(
        self,
        runs: int,
        groups: tuple[str, ...],
        neutral_below: float,
        prejudiced_above: float,
        measure: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        redraws: int,
        least: int,
    ) -> None:
        self.runs, self.groups, self.redraws, self.measure = runs, groups, redraws, measure
        self.least = least
        self.below, self.above = neutral_below, prejudiced_above
        self.fractions: list[NDArray[np.float64]] = []
        self.found: dict[str, list[int]] = {name: [] for name in _GROUPS}
        self.idle = 0

    @property
    def count(self) -> int:
        return sum(len(self.found[name]) for name in self.groups)

    @property
    def wants(self) -> bool:
        open_groups = [name for name in self.groups if len(self.found[name]) < self.runs]
        return len(self.fractions) < self.least or (bool(open_groups) and self.idle < self.redraws)

    def take(self, fractions: NDArray[np.float64]) -> None:
        number = len(self.fractions)
        self.fractions.append(fractions)
        value = float(self.measure(fractions))
        group = "neutral" if value < self.below else "prejudiced" if value > self.above else None
        if group in self.groups and group is not None and len(self.found[group]) < self.runs:
            self.found[group].append(number)
            self.idle = 0
        else:
            self.idle += 1


def _check(
    runs: int, groups: Sequence[str], below: float, above: float, measure: str, redraws: int, least: int
) -> None:
    for name in groups:
        if name not in _GROUPS:
            raise one_of("filter_initializations(groups)", name, _GROUPS)
    if measure not in _MEASURES:
        raise one_of("filter_initializations(measure)", measure, _MEASURES)
    if not 0 <= below <= above <= 1:
        raise UsageError(
            "filter_initializations: expected 0 ≤ neutral_below ≤ prejudiced_above ≤ 1, "
            f"got {below!r} and {above!r}"
        )
    for key, value, lowest in (("runs", runs, 1), ("redraws", redraws, 1), ("least_draws", least, 0)):
        if value < lowest:
            raise UsageError(f"filter_initializations({key}): expected at least {lowest}, got {value!r}")


def _bar(shown: bool, total: int) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=total, desc="initializations found", unit="init", leave=False, disable=None if shown else True
    )
