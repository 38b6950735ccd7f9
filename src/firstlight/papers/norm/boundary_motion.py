"""How the decision boundary moves through the last hidden representation: where it lies and how it is turned.

Enters: a network of two outputs, data and a recipe. Leaves: by recorded step, with z = (w_1 − w_0)·h + b_1 − b_0 the
signed distance to the boundary (in units of ‖w_1 − w_0‖) of a representation h,

    offset      = |mean z| / deviation of z            0: the boundary halves the cloud; > 1.6: it misses it
    separation  = (mean z of class 1 − of class 0) / deviation within classes    how far it is turned to the classes

and the exact section by the plane of (class difference Δ, part of w_1 − w_0 orthogonal to Δ): no other direction enters
z, so in this plane the boundary is a line that sorts each point as the network does.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.samples import Samples
from firstlight.measurement.initialization import drawing
from firstlight.measurement.seeding import random_state_preserved
from firstlight.results.arrays import Arrays
from firstlight.results.provenance import Provenance
from firstlight.training.examples import examples
from firstlight.training.loops import Alone
from firstlight.training.recipes import Recipe
from firstlight.training.schedules import log_spaced

__all__ = ["boundary_motion", "section", "time_of_half"]

Array = NDArray[np.float64]
_POINTS = 300
"""Points of the data that are kept in the plane."""


def boundary_motion(
    blueprint: Blueprint, data: Samples, recipe: Recipe, *, runs: Sequence[int], seed: int
) -> Arrays:
    """Train these initializations one by one and look at the boundary on the log-spaced steps."""
    total = recipe.total(len(data))
    steps = log_spaced(total, points=20).upto(total)
    looks: list[list[dict[str, Any]]] = []
    with random_state_preserved():
        draw = drawing(blueprint, seed=seed)
        for run in runs:
            module = copy.deepcopy(draw.module_of(run))
            engine = Alone(module, run, recipe=recipe, data=examples(data), seed=seed, label_axis=1)
            seen = []
            for step in range(total):
                if step in steps:
                    seen.append(_look(module, data))
                engine.step(step)
            looks.append(seen)
    shapes = {
        "offset": ("run", "step"),
        "separation": ("run", "step"),
        "recall": ("run", "step", "label"),
        "points": ("run", "step", "point", "axis"),
        "line": ("run", "step", "coefficient"),
    }
    return Arrays.of(
        {
            **{
                name: (dims, [[item[name] for item in seen] for seen in looks])
                for name, dims in shapes.items()
            },
            "labels": ("point", data.labels[:_POINTS].numpy()),
        },
        coordinates={"run": list(runs), "step": steps},
        provenance=Provenance(
            "measurement",
            blueprint.describe(),
            data.description,
            seed=seed,
            mode="train",
            settings={"recipe": recipe.to_dict()},
        ),
    )


def section(hidden: Tensor, labels: Tensor, normal: Tensor, bias: Tensor) -> tuple[Array, Array]:
    """Coordinates (point, 2) about the mean of the cloud, and the line a·x + b·y + c = 0.

    >>> hidden = torch.tensor([[0.0, 0, 0], [2, 0, 1], [0, 0, 1], [2, 0, 0]])
    >>> points, line = section(hidden, torch.tensor([0, 1, 0, 1]), torch.tensor([3.0, 4, 0]), torch.tensor(2.0))
    >>> points[:, 0].tolist(), line.tolist()
    ([-1.0, 1.0, -1.0, 1.0], [3.0, 4.0, 5.0])
    """
    hidden, normal = hidden.double(), normal.double()
    difference = hidden[labels == 1].mean(0) - hidden[labels == 0].mean(0)
    along = difference / difference.norm()
    across = normal - (normal @ along) * along
    length = across.norm()
    across = across / length
    center = hidden.mean(0)
    points = torch.stack([(hidden - center) @ along, (hidden - center) @ across], 1)
    line = torch.stack([normal @ along, length, normal @ center + bias.double()])
    return points.numpy(), line.numpy()


def time_of_half(steps: Array, values: Array, target: Array) -> Array:
    """Step at which each run first crosses its target, (run,), on the line between two records; the last for never.

    >>> time_of_half(np.array([0.0, 10, 30]), np.array([[4.0, 3, 1], [0, 1, 2]]), np.array([2.0, 1.0]))
    array([20., 10.])
    """
    found = np.full(len(values), float(steps[-1]))
    for run, (row, level) in enumerate(zip(values, target, strict=True)):
        falling = row[0] > level
        past = np.flatnonzero(row <= level if falling else row >= level)
        if not len(past):
            continue
        at = int(past[0])
        if at == 0:
            found[run] = steps[0]
            continue
        share = (level - row[at - 1]) / (row[at] - row[at - 1])
        found[run] = steps[at - 1] + share * (steps[at] - steps[at - 1])
    return found


def _look(module: nn.Module, data: Samples) -> dict[str, Any]:
    assert isinstance(module, nn.Sequential)  # as a Blueprint builds it
    output = module[-1]
    assert isinstance(output, nn.Linear)
    with torch.no_grad():
        hidden = module[:-1](data.inputs)
        normal = output.weight[1] - output.weight[0]
        bias = torch.zeros(()) if output.bias is None else output.bias[1] - output.bias[0]
        z = hidden @ normal + bias
        first, second = z[data.labels == 0], z[data.labels == 1]
        points, line = section(hidden, data.labels, normal, bias)
    return {
        "offset": float(z.mean().abs() / z.std()),
        "separation": float((second.mean() - first.mean()) / ((first.var() + second.var()) / 2).sqrt()),
        "recall": [float((first < 0).double().mean()), float((second > 0).double().mean())],
        "points": points[:_POINTS],
        "line": line,
    }
