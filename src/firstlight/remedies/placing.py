"""Where each norm of a model stands, where it would go, and why it may not.

Enters: the flows of a model, and the wish: behind the activation, or before it. Leaves: a decision for each norm.

Behind the activation::

    norm → φ [→ pool]                        direct: the norm goes behind φ, or behind the pool that follows
    x → norm → W1 → φ → W2 → + x             block: behind φ with the width of W1, or to the end of the branch

Before it, the same two read backwards. A norm that another value depends on may not move: a norm whose output is used
twice, an activation whose output is used twice in front of it, one norm that stands at two different places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import nn

from firstlight.measurement.kinds import kind_of
from firstlight.remedies.flow import Call, Flow

__all__ = ["VARIANTS_AFTER", "VARIANTS_BEFORE", "Decision", "Wish", "decide", "decisions"]

VARIANTS_AFTER = ("after-activation", "after-branch")
VARIANTS_BEFORE = ("auto", "before-activation", "before-block")
_LONGEST = 64
"""Calls of a residual branch that are walked through."""


@dataclass(frozen=True)
class Wish:
    """What is wanted.

    Attributes:
        after: Behind the activation, or before it.
        variant: Where a norm goes that stands before a whole residual branch (or came from there).
        past_pool: Whether the norm goes behind the pool that follows the activation, where there is one.
    """

    after: bool
    variant: str
    past_pool: bool


@dataclass(frozen=True, eq=False)
class Decision:
    """What becomes of one call of a norm.

    Attributes:
        outcome: ``"move"``, ``"there"`` (it stands where it should), ``"left"`` (no place for it) or ``"refused"``.
        reason: Why, where it does not move.
        norm: The call.
        anchor: The call behind which (or before which) the norm goes.
        activation: The activation that it changes sides with, or that the block holds.
        dense: The map by which the normalized width changes on the way, for blocks.
    """

    outcome: str
    reason: str = ""
    norm: Call | None = None
    anchor: Call | None = None
    activation: Call | None = None
    dense: Call | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What must agree between all calls of one norm."""
        return (
            self.outcome,
            *(item.label if item else "" for item in (self.anchor, self.activation, self.dense)),
        )


def decisions(flows: Iterable[Flow], wish: Wish) -> dict[str, Decision]:
    """One decision for each norm that some flow calls, by slot, in running order."""
    found: dict[str, list[Decision]] = {}
    for flow in flows:
        for call in flow.calls:
            if call.kind == "norm":
                found.setdefault(call.slot, []).append(decide(call, wish))
    return {slot: _agreed(made) for slot, made in found.items()}


def decide(norm: Call, wish: Wish) -> Decision:
    """What becomes of this call."""
    if not norm.plain or len(norm.inputs) != 1:
        return Decision("refused", "it is called with more than one value")
    return (_after if wish.after else _before)(norm, wish)


def _agreed(made: list[Decision]) -> Decision:
    first = made[0]
    for other in made[1:]:
        if other.key == first.key:
            continue
        places = [item.activation.label for item in (first, other) if item.activation is not None]
        if len(set(places)) == 2:
            return Decision("refused", f"it is shared by two activations, {places[0]} and {places[1]}")
        return Decision("refused", "it stands at different places in different calls or ways of the forward")
    return first


def _after(norm: Call, wish: Wish) -> Decision:
    ahead = _along(norm.only_user, lambda call: call.only_user)
    if ahead is not None and ahead.kind == "activation":
        anchor = ahead
        pool = ahead.only_user
        # a norm of channels alone does not mind that the pool changes the number of positions
        if wish.past_pool and pool is not None and pool.kind == "pool" and _of_channels(norm):
            anchor = pool
        return Decision("move", norm=norm, anchor=anchor, activation=ahead)
    if _activation_behind(norm) is not None:
        return Decision("there", "it stands behind its activation already")
    if ahead is None:
        activated = [user.label for user in norm.users if user.kind == "activation"]
        if activated:
            others = [user.label for user in norm.users if user.kind != "activation"] or [
                "what the model returns"
            ]
            return Decision(
                "refused", f"its output is used by {activated[0]} and also by {', '.join(others)}"
            )
        return Decision("left", _feeds(norm))
    block = _block_after(norm, ahead, wish)
    return block or Decision("left", _feeds(norm))


