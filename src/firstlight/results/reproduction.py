"""Reproduction: one figure or table of a paper, computed anew, with each statement of the paper checked by a number.

Enters: results that a figure's own ``compute`` produced. Leaves: statements with the number that the paper gives (or
the relation that it states), the number that came out with its standard error, and whether the two agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from firstlight.errors import UsageError
from firstlight.results.rounding import number, with_stderr

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Reproduction", "Statement"]

REACH = 3.0
"""Standard errors that a number may be away from what the paper says: 0.3 % of true statements are further off."""


@dataclass(frozen=True)
class Statement:
    """One statement of a paper beside what came out.

    Attributes:
        says: What the paper states, in our words, with the place.
        relation: ``"="``, ``">"`` or ``"<"``: how ``measured`` should stand to ``expected``.
        expected: The number stated, or the bound.
        measured: What came out.
        stderr: Its standard error; 0 for what is exact.
        tolerance: How far the paper's own number is rounded or read off a figure.
        because: Where the two differ, the likely reason; a remark otherwise.
    """

    says: str
    relation: str
    expected: float
    measured: float
    stderr: float = 0.0
    tolerance: float = 0.0
    because: str = ""

    def __post_init__(self) -> None:
        for name in ("expected", "measured", "stderr", "tolerance"):
            object.__setattr__(self, name, float(getattr(self, name)))  # numpy's numbers are no JSON
        if self.relation not in ("=", ">", "<"):
            raise UsageError(f"Statement(relation): expected '=', '>' or '<', got {self.relation!r}")
        if not (self.stderr >= 0 and self.tolerance >= 0):
            raise UsageError(
                f"Statement({self.says!r}): expected a standard error and a tolerance of at least 0, "
                f"got {self.stderr!r} and {self.tolerance!r}"
            )

    @property
    def agrees(self) -> bool:
        """Whether what came out is what the paper says, given both uncertainties.

        An equality holds within the paper's own rounding plus ``REACH`` standard errors; an inequality has to hold
        by ``REACH`` standard errors.

        >>> Statement("γ of ReLU", "=", 0.467, 0.471, stderr=0.003).agrees
        True
        >>> Statement("deep beats shallow", ">", 1.0, 1.2, stderr=0.1).agrees
        False
        """
        if math.isnan(self.measured):
            return False
        if self.relation == "=":
            return abs(self.measured - self.expected) <= self.tolerance + REACH * self.stderr + 1e-12
        sign = 1 if self.relation == ">" else -1
        return sign * (self.measured - self.expected) + self.tolerance > REACH * self.stderr

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, the verdict included."""
        return {**asdict(self), "agrees": self.agrees}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Statement:
        """Read what ``to_dict`` wrote."""
        return cls(**{name: value for name, value in plain.items() if name != "agrees"})

    def __repr__(self) -> str:
        verdict = "agrees" if self.agrees else "DIFFERS"
        why = f" ({self.because})" if self.because else ""
        return (
            f"<{verdict}: {self.says}: {with_stderr(self.measured, self.stderr)} "
            f"{self.relation} {number(self.expected)}{why}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Reproduction:
    """One figure computed anew.

    Attributes:
        key: Paper and figure, such as ``"igb/fig5"``.
        title: What the figure shows.
        scale: ``"smoke"``, ``"small"`` or ``"paper"``.
        settings: What was computed.
        statements: The paper's statements, each with its verdict.
        departs: How the settings depart from the paper's; empty where they do not.
        results: The nouns that ``compute`` made, by name.
        folder: Where they, the figure and the verdict are saved.
        seconds: What computing took, all sittings together.
    """

    kind: ClassVar[str] = "reproduction"

    key: str
    title: str
    scale: str
    settings: Mapping[str, Any]
    statements: tuple[Statement, ...]
    departs: tuple[str, ...] = ()
    results: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    seconds: float = math.nan

    @property
    def agrees(self) -> bool:
        """Whether every statement holds."""
        return all(statement.agrees for statement in self.statements)

    @property
    def verdict(self) -> str:
        """``"agrees"``, or ``"differs: how"``."""
        wrong = [statement for statement in self.statements if not statement.agrees]
        if not wrong:
            return "agrees"
        return "differs: " + "; ".join(
            f"{item.says}: {with_stderr(item.measured, item.stderr)}, not {item.relation} {number(item.expected)}"
            + (f" ({item.because})" if item.because else "")
            for item in wrong
        )

    @property
    def figure_path(self) -> Path | None:
        """The drawn figure."""
        return None if self.folder is None else self.folder / "figure.svg"

    def to_dataframe(self) -> pd.DataFrame:
        """One row a statement."""
        import pandas as pd

        return pd.DataFrame([statement.to_dict() for statement in self.statements])

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, without the results themselves: those are files of their own."""
        return {
            "kind": self.kind,
            "key": self.key,
            "title": self.title,
            "scale": self.scale,
            "verdict": self.verdict,
            "agrees": self.agrees,
            "statements": [statement.to_dict() for statement in self.statements],
            "departs": list(self.departs),
            "settings": dict(self.settings),
            "results": sorted(self.results),
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        head = f"<Reproduction {self.key} ({self.scale}): {self.title}>"
        return "\n".join([head, *(f"  {statement!r}" for statement in self.statements)])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"
