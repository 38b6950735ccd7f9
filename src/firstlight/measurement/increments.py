"""Increments of sensitivity: what a layer, its normalization and its activation multiply χ by.

Enters: a ``Plan`` whose taps know what they read, and log χ at each. Leaves, by layer,

- at an activation (or pool): ``δ_φ = χ(out)/χ(in)``;
- at a norm: ``δ_norm = χ(out)/χ(what entered the layer)``, the linear map before the norm included, as
  Labatie splits;
- at a dense or convolutional layer: the products of both over what lies between it and the one before;
- everywhere: ``δχ`` since the layer of the same kind before, or since the signal was last made by no single
  module (a sum).

Where a tensor was made outside all modules, the increment that would start from it is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from firstlight.measurement.taps import Plan, Tap

__all__ = ["Route", "increments", "route"]

_LINEAR = ("dense", "convolution")
_NORM = ("norm", "channel norm")
_BENT = ("activation", "pool")


@dataclass(frozen=True)
class Route:
    """How each tap is reached.

    Attributes:
        ran: Every call by key.
        paths: For each tap the keys from it back to the layer of its kind before, both included; the last may
            be ``"input"``.
        auxiliary: Calls on those paths that are not tapped themselves.
    """

    ran: Mapping[str, Tap]
    paths: Mapping[str, tuple[str, ...]]
    auxiliary: tuple[Tap, ...]


def route(plan: Plan) -> Route:
    """Follow what each tap reads."""
    ran = {tap.key: tap for tap in plan.ran}
    paths = {tap.key: _path(tap, ran) for tap in plan.taps if _family(tap.kind)}
    tapped = {tap.key for tap in plan.taps} | {"input"}
    visited = {key for path in paths.values() for key in path} - tapped
    return Route(ran, paths, tuple(tap for tap in plan.ran if tap.key in visited))


def increments(found: Route, log_sensitivity: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The three increments by layer."""
    values: dict[str, dict[str, float]] = {
        "sensitivity_increment": {},
        "sensitivity_increment_norm": {},
        "sensitivity_increment_activation": {},
    }

    def change(later: str, earlier: str) -> float:
        return float(np.exp(log_sensitivity.get(later, np.nan) - log_sensitivity.get(earlier, np.nan)))

    for key, path in found.paths.items():
        kind = found.ran[key].kind
        if len(path) < 2:
            continue
        values["sensitivity_increment"][key] = change(key, path[-1])
        if kind in _BENT:
            values["sensitivity_increment_activation"][key] = change(key, path[1])
        elif kind in _NORM:
            entered = next((step for step in path[1:] if not _is(found, step, _LINEAR)), path[-1])
            values["sensitivity_increment_norm"][key] = change(key, entered)
        else:
            pairs = list(pairwise(path[1:]))
            for name, kinds in (("norm", _NORM), ("activation", _BENT)):
                factors = [change(step, before) for step, before in pairs if _is(found, step, kinds)]
                values[f"sensitivity_increment_{name}"][key] = float(np.prod(factors))
    return values


def _is(found: Route, key: str, kinds: tuple[str, ...]) -> bool:
    return key in found.ran and found.ran[key].kind in kinds


def _family(kind: str) -> tuple[str, ...]:
    return next((kinds for kinds in (_LINEAR, _NORM, _BENT) if kind in kinds), ())


def _path(tap: Tap, ran: Mapping[str, Tap]) -> tuple[str, ...]:
    family = _family(tap.kind)
    keys = [tap.key]
    source = tap.source
    while source is not None:
        keys.append(source)
        if source not in ran or ran[source].kind in family or ran[source].kind == "container":
            break
        source = ran[source].source
    return tuple(keys)
