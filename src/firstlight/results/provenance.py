"""Where a result comes from: engine, versions, seed, model, data, mode and settings, and what was left out.

Enters: what the engines know about their own run. Leaves: two frozen values that travel inside
every result and its file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

__all__ = ["Coverage", "CoverageEntry", "Provenance", "installed_versions"]


def installed_versions() -> dict[str, str]:
    """Versions of what computes, read from package metadata so that nothing heavy is imported."""
    return dict(_installed_versions())


@cache
def _installed_versions() -> dict[str, str]:
    from importlib import metadata  # slow to import, and reading a file does not ask for it

    versions = {"python": ".".join(str(part) for part in sys.version_info[:3])}
    for name in ("firstlight", "torch", "numpy", "scipy", "xarray"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


@dataclass(frozen=True)
class Provenance:
    """What produced a result.

    Attributes:
        engine: ``"theory"`` or ``"measurement"``.
        model: One line that describes the model.
        data: One line that describes the data.
        seed: The seed that names the initializations or draws, where there is one.
        mode: ``"train"`` or ``"eval"`` for measurement; which batch statistics theory assumed.
        settings: Everything else that the numbers depend on; JSON-able.
        notes: Sentences a reader should see.
        versions: Packages that computed it.
        created: UTC time, ISO 8601.
    """

    engine: str
    model: str
    data: str
    seed: int | None = None
    mode: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=installed_versions)
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, as written into files."""
        return {**asdict(self), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Provenance:
        """Read what ``to_dict`` wrote."""
        return cls(**{**plain, "notes": tuple(plain.get("notes", ()))})


@dataclass(frozen=True)
class CoverageEntry:
    """What became of one layer.

    Attributes:
        layer: Its ``named_modules()`` address.
        kind: Class or role of the layer.
        status: ``"modelled"``, ``"unmodelled"`` (theory has no rule), ``"measured"`` or
            ``"unseen"`` (it never ran, or ran out of sight).
        reason: Why, where it is not modelled or not seen.
    """

    layer: str
    kind: str
    status: str
    reason: str = ""


@dataclass(frozen=True)
class Coverage:
    """Which layers a result speaks of, and which it does not, with the reason.

    >>> modelled = CoverageEntry("0", "Linear", "modelled")
    >>> coverage = Coverage((modelled, CoverageEntry("1", "LSTM", "unmodelled", "no rule")))
    >>> coverage
    <Coverage: 1 of 2 layers; unmodelled: 1 (LSTM: no rule)>
    >>> [entry.layer for entry in coverage.missing]
    ['1']
    """

    entries: tuple[CoverageEntry, ...] = ()

    def __iter__(self) -> Iterator[CoverageEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def missing(self) -> tuple[CoverageEntry, ...]:
        """The entries that the result does not speak of."""
        return tuple(entry for entry in self.entries if entry.status in ("unmodelled", "unseen"))

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    def to_dict(self) -> list[dict[str, str]]:
        """Plain containers, as written into files."""
        return [asdict(entry) for entry in self.entries]

    @classmethod
    def from_dict(cls, plain: list[dict[str, str]]) -> Coverage:
        """Read what ``to_dict`` wrote."""
        return cls(tuple(CoverageEntry(**entry) for entry in plain))

    def __repr__(self) -> str:
        head = f"<Coverage: {len(self) - len(self.missing)} of {len(self)} layers"
        parts = [
            f"{entry.status}: {entry.layer} ({entry.kind}: {entry.reason})" for entry in self.missing[:3]
        ]
        more = f"; and {len(self.missing) - 3} more" if len(self.missing) > 3 else ""
        return "; ".join([head, *parts]) + more + ">"
