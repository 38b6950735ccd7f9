"""Remedies tried one by one on the network that was audited, ranked by what they did.

Enters: model, data and the diagnosis. Leaves: a ``Trial`` for each remedy, the one that lowers γ of the output most
first. Every trial is measured over the initializations of the audit, so that the interval of a difference is that
of paired values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from firstlight.diagnosis.diagnosing import diagnose
from firstlight.errors import FirstlightError
from firstlight.remedies.registry import REMEDIES, remedy_named
from firstlight.remedies.repairing import repair
from firstlight.results.diagnosis import Diagnosis
from firstlight.results.trial import Trial

__all__ = ["tried"]

_SHARED = ("seed", "mode", "batch_size", "max_samples", "redraw", "progress")
"""Options of measuring that repairing has too."""
_OPTIONS: Mapping[str, Mapping[str, Any]] = {"seed_choice": {"draws": 100}}
"""What keeps a trial short."""


def tried(
    model: Any, data: Any, diagnosis: Diagnosis, which: bool | Iterable[str], options: Mapping[str, Any]
) -> tuple[Trial, ...]:
    """Try remedies, the best first.

    Args:
        model: The model as it was given.
        data: Data that can be read again.
        diagnosis: Of that model.
        which: True for those that the findings name, or names.
        options: Options with which the network was measured.
    """
    if which is True:
        named = {name for finding in diagnosis.found for name in finding.remedies}
        names = [name for name in REMEDIES if name in named]
    else:
        names = [remedy_named(name).name for name in ([which] if isinstance(which, str) else which or ())]
    found = [_tried(name, model, data, diagnosis, options) for name in names]
    return tuple(sorted(found, key=lambda trial: trial.rank))


def _tried(name: str, model: Any, data: Any, diagnosis: Diagnosis, options: Mapping[str, Any]) -> Trial:
    before = diagnosis.profile
    try:
        _, change = repair(
            model,
            data,
            [name],
            before=before,
            inits=before.provenance.settings["inits"],
            quantities=before.provenance.settings["quantities"],
            **{key: value for key, value in options.items() if key in _SHARED},
            **_OPTIONS.get(name, {}),
        )
    except FirstlightError as error:
        return Trial(name, refused=str(error))
    if not change.edits:
        reasons = "; ".join(dict.fromkeys(item.reason for item in change.left[:2]))
        return Trial(name, refused=f"there is nothing for it to change{': ' if reasons else ''}{reasons}")
    assert change.after is not None  # no dry run
    had = {finding.id for finding in diagnose(before).found}
    has = {finding.id for finding in diagnose(change.after).found}
    return Trial.of(name, change, gone=tuple(sorted(had - has)), new=tuple(sorted(has - had)))
