"""Which activation reads which layer, and which layer speaks for which activation.

Enters: a ``Plan`` whose taps know what they read. Leaves: names, by layer of the profile.
"""

from __future__ import annotations

from firstlight.measurement.taps import Plan, Tap

__all__ = ["activations_behind", "normed_by", "speakers"]

_NORMS = ("norm", "channel norm")
_MOVING = ("pool",)


def activations_behind(plan: Plan) -> dict[str, str]:
    """Class of the activation that reads a layer's output, by the layer's key.

    >>> from torch import nn
    >>> import torch
    >>> from firstlight.measurement.taps import choose, scout
    >>> net, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.LayerNorm(3)), torch.ones(2, 2)
    >>> plan = choose(scout(net, lambda: net(x), [x])[0], net, None)
    >>> activations_behind(plan), normed_by(plan), speakers(plan)
    ({'0': 'ReLU'}, {'2': 'ReLU'}, {'1': '0'})
    """
    return {tap.source: tap.module for tap in reversed(plan.ran) if tap.kind == "activation" and tap.source}


def normed_by(plan: Plan) -> dict[str, str]:
    """Class of the activation that a norm reads, directly or through a pool, by the norm's key."""
    ran = {tap.key: tap for tap in plan.ran}
    found = {}
    for tap in plan.ran:
        if tap.kind in _NORMS:
            source = ran.get(tap.source or "")
            while source is not None and source.kind in _MOVING:
                source = ran.get(source.source or "")
            if source is not None and source.kind == "activation":
                found[tap.key] = source.module
    return found


def speakers(plan: Plan) -> dict[str, str]:
    """For each activation the layer of the profile that speaks for it: what it reads, else the last that ran before."""
    layers = {tap.key for tap in plan.taps}
    found: dict[str, str] = {}
    last: Tap | None = None
    for tap in plan.ran:
        if tap.kind == "activation":
            if tap.key in layers:
                found[tap.key] = tap.key
            elif tap.source in layers:
                found[tap.key] = str(tap.source)
            elif last is not None:
                found[tap.key] = last.key
        elif tap.key in layers:
            last = tap
    return found
