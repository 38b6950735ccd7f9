"""Figure 15: training at a large learning rate, with and without bias.

Appendix I.3: with bias the dominant gradient goes over from one class to the other from step to step, so that the
classes swing against each other in the beginning; both kinds of network end alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from firstlight.papers.figure import PaperFigure
from firstlight.papers.igb.training_with_and_without_bias import (
    DEPARTS,
    class_gaps,
    difference,
    draw_training,
    trained,
    turned_around,
)
from firstlight.results.reproduction import Statement

__all__ = ["FIGURE"]

_ALIKE = 0.05


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What appendix I.3 says of large learning rates."""
    early = {name: class_gaps(found)[:, _first(found)] for name, found in results.items()}
    swings = {name: np.abs(np.diff(gaps, axis=1)).mean(1) for name, gaps in early.items()}
    norms = results["relu"].quantity("gradient_norm", ordered=True).values[:, 0]  # (init, rank)
    ends = {
        name: found.quantity("accuracy").values[~found.diverged][:, -1] for name, found in results.items()
    }
    apart = difference("", ends["tanh"], ends["relu"])
    return [
        difference(
            "with bias the classes swing against each other in the beginning (I.3): change of the difference of "
            "recalls from step to step, with less without",
            swings["tanh"],
            swings["relu"],
        ),
        difference(
            "with bias runs go over from one class to the other (I.3): share whose recalls differed by 0.2 either "
            "way, with less without",
            turned_around(early["tanh"]),
            turned_around(early["relu"]),
        ),
        difference(
            "with bias the gradients of the classes differ at birth (I.3): norm for the class guessed less, less that "
            "for the other",
            norms[:, 0],
            norms[:, 1],
        ),
        Statement(
            f"bias does not change the end (I.3): difference of the last accuracies, within {_ALIKE:g} (our bound)",
            "=",
            0.0,
            apart.measured,
            apart.stderr,
            tolerance=_ALIKE,
        ),
    ]


def _first(trajectory: Any) -> slice:
    """The records of the beginning, one for each update."""
    steps = trajectory.steps
    return slice(0, int(np.argmax(np.append(np.diff(steps), 2) > 1)) + 1)


FIGURE = PaperFigure(
    trained,
    draw_training,
    _statements,
    scales={
        "smoke": {
            "samples": 100,
            "depth": 5,
            "width": 30,
            "rate": 0.1,
            "batch": 50,
            "steps": 10,
            "each": 5,
            "runs": 3,
        },
        "small": {
            "samples": 1000,
            "depth": 5,
            "width": 100,
            "rate": 0.1,
            "batch": 100,
            "steps": 200,
            "each": 20,
            "runs": 20,
        },
        "paper": {
            "samples": 60_000,
            "depth": 5,
            "width": 100,
            "rate": 0.1,
            "batch": 512,
            "steps": 2000,
            "each": 50,
            "runs": 100,
        },
    },
    departs={"small": (DEPARTS, "1,000 digits, 200 updates and 20 runs"), "paper": (DEPARTS,)},
)
