r"""Subtract from every activation its mean: SReLU (Francazi et al. 2024), and the same for any other.

Enters: a model and data. Leaves: the model in which every activation φ is

.. math:: φ(u) - \bar φ,

with the mean over the data and the units, :math:`\bar φ = \langle φ(u)\rangle`, or the mean that theory gives a
Gaussian pre-activation, :math:`\bar φ = E\,φ(\sqrt q z)`, :math:`z \sim N(0, 1)`; ReLU: :math:`\sqrt{q/2π}`. An
activation has a centre because all its units have a mean of one sign: the next layer multiplies that common mean
:math:`M` with weights of its own for each unit, so :math:`σ_w^2 M^2` of its centre variance goes away
with it. Which part is left (:math:`S_1 - M^2`) depends on the centres that the pre-activations have already; with one
number a unit (``per="unit"``) nothing is left at these weights on these data.

Shifts are taken in running order in one pass: each sees what the shifted activations before it send.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from firstlight.architecture.shaped_activations import ShapedActivation
from firstlight.errors import ModelError, UsageError, one_of
from firstlight.measurement.batches import Batch, as_batches
from firstlight.measurement.kinds import kind_of
from firstlight.measurement.observing import check_inputs, run
from firstlight.remedies.activation_sites import Site, Sites, activation_sites, in_place_of_each
from firstlight.remedies.duplicating import duplicate, require_ordinary
from firstlight.remedies.flow import Call
from firstlight.remedies.running import borrowed
from firstlight.results.change import Edit, Edits
from firstlight.theory.kernels.kernel import kernel_of

__all__ = ["activation_shift"]

_BY = ("data", "gaussian", "unit")
_PER = ("layer", "unit")


def activation_shift(
    model: nn.Module,
    data: Any,
    *,
    by: str = "data",
    per: str = "layer",
    samples: int = 512,
    layers: str | Iterable[str] | None = None,
    mode: str = "train",
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Subtract from every activation its mean.

    Args:
        model: The model; a copy is changed.
        data: Whatever ``measure`` takes.
        by: ``"data"``: the mean over the data; ``"gaussian"``: that of a Gaussian pre-activation of the mean square
            that the data give; ``"unit"``: that of one of mean square 1, as behind a norm.
        per: One shift a ``"layer"``, or one a ``"unit"`` (channel), by data only.
        samples: Samples that are looked at, in one batch.
        layers: Names or patterns of the activations (``"~…"`` excludes); all by default. Functions are named
            ``holder.relu()``.
        mode: Which statistics batch norm uses.
        in_place: Work on the model itself; the module that is returned is the one to use.

    Returns:
        The new model, and one edit for each activation.

    >>> net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
    >>> shifted, _ = activation_shift(net, torch.zeros(2, 3), by="unit")
    >>> round(float(shifted[2].shift), 6)  # 1/√(2π)
    0.398942
    """
    require_ordinary(model, "activation_shift")
    for option, value, known in (("by", by, _BY), ("per", per, _PER)):
        if value not in known:
            raise one_of(f"activation_shift({option})", value, known)
    if per == "unit" and by != "data":
        raise UsageError(
            f"activation_shift(per='unit'): the mean of one unit is known by='data' only, got by={by!r}"
        )
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 2:
        raise UsageError(f"activation_shift(samples): expected a whole number of at least 2, got {samples!r}")
    sites = activation_sites(model, layers, data, "activation_shift", lambda call: _centred(call, per))
    pooled = [site.name for site in sites.found if _max_pool(site.call) is not None]
    if pooled and by != "data":
        raise ModelError(
            f"activation_shift(by={by!r}): no Gaussian mean is known for the largest of several positions, and a "
            f"max-pool follows {', '.join(pooled[:4])}; nothing was changed; pass by='data', or leave them out by "
            f"layers=['~{pooled[0]}']"
        )
    batches = as_batches(data, seed=0, max_samples=samples)
    try:
        batch = batches.first().head(samples)
    finally:
        batches.close()
    check_inputs(batch, 0)
    rehearsed, made = in_place_of_each(duplicate(model, "activation_shift"), sites)
    _calibrate(rehearsed, made, sites, batch, by, per, mode)
    if in_place:
        sites.notes = list(dict.fromkeys(sites.notes))
        rehearsed, final = in_place_of_each(model, sites)
        for name, activation in final.items():
            activation.shift = made[name].shift
    edits = tuple(
        Edit(site.address, "shifted", site.told, f"{site.told} − {_amount(made[site.name].shift)}")
        for site in sites.found
    )
    return rehearsed, Edits(edits, tuple(sites.left), tuple(dict.fromkeys(sites.notes)))


