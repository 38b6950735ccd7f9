"""Finding: what one check says of a network, with the interval it rests on; a value, without wording for people.

A check compares a measured quantity with a threshold. Over initializations the quantity has an interval, and where the
interval lies decides the status:

========= =====================================================================================
found     the whole interval is beyond the threshold
absent    the whole interval is on the healthy side
undecided the threshold lies inside the interval: there are not enough initializations to tell
unknown   the quantity was not measured, or is not defined for this network
========= =====================================================================================

The severity is what a policy makes of it: ``info``, ``warn`` or ``fail``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from firstlight.errors import one_of
from firstlight.results.rounding import number

__all__ = ["SEVERITIES", "STATUSES", "Finding", "Prognosis"]

STATUSES = ("found", "absent", "undecided", "unknown")
SEVERITIES = ("info", "warn", "fail")


@dataclass(frozen=True)
class Finding:
    """One verdict.

    Attributes:
        id: What policies and reports call it, such as ``"deep-prejudice"``.
        title: The same in a few words.
        status: One of ``STATUSES``.
        severity: One of ``SEVERITIES``: what the policy makes of it where it is found.
        quantity: The quantity looked at, a name of ``QUANTITIES`` or a word of the check's own.
        layer: Address of the layer that decides, or "" for the whole network.
        value: The estimate; NaN where there is none.
        low: Lower end of its interval over initializations.
        high: Upper end.
        threshold: What it is compared with.
        derivation: Where the threshold comes from.
        because: The mechanism, or the reason why the status is unknown.
        reference: The paper that explains it.
        remedies: Names of remedies that answer it.
        details: Further numbers that belong to the verdict, by name.
    """

    id: str
    title: str
    status: str
    severity: str = "info"
    quantity: str = ""
    layer: str = ""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    threshold: float = math.nan
    derivation: str = ""
    because: str = ""
    reference: str = ""
    remedies: tuple[str, ...] = ()
    details: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise one_of(f"Finding({self.id!r}).status", self.status, STATUSES)
        if self.severity not in SEVERITIES:
            raise one_of(f"Finding({self.id!r}).severity", self.severity, SEVERITIES)

    @property
    def found(self) -> bool:
        """Whether the network has it."""
        return self.status == "found"

    @property
    def failed(self) -> bool:
        """Whether the network has it and the policy does not allow it."""
        return self.found and self.severity == "fail"

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, as written into files."""
        return {**asdict(self), "remedies": list(self.remedies)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Finding:
        """Read what ``to_dict`` wrote."""
        return cls(**{**plain, "remedies": tuple(plain.get("remedies", ()))})

    def __repr__(self) -> str:
        where = f" at {self.layer}" if self.layer else ""
        if math.isnan(self.value):
            return f"<Finding {self.id}: {self.status}{where}>"
        interval = "" if math.isnan(self.low) else f" [{number(self.low)}, {number(self.high)}]"
        limit = "" if math.isnan(self.threshold) else f", threshold {number(self.threshold)}"
        return f"<Finding {self.id}: {self.status}{where}; {self.quantity} {number(self.value)}{interval}{limit}>"


@dataclass(frozen=True)
class Prognosis:
    """What the findings mean for training: one question, its answer, and why.

    Attributes:
        id: The question, such as ``"bias-fades"``.
        answer: ``"yes"``, ``"no"``, or ``"cannot tell"``, or a word of the question's own.
        value: A number that goes with the answer, or NaN.
        low: Lower end of its interval.
        high: Upper end.
        because: The mechanism.
        reference: The paper that shows it.
    """

    id: str
    answer: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    because: str = ""
    reference: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, as written into files."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Prognosis:
        """Read what ``to_dict`` wrote."""
        return cls(**plain)
