"""The one table of thresholds: each with its derivation, each to be replaced by a policy.

Enters: ``thresholds.toml`` beside this file, and what a policy replaces. Leaves: thresholds by name.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from firstlight.errors import UsageError, one_of

__all__ = ["Threshold", "thresholds"]


@dataclass(frozen=True)
class Threshold:
    """A number that a verdict hangs on.

    Attributes:
        name: Its key in the table.
        value: The number.
        derivation: Where it comes from.
    """

    name: str
    value: float
    derivation: str


def thresholds(changes: Mapping[str, float] | None = None) -> dict[str, Threshold]:
    """The table, with the values of ``changes`` in place of its own.

    >>> thresholds()["deep-gamma"].value, thresholds({"deep-gamma": 3})["deep-gamma"].value
    (1.0, 3.0)
    """
    table = dict(_table())
    for name, value in (changes or {}).items():
        if name not in table:
            raise one_of("policy: threshold", name, table)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UsageError(f"policy: threshold {name!r}: expected a finite number, got {value!r}")
        before = table[name]
        if float(value) != before.value:
            words = f"set by the policy in place of {before.value:g} ({before.derivation})"
            table[name] = replace(before, value=float(value), derivation=words)
    return table


@cache
def _table() -> dict[str, Threshold]:
    plain = tomllib.loads(Path(__file__).with_name("thresholds.toml").read_text(encoding="utf-8"))
    return {
        name: Threshold(name, float(entry["value"]), entry["derivation"]) for name, entry in plain.items()
    }
