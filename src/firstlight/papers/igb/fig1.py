"""Figure 1: CNN-A on two classes of CIFAR-10; the fraction of one class with and without bias.

Without: tanh and average-pooling. With: ReLU and max-pooling. The introduction: an untrained network may classify a
large fraction of the data as one class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from firstlight.data.loading import load
from firstlight.models.guessing_cnns import cnn_a
from firstlight.papers.figure import PaperFigure
from firstlight.papers.igb.guesses_on_pictures import (
    VARIANTS,
    draw_panels,
    measured_guesses,
    statements_of_variants,
    variant_of,
)
from firstlight.papers.work import Work
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement

__all__ = ["FIGURE"]

TITLES = {
    "tanh-avg-pool": "CNN-A, tanh + average-pool",
    "relu-max-pool": "CNN-A, ReLU + max-pool",
}
_LARGE = 0.9


def _compute(work: Work) -> dict[str, Any]:
    data = load(
        work["data"], samples=work["samples"], seed=work.seed, standardize="papers", root=work.data_root
    )
    return measured_guesses(work, {name: variant_of(cnn_a, name, classes=2) for name in VARIANTS}, data)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What the introduction says of the figure."""
    said = list(statements_of_variants(results, "figure 1"))
    (without, first), (with_bias, second) = (_lopsided(results[f"{name}-measured"]) for name in VARIANTS)
    said.append(
        Statement(
            f"many networks put {_LARGE:.0%} of the pictures or more into one class (introduction): "
            "share of them, ReLU + max-pool less tanh + average-pool",
            ">",
            0.0,
            with_bias - without,
            math.hypot(first, second),
        )
    )
    return said


def _lopsided(profile: Profile) -> tuple[float, float]:
    """Share of the initializations with max_c G_c of at least 0.9."""
    assert profile.guesses is not None
    greatest = profile.guesses.max.values
    share = float((greatest >= _LARGE).mean())
    return share, math.sqrt(max(share * (1 - share), 1 / len(greatest)) / len(greatest))


FIGURE = PaperFigure(
    _compute,
    partial(draw_panels, titles=TITLES),
    _statements,
    scales={
        "smoke": {"data": "cifar10:c2-a", "samples": 20, "inits": 8},
        "small": {"data": "cifar10:c2-a", "samples": 250, "inits": 200},
        "paper": {"data": "cifar10:c2-a", "samples": 10_000, "inits": 5000},
    },
    departs={
        "small": (
            "250 pictures and 200 initializations",
            "cats and dogs: the text does not say which two classes; the pools' kernels, lost in the text, are 2 and 4",
        ),
        "paper": (
            "cats and dogs: the text does not say which two classes, nor how many pictures and initializations; "
            "the pools' kernels, lost in the text, are 2 and 4",
        ),
    },
)
