"""Carry out a plan: every norm to its new place, as the structure there allows it.

Enters: a model that may be changed, and a ``Plan``. Leaves: the model, and an edit for each norm. Graphs are made on a
copy first, so that nothing is half done where one cannot be made.
"""

from __future__ import annotations

from torch import fx, nn

from firstlight.errors import ModelError
from firstlight.remedies.duplicating import duplicate
from firstlight.remedies.flow import Call, parent_of
from firstlight.remedies.following import flow_of
from firstlight.remedies.norm_widths import before_map, behind_map, normalized_width
from firstlight.remedies.placing import Decision, Wish, decide
from firstlight.remedies.planning import Plan
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
from firstlight.results.change import Edit

__all__ = ["Mover"]


class Mover:
    """Carries out a plan on a model.

    Args:
        model: The model, which is changed.
        plan: What moves.
        wish: What was wanted.
        where: Who asks, for messages.
    """

    def __init__(self, model: nn.Module, plan: Plan, wish: Wish, where: str) -> None:
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
        holder = parent_of(slot)[0]
        old_width, width = (
            normalized_width(item) for item in (decision.norm.module, norm) if item is not None
        )
        what = f"moved {type(norm).__name__}"
        if old_width != width:
            what += f", re-created with width {width} instead of {old_width}"
            note = "norms whose width changed start anew, with scale 1, shift 0 and running statistics (0, 1)"
            if note not in self.plan.notes:
                self.plan.notes.append(note)
        follower = next(iter(decision.norm.users), decision.activation)
        beside = (
            f"before {_named(follower, holder)}"
            if self.wish.after
            else f"behind {_named(decision.norm.inputs[0], holder)}"
        )
        after = f"{self.side} {_named(decision.anchor, holder)}"
        return Edit(slot, what, beside, after, now=new if new != slot else "")

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


def _named(call: Call, holder: str) -> str:
    """What a reader of the norm's own address knows it by."""
    label = call.label.removeprefix(f"{holder}.") if holder else call.label
    return f"{label} ({call.name})" if call.slot else label
