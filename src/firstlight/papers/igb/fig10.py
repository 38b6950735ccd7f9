"""Figure 10: CNN-B on MNIST, even against odd digits; the fraction of one class in two variants.

Appendix I.1.1. Digits are strongly correlated, so that neither variant is without bias; ReLU with max-pooling has more
of it than tanh with average-pooling.
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
    bias_statement,
    draw_panels,
    measured_guesses,
    statements_of_variants,
    variant_of,
)
from firstlight.papers.work import Work
from firstlight.results.reproduction import Statement

__all__ = ["FIGURE"]

TITLES = {
    "tanh-avg-pool": "MNIST even/odd: CNN-B, tanh + average-pool",
    "relu-max-pool": "MNIST even/odd: CNN-B, ReLU + max-pool",
}


def _compute(work: Work) -> dict[str, Any]:
    data = load(
        "mnist:even-odd", samples=work["samples"], seed=work.seed, standardize="papers", root=work.data_root
    )
    networks = {
        name: variant_of(cnn_b, name, classes=2, channels=1, side=data.shape[-1]) for name in VARIANTS
    }
    return measured_guesses(work, networks, data)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What appendix I.1.1 says."""
    return [
        *statements_of_variants(results, "I.1.1"),
        bias_statement(
            "neither variant is without bias: tanh + average-pool on correlated data (I.1.1)",
            results["tanh-avg-pool-measured"],
        ),
    ]


FIGURE = PaperFigure(
    _compute,
    partial(draw_panels, titles=TITLES),
    _statements,
    scales={
        "smoke": {"samples": 10, "inits": 6},
        "small": {"samples": 100, "inits": 100},
        "paper": {"samples": 10_000, "inits": 5000},
    },
    departs={
        "small": ("100 digits and 100 initializations",),
        "paper": ("the text does not say how many digits and initializations",),
    },
)
