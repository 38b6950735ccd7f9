r"""The logits before the first step: their scale, the loss, and what makes both meaningless.

Enters: numbers of the logits by initialization. Leaves: four findings.

With :math:`M` labels an even guess costs :math:`\log M`; Gaussian logits of rms s cost about :math:`s^2/2` more. Scale
and loss are told of a typical initialization (a geometric mean): in deep networks both span decades.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.intervals import of_scale, of_share
from firstlight.diagnosis.subjects import Check, Subject
from firstlight.results.finding import Finding

__all__ = ["CHECK", "judge", "log_scales"]

LARGE = Subject(
    "large-logits",
    "logits are large before training",
    "the softmax is saturated: the first gradients of most data points are all or nothing, and training begins by "
    "unlearning what no one taught",
    "Glorot & Bengio 2010; Labatie 2019",
    ("scale_initialization", "lsuv_initialization", "output_bias_to_prior"),
    severity="warn",
)
LOSS = Subject(
    "high-initial-loss",
    "initial loss is far above an even guess",
    "the network is confident and wrong: large logits, or a prejudice that they enforce",
    "Francazi et al. 2024",
    ("scale_initialization", "lsuv_initialization", "output_bias_to_prior"),
    severity="warn",
)
BROKEN = Subject(
    "non-finite-output",
    "output is NaN or infinite",
    "numbers left the range of their precision, or something divided zero by zero; no gradient survives that",
    "",
    ("scale_initialization", "lsuv_initialization", "norm_before_activation"),
    severity="fail",
)
PROBABLE = Subject(
    "probabilities-as-logits",
    "outputs are probabilities already",
    "the model ends in a softmax; a loss that takes logits applies a second one, whose output for M labels lies "
    "between 1/(M − 1 + e) and e/(M − 1 + e), and gradients shrink with it",
    "",
    (),
    severity="warn",
)


def judge(evidence: Evidence) -> list[Finding]:
    """Scale, loss, finiteness, and a softmax too many."""
    return [_scale(evidence), _loss(evidence), _finite(evidence), _probable(evidence)]


def log_scales(evidence: Evidence) -> NDArray[np.float64] | None:
    """Logarithm of the rms of the logits about their row's mean, ``(init,)``."""
    parts = [evidence.by_init(f"logit_{part}_variance_init") for part in ("center", "data")]
    if parts[0] is None or parts[1] is None:
        return None
    with np.errstate(divide="ignore"):
        return np.asarray(0.5 * np.log(parts[0] + parts[1]))


def _scale(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["logit-scale"]
    logs = log_scales(evidence)
    if logs is None or np.isnan(logs).all():
        return LARGE.unknown(
            "the logits were not measured, or are not finite", threshold, quantity="logit_scale"
        )
    return LARGE.finding(of_scale(logs, evidence.level), threshold, quantity="logit_scale")


def _loss(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["loss-ratio"]
    guesses = evidence.profile.guesses
    name = "initial_loss_init"
    losses = evidence.by_init(name)
    if losses is None or np.isnan(losses).all():
        name, losses = "even_loss_init", evidence.by_init("even_loss_init")
    if losses is None or guesses is None or np.isnan(losses).all():
        reason = "the loss was not measured, or is not finite"
        return LOSS.unknown(reason, threshold, quantity="initial_loss")
    with np.errstate(divide="ignore"):
        ratio = of_scale(np.log(losses / math.log(guesses.labels)), evidence.level)
    return LOSS.finding(
        ratio,
        threshold,
        quantity=name.removesuffix("_init"),
        details={"loss": float(np.nanmean(losses)), "even_guess": math.log(guesses.labels)},
    )


def _finite(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["non-finite-share"]
    shares = evidence.by_init("non_finite_share_init")
    if shares is None:
        return BROKEN.unknown("the logits were not measured", threshold, quantity="non_finite_share")
    hits = int((shares > threshold.value).sum())
    squares = evidence.table("mean_square")
    layer = ""
    if hits and squares is not None:
        broken = ~np.isfinite(squares).all(0)
        layer = evidence.layers[int(broken.argmax())] if broken.any() else evidence.layers[-1]
    return BROKEN.finding(
        of_share(hits, len(shares), evidence.level),
        threshold,
        quantity="non_finite_share",
        status="found" if hits else "absent",  # one is enough, and more initializations only find more
        layer=layer,
    )


def _probable(evidence: Evidence) -> Finding:
    threshold = evidence.thresholds["probability-share"]
    shares = evidence.by_init("probability_share_init")
    if shares is None or np.isnan(shares).all():
        reason = "the logits were not measured, or are not finite"
        return PROBABLE.unknown(reason, threshold, quantity="probability_share")
    known = shares[np.isfinite(shares)]
    interval = of_share(int((known > 0.5).sum()), len(known), evidence.level)
    return PROBABLE.finding(interval, threshold, quantity="probability_share")


CHECK = Check("logits", (LARGE, LOSS, BROKEN, PROBABLE), judge)
