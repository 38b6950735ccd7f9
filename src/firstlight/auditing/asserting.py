"""``assert_born_well``: an audit as one line of a test.

Enters: a model, data and a policy. Leaves: the diagnosis, or an ``AssertionError`` that names every finding that the
policy does not allow. In a test suite::

    def test_my_model_is_born_well():
        firstlight.assert_born_well(make_model, data, policy={"fail_on": ["deep-prejudice"]}, inits=50)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firstlight.auditing.auditing import audit
from firstlight.diagnosis.policies import Policy
from firstlight.results.diagnosis import Diagnosis
from firstlight.results.finding import Finding

__all__ = ["assert_born_well"]


def assert_born_well(
    model: Any,
    data: Any,
    *,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
    **measure_options: Any,
) -> Diagnosis:
    """Audit, and raise an ``AssertionError`` where the policy is not met.

    Args:
        model: As for ``measure``.
        data: As for ``measure``.
        policy: What fails; the default fails broken networks only.
        **measure_options: Passed on to ``audit``: ``inits``, ``seed``, ``theory=False`` …

    Returns:
        The diagnosis of a network that passes.
    """
    options = {"theory": False, "other_mode": False, "progress": False, **measure_options}
    diagnosis = audit(model, data, policy=policy, **options)
    if not diagnosis.passed:
        listed = "\n".join(_told(finding) for finding in diagnosis.failed)
        raise AssertionError(f"{diagnosis.provenance.model} is not born well:\n{listed}")
    return diagnosis


def _told(finding: Finding) -> str:
    remedies = f"\n    what would change it: {', '.join(finding.remedies)}" if finding.remedies else ""
    return f"  {finding!r}\n    {finding.because}{remedies}"
