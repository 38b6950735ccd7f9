r"""Change: what remedies did to a network, where, what they left alone and why, and whether it helped.

Enters: the edits of each remedy and the Profiles before and after, over the same initializations. Leaves: a noun that
prints itself, compares γ of the output by an interval, and goes into files.

The difference of two ratios of averages over the same N initializations has the standard error of its influence values,

.. math:: r_i = \frac{C'_i - γ' V'_i}{\bar V'} - \frac{C_i - γ V_i}{\bar V}, \qquad
          s^2 = \frac{\sum_i r_i^2}{N (N-1)},

which counts what the two share because their weights come from the same seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from firstlight.errors import CouldNotError, UsageError, one_of
from firstlight.results.labelled import Labelled, Parts
from firstlight.results.profile import Profile
from firstlight.results.provenance import Coverage, Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Change", "Difference", "Edit", "Edits", "Left", "Refusal"]


@dataclass(frozen=True)
class Edit:
    """One thing that a remedy changed.

    Attributes:
        address: Where: a ``named_modules()`` name of the model as it was, or of a parameter; ``""`` is the model.
        what: What was done, in words.
        before: What was there.
        after: What is there now.
        remedy: Name of the remedy.
        now: Where what was edited stands now, where that is another address.
    """

    address: str
    what: str
    before: str
    after: str
    remedy: str = ""
    now: str = ""


@dataclass(frozen=True)
class Left:
    """A place that a remedy could have concerned and left as it was."""

    address: str
    reason: str
    remedy: str = ""


@dataclass(frozen=True)
class Refusal:
    """A remedy that was not applied at all."""

    remedy: str
    reason: str


@dataclass(frozen=True)
class Edits:
    """What one remedy did; iterates over the edits.

    Attributes:
        made: The edits, in the order in which the layers run.
        left: Places left as they were, with the reason.
        notes: Sentences that a reader should see.
        settled: Options that were worked out on the way; with them, the remedy does the same to other weights.

    >>> edits = Edits((Edit("norm1", "moved", "before activation1", "after activation1"),), (Left("norm2", "last"),))
    >>> len(edits), [edit.address for edit in edits]
    (1, ['norm1'])
    >>> edits
    <Edits: 1 made, 1 left>
      norm1: moved: before activation1 → after activation1
      norm2: left: last
    """

    made: tuple[Edit, ...] = ()
    left: tuple[Left, ...] = ()
    notes: tuple[str, ...] = ()
    settled: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Edit]:
        return iter(self.made)

    def __len__(self) -> int:
        return len(self.made)

    def __repr__(self) -> str:
        return "\n".join(
            [
                f"<Edits: {len(self.made)} made, {len(self.left)} left>",
                *(f"  {edit.address}: {edit.what}: {edit.before} → {edit.after}" for edit in self.made),
                *(f"  {item.address}: left: {item.reason}" for item in self.left),
                *(f"  {note}" for note in self.notes),
            ]
        )


@dataclass(frozen=True)
class Difference:
    """A quantity of the output before and after, and their difference with its interval.

    Attributes:
        quantity: Its name.
        before: Value before, with ``before_stderr``.
        after: Value after, with ``after_stderr``.
        value: After minus before.
        stderr: Standard error of the difference over initializations.
        low: Lower end of its interval.
        high: Upper end of its interval.
    """

    quantity: str
    before: float
    before_stderr: float
    after: float
    after_stderr: float
    value: float
    stderr: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``"helped"`` (smaller), ``"worse"`` (larger), ``"no difference"`` or ``"unknown"``."""
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return "unknown"
        if self.high < 0:
            return "helped"
        return "worse" if self.low > 0 else "no difference"


