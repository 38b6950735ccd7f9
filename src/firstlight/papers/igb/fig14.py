"""Figure 14: training at a small learning rate, with and without bias.

Appendix I.3: without bias the curve of each class is close to their average. With bias they are far apart, the recall
of one class stays low for long, and so the accuracy says little of either.
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
    waiting,
)
from firstlight.results.reproduction import Statement
from firstlight.results.run_averages import mean_and_stderr

__all__ = ["FIGURE"]

_CLOSE = 0.15


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What appendix I.3 says of small learning rates."""
    # log-spaced records: the beginning weighs most
    apart = {name: np.abs(class_gaps(found)).mean(1) for name, found in results.items()}
    mean, error, _ = mean_and_stderr(apart["tanh"])
    lowest = {
        name: found.quantity("recall").values[~found.diverged][:, : len(found.steps) // 2].min(-1).mean(1)
        for name, found in results.items()
    }
    return [
        Statement(
            "without bias the curves of the classes are close to their average (I.3): mean |difference of recalls| "
            f"over the records, below {_CLOSE:g} (our bound)",
            "<",
            _CLOSE,
            float(mean),
            float(error),
        ),
        difference(
            "with bias they are further apart (I.3): the same, with less without",
            apart["tanh"],
            apart["relu"],
        ),
        difference(
            "with bias the recall of one class stays low at first (I.3): smaller of both recalls over the first half "
            "of the records, without less with",
            lowest["relu"],
            lowest["tanh"],
        ),
        difference(
            "with bias it takes longer until both recalls stay at a coin's ½ (I.3): steps, with less without",
            waiting(results["tanh"]),
            waiting(results["relu"]),
        ),
    ]


FIGURE = PaperFigure(
    trained,
    draw_training,
    _statements,
    scales={
        "smoke": {
            "samples": 100,
            "depth": 5,
            "width": 30,
            "rate": 0.002,
            "batch": 50,
            "steps": 10,
            "each": 3,
            "runs": 3,
        },
        "small": {
            "samples": 1000,
            "depth": 5,
            "width": 100,
            "rate": 0.001,
            "batch": 100,
            "steps": 400,
            "each": 5,
            "runs": 30,
        },
        "paper": {
            "samples": 60_000,
            "depth": 5,
            "width": 100,
            "rate": 0.0005,
            "batch": 512,
            "steps": 20_000,
            "each": 20,
            "runs": 100,
        },
    },
    departs={"small": (DEPARTS, "1,000 digits, 400 updates and 30 runs"), "paper": (DEPARTS,)},
)
