"""Trial: one remedy tried on a network, and what came of it in numbers.

Enters: what ``audit`` measured over the same initializations with and without the remedy. Leaves: a frozen value that a
Diagnosis carries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from firstlight.results.change import Change, Difference

__all__ = ["Trial"]

_QUANTITIES = ("gamma", "greatest fraction")


@dataclass(frozen=True)
class Trial:
    """One remedy, tried.

    Attributes:
        remedy: Its name.
        refused: Why it could not be tried, or "".
        edits: How many things it changed.
        differences: γ of the output and, where there are guesses, the greatest guess fraction: before, after, and the
            difference with its interval.
        gone: Ids of findings that the network has and the repaired one has not.
        new: Ids of findings that only the repaired one has.
    """

    remedy: str
    refused: str = ""
    edits: int = 0
    differences: tuple[Difference, ...] = ()
    gone: tuple[str, ...] = ()
    new: tuple[str, ...] = ()

    @classmethod
    def of(cls, remedy: str, change: Change, *, gone: tuple[str, ...], new: tuple[str, ...]) -> Trial:
        """What a change came to."""
        quantities = [name for name in _QUANTITIES if name == "gamma" or _has_guesses(change)]
        differences = tuple(change.difference(name) for name in quantities)
        return cls(remedy, "", len(change.edits), differences, gone, new)

    @property
    def gamma(self) -> Difference | None:
        """The difference of γ of the output."""
        return self.differences[0] if self.differences else None

    @property
    def verdict(self) -> str:
        """``"helped"``, ``"no difference"``, ``"worse"``, ``"unknown"``: what became of γ; or ``"refused"``."""
        if self.gamma is None:
            return "refused"
        return self.gamma.verdict

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Sorts the one that lowers γ most to the front, those that were refused to the end."""
        value = math.nan if self.gamma is None else self.gamma.value
        return self.gamma is None, math.isnan(value), 0.0 if math.isnan(value) else value

    def to_dict(self) -> dict[str, Any]:
        """Plain containers."""
        return {**asdict(self), "verdict": self.verdict}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Trial:
        """Read what ``to_dict`` wrote."""
        return cls(
            plain["remedy"],
            plain["refused"],
            int(plain["edits"]),
            tuple(Difference(**item) for item in plain["differences"]),
            tuple(plain["gone"]),
            tuple(plain["new"]),
        )


def _has_guesses(change: Change) -> bool:
    return all(
        profile is not None and profile.guesses is not None for profile in (change.before, change.after)
    )