def _block_after(norm: Call, first: Call, wish: Wish) -> Decision | None:
    """The move of a norm before a whole residual branch: x → norm → W1 → φ → … → + x."""
    stream = norm.inputs[0]
    if first.kind not in ("dense", "convolution") or len(stream.users) < 2:
        return None
    activation = _along(first.only_user, lambda call: call.only_user)
    if activation is None or activation.kind != "activation":
        return None
    last = _end_of_branch(activation, stream)
    if last is None:
        return None
    if wish.variant == "after-branch":
        return Decision("move", norm=norm, anchor=last, activation=activation)
    return Decision("move", norm=norm, anchor=activation, activation=activation, dense=first)


def _end_of_branch(call: Call, stream: Call) -> Call | None:
    """The last call that does something before the branch is added to its own input."""
    last = call
    for _ in range(_LONGEST):
        following = call.only_user
        if following is None or following.kind == "norm":
            return None
        if following.kind == "sum":
            others = [
                _along(item, lambda behind: behind.only_input)
                for item in following.inputs
                if item is not call
            ]
            meeting = _along(stream, lambda behind: behind.only_input)
            return last if any(item is not None and item is meeting for item in others) else None
        call = following
        if call.kind != "pass":
            last = call
    return None


def _before(norm: Call, wish: Wish) -> Decision:
    block = None if wish.variant == "before-activation" else _block_before(norm, wish)
    if block is not None:
        return block
    activation = _activation_behind(norm)
    if activation is None:
        ahead = _along(norm.only_user, lambda call: call.only_user)
        if ahead is not None and ahead.kind == "activation":
            return Decision("there", "it stands before its activation already")
        return Decision(
            "left", f"no activation stands right before it; its input comes from {norm.inputs[0].label}"
        )
    call = norm
    while call is not activation:
        behind = call.inputs[0]
        if behind.only_user is None:
            others = [user.label for user in behind.users if user is not call] or ["what the model returns"]
            return Decision(
                "refused", f"the output of {behind.label} before it is also used by {', '.join(others)}"
            )
        if behind.kind == "pool" and not wish.past_pool:
            return Decision("left", f"the pool {behind.label} stands between it and its activation")
        call = behind
    if activation.only_input is None:
        return Decision("refused", f"its activation {activation.label} takes more than one value")
    return Decision("move", norm=norm, anchor=activation, activation=activation)


def _block_before(norm: Call, wish: Wish) -> Decision | None:
    """The move back to its beginning: x → W1 → φ → norm → W2 → + x, or x → W1 → φ → W2 → norm → + x."""
    if wish.variant == "auto" and not isinstance(norm.module, nn.LayerNorm | nn.RMSNorm):
        return None
    stream: Call | None = norm.inputs[0]
    path: list[Call] = [norm]
    for _ in range(_LONGEST):
        if stream is None or len(stream.users) > 1:
            break
        path.append(stream)
        stream = stream.only_input
    if stream is None or len(stream.users) < 2:
        return None
    first = _along(path[-1], lambda call: call.only_user)
    activations = [call for call in path if call.kind == "activation"]
    if len(activations) != 1 or any(call.kind in ("norm", "sum") for call in path[1:]):
        return None
    if first is None or first.kind not in ("dense", "convolution") or _end_of_branch(norm, stream) is None:
        return None
    [activation] = activations
    at_end = _along(norm.inputs[0], lambda call: call.only_input) is not activation
    return Decision("move", norm=norm, anchor=first, activation=activation, dense=None if at_end else first)


def _activation_behind(norm: Call) -> Call | None:
    """The activation whose output the norm takes, through pools and what changes nothing."""
    call: Call | None = norm.inputs[0]
    while call is not None and call.kind in ("pass", "pool"):
        call = call.only_input
    return call if call is not None and call.kind == "activation" else None


def _of_channels(norm: Call) -> bool:
    return norm.module is not None and kind_of(norm.module) == "channel norm"


def _along(call: Call | None, following: Callable[[Call], Call | None]) -> Call | None:
    """The first call from here on that does something."""
    while call is not None and call.kind == "pass":
        call = following(call)
    return call


def _feeds(norm: Call) -> str:
    names = [user.label for user in norm.users]
    if norm.returned or not names:
        return "no activation follows it: its output is what comes out"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"no activation follows it: it feeds {', '.join(names[:3])}{more}"
