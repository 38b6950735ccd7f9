"""Arrays: named arrays with named axes that are no Profile and no Trajectory, such as the curves of one figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from firstlight.results.labelled import Labelled, Variable, variable
from firstlight.results.provenance import Provenance

__all__ = ["Arrays"]


@dataclass(frozen=True, eq=False, repr=False)
class Arrays(Labelled):
    """Named arrays with their provenance.

    >>> made = Provenance("theory", "a line", "two points")
    >>> arrays = Arrays.of({"height": ("sample", [1.0, 2.0])}, provenance=made)
    >>> arrays["height"].values.tolist()
    [1.0, 2.0]
    """

    kind: ClassVar[str] = "arrays"

    @classmethod
    def of(
        cls,
        variables: Mapping[str, tuple[Any, Any]],
        *,
        provenance: Provenance,
        coordinates: Mapping[str, Any] | None = None,
    ) -> Arrays:
        """Build from (axes, values) by name; a coordinate is named after its own axis."""
        return cls(
            {name: _labelled(item) for name, item in variables.items()},
            {name: variable(name, values) for name, values in (coordinates or {}).items()},
            provenance,
        )

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {dict(self.dataset[name].sizes)}" for name in self.variables)
        return f"<Arrays by {self.provenance.engine}: {shapes}>"


def _labelled(item: tuple[Any, Any]) -> Variable:
    dims, values = item
    return variable(dims, values)
