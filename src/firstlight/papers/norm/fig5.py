"""Figure 5: ResNet-9 on CIFAR-10 with batch norm before and after the activation, in training.

Top: accuracy, bottom: max_c G_c, by step; γ of the untrained networks in the legend. Section 5.2 and appendix G.1.
Of the grid that the authors' program searches (rates 0.1, 0.01, 0.001; batches of 200, 400, 800) the middle is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from firstlight.data.cifar import cifar10
from firstlight.models.resnets import resnet9
from firstlight.papers.figure import PaperFigure
from firstlight.papers.norm.placements_in_training import (
    births,
    draw_placements,
    explained,
    gamma_falls,
    greater,
    onset_statements,
    runs_of,
)
from firstlight.papers.work import Work
from firstlight.results.reproduction import Statement
from firstlight.training.recipes import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

TITLES = {"before": "BN + ReLU", "after": "ReLU + BN"}


def _compute(work: Work) -> dict[str, Any]:
    """Untrained networks and training runs, by placement."""
    pictures, test = (
        cifar10(train=train, root=work.data_root).standardize("papers") for train in (True, False)
    )
    recipe = Recipe(
        rate=work["rate"], weight_decay=1e-4, clip=0.1, batch_size=work["batch"], steps=work["steps"]
    )
    results: dict[str, Any] = {}
    for placement in TITLES:
        network = partial(resnet9, width=work["width"], placement=placement)
        results[f"{placement}-birth"] = births(work, placement, network, pictures)
        results[placement] = runs_of(work, placement, network, pictures, test, recipe)
    return results


def _draw(results: Mapping[str, Any]) -> Figure:
    return draw_placements(results, TITLES)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What section 5.2 says."""
    before, after = (results[placement] for placement in TITLES)
    greatest = [results[f"{placement}-birth"].guesses.max.values for placement in TITLES]
    onset = min(_EPOCH, int(before.steps[-1]))
    ends = [item.quantity("accuracy", split="test").values[:, -1] for item in (after, before)]
    return [
        gamma_falls(results, "after", "Figure 5"),
        greater(
            "Section 5.2: untrained, the norm after the activation is more balanced; max_c G_c, before − after",
            *greatest,
        ),
        *(
            explained(
                item,
                "the curves part in the first few steps and then meet; the mean over so many hardly shows it",
            )
            for item in onset_statements(results, onset, "Section 5.2")
        ),
        explained(
            greater(
                "Section 5.2: test performance keeps a separation; test accuracy at the last step, after − before",
                *ends,
            ),
            "the paper's runs are 150 epochs of a wide network; after these few steps the running statistics that "
            "test pictures are judged by still lag behind",
        ),
    ]


_EPOCH = 125
"""Updates in an epoch of batches of 400: what is called the early phase."""

FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {
            "width": 2,
            "births": 4,
            "born_on": 16,
            "runs": 2,
            "rate": 0.01,
            "batch": 16,
            "steps": 3,
            "looked_at": 32,
        },
        "small": {
            "width": 8,
            "births": 60,
            "born_on": 128,
            "runs": 5,
            "rate": 0.01,
            "batch": 64,
            "steps": 120,
            "looked_at": 384,
        },
        "paper": {
            "width": 64,
            "births": 50,
            "born_on": 10_000,
            "runs": 10,
            "rate": 0.01,
            "batch": 400,
            "steps": 150 * _EPOCH,
            "looked_at": None,
        },
    },
    departs={
        "small": (
            "8 … 64 channels instead of 64 … 512",
            "5 runs of 120 steps with batches of 64 instead of 150 epochs with batches of 400",
            "accuracy and max_c G_c on 384 training and 384 test pictures; γ from 60 initializations on 128 pictures",
        ),
    },
)
