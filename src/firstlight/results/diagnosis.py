"""Diagnosis: what the checks found in a network before training, and what that will do to training.

Enters: findings and prognoses that ``diagnose`` derived from profiles. Leaves: one frozen value that carries those
profiles along, so that every report shows the same numbers. Wording for people lives in ``reporting``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from firstlight.errors import one_of
from firstlight.results.comparison import Comparison
from firstlight.results.finding import SEVERITIES, Finding, Prognosis
from firstlight.results.labelled import Parts
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance
from firstlight.results.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Diagnosis"]


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """Findings with the profiles that they rest on.

    Attributes:
        findings: One of each check and more where layers differ; the absent and the unknown are listed too.
        prognoses: What training will look like.
        profile: The profile that was judged.
        provenance: What produced the judgement; the policy stands in its settings.
        theory: What theory says of the same network on the same data, where it can be read.
        other_mode: The same network measured in the other mode (train or eval), where it has batch norms.
        comparison: Theory against measurement.
        trials: Remedies that were tried on it, the one that lowers γ of the output most first.
    """

    kind: ClassVar[str] = "diagnosis"

    findings: tuple[Finding, ...]
    prognoses: tuple[Prognosis, ...]
    profile: Profile
    provenance: Provenance
    theory: Profile | None = None
    other_mode: Profile | None = None
    comparison: Comparison | None = None
    trials: tuple[Trial, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __getitem__(self, identifier: str) -> Finding:
        """The finding of that id; the gravest where a check speaks of several layers."""
        found = [finding for finding in self.findings if finding.id == identifier]
        if not found:
            raise one_of("Diagnosis[...]", identifier, sorted({finding.id for finding in self.findings}))
        return max(found, key=_gravity)

    @property
    def found(self) -> tuple[Finding, ...]:
        """What the network has, the gravest first."""
        return tuple(sorted((item for item in self.findings if item.found), key=_gravity, reverse=True))

    @property
    def failed(self) -> tuple[Finding, ...]:
        """What the network has and the policy does not allow."""
        return tuple(finding for finding in self.found if finding.failed)

    @property
    def undecided(self) -> tuple[Finding, ...]:
        """What more initializations would decide."""
        return tuple(finding for finding in self.findings if finding.status == "undecided")

    @property
    def passed(self) -> bool:
        """Whether nothing was found that the policy does not allow."""
        return not self.failed

    def to_dataframe(self) -> pd.DataFrame:
        """One row a finding."""
        import pandas as pd

        return pd.DataFrame([finding.to_dict() for finding in self.findings])

    def to_dict(self) -> dict[str, Any]:
        """Plain containers (JSON-able but for NaN and infinities)."""
        children = {name: getattr(self, name) for name in _CHILDREN}
        return {
            "kind": self.kind,
            "passed": self.passed,
            "findings": [finding.to_dict() for finding in self.findings],
            "prognoses": [prognosis.to_dict() for prognosis in self.prognoses],
            "trials": [trial.to_dict() for trial in self.trials],
            **{name: None if child is None else child.to_dict() for name, child in children.items()},
            "provenance": self.provenance.to_dict(),
            "extra": dict(self.extra),
        }

    def save(self, path: Any) -> Any:
        """Write a netCDF4 file that ``firstlight.load`` reads back to the same values."""
        from firstlight.results.archive import save

        return save(self, path)

    def parts(self) -> Parts:
        """Take apart for a file."""
        return Parts(
            {},
            attributes={
                "findings": [finding.to_dict() for finding in self.findings],
                "prognoses": [prognosis.to_dict() for prognosis in self.prognoses],
                "trials": [trial.to_dict() for trial in self.trials],
                "provenance": self.provenance.to_dict(),
                "extra": dict(self.extra),
            },
            children={name: getattr(self, name) for name in _CHILDREN if getattr(self, name) is not None},
        )

    @classmethod
    def assemble(cls, parts: Parts) -> Diagnosis:
        """Rebuild from what ``parts`` gave."""
        plain = parts.attributes
        return cls(
            tuple(Finding.from_dict(item) for item in plain["findings"]),
            tuple(Prognosis.from_dict(item) for item in plain["prognoses"]),
            provenance=Provenance.from_dict(plain["provenance"]),
            trials=tuple(Trial.from_dict(item) for item in plain.get("trials", ())),
            extra=plain["extra"],
            **parts.children,
        )

    def __repr__(self) -> str:
        head = (
            f"<Diagnosis: {'passed' if self.passed else 'FAILED'}; {self.provenance.model.splitlines()[0]}>"
        )
        lines = [f"  {finding.severity}: {finding!r}" for finding in (*self.found, *self.undecided)]
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


_CHILDREN = ("profile", "theory", "other_mode", "comparison")


def _gravity(finding: Finding) -> tuple[bool, int, bool]:
    return finding.found, SEVERITIES.index(finding.severity), finding.status == "undecided"
