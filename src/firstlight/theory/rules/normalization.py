"""Normalization layers with scale 1 and shift 0, wherever they stand.

In a wide layer the statistics that a norm uses are the state itself::

    layer norm   over units: subtract M_a, divide by the standard deviation    (K_ab − M_a M_b)/√(…_aa …_bb)
    RMS norm     over units: divide by the root mean square                     K_ab/√(K_aa K_bb)
    batch norm   over data:  each unit loses its centre and gains variance 1    population: M = B = 0, V = 1

Before the activation M = 0, so layer norm and RMS norm agree there; after it they do not: RMS norm keeps M,
and with it the bias. Noise is divided like the signal, with the statistics held fixed. The norms' ε is taken as 0.
"""

from __future__ import annotations

from typing import TypeVar

from firstlight.architecture.layers import Norm
from firstlight.theory.covariance import Covariance, NoRuleError
from firstlight.theory.logarithms import Number
from firstlight.theory.minibatch import MinibatchLaw

__all__ = ["normalize"]

State = TypeVar("State", bound=Covariance)


def normalize(state: State, layer: Norm, law: MinibatchLaw | None = None) -> tuple[State, Number]:
    """The state after a norm, and the logarithm of its gain for squared gradients (the same as for noise)."""
    reason = state.against_norm(layer)
    if reason:
        raise NoRuleError(reason)
    if layer.kind == "batch":
        return state.gained(lambda read: read.standardize_units(law))
    if layer.kind == "layer":
        return state.gained(lambda read: read.center_units().normalize_points())
    return state.gained(lambda read: read.normalize_points())
