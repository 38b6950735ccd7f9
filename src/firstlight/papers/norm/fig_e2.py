"""Figure E.2: the laws of figure E.1 on a logarithmic scale, which shows their tails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from firstlight.papers.figure import PaperFigure
from firstlight.papers.norm.batch_normalized_values import (
    DEPARTS,
    SCALES,
    draw_values,
    normalized_values,
    tail_share,
)
from firstlight.results.reproduction import Statement

__all__ = ["FIGURE"]

_BEYOND = 2.5


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    return [
        tail_share(results, int(size), _BEYOND, variant, says)
        for size in results["values"].coordinates["size"].values
        for variant, says in (
            ("leave_one_out", "tails by eq. 49"),
            ("exact", "tails by the exact law (ours)"),
        )
    ]


FIGURE = PaperFigure(
    normalized_values, partial(draw_values, logarithmic=True), _statements, scales=SCALES, departs=DEPARTS
)
