r"""Orthogonal weights (Saxe et al. 2014): every layer keeps lengths and angles of what it is given, but for its gain.

Enters: a model. Leaves: the model with weights :math:`W = g Q` and biases 0, where the rows or the columns of
:math:`Q`, whichever are fewer, are orthonormal. A kernel counts as the matrix from one patch to the channels of one
group, a projection of an attention as a matrix of its own.

An entry has mean square :math:`g^2/\max(\text{fan in}, \text{fan out})`, so to theory this is
:math:`σ_w^2 = g^2 \min(1, \text{fan in}/\text{fan out})`: in the limit of infinite width, at any finite depth,
orthogonal and independent weights make the same γ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from firstlight.errors import ModelError, UsageError
from firstlight.measurement.selecting import chosen
from firstlight.remedies.affine_maps import AffineMap, affine_maps, owners_elsewhere
from firstlight.remedies.duplicating import duplicate, require_ordinary
from firstlight.results.change import Edit, Edits, Left

__all__ = ["drawn_orthogonal", "orthogonal_initialization"]


def orthogonal_initialization(
    model: nn.Module,
    *,
    gain: float = math.sqrt(2.0),
    layers: str | Iterable[str] | None = None,
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Draw orthogonal weights for dense and convolutional layers; their biases become 0.

    Args:
        model: The model; a copy is changed.
        gain: g; √2 keeps the mean square of a ReLU network of constant width, 1 that of a linear or narrow tanh one.
        layers: Names or patterns of the layers to change (``"~…"`` excludes); all by default.
        in_place: Work on the model itself.

    Returns:
        The new model, and the edits.

    >>> net, edits = orthogonal_initialization(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), gain=1.0)
    >>> torch.allclose(net[0].weight @ net[0].weight.T, torch.eye(4), atol=1e-6), len(edits)
    (True, 2)
    """
    where = "orthogonal_initialization"
    if isinstance(gain, bool) or not isinstance(gain, int | float) or not 0 < gain < math.inf:
        raise UsageError(f"{where}(gain): expected a number above 0, got {gain!r}")
    require_ordinary(model, where)
    working = model if in_place else duplicate(model, where)
    maps, left = affine_maps(working, where)
    foreign = owners_elsewhere(working, maps)
    names = list(dict.fromkeys(item.address for item in maps))
    wanted = names if layers is None else chosen(names, [layers] if isinstance(layers, str) else layers)
    reasons = {item.key: item.obstacle(foreign) for item in maps if item.address in wanted}
    made: list[Edit] = []
    drawn: dict[tuple[int, str], str] = {}
    for item in maps:
        reason = reasons.get(item.key, "layers leaves it out")
        shared = None if reason else drawn.get(item.weight_key)
        if not reason and shared is None and not drawn_orthogonal(item, gain):
            reason = "its weight is computed by a parametrization that does not take another"
        if reason:
            left.append(Left(item.address, reason))
            continue
        drawn.setdefault(item.weight_key, item.address)
        if (bias := item.bias()) is not None:
            item.set_bias(torch.zeros_like(bias))
        words = f"{item.title}: " + (f"weight of {shared}" if shared else "weight drawn")
        words += ", bias 0" if bias is not None else ""
        made.append(Edit(item.address, words, "as it was drawn", f"orthogonal, gain {gain:.4g}"))
    if not made:
        told = "; ".join(f"{item.address or 'the model itself'}: {item.reason}" for item in left[:6])
        raise ModelError(
            f"{where}: found no layer of {type(model).__name__} to initialize: {told or 'it has none'}"
        )
    return working, Edits(tuple(made), tuple(left))


def drawn_orthogonal(item: AffineMap, gain: float) -> bool:
    """Draw one weight from torch's global generator; whether the map takes it."""
    weight, stored = item.weight(), item.stored()
    groups = int(getattr(item.holder, "groups", 1))
    drawn = torch.cat([_orthogonal(part, gain) for part in weight.chunk(groups)])
    if item.assign(drawn.to(weight.dtype)):
        return True
    item.restore(stored)
    return False


def _orthogonal(like: Tensor, gain: float) -> Tensor:
    """In single precision at least, which the decomposition takes."""
    shaped = torch.empty_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
    return nn.init.orthogonal_(shaped, gain=gain)
