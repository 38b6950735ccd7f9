"""Which remedies a network gets when it is asked for: those that its findings name, as far as they can be applied.

Enters: a Profile, and a way to try remedies. Leaves: names in the order in which they are applied, and refusals. For
each finding, the gravest first, the first of its remedies that changes something is taken; a finding that an earlier
remedy answers already gets no second one, and a norm is not moved back and forth.
"""

from __future__ import annotations

from collections.abc import Callable

from firstlight.diagnosis.diagnosing import diagnose
from firstlight.errors import FirstlightError
from firstlight.remedies.registry import REMEDIES
from firstlight.results.change import Refusal
from firstlight.results.profile import Profile

__all__ = ["suggested"]

_OPPOSITES = {
    "norm_after_activation": "norm_before_activation",
    "norm_before_activation": "norm_after_activation",
}


def suggested(profile: Profile, edits_of: Callable[[list[str]], int]) -> tuple[list[str], list[Refusal]]:
    """Names of remedies, and those that could not be applied.

    Args:
        profile: The network as it is.
        edits_of: How many edits the last of these remedies makes, all applied in order to a copy of the network;
            raises where it is refused.
    """
    taken: list[str] = []
    refused: dict[str, Refusal] = {}
    for finding in diagnose(profile).found:
        known = [name for name in finding.remedies if name in REMEDIES]
        if any(name in taken for name in known):
            continue
        for name in known:
            if name in refused or _OPPOSITES.get(name) in taken:
                continue
            try:
                changes = edits_of([*taken, name])
            except FirstlightError as error:
                refused[name] = Refusal(name, str(error))
                continue
            if changes:
                taken.append(name)
                break
            refused[name] = Refusal(name, "there is nothing for it to change")
    return taken, list(refused.values())