def _calibrate(
    model: nn.Module,
    made: dict[str, ShapedActivation],
    sites: Sites,
    batch: Batch,
    by: str,
    per: str,
    mode: str,
) -> None:
    """Give every site its shift in one pass, in running order."""
    done: set[str] = set()

    def listener(site: Site) -> Any:
        def listen(module: ShapedActivation, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            if site.name in done:
                return None
            done.add(site.name)
            shift = _shift(site, args[0], output, by, per)
            if not bool(torch.isfinite(shift).all()):
                raise ModelError(f"activation_shift: the values of {site.name} are not finite")
            module.shift = shift.to(output.dtype)
            return output - module.shift

        return listen

    first = next((item for item in model.parameters() if item.is_floating_point()), None)
    if first is not None:
        batch = batch.converted(first.dtype, first.device)
    with ExitStack() as stack:
        for site in sites.found:
            stack.callback(made[site.name].register_forward_hook(listener(site)).remove)
        with borrowed(model, mode):
            run(model, batch)
    missed = [site.name for site in sites.found if site.name not in done]
    if missed:
        raise ModelError(
            f"activation_shift: the forward does not call {', '.join(missed[:4])} on these data, so they have no mean; "
            f"nothing was changed; leave them out by layers=['~{missed[0]}']"
        )


def _shift(site: Site, given: Tensor, output: Tensor, by: str, per: str) -> Tensor:
    if by == "data":
        pool = _max_pool(site.call)
        values = (output if pool is None else _pooled(pool, output)).double()
        if per == "layer":
            return values.mean()
        axis = 1 if values.ndim >= 4 else values.ndim - 1
        over = [place for place in range(values.ndim) if place != axis]
        return values.mean(over, keepdim=True).squeeze(0)
    variance = 1.0 if by == "unit" else float(given.double().square().mean())
    return torch.tensor(
        float(kernel_of(site.function()).mean(variance)), dtype=torch.float64, device=output.device
    )


def _pooled(pool: Call, values: Tensor) -> Tensor:
    """What the max-pool behind the activation makes of its values: a constant goes through it."""
    result: Tensor
    if pool.module is not None:
        result = pool.module(values)
    else:
        assert pool.node is not None
        assert callable(pool.node.target)
        result = pool.node.target(values, *pool.node.args[1:], **pool.node.kwargs)
    return result


def _max_pool(call: Call) -> Call | None:
    """The max-pool that alone takes the activation's value."""
    following = call.only_user
    while following is not None and following.kind == "pass":
        following = following.only_user
    if following is None or following.kind != "pool" or "max" not in following.name.lower():
        return None
    return following if following.module is not None or following.node is not None else None


def _centred(call: Call, per: str) -> str:
    """Why a shift of this activation would change nothing."""
    following = call.only_user
    while following is not None and following.kind in ("pass", "pool"):
        following = following.only_user
    if following is None or following.kind != "norm" or following.module is None:
        return ""
    norm = following.module
    of_units = isinstance(norm, nn.modules.batchnorm._NormBase) and kind_of(norm) == "channel norm"
    of_layers = isinstance(norm, nn.LayerNorm | nn.GroupNorm) and per == "layer"
    return f"the norm behind it ({following.label}) takes its mean away" if of_units or of_layers else ""


def _amount(shift: Tensor) -> str:
    if shift.numel() == 1:
        return f"{float(shift):.4g}"
    return f"({float(shift.min()):.3g} … {float(shift.max()):.3g}), one a unit"
