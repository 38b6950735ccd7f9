"""``diagnose``: Profile → Diagnosis, every check in turn, then the policy.

Enters: a measured profile (or theory's), what theory says of the same network, the other mode. Leaves: findings with
value, interval, threshold, reason and remedies, and what they mean for training. Nothing is measured here: the same
profile and policy give the same diagnosis.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firstlight.diagnosis.applicable import with_applicable_remedies
from firstlight.diagnosis.checks.every import CHECKS
from firstlight.diagnosis.comparing import compare
from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.policies import Policy, as_policy
from firstlight.diagnosis.prognoses import prognosticate
from firstlight.errors import UsageError
from firstlight.results.comparison import Comparison
from firstlight.results.diagnosis import Diagnosis
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance

__all__ = ["diagnose"]


def diagnose(
    profile: Profile,
    *,
    theory: Profile | None = None,
    other_mode: Profile | None = None,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
    level: float = 0.95,
) -> Diagnosis:
    """Judge a network before training.

    Args:
        profile: Measured (``quantities="audit"`` has all that the checks ask for; what is missing leaves findings
            unknown), or predicted by theory, whose intervals have no width.
        theory: What theory says of the same network; it is compared with the measurement.
        other_mode: The same network measured in the other mode, train or eval, with the same seed.
        policy: What fails and what warns: a ``Policy``, a mapping of its fields, the path of a TOML file, or nothing
            for the default, which fails broken networks only.
        level: Of every interval, and of all layers' intervals together where the worst layer is looked for; a level
            in the policy goes before it.

    Returns:
        A ``Diagnosis``: ``.found``, ``.failed``, ``.undecided``, ``.prognoses``, and the profiles.
    """
    for name, given in (("profile", profile), ("theory", theory), ("other_mode", other_mode)):
        if not isinstance(given, Profile) and not (given is None and name != "profile"):
            raise UsageError(
                f"diagnose({name}): expected a Profile, got {type(given).__name__}; predict or measure one first"
            )
    if not 0 < level < 1:
        raise UsageError(f"diagnose(level): expected a number between 0 and 1, got {level!r}")
    chosen = as_policy(policy)
    level = chosen.level or level
    evidence = Evidence(profile, chosen.table(), level, theory, other_mode)
    found = [finding for check in CHECKS for finding in check.judge(evidence)]
    findings = chosen.applied(with_applicable_remedies(found, evidence))
    return Diagnosis(
        findings,
        prognosticate(evidence, findings),
        profile,
        Provenance(
            engine="diagnosis",
            model=profile.provenance.model,
            data=profile.provenance.data,
            seed=profile.provenance.seed,
            mode=profile.provenance.mode,
            settings={"level": level, "policy": chosen.to_dict()},
        ),
        theory=theory,
        other_mode=other_mode,
        comparison=_comparison(theory, profile),
    )


def _comparison(theory: Profile | None, profile: Profile) -> Comparison | None:
    """Where both name a layer."""
    if theory is None or not set(theory.layers) & set(profile.layers):
        return None
    return compare(theory, profile, seed=profile.provenance.seed or 0)
