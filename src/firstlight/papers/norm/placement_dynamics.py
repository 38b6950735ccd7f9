"""Figures G.1 to G.8: four placements of a norm on one data set, seen on the training or on the test set.

Enters: an experiment of ``SETTINGS`` and a split. Leaves: the ``PaperFigure``. What appendix G.2 states depends on the
experiment; what is true of starts (shares, spreads) is on the training set in train mode whatever the split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from firstlight.papers.figure import PaperFigure, Results
from firstlight.papers.norm.dynamics_drawing import draw_dynamics
from firstlight.papers.norm.dynamics_statements import (
    convergence_apart,
    gap_at_onset,
    gap_of_neutral,
    gap_outgrows_accuracy,
    less_gap_behind,
    more_gained,
    no_prejudiced_start,
    some_prejudice_left,
    spreads_apart,
)
from firstlight.papers.norm.filtered_training import SETTINGS, departures, filtered_runs
from firstlight.papers.norm.networks import NORMED
from firstlight.papers.work import Work
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["placement_figure"]

_WHERE = "appendix G.2"
_ONSET_OF_DEEP = {
    "batch": "in a few hundred steps these networks learn next to nothing, while the prejudice is absorbed; the gap is "
    "there in the first of them",
    "layer": "at the paper's rate of 1e-3 the class that a run prefers turns over from step to step, after neutral "
    "births, too",
}
_UNEVEN = (
    "four classes of animals, three of vehicles: a start that guesses animals alone is nearly at 60 % at birth, and "
    "only those that prefer vehicles are slow"
)


def placement_figure(experiment: str, split: str) -> PaperFigure:
    """The figure of one experiment on one split."""
    return PaperFigure(
        _compute,
        partial(_draw, split=split),
        partial(_STATED[experiment], split=split),
        scales=SETTINGS[experiment],
        departs=departures(experiment),
    )


def _compute(work: Work) -> dict[str, Any]:
    return filtered_runs(work, NORMED)


def _draw(results: Results, *, split: str) -> Figure:
    return draw_dynamics(results, [(name, ["neutral", "prejudiced"]) for name in NORMED], split=split)


def _on_blobs(results: Results, *, split: str) -> Sequence[Statement]:
    said = []
    for norm in ("batch", "layer"):
        said += _by_placement(results, norm, split)
        said.append(no_prejudiced_start(results, f"{norm}-after", _WHERE))
        said.append(gap_of_neutral(results, f"{norm}-after", _WHERE, split=split))
    said.append(more_gained(results, "layer", "batch", f"{_WHERE}: 'especially under LN'", split=split))
    return said


def _on_vehicles(results: Results, *, split: str) -> Sequence[Statement]:
    said = []
    for norm in ("batch", "layer"):
        said.append(_spread_falls(results, norm))
        said += _by_placement(results, norm, split, because=_UNEVEN)
        said.append(no_prejudiced_start(results, f"{norm}-after", _WHERE))
    return said


def _on_digits(results: Results, *, split: str) -> Sequence[Statement]:
    said = [_spread_falls(results, norm) for norm in ("batch", "layer")]
    said.append(gap_at_onset(results, "layer-before", _WHERE, split=split))
    said.append(some_prejudice_left(results, "layer-after", "LN after leaves some prejudice", _WHERE))
    said.append(
        spreads_apart(
            results, "layer-after", "batch-after", _WHERE, says="BN lessens the prejudice more than LN does"
        )
    )
    said.append(no_prejudiced_start(results, "batch-after", _WHERE))
    return said


def _in_deep_networks(results: Results, *, split: str) -> Sequence[Statement]:
    said = []
    for norm in ("batch", "layer"):
        said.append(_spread_falls(results, norm))
        reason = _ONSET_OF_DEEP[norm]
        said.append(gap_at_onset(results, f"{norm}-before", _WHERE, split=split, reason=reason))
        said.append(gap_outgrows_accuracy(results, f"{norm}-before", f"{norm}-after", _WHERE, split=split))
        said.append(no_prejudiced_start(results, f"{norm}-after", _WHERE))
    return said


def _by_placement(results: Results, norm: str, split: str, *, because: str = "") -> list[Statement]:
    """The gap after a prejudiced start, and what moving the norm gains."""
    before, after = (f"{norm}-before", "prejudiced"), (f"{norm}-after", "neutral")
    return [
        gap_at_onset(results, before[0], _WHERE, split=split),
        less_gap_behind(results, before, after, _WHERE, split=split),
        convergence_apart(results, before, after, _WHERE, split=split, because=because),
    ]


def _spread_falls(results: Results, norm: str) -> Statement:
    return spreads_apart(
        results,
        f"{norm}-before",
        f"{norm}-after",
        _WHERE,
        says="the norm before the ReLU leaves more prejudice than after it",
    )


_STATED: Mapping[str, Callable[..., Sequence[Statement]]] = {
    "gaussian": _on_blobs,
    "c2-b": _on_vehicles,
    "even-odd": _on_digits,
    "gaussian-deep": _in_deep_networks,
}
