"""Move norms behind their activations, or back before them (Francazi et al. 2026).

Enters: a model. Leaves: the model with its norms elsewhere, its parameters and running statistics where they were as
long as the normalized width stays, and the list of edits.

Behind the activation, batch and layer norm take away the centre that the activation gives every unit, and with it the
initial bias; before it they keep the units' means at 0 and leave the bias to the activation. Whatever follows the norm
(the next map's mean) is then different, so this is another network, not the same one written differently.

Everything is decided before anything is changed. A norm that has no activation of its own (before a sum, before
attention, at the end) is left and listed. A norm that has one but cannot be moved with certainty is a refusal of the
whole, with all such norms named; ``layers=["~that.norm"]`` leaves them out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import fx, nn

from firstlight.errors import ModelError, one_of
from firstlight.measurement.seeding import random_state_preserved
from firstlight.measurement.selecting import chosen
from firstlight.remedies.duplicating import duplicate
from firstlight.remedies.examples import example_batch
from firstlight.remedies.flow import Call, Flow, kind_of_slot, parent_of
from firstlight.remedies.following import flow_of, flows, is_leaf
from firstlight.remedies.norm_widths import before_map, behind_map, normalized_width
from firstlight.remedies.placing import (
    VARIANTS_AFTER,
    VARIANTS_BEFORE,
    Decision,
    Wish,
    decide,
    decisions,
)
from firstlight.remedies.recording import recorded
from firstlight.remedies.surgery import (
    Together,
    Vacated,
    as_graph,
    common_holder,
    fill,
    in_one_sequence,
    is_sequence,
    moved_in_sequence,
    vacate,
)
from firstlight.results.change import Edit, Edits, Left

__all__ = ["norm_after_activation", "norm_before_activation"]


def norm_after_activation(
    model: nn.Module,
    *,
    variant: str = "after-activation",
    past_pool: bool = True,
    layers: str | Iterable[str] | None = None,
    example: Any = None,
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Move each norm from before its activation to behind it.

    Args:
        model: The model; a copy is changed.
        variant: For a norm before a whole residual branch, x + W2 φ(W1 norm(x)): ``"after-activation"`` gives
            x + W2 norm(φ(W1 x)), with the width of W1; ``"after-branch"`` gives x + norm(W2 φ(W1 x)).
        past_pool: Whether a norm of channels goes behind the pool that follows the activation, where there is one.
        layers: Names or patterns of the norms to move (``"~…"`` excludes); all by default.
        example: Data that the model takes, for parts whose forward can only be seen as it runs.
        in_place: Work on the model itself; the module that is returned is the one to use.

    Returns:
        The new model, and the edits.

    >>> net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    >>> after, edits = norm_after_activation(net)
    >>> [type(layer).__name__ for layer in after]
    ['Linear', 'ReLU', 'BatchNorm1d', 'Linear']
    >>> edits
    <Edits: 1 made, 0 left>
      1: moved BatchNorm1d: before 2 (ReLU) → behind 2 (ReLU), now 2
    """
    if variant not in VARIANTS_AFTER:
        raise one_of("norm_after_activation(variant)", variant, VARIANTS_AFTER)
    return _placed(model, Wish(True, variant, past_pool), layers, example, in_place, "norm_after_activation")


