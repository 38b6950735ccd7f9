"""Figure E.1: law of a batch-normalized value by batch size; histogram, the paper's law and the exact one.

Appendix E.1.2. The paper normalizes each point by the statistics of the others and says that the difference from the
canonical batch norm becomes negligible in large batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from firstlight.papers.figure import PaperFigure
from firstlight.papers.norm.batch_normalized_values import (
    DEPARTS,
    SCALES,
    draw_values,
    law_distance,
    normalized_values,
)
from firstlight.results.reproduction import Statement

__all__ = ["FIGURE"]


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    sizes = [int(size) for size in results["values"].coordinates["size"].values]
    said = []
    for size in sizes:
        for variant, says, because in (
            (
                "leave_one_out",
                "eq. 49 is the law of batch norm",
                "the paper leaves each point out of its own statistics, which frameworks do not; that shows in small "
                "batches",
            ),
            ("exact", "b²/(B−1) ~ Beta(½, (B−2)/2) is (ours)", ""),
        ):
            distance, chance = law_distance(results, size, variant)
            said.append(
                Statement(
                    f"{says}, batches of {size}: Kolmogorov–Smirnov distance",
                    "<",
                    chance,
                    distance,
                    because=because if distance > chance else "",
                )
            )
    small, large = (law_distance(results, size, "leave_one_out")[0] for size in (sizes[0], sizes[-1]))
    noise = law_distance(results, sizes[-1], "leave_one_out")[1] / 3
    said.append(
        Statement(
            f"the disparity vanishes as batches grow (eq. 38 to 40): distance at {sizes[0]} − distance at {sizes[-1]}",
            ">",
            0.0,
            small - large,
            noise,
        )
    )
    return said


FIGURE = PaperFigure(
    normalized_values, partial(draw_values, logarithmic=False), _statements, scales=SCALES, departs=DEPARTS
)
