r"""Data-dependent initializations: every layer scaled, and centred, by what a few mini-batches give it.

Enters: a model with the weights that its law drew, and data. Leaves: the model with its layers scaled one behind the
other, in the order in which they run. With :math:`u = W x` over five mini-batches and positions, and weights of mean
square 1 (what they are drawn with does not matter, as the layer's scale is taken from it),

.. math:: \text{scale: } W ← \frac{W}{\sqrt{⟨u^2⟩ + ε}},\ b ← 0, \qquad
          \text{scale and bias: } W ← \frac{W}{\sqrt{⟨(u - μ)^2⟩ + ε}},\
          b_i ← -\frac{μ_i}{\sqrt{⟨(u - μ)^2⟩ + ε}}, \qquad
          \text{LSUV: } W ← \frac{Q}{\sqrt{\operatorname{Var} u}},\ b ← 0,

with the mean :math:`μ_i` of each unit over the data, averages over units too, and orthogonal :math:`Q`. The paper sets
the bias first and scales the weight then, which would leave the unit a mean; so the bias is scaled along.

References: Luther & Seung 2019, equations 13 and 14; Mishkin & Matas 2016 (LSUV); Saxe et al. 2014.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from firstlight.errors import UsageError
from firstlight.remedies.calibrating import Aim, calibrated
from firstlight.remedies.duplicating import duplicate, require_ordinary
from firstlight.remedies.orthogonal import drawn_orthogonal
from firstlight.results.change import Edits

__all__ = ["lsuv_initialization", "scale_bias_initialization", "scale_initialization"]


def scale_initialization(
    model: nn.Module,
    data: Any,
    *,
    mode: str = "train",
    batches: int = 5,
    batch_size: int | None = None,
    epsilon: float = 1e-5,
    layers: str | Iterable[str] | None = None,
    dropout: bool = False,
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Scale each layer's weight until its pre-activations have mean square 1; biases become 0.

    Args:
        model: The model; a copy is changed.
        data: Whatever ``measure`` takes.
        mode: Which statistics batch norm uses.
        batches: Mini-batches that are looked at.
        batch_size: Samples in each, where the data is ours to cut; by default all of it is used, up to 512 in each.
        epsilon: ε of equation 13, beside the mean square that weights of mean square 1 would give.
        layers: Names or patterns of the layers to change (``"~…"`` excludes); all by default.
        dropout: Whether dropout drops while the data are looked at.
        in_place: Work on the model itself.

    Returns:
        The new model, and the edits.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(3, 50), nn.ReLU(), nn.Linear(50, 2))
    >>> data = torch.randn(200, 3)
    >>> scaled, edits = scale_initialization(net, data)
    >>> f"{scaled(data).square().mean():.3f}", len(edits)
    ('1.000', 2)
    """
    aim = Aim("scale_initialization", False, "zero", _checked("scale_initialization", epsilon))
    working = _working(model, in_place, aim.name)
    return working, calibrated(
        working, data, aim, mode=mode, batches=batches, batch_size=batch_size, layers=layers, dropout=dropout
    )


def scale_bias_initialization(
    model: nn.Module,
    data: Any,
    *,
    mode: str = "train",
    batches: int = 5,
    batch_size: int | None = None,
    epsilon: float = 1e-5,
    layers: str | Iterable[str] | None = None,
    create_biases: bool = True,
    dropout: bool = False,
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Set each layer's biases and scale its weight: every unit has mean 0 over the data, every layer variance 1.

    Args:
        model: The model; a copy is changed.
        data: Whatever ``measure`` takes.
        mode: Which statistics batch norm uses.
        batches: Mini-batches that are looked at.
        batch_size: Samples in each, where the data is ours to cut; by default all of it is used, up to 512 in each.
        epsilon: ε of equation 13, beside the variance that weights of mean square 1 would give.
        layers: Names or patterns of the layers to change (``"~…"`` excludes); all by default.
        create_biases: Whether a layer without a bias gets one, unless a batch norm behind it takes its means away.
        dropout: Whether dropout drops while the data are looked at.
        in_place: Work on the model itself.

    Returns:
        The new model, and the edits.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(3, 50), nn.ReLU(), nn.Linear(50, 2))
    >>> data = torch.randn(200, 3)
    >>> scaled, edits = scale_bias_initialization(net, data)
    >>> outputs = scaled(data)
    >>> bool((outputs.mean(0).abs() < 1e-5).all()), f"{outputs.square().mean():.3f}"
    (True, '1.000')
    """
    aim = Aim("scale_bias_initialization", True, "units", _checked("scale_bias_initialization", epsilon))
    working = _working(model, in_place, aim.name)
    return working, calibrated(
        working,
        data,
        aim,
        mode=mode,
        batches=batches,
        batch_size=batch_size,
        layers=layers,
        create_biases=create_biases,
        dropout=dropout,
    )


def lsuv_initialization(
    model: nn.Module,
    data: Any,
    *,
    mode: str = "train",
    batches: int = 5,
    batch_size: int | None = None,
    layers: str | Iterable[str] | None = None,
    dropout: bool = False,
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Layer-sequential unit variance: orthogonal weights, scaled until each layer's output has variance 1; biases 0.

    The variance is about the mean of the layer, over all units. As the output is linear in the weight, one step does
    what the authors repeat until it is done.

    Args:
        model: The model; a copy is changed.
        data: Whatever ``measure`` takes.
        mode: Which statistics batch norm uses.
        batches: Mini-batches that are looked at (the authors take 1).
        batch_size: Samples in each, where the data is ours to cut; by default all of it is used, up to 512 in each.
        layers: Names or patterns of the layers to change (``"~…"`` excludes); all by default.
        dropout: Whether dropout drops while the data are looked at.
        in_place: Work on the model itself.

    Returns:
        The new model, and the edits.

    >>> import torch
    >>> data = torch.randn(200, 3)
    >>> made, edits = lsuv_initialization(nn.Sequential(nn.Linear(3, 50), nn.ReLU(), nn.Linear(50, 2)), data)
    >>> f"{made(data).var(correction=0):.3f}", len(edits)
    ('1.000', 2)
    """
    aim = Aim("lsuv_initialization", False, "layer", 0.0)
    working = _working(model, in_place, aim.name)
    return working, calibrated(
        working,
        data,
        aim,
        mode=mode,
        batches=batches,
        batch_size=batch_size,
        layers=layers,
        dropout=dropout,
        prepare=lambda item: drawn_orthogonal(item, 1.0),
    )


def _checked(where: str, epsilon: float) -> float:
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise UsageError(f"{where}(epsilon): expected a number from 0 to 1, got {epsilon!r}")
    return float(epsilon)


def _working(model: nn.Module, in_place: bool, where: str) -> nn.Module:
    require_ordinary(model, where)
    return model if in_place else duplicate(model, where)
