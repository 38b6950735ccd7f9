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

from collections.abc import Iterable
from typing import Any

from torch import nn

from firstlight.errors import ModelError, one_of
from firstlight.measurement.seeding import random_state_preserved
from firstlight.remedies.duplicating import duplicate, require_ordinary
from firstlight.remedies.moving import Mover
from firstlight.remedies.placing import VARIANTS_AFTER, VARIANTS_BEFORE, Wish
from firstlight.remedies.planning import planned
from firstlight.results.change import Edits, Left

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
      1: moved BatchNorm1d: before 2 (ReLU) → behind 2 (ReLU)
    >>> edits.made[0].now
    '2'
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


def _placed(
    model: nn.Module, wish: Wish, layers: str | Iterable[str] | None, example: Any, in_place: bool, where: str
) -> tuple[nn.Module, Edits]:
    require_ordinary(model, where)
    with random_state_preserved():
        plan = planned(model, wish, layers, example)
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
    working, made = Mover(working, plan, wish, where).moved()
    left = {**plan.there, **plan.left}
    return working, Edits(
        tuple(made), tuple(Left(slot, reason) for slot, reason in left.items()), tuple(plan.notes)
    )
