r"""Signal that collapses: to a point, to a line, or so far that rounding swallows it.

Enters: C, V and effective rank by layer, the logits. Leaves: three findings.

A layer's signal is zero-dimensional where :math:`\mu_2/\nu_2 = V/(C + V) = 1/(1 + γ) \to 0` (all data end at one
point), one-dimensional where :math:`r_{eff} = \mathrm{tr}\,Σ/\|Σ\| \to 1`. Every hidden layer with weights and the
output are looked at, and their intervals hold together. The share is that of a typical initialization (a geometric
mean, as Labatie looks at each simulation by itself): in narrow deep networks the ratio of averages is made by few.
"""

from __future__ import annotations

import numpy as np

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import Interval, of_scale, of_share, scan, simultaneous
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "judge"]

_FEWEST_UNITS = 8
"""A layer of fewer units is a line almost by itself: r_eff is bounded by their number."""
_ROUNDINGS = 8
_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}

POINT = Subject(
    "zero-dimensional-signal",
    "signal collapses to a point",
    "each layer draws all data closer together relative to their distance from the origin, until a layer can hardly "
    "tell one data point from another",
    "Labatie 2019, section 5; Francazi et al. 2024",
    ("norm_after_activation", "convert_norm", "activation_shaping"),
    severity="warn",
)
LINE = Subject(
    "one-dimensional-signal",
    "signal collapses to a line",
    "one direction carries nearly all of the variance, so that whatever differs between data points is lost but for a "
    "single number",
    "Labatie 2019, section 5",
    ("norm_before_activation", "orthogonal_initialization", "activation_shaping"),
    severity="warn",
)
CONSTANT = Subject(
    "constant-output",
    "output does not depend on the data",
    "whatever the network is shown, its logits agree to rounding: the data are constant, or the units behind some "
    "layer are dead, or the signal has shrunk below the precision of the numbers",
    "Labatie 2019; Lu et al. 2020 on dying ReLU",
    ("lsuv_initialization", "norm_after_activation", "data_centering"),
    severity="fail",
)


def judge(evidence: Evidence) -> list[Finding]:
    """Point, line, nothing."""
    return [_point(evidence), _line(evidence), _constant(evidence)]


def _point(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["point-share"]
    places = [*evidence.hidden, len(evidence.layers) - 1]
    level = simultaneous(evidence.level, len(places))
    shares = [_share(evidence, place, level) for place in places]
    best, status = scan(shares, threshold.value, side="below")
    if status == "unknown":
        return POINT.unknown(
            "γ by layer was not measured, or nothing varies", threshold, quantity="signal_share"
        )
    layer = evidence.layers[places[best]]
    return POINT.finding(
        shares[best], threshold, quantity="signal_share", status=status, side="below", layer=layer
    )


def _share(evidence: Evidence, place: int, level: float) -> Interval:
    """V/(C + V) of a typical initialization; of the logits about their mean where they were measured."""
    if not evidence.measured:
        gamma = evidence.gamma_at(place, level)
        return Interval(*[1 / (1 + gamma.value)] * 3)
    parts = [evidence.table(f"{part}_variance") for part in ("center", "data")]
    columns = [None if table is None else table[:, place] for table in parts]
    if place == len(evidence.layers) - 1:
        logits = [evidence.by_init(f"logit_{part}_variance_init") for part in ("center", "data")]
        columns = logits if logits[0] is not None else columns
    centers, variances = columns
    if centers is None or variances is None:
        return Interval(np.nan, np.nan, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return of_scale(np.log(variances / (centers + variances)), level)


def _line(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["line-rank"]
    ranks = evidence.table("effective_rank")
    if ranks is None:
        return LINE.unknown("the effective rank was not measured", threshold, quantity="effective_rank")
    units = evidence.units
    wide = [place for place in evidence.hidden if units is None or units[place] >= _FEWEST_UNITS]
    level = simultaneous(evidence.level, len(wide))
    found = [evidence.interval_of(ranks[:, place], level) for place in wide]
    best, status = scan(found, threshold.value, side="below")
    if status == "unknown":
        reason = f"no hidden layer has {_FEWEST_UNITS} units that vary over the data"
        return LINE.unknown(reason, threshold, quantity="effective_rank")
    layer = evidence.layers[wide[best]]
    return LINE.finding(
        found[best], threshold, quantity="effective_rank", status=status, side="below", layer=layer
    )


def _constant(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["constant-share"]
    variances, squares = evidence.by_init("logit_data_variance_init"), evidence.table("mean_square")
    if variances is None or squares is None:
        return CONSTANT.unknown("the logits were not measured", threshold, quantity="constant_share")
    sound = np.isfinite(variances)
    if not sound.any():
        return CONSTANT.unknown("the logits are not finite", threshold, quantity="constant_share")
    sizes = squares[sound, -1]
    rounding = _ROUNDINGS * _EPSILON.get(str(evidence.profile.provenance.settings.get("dtype")), 2.0**-23)
    constant = variances[sound] <= sizes * rounding**2
    share = of_share(int(constant.sum()), len(constant), evidence.level)
    if constant.all() and not sizes.any() and _alive(evidence):
        return CONSTANT.finding(
            share,
            threshold,
            quantity="constant_share",
            status="absent",
            because="all logits are exactly zero while the last hidden layer follows the data: a head that starts at "
            "zero learns from its first step, and guesses nothing before",
        )
    return CONSTANT.finding(share, threshold, quantity="constant_share")


def _alive(evidence: Evidence) -> bool:
    """Whether the last hidden layer varies over the data, and so do some units of the activation behind it."""
    if not evidence.hidden:
        return True
    last = evidence.hidden[-1]
    variances, dead = evidence.table("data_variance"), evidence.table("dead_units")
    varies = variances is None or bool((variances[:, last] > 0).all())
    return varies and (dead is None or not bool((dead[:, evidence.hidden] >= 1).any(1).all()))


CHECK = Check("collapse", (POINT, LINE, CONSTANT), judge)