@dataclass(frozen=True, eq=False, repr=False)
class Change(Labelled):
    """What ``repair`` did, and what came of it.

    Attributes:
        remedies: Names of the remedies that were applied, in order.
        edits: What they changed.
        left: What they left as it was, with the reason.
        refused: Remedies that were not applied, with the reason.
        before: The model as it was, measured.
        after: The model with the remedies, measured on the same data with the same seeds.
        notes: Sentences that a reader should see.
    """

    kind: ClassVar[str] = "change"

    remedies: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    left: tuple[Left, ...] = ()
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    before: Profile | None = field(default=None)
    after: Profile | None = field(default=None)

    def difference(self, quantity: str = "gamma", *, level: float = 0.95) -> Difference:
        """A quantity of the output before and after; by default γ.

        Args:
            quantity: Name of a quantity that both profiles have at their output, or ``"greatest fraction"`` of the
                guesses.
            level: Coverage of the interval, from Student's t over initializations.
        """
        if not 0 < level < 1:
            raise UsageError(f"difference(level): expected a number between 0 and 1, got {level!r}")
        if self.before is None or self.after is None:
            raise CouldNotError(
                "change.difference: nothing was measured (a dry run); repair without dry_run=True"
            )
        from scipy.stats import t as student

        before, after = _influence(self.before, quantity), _influence(self.after, quantity)
        value = after.value - before.value
        stderr, reach = math.nan, math.nan
        if len(before.residuals) == len(after.residuals) and len(before.residuals) > 1:
            stderr = _stderr(after.residuals - before.residuals)
            reach = float(student.ppf(0.5 + level / 2, len(before.residuals) - 1)) * stderr
        return Difference(
            quantity,
            before.value,
            _stderr(before.residuals),
            after.value,
            _stderr(after.residuals),
            value,
            stderr,
            value - reach,
            value + reach,
        )

    @property
    def verdict(self) -> str:
        """``"helped"``, ``"no difference"``, ``"worse"`` or ``"unknown"``: what became of γ of the output."""
        if self.before is None or self.after is None:
            return "unknown"
        return self.difference().verdict

    def to_dataframe(self) -> pd.DataFrame:
        """A table with one row an edit."""
        import pandas as pd

        columns = ["remedy", "address", "what", "before", "after", "now"]
        return pd.DataFrame([asdict(edit) for edit in self.edits], columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, both profiles included."""
        plain = {name: value for name, value in super().to_dict().items() if name in ("kind", "provenance")}
        measured = self.before is not None and self.after is not None
        return {
            **plain,
            "remedies": list(self.remedies),
            **{name: [asdict(item) for item in getattr(self, name)] for name in _LISTS},
            "notes": list(self.notes),
            "difference": asdict(self.difference()) if measured else None,
            "verdict": self.verdict,
            "before": self.before.to_dict() if self.before is not None else None,
            "after": self.after.to_dict() if self.after is not None else None,
        }

    def parts(self) -> Parts:
        """Take apart for a file: edits as JSON, the profiles as children."""
        whole = super().parts()
        own = dict(whole.attributes["extra"])
        own.update({name: [asdict(item) for item in getattr(self, name)] for name in _LISTS})
        return Parts(whole.variables, whole.coordinates, {**whole.attributes, "extra": own}, whole.children)

    @classmethod
    def from_parts(
        cls,
        variables: Mapping[str, Any],
        coordinates: Mapping[str, Any],
        provenance: Provenance,
        coverage: Coverage,
        **extra: Any,
    ) -> Self:
        """Rebuild from what an archive holds."""
        lists = {name: tuple(kind(**item) for item in extra[name]) for name, kind in _LISTS.items()}
        return super().from_parts(variables, coordinates, provenance, coverage, **{**extra, **lists})

    def __repr__(self) -> str:
        from firstlight.results.change_display import change_text

        return change_text(self)

    def _repr_html_(self) -> str:
        from firstlight.results.change_display import change_html

        return change_html(self)


_LISTS: dict[str, type] = {"edits": Edit, "left": Left, "refused": Refusal}


@dataclass(frozen=True)
class _Influence:
    """A value, and what each initialization adds to its deviation."""

    value: float
    residuals: np.ndarray[Any, Any]


def _influence(profile: Profile, quantity: str) -> _Influence:
    if quantity == "greatest fraction":
        if profile.guesses is None:
            raise CouldNotError("change.difference('greatest fraction'): the model returns no logits")
        return _mean(np.asarray(profile.guesses.max.values, dtype=float))
    if quantity not in profile:
        known = [name.removesuffix("_init") for name in profile.variables if name.endswith("_init")]
        raise one_of("change.difference(quantity)", quantity, [*known, "greatest fraction"])
    if quantity == "gamma" and "center_variance_init" in profile and "data_variance_init" in profile:
        centers, variances = (
            profile.variables[f"{name}_init"].values[:, -1] for name in ("center_variance", "data_variance")
        )
        with np.errstate(all="ignore"):
            gamma = centers.sum() / variances.sum()
            return _Influence(float(gamma), (centers - gamma * variances) / variances.mean())
    if f"{quantity}_init" not in profile:
        raise CouldNotError(
            f"change.difference({quantity!r}): the values of single initializations were not kept"
        )
    return _mean(profile.variables[f"{quantity}_init"].values[:, -1])


def _mean(values: np.ndarray[Any, Any]) -> _Influence:
    return _Influence(float(values.mean()), values - values.mean())


def _stderr(residuals: np.ndarray[Any, Any]) -> float:
    count = len(residuals)
    return float(np.sqrt((residuals**2).sum() / (count * (count - 1)))) if count > 1 else math.nan
