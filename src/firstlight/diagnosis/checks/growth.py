r"""What grows or shrinks exponentially with depth: sensitivity, gradients, the signal itself.

Enters: log χ, log mean square gradient, log mean square by layer and initialization. Leaves: six findings, each with
the factor by which a root mean square changes over half of the depth.

Labatie calls sensitivity exploding where :math:`χ^l \ge e^{γ l}`, against the power law :math:`l^τ` of well-behaved
residual networks. Over the last half of the layers a line is fitted to the logarithm for each initialization; from half
of the depth to all of it,

.. math:: \frac{l^τ}{(l/2)^τ} = 2^τ, \qquad \frac{e^{γ l}}{e^{γ l/2}} = e^{γ l/2},

so that one number tells both apart at every depth, without knowing τ or γ. Depth is counted in hidden layers with
weights. Layers of different roles (a query, and what widens behind it) have levels of their own: the slope is common,
the level is each role's, where roles repeat. Gradients are compared as norms over all units and positions of a layer,
which do not depend on its width.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval, status_of
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "growth", "judge"]

Array = NDArray[np.float64]

_LABATIE = "Labatie 2019, sections 5 to 7"
_SCALES = ("scale_initialization", "lsuv_initialization", "norm_before_activation")

SENSITIVE = Subject(
    "exploding-sensitivity",
    "sensitivity explodes with depth",
    "every layer multiplies noise by more than signal: batch norm by the fluctuations it divides by, the activation by "
    "what it cuts off; composed, small changes of the input decide the output",
    _LABATIE,
    ("norm_after_activation", "activation_shaping", "orthogonal_initialization"),
    severity="warn",
)
INSENSITIVE = Subject(
    "vanishing-sensitivity",
    "sensitivity vanishes with depth",
    "saturated activations pass the coarse position of a data point and no small change of it",
    f"{_LABATIE}; Glorot & Bengio 2010",
    ("scale_initialization", "lsuv_initialization"),
    severity="warn",
)
EXPLODING_GRADIENTS = Subject(
    "exploding-gradients",
    "gradients explode towards the input",
    "the backward pass multiplies by a factor above one at every layer (chaotic phase; batch norm with ReLU: 1.21 a "
    "layer), so that one learning rate cannot serve all layers",
    "Schoenholz et al. 2017; Luther & Seung 2019; Yang et al. 2019",
    _SCALES,
    severity="warn",
)
VANISHING_GRADIENTS = Subject(
    "vanishing-gradients",
    "gradients vanish towards the input",
    "the backward pass multiplies by a factor below one at every layer (ordered phase, saturation): the first layers "
    "hardly learn",
    "Glorot & Bengio 2010; He et al. 2015; Schoenholz et al. 2017",
    _SCALES,
    severity="warn",
)
EXPLODING_SIGNAL = Subject(
    "exploding-signal",
    "signal explodes with depth",
    "the weights' variance is above what the activation takes away, or residual sums add up without a norm: the mean "
    "square multiplies from layer to layer",
    "He et al. 2015; Hanin & Rolnick 2018",
    _SCALES,
    severity="warn",
)
VANISHING_SIGNAL = Subject(
    "vanishing-signal",
    "signal vanishes with depth",
    "the weights' variance is below what the activation takes away: the mean square shrinks from layer to layer",
    "He et al. 2015; Hanin & Rolnick 2018",
    _SCALES,
    severity="warn",
)

_ROWS = (
    ("sensitivity", "sensitivity", SENSITIVE, INSENSITIVE),
    ("gradient_scale", "gradient_scale", EXPLODING_GRADIENTS, VANISHING_GRADIENTS),
    ("mean_square", "mean_square", EXPLODING_SIGNAL, VANISHING_SIGNAL),
)


def judge(evidence: Evidence) -> list[Finding]:
    """Growth beyond any power law up to the square, and the reverse."""
    threshold = evidence.thresholds["half-depth-growth"]
    findings = []
    for name, quantity, grows, shrinks in _ROWS:
        factor, reason = growth(evidence, name)
        if factor.missing:
            findings += [
                subject.unknown(reason, threshold, quantity=quantity) for subject in (grows, shrinks)
            ]
            continue
        layer = evidence.layers[evidence.hidden[0 if name == "gradient_scale" else -1]]
        rate = math.log(max(factor.value, 1e-300)) / (len(evidence.hidden) / 2)
        details = {"rate_per_layer": rate, "layers": float(len(evidence.hidden))}
        up = status_of(factor, threshold.value)
        down = status_of(factor, 1 / threshold.value, side="below")
        findings.append(
            grows.finding(factor, threshold, quantity=quantity, status=up, layer=layer, details=details)
        )
        inverse = Interval(
            *(math.inf if bound == 0 else 1 / bound for bound in (factor.value, factor.high, factor.low))
        )
        findings.append(
            shrinks.finding(inverse, threshold, quantity=quantity, status=down, layer=layer, details=details)
        )
    return findings


def growth(evidence: Evidence, name: str) -> tuple[Interval, str]:
    """Factor of the root mean square over the last half of the depth, in its own direction; or why there is none."""
    logs = evidence.log_table(name)
    nothing = Interval(math.nan, math.nan, math.nan)
    if logs is None:
        return nothing, f"{name} by layer was not measured"
    depth = len(evidence.hidden)
    if depth < 2:
        return nothing, f"{depth} hidden layer with weights: there is no depth to grow over"
    places = np.array(evidence.hidden)
    half = places[depth // 2 - 1 :]
    if name == "gradient_scale":
        logs = _norms(evidence, logs)
    values = logs[:, half] * (1.0 if name == "sensitivity" else 0.5)  # of root mean squares; χ is one already
    values = np.where(np.isneginf(values), -350.0, values)  # what is exactly zero has vanished
    slopes = _slopes(values, [evidence.roles[place] for place in half])
    sign = -1.0 if name == "gradient_scale" else 1.0
    if not np.isfinite(slopes).any():
        return nothing, f"{name} is not finite in the layers that decide"
    return evidence.scale_of(sign * slopes * depth / 2, evidence.level), ""


def _norms(evidence: Evidence, logs: Array) -> Array:
    """Squared norms over units and positions, where their numbers are known."""
    if evidence.sizes is None:
        return logs
    with np.errstate(divide="ignore"):
        return np.asarray(logs + np.log(evidence.sizes))


def _slopes(values: Array, roles: list[str]) -> Array:
    """Least squares slope of each row, a layer being one step, with a level for each role that repeats.

    >>> _slopes(np.array([[0.0, 5.0, 1.0, 6.0]]), ["a", "b", "a", "b"])
    array([0.5])
    """
    if len(set(roles)) == len(roles):
        roles = [""] * len(roles)  # nothing repeats, so that all are compared
    steps = np.arange(len(roles), dtype=float)
    for role in set(roles):
        members = np.array([name == role for name in roles])
        steps[members] -= steps[members].mean()  # so a role's level, and a role of one, do not count
    with np.errstate(invalid="ignore"):
        return np.asarray((values * steps).sum(1) / (steps**2).sum())


CHECK = Check(
    "growth",
    (SENSITIVE, INSENSITIVE, EXPLODING_GRADIENTS, VANISHING_GRADIENTS, EXPLODING_SIGNAL, VANISHING_SIGNAL),
    judge,
)
