"""Figure 11: CNN-B on CIFAR-10; the fraction of one of ten classes in two variants.

Appendix I.1.2. ReLU with max-pooling shows more bias than tanh with average-pooling. In both the classes are alike over
the ensemble: the line at the mean of G_0 is at 1/10 within its standard error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from firstlight.data.loading import load
from firstlight.models.guessing_cnns import cnn_b
from firstlight.papers.figure import PaperFigure
from firstlight.papers.igb.guesses_on_pictures import (
    VARIANTS,
    draw_panels,
    measured_guesses,
    statements_of_variants,
    variant_of,
)
from firstlight.papers.work import Work
from firstlight.results.reproduction import Statement

__all__ = ["FIGURE"]

TITLES = {
    "tanh-avg-pool": "CIFAR-10: CNN-B, tanh + average-pool",
    "relu-max-pool": "CIFAR-10: CNN-B, ReLU + max-pool",
}


def _compute(work: Work) -> dict[str, Any]:
    data = load("cifar10", samples=work["samples"], seed=work.seed, standardize="papers", root=work.data_root)
    return measured_guesses(work, {name: variant_of(cnn_b, name, classes=10) for name in VARIANTS}, data)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What appendix I.1.2 says."""
    return statements_of_variants(results, "I.1.2")


FIGURE = PaperFigure(
    _compute,
    partial(draw_panels, titles=TITLES),
    _statements,
    scales={
        "smoke": {"samples": 10, "inits": 6},
        "small": {"samples": 100, "inits": 80},
        "paper": {"samples": 10_000, "inits": 5000},
    },
    departs={
        "small": ("100 pictures and 80 initializations",),
        "paper": ("the text does not say how many pictures and initializations",),
    },
)
