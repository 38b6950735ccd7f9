"""Figure 2: SHLP without a norm on Gaussian blobs; unfiltered starts, and neutral beside prejudiced ones, in training.

Section 3.1. Left the runs of random initializations, right those filtered by G_0; above the accuracy of all training
data, below that of each class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from firstlight.papers.figure import PaperFigure
from firstlight.papers.norm.dynamics_drawing import draw_dynamics
from firstlight.papers.norm.dynamics_statements import (
    convergence_apart,
    gap_at_onset,
    gap_of_neutral,
    less_gap_behind,
    share_of_starts,
)
from firstlight.papers.norm.filtered_training import SETTINGS, departures, filtered_runs
from firstlight.papers.work import Work
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]


def _compute(work: Work) -> dict[str, Any]:
    return filtered_runs(work, ["plain"])


def _draw(results: Mapping[str, Any]) -> Figure:
    columns = [("plain", ["unfiltered"]), ("plain", ["neutral", "prejudiced"])]
    return draw_dynamics(results, columns, split="train")


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    where = "section 3.1"
    return [
        share_of_starts(results, "plain", "neutral", where),
        share_of_starts(results, "plain", "prejudiced", where),
        gap_of_neutral(results, "plain", where),
        gap_at_onset(results, "plain", where),
        less_gap_behind(results, ("plain", "prejudiced"), ("plain", "neutral"), where),
        convergence_apart(results, ("plain", "prejudiced"), ("plain", "neutral"), where),
    ]


FIGURE = PaperFigure(
    _compute, _draw, _statements, scales=SETTINGS["gaussian"], departs=departures("gaussian")
)
