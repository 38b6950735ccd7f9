r"""Set the bias of the read-out to the logarithm of the labels' shares.

Enters: a model and data with targets. Leaves: the model with :math:`b_c = \log p_c`, so that softmax of the bias alone
is the prior: a network whose logits say nothing yet then starts at a loss of :math:`-\sum_c p_c \log p_c`, the
least that can be had without looking at an input, instead of :math:`\log` of the number of labels.

It aims at the loss, not at even guesses: where logits vary less than :math:`\log p`, the commonest label gets them all.
In theory's words the read-out gets a bias variance of :math:`\langle b_c^2\rangle`, which is added to the centre
variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from firstlight.errors import DataError, ModelError, UsageError
from firstlight.measurement.seeding import random_state_preserved
from firstlight.remedies.duplicating import duplicate
from firstlight.remedies.examples import example_batch
from firstlight.remedies.flow import Call
from firstlight.remedies.label_shares import label_shares
from firstlight.remedies.recording import recorded
from firstlight.results.change import Edit, Edits

__all__ = ["output_bias_to_prior"]

_KEEPING = {
    *(
        "flatten",
        "view",
        "reshape",
        "squeeze",
        "permute",
        "transpose",
        "movedim",
        "float",
        "to",
        "contiguous",
    ),
    *("mean", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "log_softmax"),
    *(
        "Flatten",
        "Unflatten",
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "AvgPool1d",
        "AvgPool2d",
        "LogSoftmax",
    ),
}
"""What may stand between the read-out and the logits: a constant of each label goes through it (up to one for all)."""


def output_bias_to_prior(
    model: nn.Module,
    data: Any,
    *,
    prior: Sequence[float] | None = None,
    added: float = 0.0,
    head: str | None = None,
    mode: str = "train",
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Set the read-out's bias to log prior.

    Args:
        model: The model; a copy is changed.
        data: Whatever ``measure`` takes, with targets, from which the shares of the labels are counted.
        prior: The shares instead, one number a label.
        added: Counted to each label before the shares are taken; 1 gives labels that never occur a share.
        head: Address of the read-out; by default the one layer from which the logits come.
        mode: Takes no part: the logits come from the same layer in both modes.
        in_place: Work on the model itself.

    Returns:
        The new model, and the edit.

    >>> net = nn.Sequential(nn.Linear(2, 2))
    >>> data = (torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))
    >>> output_bias_to_prior(net, data)[0][0].bias.exp().tolist()
    [0.75, 0.25]
    """
    working = duplicate(model, "output_bias_to_prior")
    slot = head if head is not None else _head_of(duplicate(model), data)
    if slot not in dict(working.named_modules()):
        raise UsageError(f"output_bias_to_prior(head): {type(model).__name__} has no module {slot!r}")
    module = working.get_submodule(slot)
    bias = module._parameters.get("bias")
    told = f"{slot or 'the model itself'} ({type(module).__name__})"
    if bias is None:
        raise ModelError(f"output_bias_to_prior: {told} has no bias to set; build it with bias=True")
    owners = [
        name
        for name, item in working.named_modules()
        if any(value is bias for value in item._parameters.values())
    ]
    if len(owners) > 1:
        raise ModelError(
            f"output_bias_to_prior: the bias of {told} is shared with "
            f"{', '.join(name for name in owners if name != slot)}, which would change too"
        )
    wanted = torch.log(_shares(prior, data, bias.numel(), added))
    if not in_place:
        model = working
    target = model.get_submodule(slot)._parameters["bias"]
    assert target is not None
    before = target.detach().clone()
    with torch.no_grad():
        target.copy_(wanted.to(target.dtype))
    name = f"{slot}.bias" if slot else "bias"
    return model, Edits((Edit(name, "set to log prior", _told(before), _told(target.detach())),))


def _head_of(model: nn.Module, data: Any) -> str:
    """Address of the layer that the logits come from; refuses by name what has none."""
    with random_state_preserved():
        flow = recorded(model, example_batch(data, model))
    ends = [call for call in flow.calls if call.returned]
    found = {call.slot: call for end in ends if (call := _behind(end)) is not None}
    if len(found) == 1:
        return next(iter(found))
    where = "output_bias_to_prior: cannot find the read-out"
    if found:
        raise ModelError(f"{where}: the model returns values of {', '.join(found)}; name one by head=")
    if not ends:
        raise ModelError(f"{where}: it cannot be seen where the model's output comes from; name it by head=")
    raise ModelError(
        f"{where}: the output comes from {', '.join(f'{call.label} ({call.kind})' for call in ends[:3])}, behind "
        "which a bias of each label would not stay what it is; name a layer by head= if it should be set all the same"
    )


def _behind(call: Call) -> Call | None:
    """The dense map or convolution whose bias arrives as it is."""
    current: Call | None = call
    while current is not None:
        if current.kind in ("dense", "convolution"):
            return current if current.slot else None
        if current.kind != "pass" and current.name not in _KEEPING:
            return None
        current = current.only_input
    return None


def _shares(prior: Sequence[float] | None, data: Any, labels: int, added: float) -> Tensor:
    if added < 0:
        raise UsageError(f"output_bias_to_prior(added): expected a number of at least 0, got {added!r}")
    if prior is None:
        shares = label_shares(data, labels, "output_bias_to_prior", added=added)
    else:
        shares = torch.as_tensor(np.asarray(prior, dtype=np.float64))
        if shares.shape != (labels,) or abs(float(shares.sum()) - 1) > 1e-6:
            raise UsageError(
                f"output_bias_to_prior(prior): expected {labels} numbers, one a label, that sum to 1, "
                f"got {list(prior)!r}"
            )
    absent = torch.nonzero(shares <= 0).flatten().tolist()
    if absent:
        listed = ", ".join(map(str, absent[:5])) + (" …" if len(absent) > 5 else "")
        raise DataError(
            f"output_bias_to_prior: {len(absent)} of {labels} labels have no share ({listed}), and log 0 is no bias; "
            "pass added=1, or prior= with a share for each"
        )
    return shares


def _told(values: Tensor) -> str:
    shown = ", ".join(f"{value:.3g}" for value in values[:4].tolist())
    return f"({shown}{', …' if len(values) > 4 else ''})"
