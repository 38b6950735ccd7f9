r"""The logits of one initialization: their scale, their loss, and which labels they cannot tell apart.

Enters: rows of logits (row, label), with targets where there are any. Leaves numbers of the whole network. A shift
common to all labels of a row moves neither a guess nor a loss, so :math:`\tilde z_c = z_c - \bar z` is what counts:

- its centre variance and data variance, whose ratio is γ as the guesses see it, and whose sum is the squared scale;
- the cross-entropy with the targets, and with evenly drawn labels, :math:`⟨\log\sum_c e^{z_c} - \bar z⟩`;
- the least distance of two labels, :math:`d_{ab}^2 = \frac{(m_a - m_b)^2}{4C} + \frac{\mathrm{Var}(z_a - z_b)}{4V}`:
  0 for duplicates, about 1 for independent ones, whether the centres or the data move the logits more;
- the shares of rows that are not finite, and of rows that are probabilities already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from firstlight.errors import DataError
from firstlight.measurement.layouts import Rows
from firstlight.measurement.observables import moments

__all__ = ["LogitState", "finalize", "init", "targets_of", "update"]

_PAIRS = 256
"""Labels up to which all pairs are compared."""
_IGNORED = -100
"""The target that torch's cross-entropy leaves out."""
_PIECE = 1 << 20
"""Logits taken in at a time: a vocabulary's are copied to float64 in parts."""
_ROUNDING = 1e-4
"""By how much a row of probabilities may miss a sum of one, in any precision from bfloat16's sums on."""


@dataclass(frozen=True)
class LogitState:
    """Sums over the rows seen.

    Attributes:
        centred: Moments of the logits about their row's mean.
        products: Σ z̃ z̃ᵀ over rows, (label, label); ``None`` where labels are many.
        rows: Rows seen.
        finite: Those without NaN and infinity; all sums are over them.
        probable: Those that are probabilities.
        even_loss: Σ of the loss with evenly drawn labels.
        loss: Σ of the loss with the targets.
        targets: Rows with a target.
    """

    centred: moments.Moments
    products: Tensor | None
    rows: int = 0
    finite: int = 0
    probable: int = 0
    even_loss: float = 0.0
    loss: float = 0.0
    targets: int = 0


def init(labels: int) -> LogitState:
    """Nothing seen yet."""
    products = torch.zeros(labels, labels, dtype=torch.float64) if labels <= _PAIRS else None
    return LogitState(moments.init(labels, order=2), products)


def update(state: LogitState, rows: Tensor, targets: Tensor | None = None) -> LogitState:
    """Take in logits (row, label), with their targets (row,).

    >>> state = update(init(2), torch.tensor([[1.0, -1.0], [3.0, 1.0]]), torch.tensor([0, 0]))
    >>> found = finalize(state)
    >>> found["logit_center_variance"], found["logit_data_variance"], round(found["initial_loss"], 4)
    (1.0, 0.0, 0.1269)
    """
    step = max(_PIECE // rows.shape[1], 1)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        state = _with_piece(state, rows[part], None if targets is None else targets[part])
    return state


def _with_piece(state: LogitState, rows: Tensor, targets: Tensor | None) -> LogitState:
    total = len(rows)
    rows = rows.detach().double().cpu()
    sound = torch.isfinite(rows).all(1)
    if not bool(sound.all()):
        rows = rows[sound]
        targets = None if targets is None else targets[sound.to(targets.device)]
    state = replace(state, rows=state.rows + total, finite=state.finite + len(rows))
    if not len(rows):
        return state
    centred = rows - rows.mean(1, keepdim=True)
    sums = torch.logsumexp(centred, 1)
    probable = (rows.amin(1) >= 0) & ((rows.sum(1) - 1).abs() < _ROUNDING)
    state = replace(
        state,
        centred=moments.update(state.centred, Rows(centred)),
        products=None if state.products is None else state.products + centred.T @ centred,
        probable=state.probable + int(probable.sum()),
        even_loss=state.even_loss + float(sums.sum()),
    )
    if targets is None:
        return state
    targets = targets.cpu().long()
    return replace(
        state,
        loss=state.loss + float(cross_entropy(rows, targets, ignore_index=_IGNORED, reduction="sum")),
        targets=state.targets + int((targets != _IGNORED).sum()),
    )


def finalize(state: LogitState) -> dict[str, float]:
    """Numbers of the whole network; NaN where there was nothing to tell."""
    found = moments.finalize(state.centred)
    some = state.finite or math.nan
    pair = _nearest(state)
    return {
        "logit_center_variance": found["center_variance"],
        "logit_data_variance": found["data_variance"],
        "even_loss": state.even_loss / some,
        "initial_loss": state.loss / state.targets if state.targets else math.nan,
        "label_distance": pair[0],
        "nearest_label": pair[1],
        "nearest_other": pair[2],
        "non_finite_share": 1 - state.finite / state.rows if state.rows else math.nan,
        "probability_share": state.probable / some,
    }


def targets_of(target: Any, rows: int, labels: int) -> Tensor | None:
    """Targets as (row,), where they are one label a row."""
    if not isinstance(target, Tensor) or target.is_floating_point() or target.is_complex():
        return None
    flat = target.reshape(-1)
    if len(flat) != rows or not len(flat):
        return None
    unknown = (flat < 0) | (flat >= labels)
    unknown &= flat != _IGNORED
    if not bool(unknown.any()):
        return flat
    if target.ndim > 1:  # a map of labels may mark what has none by a number of its own
        return None
    found = int(flat[unknown][0])
    outputs = (
        f"give its last layer at least {int(flat.max()) + 1} outputs" if found > 0 else "number labels from 0"
    )
    raise DataError(
        f"measure(data): a target is {found}, but the model has {labels} outputs, for labels 0 to {labels - 1}; "
        f"{outputs}, or write {_IGNORED} where a sample has no label"
    )


def _nearest(state: LogitState) -> tuple[float, float, float]:
    """Relative distance of the two labels that lie closest, and which they are."""
    if state.products is None or not state.finite or len(state.products) < 3:
        return math.nan, math.nan, math.nan  # the two logits of two labels differ by all there is
    mean = state.centred.mean
    apart = torch.zeros_like(state.products)
    covariance = state.products / state.finite - torch.outer(mean, mean)
    for part in (torch.outer(mean, mean), covariance):
        squares = part.diagonal()
        if float(squares.mean()) > 0:
            apart += (squares[:, None] + squares[None] - 2 * part).clamp(min=0) / (4 * squares.mean())
    if not float(apart.sum()) > 0:
        return math.nan, math.nan, math.nan
    apart.fill_diagonal_(torch.inf)
    first, second = divmod(int(apart.argmin()), len(apart))
    return math.sqrt(float(apart[first, second])), float(first), float(second)
