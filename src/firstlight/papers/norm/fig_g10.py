"""Figure G.10: ResNet-34 on CIFAR-10 with batch norm before and after the activation, in training.

Accuracy and max_c G_c by step, γ of the untrained networks in the legend. Appendix G.3. The network is Hugging Face's;
of its two ways to have norms behind activations both are drawn. Recipe as in figure 5. Test pictures are looked at with
the statistics of their batch: for tens of steps the running ones of so deep a network are far off, and the loss with
them in the thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from firstlight.data.cifar import cifar10
from firstlight.papers.figure import PaperFigure
from firstlight.papers.norm.placements_in_training import (
    births,
    draw_placements,
    explained,
    gamma_falls,
    onset_statements,
    runs_of,
)
from firstlight.papers.norm.resnets_by_placement import TITLES, resnet
from firstlight.papers.work import Work
from firstlight.results.reproduction import Statement
from firstlight.training.recipes import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]


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
        network = resnet(34, placement, classes=10, width=work["width"])
        results[f"{placement}-birth"] = births(work, placement, network, pictures)
        results[placement] = runs_of(work, placement, network, pictures, test, recipe, test_mode="train")
    return results


def _draw(results: Mapping[str, Any]) -> Figure:
    return draw_placements(results, TITLES)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What the caption and appendix G.3 say, of both ways to place the norm after the activation."""
    onset = min(_EPOCH, int(results["before"].steps[-1]))
    said = []
    for placement, where in (
        ("after", "Figure G.10, norms moved within the blocks"),
        ("behind-sums", "Figure G.10, norms moved behind the sums too"),
    ):
        said += [
            explained(
                gamma_falls(results, placement, where),
                "the norm at the end of a block stands before the sum and stays there; the ReLU behind the last sum "
                "gives the pooled units their centre whatever stands within the blocks",
            ),
            *(
                explained(item, _WHY[placement])
                for item in onset_statements(results, onset, where, after=placement)
            ),
        ]
    return said


_EPOCH = 125
"""Updates in an epoch of batches of 400: what is called the early phase."""

_WHY = {
    "after": "γ is the same, and so is how training begins",
    "behind-sums": "without norms before the sums this is another network, and at this rate it begins more slowly, for "
    "all that its guesses are even; the paper does not say where its ResNet-34 has its norms",
}

FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {
            "width": 4,
            "births": 2,
            "born_on": 8,
            "runs": 2,
            "rate": 0.01,
            "batch": 8,
            "steps": 2,
            "looked_at": 8,
        },
        "small": {
            "width": 16,
            "births": 40,
            "born_on": 128,
            "runs": 4,
            "rate": 0.01,
            "batch": 64,
            "steps": 80,
            "looked_at": 256,
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
            "16 … 128 channels instead of 64 … 512",
            "4 runs of 80 steps with batches of 64 instead of whole training",
            "accuracy and max_c G_c on 256 training and 256 test pictures; γ from 40 initializations on 128 pictures",
        ),
        "paper": ("the paper gives no recipe for ResNet-34; that of figure 5 is taken",),
    },
)
