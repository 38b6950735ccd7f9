"""The activations of a model, and another module in the place of each.

Enters: a model, an example, and what is to be left alone. Leaves: ``Sites``, and the model in which each site holds a
``ShapedActivation`` around what stood there.

A module that is called once goes by its slot. Where a forward calls the activation as a function, or one module at
several places, the innermost module with that forward becomes a ``torch.fx.GraphModule`` with a part for each call, as
for norms that move (``surgery``). What can be reached by neither is refused by name, before anything is changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from firstlight.architecture.activation_callables import from_callable
from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.shaped_activations import ShapedActivation
from firstlight.architecture.torch_activations import as_module, recognise_call
from firstlight.errors import FirstlightError, ModelError
from firstlight.measurement.seeding import random_state_preserved
from firstlight.measurement.selecting import chosen
from firstlight.remedies.examples import example_batch
from firstlight.remedies.flow import Call, kind_of_slot
from firstlight.remedies.following import flow_of, flows, graph_of
from firstlight.remedies.planning import separate_functions
from firstlight.remedies.recording import recorded
from firstlight.remedies.surgery import as_graph, fill
from firstlight.results.change import Left

__all__ = ["Site", "Sites", "activation_sites", "in_place_of_each"]

_ARGUMENTS = {"leaky_relu": ("negative_slope",), "elu": ("alpha",), "celu": ("alpha",), "relu": ("inplace",)}
"""Names of positional arguments behind the first."""
_PRODUCTS = ("mul", "imul", "rmul", "matmul", "bmm", "einsum", "rmatmul")


@dataclass(frozen=True, eq=False)
class Site:
    """One activation.

    Attributes:
        name: Its slot; for a function ``holder.relu()``, and for later ones of that name ``holder.relu()#2`` ….
        call: Where it stands in the flow.
        holder: The module whose forward becomes a graph, or ``None`` where the slot is enough.
    """

    name: str
    call: Call
    holder: str | None = None

    @property
    def address(self) -> str:
        """What an edit names: the slot, or the module that calls the function."""
        return self.call.slot or self.holder or ""

    @property
    def told(self) -> str:
        """What stands there."""
        return type(self.call.module).__name__ if self.call.module is not None else f"{self.call.name}()"

    def function(self) -> ActivationFunction:
        """It as a function of a number."""
        module = self.module()
        return from_callable(module)

    def module(self) -> nn.Module:
        """It as a module of its own; what is a function becomes one."""
        if self.call.module is not None:
            return copy.deepcopy(self.call.module)
        return _module_of(self.call)


@dataclass
class Sites:
    """All of them, in running order.

    Attributes:
        found: To be shaped.
        left: Left alone, with the reason.
        refused: Reasons by name.
        notes: Sentences that a reader should see.
    """

    found: list[Site] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def activation_sites(
    model: nn.Module,
    layers: str | Iterable[str] | None,
    example: Any,
    where: str,
    spare: Callable[[Call], str],
) -> Sites:
    """Find all activations, on copies of the model.

    Args:
        model: The model.
        layers: Names or patterns (``"~…"`` excludes); all by default.
        example: Data that the model takes.
        where: Who asks, for messages.
        spare: Says why an activation is to be left as it is, or nothing.
    """
    with random_state_preserved():
        sites = _all_sites(model, example)
    names = [site.name for site in sites.found] + list(sites.refused)
    wanted = names if layers is None else chosen(names, [layers] if isinstance(layers, str) else layers)
    refused = {name: reason for name, reason in sites.refused.items() if name in wanted}
    kept: list[Site] = []
    for site in [site for site in sites.found if site.name in wanted]:
        reason = _gate(site.call) or spare(site.call)
        if not reason and site.call.returned and not site.call.users and not site.holder:
            reason = "it is what the model returns"
        if reason:
            sites.left.append(Left(site.address, reason))
            continue
        try:
            site.function()
        except FirstlightError as error:
            refused[site.name] = str(error)
            continue
        kept.append(site)
    if refused:
        told = "; ".join(f"{name}: {reason}" for name, reason in list(refused.items())[:4])
        more = f"; and {len(refused) - 4} more" if len(refused) > 4 else ""
        hints = ", ".join(repr(f"~{name}") for name in list(refused)[:2])
        raise ModelError(
            f"{where}: cannot change {told}{more}; nothing was changed; leave them out by layers=[{hints}]"
        )
    if not kept:
        reasons = "; ".join(f"{item.address or 'the model'}: {item.reason}" for item in sites.left[:4])
        raise ModelError(
            f"{where}: found no activation to change in {type(model).__name__}: {reasons or 'it has none'}"
        )
    sites.found = kept
    return sites


def in_place_of_each(model: nn.Module, sites: Sites) -> tuple[nn.Module, dict[str, ShapedActivation]]:
    """The model (changed; another root where the root becomes a graph) and the new module of each site."""
    made: dict[str, ShapedActivation] = {}
    device = next((item.device for item in model.parameters()), torch.device("cpu"))
    dtype = next((item.dtype for item in model.parameters() if item.is_floating_point()), None)

    def shaped(module: nn.Module, site: Site) -> ShapedActivation:
        made[site.name] = ShapedActivation(module).to(device, dtype)
        return made[site.name]

    for site in sites.found:
        if site.holder is None:
            fill(model, site.call.slot, shaped(copy.copy(model.get_submodule(site.call.slot)), site))
    holders = list(dict.fromkeys(site.holder for site in sites.found if site.holder is not None))
    for holder in sorted(holders, key=len, reverse=True):
        wanted = {site.name: site for site in sites.found if site.holder == holder}

        def change(
            graph: fx.Graph, module: nn.Module, wanted: dict[str, Site] = wanted, holder: str = holder
        ) -> None:
            for name, call in _local(graph, module, holder):
                if name not in wanted:
                    continue
                node = call.node
                assert node is not None
                part = f"shaped_{call.name}{len([key for key in module._modules if key.startswith('shaped_')]) + 1}"
                inner = (
                    module.get_submodule(str(node.target)) if node.op == "call_module" else _module_of(call)
                )
                module.add_module(part, shaped(copy.copy(inner), wanted[name]).train(module.training))
                with graph.inserting_after(node):
                    placed = graph.call_module(part, (node.args[0],))
                node.replace_all_uses_with(placed)
                graph.erase_node(node)

        model = as_graph(model, holder, set(), change)
        sites.notes.append(
            f"{holder or 'the model itself'} is now a torch.fx.GraphModule with the same parts, because its activation "
            "is called there as a function or at several places"
        )
    return model, made


# Finding


def _all_sites(model: nn.Module, example: Any) -> Sites:
    studied = copy.deepcopy(model)
    separate_functions(studied)
    seen, failed = flows(studied)
    sites = Sites()
    if failed and example is not None:
        running = copy.deepcopy(model)
        separate_functions(running)
        seen = [*seen, recorded(running, example_batch(example, running))]
        sites.notes.append(
            "seen only as they ran an example, not in every way their forward can take: "
            f"{', '.join(map(_part, failed))}"
        )
    holders: dict[str, None] = {}
    slots: dict[str, Site] = {}
    for flow in seen:
        within = [call for call in flow.calls if call.kind == "activation"]
        for call in within:
            if not call.slot or sum(other.slot == call.slot for other in within) > 1:
                holders[call.caller] = None
            else:
                slots.setdefault(call.slot, Site(call.slot, call))
    for holder in holders:
        module = studied.get_submodule(holder)
        graph = graph_of(module, set())
        if isinstance(graph, str):
            repeated = [call for flow in seen for call in flow.calls if call.caller == holder]
            label = next(
                call.label for call in repeated if call.kind == "activation" and call.slot not in slots
            )
            sites.refused[label] = f"{_part(holder)} ({type(module).__name__}): {graph}"
            continue
        local = _local(graph, module, holder)
        for name, call in local:
            alone = call.slot and sum(other.slot == call.slot for _, other in local) == 1
            if not alone:
                slots[name] = Site(name, call, holder)
            elif call.slot not in slots:  # the holder itself runs several times
                slots[call.slot] = Site(call.slot, call)
                sites.notes.append(f"{call.slot} runs several times in one pass, and has one shape for all")
    for slot in _modules_in(failed, studied):
        if slot not in slots and not any(name.startswith(f"{slot}.") for name in slots):
            holding = [part for part in failed if not part or slot.startswith(f"{part}.")]
            part = max(holding, key=len)
            sites.refused.setdefault(slot, f"{_part(part)}: {failed[part]}")
    sites.found = list(slots.values())
    for name, module in studied.named_modules():
        if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            sites.left.append(
                Left(name, f"{type(module).__name__} runs as one piece: its activation is not reached")
            )
    return sites


def _modules_in(failed: dict[str, str], model: nn.Module) -> list[str]:
    """Activation modules inside parts that were not followed."""
    return [
        name
        for name, module in model.named_modules()
        if name
        and any(part == "" or name.startswith(f"{part}.") for part in failed)
        and next(module.children(), None) is None
        and kind_of_slot(module) == "activation"
    ]


def _local(graph: fx.Graph, module: nn.Module, holder: str) -> list[tuple[str, Call]]:
    """Activations that this forward itself calls, each with its name."""
    found: list[tuple[str, Call]] = []
    counts: dict[str, int] = {}
    for call in flow_of(graph, module, holder).calls:
        if call.kind != "activation":
            continue
        label = call.slot or f"{holder + '.' if holder else ''}{call.name}()"
        counts[label] = counts.get(label, 0) + 1
        found.append((label if counts[label] == 1 else f"{label}#{counts[label]}", call))
    return found


def _part(address: str) -> str:
    return address or "the model itself"


def _gate(call: Call) -> str:
    """Whether all it does is to multiply another value: a gate or a weight, whose mean is its meaning."""
    if call.users and not call.returned and all(user.name in _PRODUCTS for user in call.users):
        return f"its value multiplies another one ({call.users[0].label})"
    return ""


def _module_of(call: Call) -> nn.Module:
    """A function that is called, as a module."""
    node = call.node
    if node is None:
        raise ModelError("it is called as a function inside a forward that cannot be followed symbolically")
    name = call.name
    target = getattr(torch, name, None) or getattr(functional, name, None) or getattr(Tensor, name, None)
    if (
        getattr(functional, name, None) is not None
        and recognise_call(getattr(functional, name), {}) is not None
    ):
        target = getattr(functional, name)
    names = _ARGUMENTS.get(name, ())
    extra = node.args[1:]
    keywords = {**dict(zip(names, extra, strict=False)), **node.kwargs}
    known = recognise_call(target, keywords) if target is not None and len(extra) <= len(names) else None
    if known is None:
        raise ModelError(f"{name}() with these arguments is no activation that is known; call it as a module")
    return as_module(known)
