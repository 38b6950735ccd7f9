"""What becomes of every norm of a model: it moves, stands where it should, is left, or may not move.

Enters: a model, what is wished, and an example for parts that only show what they do
as they run. Leaves: a ``Plan``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from firstlight.errors import ModelError
from firstlight.measurement.selecting import chosen
from firstlight.remedies.examples import example_batch
from firstlight.remedies.flow import Flow, kind_of_slot
from firstlight.remedies.following import flows, holding_whole
from firstlight.remedies.norm_widths import before_map, behind_map
from firstlight.remedies.placing import Decision, Wish, decisions
from firstlight.remedies.recording import recorded

__all__ = ["Plan", "planned", "separate_functions"]


@dataclass
class Plan:
    """What is decided for every norm.

    Attributes:
        flows: What was seen of the model.
        moves: Decisions by slot, in running order.
        there: Reasons by slot of norms that stand where they should.
        left: Reasons by slot of norms that have no place to go to.
        refused: Reasons by slot of norms that have one, and may not go there.
        notes: Sentences that a reader should see.
    """

    flows: list[Flow]
    moves: dict[str, Decision] = field(default_factory=dict)
    there: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def planned(model: nn.Module, wish: Wish, layers: str | Iterable[str] | None, example: Any) -> Plan:
    """Decide for every norm, or for those that ``layers`` names, on copies of the model."""
    studied = copy.deepcopy(model)
    separate_functions(studied)
    seen, failed = flows(studied)
    unseen = [
        slot for slot in _norms(model) if not any(call.slot == slot for flow in seen for call in flow.calls)
    ]
    plan = Plan(seen)
    if example is not None and any(_inside(slot, failed) is not None for slot in unseen):
        running = copy.deepcopy(model)  # a forward that ran on symbols may have left some of them behind
        separate_functions(running)
        flow = recorded(running, example_batch(example, running))
        flow.calls = [
            call for call in flow.calls if _inside(f"{call.slot or call.caller}.", failed) is not None
        ]
        plan.flows = [part for part in seen if _inside(f"{part.scope}.", failed) is None] + [flow]
        parts = sorted({part for slot in unseen if (part := _inside(slot, failed)) is not None})
        plan.notes.append(
            f"seen only as they ran an example, not in every way their forward can take: {', '.join(parts)}"
        )
    found = decisions(plan.flows, wish)
    shared = _shared(studied)
    names = _norms(model)
    wanted = names if layers is None else chosen(names, [layers] if isinstance(layers, str) else layers)
    for slot in [
        *(slot for slot in found if slot in wanted),
        *(slot for slot in wanted if slot not in found),
    ]:
        decision = found.get(slot) or _not_called(model, slot, failed, example)
        if decision.outcome == "move" and slot in shared:
            decision = Decision("refused", f"it is the same module as {shared[slot]}")
        if decision.outcome == "move":
            decision = _possible(decision, wish)
        if decision.outcome == "move":
            plan.moves[slot] = decision
        else:
            target = {"there": plan.there, "left": plan.left, "refused": plan.refused}[decision.outcome]
            target[slot] = decision.reason
    return plan


def _possible(decision: Decision, wish: Wish) -> Decision:
    """The same decision, or the refusal where no norm of the new width can be made."""
    if decision.dense is not None:
        assert decision.norm is not None
        assert decision.norm.module is not None
        assert decision.dense.module is not None
        try:
            (behind_map if wish.after else before_map)(decision.norm.module, decision.dense.module)
        except ModelError as error:
            return Decision("refused", str(error))
    return decision


def _norms(model: nn.Module) -> list[str]:
    return [
        name for name, module in model.named_modules(remove_duplicate=False) if kind_of_slot(module) == "norm"
    ]


def _shared(model: nn.Module) -> dict[str, str]:
    """Norms with parameters or statistics that stand in several slots."""
    first: dict[int, str] = {}
    shared: dict[str, str] = {}
    for slot in _norms(model):
        module = model.get_submodule(slot)
        other = first.setdefault(id(module), slot)
        if other != slot:
            shared[slot], shared[other] = other, slot
    return shared


def separate_functions(model: nn.Module) -> None:
    """Give every slot an object of its own where an object without state stands in several (``self.act = act``)."""
    seen: set[int] = set()
    for module in list(model.modules()):
        for name, child in module._modules.items():
            if child is None:
                continue
            stateless = not any(True for _ in (*child.parameters(), *child.buffers(), *child.children()))
            if stateless and id(child) in seen:
                module._modules[name] = copy.copy(child)
            seen.add(id(child))


def _inside(slot: str, failed: dict[str, str]) -> str | None:
    """The innermost part that could not be followed and holds the slot; an address with a dot behind it may be it."""
    holders = [part for part in failed if part == "" or slot.startswith(f"{part}.")]
    return max(holders, key=len) if holders else None


def _not_called(model: nn.Module, slot: str, failed: dict[str, str], example: Any) -> Decision:
    whole = holding_whole(model, slot)
    if whole:
        return Decision("left", f"it is a part of {whole}, which runs as one piece")
    part = _inside(slot, failed)
    if part is None or example is not None:
        return Decision("left", "the forward does not call it")
    name = f"{part or 'the model'} ({type(model.get_submodule(part)).__name__})"
    return Decision(
        "refused", f"{name}: {failed[part]}; pass example= data that the model takes, to see it run"
    )