def norm_before_activation(
    model: nn.Module,
    *,
    variant: str = "auto",
    past_pool: bool = True,
    layers: str | Iterable[str] | None = None,
    example: Any = None,
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Move each norm from behind its activation to before it.

    Args:
        model: The model; a copy is changed.
        variant: ``"before-activation"``: right before it; ``"before-block"``: a norm inside a residual branch with one
            activation goes to the beginning of the branch; ``"auto"``: the second for layer and RMS norms, which
            stand there by convention, else the first.
        past_pool: Whether a norm behind the pool that follows the activation is moved too.
        layers: Names or patterns of the norms to move (``"~…"`` excludes); all by default.
        example: Data that the model takes, for parts whose forward can only be seen as it runs.
        in_place: Work on the model itself; the module that is returned is the one to use.

    Returns:
        The new model, and the edits.
    """
    if variant not in VARIANTS_BEFORE:
        raise one_of("norm_before_activation(variant)", variant, VARIANTS_BEFORE)
    return _placed(
        model, Wish(False, variant, past_pool), layers, example, in_place, "norm_before_activation"
    )


@dataclass
class _Plan:
    """What is decided for every norm."""

    flows: list[Flow]
    moves: dict[str, Decision] = field(default_factory=dict)
    there: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _placed(
    model: nn.Module, wish: Wish, layers: str | Iterable[str] | None, example: Any, in_place: bool, where: str
) -> tuple[nn.Module, Edits]:
    studied = duplicate(model, where)
    with random_state_preserved():
        plan = _planned(studied, wish, layers, example, where)
    if plan.refused:
        reasons = "; ".join(f"{slot}: {reason}" for slot, reason in list(plan.refused.items())[:6])
        more = f"; and {len(plan.refused) - 6} more" if len(plan.refused) > 6 else ""
        hint = ", ".join(repr(f"~{slot}") for slot in list(plan.refused)[:2])
        raise ModelError(
            f"{where}: cannot move {reasons}{more}; nothing was changed; leave them out by layers=[{hint}]"
        )
    if not plan.moves and not plan.there:
        reasons = "; ".join(f"{slot}: {reason}" for slot, reason in list(plan.left.items())[:4])
        raise ModelError(
            f"{where}: found no norm to move in {type(model).__name__}: {reasons or 'it has none'}"
        )
    working = model if in_place else duplicate(model, where)
    working, made = _Mover(working, plan, wish, where).moved()
    left = {**plan.there, **plan.left}
    return working, Edits(
        tuple(made), tuple(Left(slot, reason) for slot, reason in left.items()), tuple(plan.notes)
    )


# Deciding


def _planned(
    model: nn.Module, wish: Wish, layers: str | Iterable[str] | None, example: Any, where: str
) -> _Plan:
    _separate_functions(model)
    pristine = copy.deepcopy(model)
    seen, failed = flows(model)
    unseen = [
        slot for slot in _norms(model) if not any(call.slot == slot for flow in seen for call in flow.calls)
    ]
    plan = _Plan(seen)
    if example is not None and any(_inside(slot, failed) is not None for slot in unseen):
        flow = recorded(pristine, example_batch(example, pristine))
        flow.calls = [
            call for call in flow.calls if _inside(f"{call.slot or call.caller}.", failed) is not None
        ]
        plan.flows = [part for part in seen if _inside(f"{part.scope}.", failed) is None] + [flow]
        parts = sorted({part for slot in unseen if (part := _inside(slot, failed)) is not None})
        plan.notes.append(
            f"seen only as they ran an example, not in every way their forward can take: {', '.join(parts)}"
        )
    found = decisions(plan.flows, wish)
    shared = _shared(model)
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


def _separate_functions(model: nn.Module) -> None:
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
    holder = parent_of(slot)[0]
    while holder:
        if is_leaf(model.get_submodule(holder)):
            kind = type(model.get_submodule(holder)).__name__
            return Decision("left", f"it is a part of {holder} ({kind}), which runs as one piece")
        holder = parent_of(holder)[0]
    part = _inside(slot, failed)
    if part is None or example is not None:
        return Decision("left", "the forward does not call it")
    name = f"{part or 'the model'} ({type(model.get_submodule(part)).__name__})"
    return Decision(
        "refused", f"{name}: {failed[part]}; pass example= data that the model takes, to see it run"
    )


# Moving


class _Mover:
    """Carries out a plan on a model."""

    def __init__(self, model: nn.Module, plan: _Plan, wish: Wish, where: str) -> None:
        self.model, self.plan, self.wish, self.where = model, plan, wish, where
        self.side = "behind" if wish.after else "before"
        self.calls: dict[str, list[Call]] = {}
        for flow in plan.flows:
            for call in flow.calls:
                if call.slot:
                    self.calls.setdefault(call.slot, []).append(call)

    def moved(self) -> tuple[nn.Module, list[Edit]]:
        """The model and the edits."""
        edits: dict[str, Edit] = {}
        graphs: dict[str, list[str]] = {}
        for slot, decision in self.plan.moves.items():
            if not self._has_slots(slot, decision):
                graphs.setdefault(self._holder(decision), []).append(slot)
        self._rehearse(graphs)
        for slot, decision in self.plan.moves.items():
            if not any(slot in slots for slots in graphs.values()):
                edits[slot] = self._by_slots(slot, decision)
        for holder in sorted(graphs, key=len, reverse=True):
            for slot in graphs[holder]:
                edits[slot] = self._edit(slot, self.plan.moves[slot], slot, self._resized(slot))
            self.model = self._by_graph(self.model, holder, graphs[holder])
            self.plan.notes.append(
                f"{holder or 'the model itself'} is now a torch.fx.GraphModule with the same parts, parameters and "
                "buffers, because its activation is called there as a function or at several places"
            )
        return self.model, [edits[slot] for slot in self.plan.moves]

    def _has_slots(self, slot: str, decision: Decision) -> bool:
        """Whether the place where the norm goes is the place of one module."""
        assert decision.anchor is not None
        anchor = decision.anchor.slot
        if not anchor:
            return False
        anchors = [decide(call, self.wish).anchor for call in self.calls[slot]]
        return all(any(call is found for found in anchors) for call in self.calls[anchor])

    def _rehearse(self, graphs: dict[str, list[str]]) -> None:
        """Make every graph on a copy before anything is changed."""
        for holder, slots in graphs.items():
            self._by_graph(duplicate(self.model, self.where), holder, slots)

    def _by_slots(self, slot: str, decision: Decision) -> Edit:
        assert decision.anchor is not None
        assert decision.norm is not None
        anchor = decision.anchor
        norm = self._resized(slot)
        self._spare_inputs(decision)
        empty = _empty_slot(anchor, behind=self.wish.after)
        if empty is not None:
            fill(self.model, empty, norm)
            vacate(self.model, slot)
            new = empty
        elif in_one_sequence(self.model, (slot, anchor.slot)) and _runs_in_order(decision):
            fill(self.model, slot, norm)
            new = moved_in_sequence(self.model, slot, anchor.slot, behind=self.wish.after)
        else:
            neighbour = self.model.get_submodule(anchor.slot)
            names = [(anchor.kind, neighbour), ("norm", norm)]
            both = Together()
            for name, module in names if self.wish.after else names[::-1]:
                both.add_module(name, module)
            both.training = neighbour.training
            fill(self.model, anchor.slot, both)
            vacate(self.model, slot)
            new = f"{anchor.slot}.norm"
        return self._edit(slot, decision, new, norm)

    def _resized(self, slot: str) -> nn.Module:
        """The norm that goes to the new place: itself, or one of the width there."""
        decision = self.plan.moves[slot]
        norm = self.model.get_submodule(slot)
        if decision.dense is None:
            return norm
        dense = self.model.get_submodule(decision.dense.slot)
        return (behind_map if self.wish.after else before_map)(norm, dense)

    def _edit(self, slot: str, decision: Decision, new: str, norm: nn.Module) -> Edit:
        assert decision.anchor is not None
        assert decision.activation is not None
        assert decision.norm is not None
        kind = type(norm).__name__
        activation, anchor = _named(decision.activation), _named(decision.anchor)
        old_width, width = (
            normalized_width(item) for item in (decision.norm.module, norm) if item is not None
        )
        what = f"moved {kind}"
        if old_width != width:
            what += f", re-created with width {width} instead of {old_width}"
            note = "norms whose width changed start anew, with scale 1, shift 0 and running statistics (0, 1)"
            if note not in self.plan.notes:
                self.plan.notes.append(note)
        first = next(iter(decision.norm.users), decision.activation)
        before = f"before {activation}" if self.wish.after else f"behind {_named(decision.norm.inputs[0])}"
        if self.wish.after and first is not decision.activation:
            before = f"before {_named(first)}"
        moved = f", now {new}" if new != slot or self._renumbered(slot, new) else ""
        return Edit(slot, what, before, f"{self.side} {anchor}{moved}")

    def _renumbered(self, slot: str, new: str) -> bool:
        return parent_of(slot)[1].isdigit() and slot != new

    def _spare_inputs(self, decision: Decision) -> None:
        """An activation that overwrites its input may not overwrite what others still read."""
        assert decision.norm is not None
        assert decision.activation is not None
        source = decision.norm.inputs[0]
        if not self.wish.after or not decision.activation.slot or decision.dense is not None:
            return
        module = self.model.get_submodule(decision.activation.slot)
        if getattr(module, "inplace", False) and not _is_free(source):
            module.inplace = False  # type: ignore[assignment]
            self.plan.notes.append(
                f"{decision.activation.slot} no longer works in place: "
                f"its input is now {source.label}, which others read"
            )

    # Graphs

    def _holder(self, decision: Decision) -> str:
        """The innermost module whose forward sees the norm, its activation and the new place."""
        calls = [item for item in (decision.norm, decision.anchor, decision.activation) if item is not None]
        holder = common_holder([call.caller for call in calls])
        while holder and not _has_forward(self.model.get_submodule(holder)):
            holder = parent_of(holder)[0]
        return holder

    def _by_graph(self, model: nn.Module, holder: str, slots: list[str]) -> nn.Module:
        opened: set[str] = set()
        for slot in slots:
            decision = self.plan.moves[slot]
            for call in (decision.norm, decision.anchor, decision.activation):
                assert call is not None
                inner = call.caller[len(holder) :].lstrip(".")
                parts = inner.split(".") if inner else []
                opened.update(".".join(parts[: count + 1]) for count in range(len(parts)))

        def change(graph: fx.Graph, module: nn.Module) -> None:
            for call in [item for item in flow_of(graph, module, holder).calls if item.slot in slots]:
                decision = decide(call, self.wish)
                if decision.key != self.plan.moves[call.slot].key:
                    raise ModelError(
                        f"{self.where}: cannot move {call.slot}: its surroundings look different in the graph of "
                        f"{holder or 'the model'} alone; leave it out by layers=['~{call.slot}']"
                    )
                _rewire(graph, decision, behind=self.wish.after)

        resized = {slot: self.plan.moves[slot].dense for slot in slots}
        try:
            changed = as_graph(model, holder, opened, change)
        except ModelError as error:
            if str(error).startswith(self.where):
                raise
            raise ModelError(
                f"{self.where}: cannot move {', '.join(slots[:4])}: the activation is called as a function or at "
                f"several places, so the forward would have to become a graph, and {error}; nothing was changed; "
                f"leave them out by layers=['~{slots[0]}']"
            ) from error
        for slot, dense in resized.items():
            if dense is not None:
                resize = behind_map if self.wish.after else before_map
                fill(changed, slot, resize(changed.get_submodule(slot), changed.get_submodule(dense.slot)))
        return changed


def _rewire(graph: fx.Graph, decision: Decision, *, behind: bool) -> None:
    assert decision.norm is not None
    assert decision.anchor is not None
    assert decision.activation is not None
    norm, anchor, activation = decision.norm.node, decision.anchor.node, decision.activation.node
    assert norm is not None
    assert anchor is not None
    assert activation is not None
    target, source = str(norm.target), norm.args[0]
    assert isinstance(source, fx.Node)
    norm.replace_all_uses_with(source)
    graph.erase_node(norm)
    if behind:
        with graph.inserting_after(anchor):
            placed = graph.call_module(target, (anchor,))
        anchor.replace_all_uses_with(placed, delete_user_cb=lambda user: user is not placed)
        if not _is_free(decision.norm.inputs[0]) and decision.dense is None:
            _out_of_place(activation)
        return
    entering = anchor.args[0]
    assert isinstance(entering, fx.Node)
    with graph.inserting_before(anchor):
        placed = graph.call_module(target, (entering,))
    anchor.replace_input_with(entering, placed)


def _out_of_place(node: fx.Node) -> None:
    """A function that overwrote the norm's output makes a value of its own."""
    if isinstance(node.target, str) and node.target.endswith("_"):
        node.target = node.target.rstrip("_")
    if "inplace" in node.kwargs:
        node.kwargs = {**node.kwargs, "inplace": False}


def _is_free(source: Call) -> bool:
    """Whether nobody minds that a value is overwritten: one reader, and its maker does not need it again."""
    return source.only_user is not None and source.kind in ("dense", "convolution", "norm")


def _runs_in_order(decision: Decision) -> bool:
    """Whether it is the Sequential itself that calls both, child after child."""
    assert decision.norm is not None
    assert decision.anchor is not None
    return all(call.caller == parent_of(call.slot)[0] for call in (decision.norm, decision.anchor))


def _empty_slot(anchor: Call, *, behind: bool) -> str | None:
    """The slot next to the anchor from which a norm was once moved."""
    call = anchor.only_user if behind else anchor.only_input
    while call is not None and call.kind == "pass":
        if isinstance(call.module, Vacated):
            return call.slot
        call = call.only_user if behind else call.only_input
    return None


def _has_forward(module: nn.Module) -> bool:
    return not isinstance(module, nn.ModuleList | nn.ModuleDict) and (
        type(module).forward is not nn.Module.forward or is_sequence(module)
    )


def _named(call: Call) -> str:
    return f"{call.slot} ({call.name})" if call.slot else call.label
