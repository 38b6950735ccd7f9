"""Figure 4: SHLP on Gaussian blobs with batch or layer norm, before and after the ReLU, in training.

Section 4. A column each network; above the accuracy of all training data, below that of each class. Behind a norm that
follows the ReLU only neutral starts are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from firstlight.papers.figure import PaperFigure
from firstlight.papers.norm.dynamics_drawing import draw_dynamics
from firstlight.papers.norm.dynamics_statements import (
    gap_at_onset,
    gap_of_neutral,
    no_prejudiced_start,
    share_of_starts,
)
from firstlight.papers.norm.filtered_training import SETTINGS, departures, filtered_runs
from firstlight.papers.norm.networks import NORMED
from firstlight.papers.work import Work
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]


def _compute(work: Work) -> dict[str, Any]:
    return filtered_runs(work, NORMED)


def _draw(results: Mapping[str, Any]) -> Figure:
    return draw_dynamics(results, [(name, ["neutral", "prejudiced"]) for name in NORMED], split="train")


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    where = "section 4"
    said = []
    for norm in ("batch", "layer"):
        before, after = f"{norm}-before", f"{norm}-after"
        said += [
            share_of_starts(results, before, "neutral", where),
            share_of_starts(results, before, "prejudiced", where),
            gap_of_neutral(results, before, where),
            gap_at_onset(results, before, where),
            no_prejudiced_start(results, after, where),
            gap_of_neutral(results, after, where, kind="unfiltered"),
        ]
    return said


FIGURE = PaperFigure(
    _compute, _draw, _statements, scales=SETTINGS["gaussian"], departs=departures("gaussian")
)
