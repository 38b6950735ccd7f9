"""Policy: what a finding means to its reader. It changes severities and thresholds, never what was measured.

Enters: words (``fail_on``, ``warn_on``, ``ignore``), a mapping, or TOML::

    [tool.firstlight.audit]              # in pyproject.toml, or [audit], or the top level of a file of its own
    fail_on = ["deep-prejudice", "exploding-sensitivity"]
    warn_on = ["modes-differ"]
    ignore = ["uncentred-data"]
    level = 0.99
    [tool.firstlight.audit.thresholds]
    deep-gamma = 3.0

Leaves: a frozen ``Policy``. The default one fails broken networks only: output that is not finite, or that no longer
depends on the data.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from firstlight.diagnosis.checks.every import every_subject
from firstlight.diagnosis.thresholds import Threshold, thresholds
from firstlight.errors import UsageError, one_of
from firstlight.results.finding import Finding

__all__ = ["Policy", "as_policy"]

_WORDS = ("fail_on", "warn_on", "ignore")
_TABLES = (("tool", "firstlight", "audit"), ("audit",), ())


@dataclass(frozen=True)
class Policy:
    """Severities and thresholds.

    Attributes:
        fail_on: Findings that fail, beside those that fail by default.
        warn_on: Findings that warn.
        ignore: Findings that are information only, also where they fail or warn by default.
        level: Of the intervals.
        thresholds: Values by name that replace those of the table.

    >>> Policy(fail_on=("deep-prejudise",))
    Traceback (most recent call last):
    firstlight.errors.UsageError: policy: fail_on: expected one of ... did you mean 'deep-prejudice' ...
    """

    fail_on: tuple[str, ...] = ()
    warn_on: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    level: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = every_subject()
        for word in _WORDS:
            given = getattr(self, word)
            names = (
                tuple(name.strip() for name in given.split(",")) if isinstance(given, str) else tuple(given)
            )
            for name in names:
                if name not in known:
                    raise one_of(f"policy: {word}", name, known)
            object.__setattr__(self, word, names)
        for first, second in (("fail_on", "warn_on"), ("fail_on", "ignore"), ("warn_on", "ignore")):
            both = sorted(set(getattr(self, first)) & set(getattr(self, second)))
            if both:
                raise UsageError(f"policy: {', '.join(both)} stands in {first} and in {second}; keep one")
        if self.level is not None and not (isinstance(self.level, float) and 0 < self.level < 1):
            raise UsageError(f"policy: level: expected a number between 0 and 1, got {self.level!r}")
        thresholds(self.thresholds)  # refuses unknown names
        object.__setattr__(self, "thresholds", MappingProxyType(dict(self.thresholds)))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], *, where: str = "policy") -> Self:
        """Read a table of TOML or the result of ``to_dict``."""
        fields = (*_WORDS, "level", "thresholds")
        for name in plain:
            if name not in fields:
                raise one_of(where, name, fields)
        return cls(**dict(plain))

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read ``[tool.firstlight.audit]``, ``[audit]``, or a file that holds nothing else."""
        place = Path(path)
        if not place.is_file():
            raise UsageError(f"policy {str(place)!r}: there is no such file; expected a TOML file")
        try:
            plain: Any = tomllib.loads(place.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"policy {str(place)!r}: not TOML: {error}") from error
        for table in _TABLES:
            inner = plain
            for key in table:
                inner = inner.get(key) if isinstance(inner, Mapping) else None
            if isinstance(inner, Mapping):
                if not table and place.name == "pyproject.toml":
                    break
                return cls.from_dict(inner, where=f"policy {str(place)!r}")
        raise UsageError(
            f"policy {str(place)!r}: no table [tool.firstlight.audit]; add one, or name another file"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, for provenance."""
        return {
            **{word: list(getattr(self, word)) for word in _WORDS},
            "level": self.level,
            "thresholds": dict(self.thresholds),
        }

    def table(self) -> dict[str, Threshold]:
        """The thresholds in force."""
        return thresholds(self.thresholds)

    def severity(self, identifier: str) -> str:
        """``"info"``, ``"warn"`` or ``"fail"``."""
        for word, severity in zip(_WORDS, ("fail", "warn", "info"), strict=True):
            if identifier in getattr(self, word):
                return severity
        return every_subject()[identifier].severity

    def applied(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """The findings with the severities of this policy."""
        return tuple(replace(item, severity=self.severity(item.id)) for item in findings)


def as_policy(policy: Policy | Mapping[str, Any] | str | Path | None) -> Policy:
    """A policy, a mapping of its fields, the path of a TOML file, or the default."""
    if policy is None:
        return Policy()
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping):
        return Policy.from_dict(policy)
    if isinstance(policy, str | Path):
        return Policy.from_toml(policy)
    raise UsageError(
        f"policy: expected a Policy, a mapping of {', '.join(_WORDS)} …, or the path of a TOML file, "
        f"got {type(policy).__name__}"
    )
