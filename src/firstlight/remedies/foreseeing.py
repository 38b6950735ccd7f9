"""What theory says of γ of the output on given points: the question that a remedy solves for its parameter.

Enters: a module or a Blueprint, and points. Leaves: γ as it is measured on all the data, of which the points are
a part, or the refusal that names what theory cannot read.

Over n points C counts each point with itself once in n. With d the mean square of an output and o the mean product of
two different points, C = d/n + o(1 − 1/n) and V = d − C; so d and o follow from what theory gives on n points, and C
and V from them for all N.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import Unmodelled, walk
from firstlight.errors import CouldNotError, FirstlightError
from firstlight.measurement.batches import as_batches
from firstlight.theory.dataset.image_inputs import held_positions, images_of
from firstlight.theory.predicting import predict

__all__ = ["fitting", "foreseen_gamma", "points_of", "readable"]

_POINTS = 400
"""Points whose covariance is carried."""
_GIGABYTES = 0.5
"""That covariances over the positions of pictures may take: they are asked for again and again."""
_FEWEST = 8
"""Pictures, at least."""


def points_of(data: Any, where: str) -> tuple[Tensor, int]:
    """The first inputs, (point, …), and how many there are in all."""
    batches = as_batches(data, seed=0)
    held: list[Tensor] = []
    total = 0
    try:
        for batch in batches:
            total += batch.size
            inputs = [item for item in (*batch.args, *batch.kwargs.values()) if isinstance(item, Tensor)]
            if len(inputs) != 1 or not inputs[0].is_floating_point():
                raise CouldNotError(
                    f"{where}: theory speaks of one floating-point input, and these data have "
                    f"{', '.join(f'{tuple(item.shape)} of {item.dtype}' for item in inputs)}"
                )
            if sum(len(item) for item in held) < _POINTS:
                held.append(inputs[0])
    finally:
        batches.close()
    return torch.cat(held)[:_POINTS], total


def readable(model: nn.Module, points: Tensor, where: str) -> Blueprint:
    """The model as theory reads it; refuses by name what has no rule."""
    try:
        blueprint = Blueprint.read(model, example=points[:2].to(_type_of(model)))
    except FirstlightError as error:
        raise CouldNotError(f"{where}: theory cannot read the model: {error}") from error
    missing = [layer for layer in walk(blueprint.layers) if isinstance(layer, Unmodelled)]
    if missing:
        told = "; ".join(
            f"{item.address or 'the model'} ({item.kind}): {item.reason}" for item in missing[:3]
        )
        more = f"; and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise CouldNotError(f"{where}: theory cannot read the model: {told}{more}")
    return blueprint


def fitting(blueprint: Blueprint, points: Tensor, where: str) -> Tensor:
    """The first points, of pictures as many as their covariance over positions allows."""
    images = images_of(points[:2].double().numpy(), blueprint.layers)
    if images is None:
        return points
    count = len(points)
    while (held := held_positions(blueprint.layers, count, images.shape[2:])).gigabytes > _GIGABYTES:
        if count <= _FEWEST:
            raise CouldNotError(
                f"{where}: theory would carry {held.gigabytes:.3g} GB for {count} pictures of "
                f"{' × '.join(map(str, images.shape[1:]))}, more than {_GIGABYTES:g} GB; make the pictures smaller, or "
                "choose a remedy that measures"
            )
        count = max(count // 2, _FEWEST)
    return points[:count]


def foreseen_gamma(blueprint: Blueprint, points: Tensor, total: int, where: str) -> float:
    """γ of the output on ``total`` points like these."""
    try:
        profile = predict(blueprint, data=points.double().numpy(), draws=1)
    except FirstlightError as error:
        raise CouldNotError(f"{where}: theory has no answer on these data: {error}") from error
    center, data = float(profile.center_variance[-1]), float(profile.data_variance[-1])
    if not (math.isfinite(center) and math.isfinite(data)):
        reasons = [f"{item.layer}: {item.reason}" for item in profile.coverage.entries if item.reason]
        raise CouldNotError(
            f"{where}: theory has no answer on these data: {'; '.join(reasons[:3]) or 'γ is no finite number'}"
        )
    count = len(points)
    alike = center + data
    different = (center - alike / count) / (1 - 1 / count)
    center = alike / total + different * (1 - 1 / total)
    return center / (alike - center) if alike > center else math.inf


def _type_of(model: nn.Module) -> torch.dtype:
    first = next((item for item in model.parameters() if item.is_floating_point()), None)
    return torch.get_default_dtype() if first is None else first.dtype
