"""Replace norms of one type by norms of another, where they stand.

Enters: a model. Leaves: the model with other norms. Scale and shift of a unit go along where the new norm has them for
the same units; running statistics begin anew.

===========  ==================================================  ====================================
``to``       of channels (behind a convolution)                  of the last axis (behind a dense map)
===========  ==================================================  ====================================
batch        ``BatchNorm1d/2d/3d``                               ``BatchNorm1d``; with positions between
                                                                 ``LastAxisBatchNorm``
layer        ``GroupNorm(1, channels)``                          ``LayerNorm``
group        ``GroupNorm(groups, channels)``                     the same, where there are no positions
rms          ``ChannelRMSNorm``                                  ``RMSNorm``
instance     ``InstanceNorm1d/2d/3d``                            no such thing: refused
none         ``Identity``                                        ``Identity``
===========  ==================================================  ====================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from firstlight.errors import ModelError, UsageError, one_of
from firstlight.measurement.observing import run
from firstlight.measurement.seeding import random_state_preserved
from firstlight.measurement.selecting import chosen
from firstlight.remedies.axis_norms import ChannelRMSNorm, LastAxisBatchNorm
from firstlight.remedies.duplicating import duplicate
from firstlight.remedies.examples import example_batch
from firstlight.remedies.flow import Call, kind_of_slot
from firstlight.remedies.following import flows, holding_whole
from firstlight.remedies.norm_widths import normalized_width
from firstlight.remedies.surgery import fill
from firstlight.results.change import Edit, Edits, Left

__all__ = ["NORM_TYPES", "convert_norm"]

NORM_TYPES = ("batch", "layer", "group", "rms", "instance", "none")

_BATCH = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
_INSTANCE = {3: nn.InstanceNorm1d, 4: nn.InstanceNorm2d, 5: nn.InstanceNorm3d}
_TORCHS_OWN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)
_EPSILON = 1e-5
"""Of a norm that says none (torch's RMSNorm)."""


def convert_norm(
    model: nn.Module,
    *,
    to: str = "layer",
    groups: int = 32,
    layers: str | Iterable[str] | None = None,
    example: Any = None,
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Replace every norm by one of another type.

    Args:
        model: The model; a copy is changed.
        to: ``"batch"``, ``"layer"``, ``"group"``, ``"rms"``, ``"instance"`` or ``"none"``.
        groups: Groups of a group norm; where they do not divide the channels, their greatest common divisor.
        layers: Names or patterns of the norms to replace (``"~…"`` excludes); all by default.
        example: Data that the model takes; shows how many axes each norm sees where the layer before does not say it.
        in_place: Work on the model itself; the module that is returned is the one to use.

    Returns:
        The new model, and the edits.

    >>> net, edits = convert_norm(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), to="layer")
    >>> edits.made[0].after
    'GroupNorm(1, 4)'
    """
    if to not in NORM_TYPES:
        raise one_of("convert_norm(to)", to, NORM_TYPES)
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise UsageError(f"convert_norm(groups): expected a whole number of at least 1, got {groups!r}")
    studied = duplicate(model, "convert_norm")
    names = [name for name, module in studied.named_modules() if kind_of_slot(module) == "norm"]
    if not names:
        raise ModelError(f"convert_norm: found no norm in {type(model).__name__}")
    wanted = names if layers is None else chosen(names, [layers] if isinstance(layers, str) else layers)
    with random_state_preserved():
        sites = _sites(studied, wanted, example)
    made: dict[str, nn.Module] = {}
    left: list[Left] = []
    refused: list[str] = []
    for name in wanted:
        norm = studied.get_submodule(name)
        whole = holding_whole(studied, name)
        if whole:
            left.append(Left(name, f"it is a part of {whole}, which runs as one piece"))
            continue
        if _type_of(norm) == to:
            left.append(Left(name, f"it is a {to} norm already"))
            continue
        try:
            made[name] = _converted(norm, to, groups, sites.get(name))
        except ModelError as error:
            refused.append(f"{name} ({type(norm).__name__}): {error}")
    if not made and not refused and all("one piece" in item.reason for item in left):
        raise ModelError(f"convert_norm: found no norm to replace: {left[0].address}: {left[0].reason}")
    if refused:
        more = f"; and {len(refused) - 6} more" if len(refused) > 6 else ""
        raise ModelError(f"convert_norm: cannot replace {'; '.join(refused[:6])}{more}; nothing was changed")
    working = model if in_place else duplicate(model, "convert_norm")
    slots = dict(working.named_modules(remove_duplicate=False))
    edits = []
    for name, norm in made.items():
        old = slots[name]
        for slot in [slot for slot, module in slots.items() if module is old]:
            fill(working, slot, norm)
        edits.append(Edit(name, "replaced", _told(old), _told(norm)))
    return working, Edits(tuple(edits), tuple(left), _notes(made, slots))


@dataclass(frozen=True)
class _Site:
    """What a norm stands behind, and how many axes its input has (``None``: nobody says)."""

    behind: str
    rank: int | None


def _sites(model: nn.Module, names: list[str], example: Any) -> dict[str, _Site]:
    ranks = {} if example is None else _ranks(model, names, example)
    seen, _ = flows(model)
    found: dict[str, _Site] = {}
    for flow in seen:
        for call in flow.calls:
            if call.kind == "norm":
                source = _source(call)
                rank = ranks.get(call.slot)
                if rank is None and source is not None and source.kind == "convolution":
                    rank = len(getattr(source.module, "kernel_size", ())) + 2
                if rank is None and any(isinstance(item.module, nn.Flatten) for item in flow.calls[:3]):
                    rank = 2 if source is not None and source.kind == "dense" else None
                found.setdefault(call.slot, _Site("" if source is None else source.kind, rank))
    for name in names:
        found.setdefault(name, _Site("", ranks.get(name)))
    return found


def _source(call: Call) -> Call | None:
    """The map whose values arrive."""
    source = call.only_input
    while source is not None and source.kind not in ("dense", "convolution"):
        source = source.only_input if source.kind in ("activation", "pass", "pool", "norm") else None
    return source


def _ranks(model: nn.Module, names: list[str], example: Any) -> dict[str, int]:
    """How many axes the input of each norm has when the example runs."""
    ranks: dict[str, int] = {}
    working = duplicate(model, "convert_norm").eval()

    def watching(name: str) -> Any:
        def watch(module: nn.Module, args: tuple[Any, ...]) -> None:
            if args and isinstance(args[0], Tensor):
                ranks[name] = args[0].dim()

        return watch

    for name in names:
        working.get_submodule(name).register_forward_pre_hook(watching(name))
    with torch.no_grad():
        run(working, example_batch(example, working))
    return ranks


def _type_of(norm: nn.Module) -> str:
    if any(isinstance(norm, kind) and type(norm).forward is not kind.forward for kind in _TORCHS_OWN):
        return "unknown"
    for kinds, name in (
        ((nn.modules.batchnorm._BatchNorm,), "batch"),
        ((nn.modules.instancenorm._InstanceNorm,), "instance"),
        ((nn.RMSNorm, ChannelRMSNorm), "rms"),
        ((nn.LayerNorm,), "layer"),
    ):
        if isinstance(norm, kinds):
            return name
    if isinstance(norm, nn.GroupNorm):
        return "layer" if norm.num_groups == 1 else "group"
    return "unknown"


def _converted(norm: nn.Module, to: str, groups: int, site: _Site | None) -> nn.Module:
    if to == "none":
        return nn.Identity()
    width = norm.channels if isinstance(norm, ChannelRMSNorm) else normalized_width(norm)
    if width is None or _type_of(norm) == "unknown":
        raise ModelError("it is no norm of torch's own over one axis (a forward of its own may do anything)")
    if nn.utils.parametrize.is_parametrized(norm):
        raise ModelError("it is parametrized, and another norm would lose that")
    rank = None if site is None else site.rank
    is_last = isinstance(norm, nn.LayerNorm | nn.RMSNorm | LastAxisBatchNorm)
    tensors = [item for item in (*norm.parameters(), *norm.buffers()) if item.is_floating_point()]
    place: dict[str, Any] = {"device": tensors[0].device, "dtype": tensors[0].dtype} if tensors else {}
    epsilon = getattr(norm, "eps", None) or _EPSILON
    dense = rank == 2 or (site is not None and site.behind == "dense" and rank is None and not is_last)
    made = (
        _of_last_axis(to, width, groups, rank, epsilon, place)
        if is_last and rank != 2
        else _of_units(to, width, groups, epsilon, place)
        if dense
        else _of_channels(to, width, groups, rank or _rank_of(norm), epsilon, place)
    )
    _carry(norm, made)
    return made.train(norm.training)


def _of_units(to: str, width: int, groups: int, epsilon: float, place: dict[str, Any]) -> nn.Module:
    """Inputs of the shape (sample, unit)."""
    if to == "instance":
        raise ModelError("instance norm needs positions, and its input has none")
    if to == "group":
        return nn.GroupNorm(math.gcd(groups, width), width, epsilon, **place)
    kinds: dict[str, type[nn.Module]] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "rms": nn.RMSNorm}
    return kinds[to](width, eps=epsilon, **place)


def _of_last_axis(
    to: str, width: int, groups: int, rank: int | None, epsilon: float, place: dict[str, Any]
) -> nn.Module:
    """Inputs of the shape (sample, …, unit)."""
    if to in ("instance", "group"):
        seen = "its input may have positions" if rank is None else f"its input has {rank} axes"
        raise ModelError(
            f"{to} norm takes channels on the second axis; here the units are on the last, and {seen}"
            + ("; pass example= data that the model takes" if rank is None else "")
        )
    kinds: dict[str, type[nn.Module]] = {"batch": LastAxisBatchNorm, "layer": nn.LayerNorm, "rms": nn.RMSNorm}
    return kinds[to](width, eps=epsilon, **place)


def _of_channels(
    to: str, width: int, groups: int, rank: int | None, epsilon: float, place: dict[str, Any]
) -> nn.Module:
    """Inputs of the shape (sample, channel, position, …)."""
    if to == "layer":
        return nn.GroupNorm(1, width, epsilon, **place)
    if to == "group":
        return nn.GroupNorm(math.gcd(groups, width), width, epsilon, **place)
    if to == "rms":
        return ChannelRMSNorm(width, epsilon, **place)
    kinds: dict[int, Any] = dict(_BATCH) if to == "batch" else dict(_INSTANCE)
    if rank not in kinds:
        raise ModelError(
            f"a {to} norm is made for a number of axes, and nothing says how many its input has; "
            "pass example= data that the model takes"
        )
    options = {"affine": True} if to == "instance" else {}
    made: nn.Module = kinds[rank](width, eps=epsilon, **options, **place)
    return made


def _rank_of(norm: nn.Module) -> int | None:
    """Axes that the class itself is made for."""
    for rank, kinds in ((4, (nn.BatchNorm2d, nn.InstanceNorm2d)), (5, (nn.BatchNorm3d, nn.InstanceNorm3d))):
        if isinstance(norm, kinds):
            return rank
    return 3 if isinstance(norm, nn.InstanceNorm1d) else None


def _carry(old: nn.Module, new: nn.Module) -> None:
    """Scale and shift of every unit, where both have them."""
    for name in ("weight", "bias"):
        mine, theirs = getattr(new, name, None), getattr(old, name, None)
        if isinstance(mine, nn.Parameter) and isinstance(theirs, nn.Parameter) and mine.shape == theirs.shape:
            with torch.no_grad():
                mine.copy_(theirs)
            mine.requires_grad_(theirs.requires_grad)


def _notes(made: dict[str, nn.Module], old: dict[str, nn.Module]) -> tuple[str, ...]:
    notes = []
    shifts = [
        getattr(old[name], "bias", None) for name, new in made.items() if getattr(new, "bias", None) is None
    ]
    if any(isinstance(shift, Tensor) and bool((shift != 0).any()) for shift in shifts):
        notes.append("shifts that were not 0 are gone: the new norms have none")
    if any(getattr(old[name], "running_mean", None) is not None for name in made):
        notes.append("running statistics are gone with the batch norms that kept them")
    if any(getattr(new, "running_mean", None) is not None for new in made.values()):
        notes.append("running statistics begin at (0, 1): in eval mode an untrained batch norm does nothing")
    return tuple(notes)


def _told(norm: nn.Module) -> str:
    inside = norm.extra_repr() if hasattr(norm, "extra_repr") else ""
    return f"{type(norm).__name__}({inside.split(', eps')[0]})"
