"""The ground of every noun: named arrays with named axes, frozen, with their provenance.

Enters: numpy arrays with dimension names. Leaves: an ``xarray.Dataset`` on request, so that opening a file or asking
for help does not pay for importing pandas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import UsageError
from firstlight.results.provenance import Coverage, Provenance

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Labelled", "Parts", "Variable", "variable"]


@dataclass(frozen=True, eq=False)
class Variable:
    """One array with the names of its axes."""

    dims: tuple[str, ...]
    values: NDArray[Any]


def variable(dims: tuple[str, ...] | str, values: ArrayLike) -> Variable:
    """Copy ``values`` into a read-only array with named axes.

    >>> variable("layer", [1.0, 2.0]).values.flags.writeable
    False
    """
    names = (dims,) if isinstance(dims, str) else tuple(dims)
    array = np.array(values)
    if array.dtype.kind == "U":
        array = array.astype(object)
    if array.ndim != len(names):
        raise UsageError(
            f"variable with axes {names}: expected {len(names)} dimensions, got shape {array.shape}"
        )
    array.flags.writeable = False
    return Variable(names, array)


@dataclass(frozen=True, eq=False)
class Parts:
    """A noun taken apart, as files hold it.

    Attributes:
        variables: Arrays by name.
        coordinates: Labels of the axes by name.
        attributes: What JSON can say.
        children: Nouns inside the noun, by the name of their field.
    """

    variables: Mapping[str, Variable]
    coordinates: Mapping[str, Variable] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    children: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Labelled:
    """Named arrays with named axes and their provenance; base of Profile, PhaseDiagram and Trajectory.

    Attributes:
        variables: Arrays by name.
        coordinates: Labels of the axes by name.
        provenance: What produced them.
        coverage: What they do and do not speak of.
    """

    kind: ClassVar[str] = "labelled"

    variables: Mapping[str, Variable]
    coordinates: Mapping[str, Variable]
    provenance: Provenance
    coverage: Coverage = field(default_factory=Coverage)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", MappingProxyType(dict(self.variables)))
        object.__setattr__(self, "coordinates", MappingProxyType(dict(self.coordinates)))

    @cached_property
    def dataset(self) -> xr.Dataset:
        """All variables as one ``xarray.Dataset``; a copy of yours to change."""
        import xarray as xr

        return xr.Dataset(
            {name: (item.dims, item.values) for name, item in self.variables.items()},
            coords={name: (item.dims, item.values) for name, item in self.coordinates.items()},
            attrs={"kind": self.kind},
        )

    def __contains__(self, name: str) -> bool:
        return name in self.variables

    def __getitem__(self, name: str) -> xr.DataArray:
        """The variable of that name, labelled."""
        if name not in self.variables:
            from firstlight.errors import one_of

            raise one_of(f"{type(self).__name__}[...]", name, sorted(self.variables))
        return self.dataset[name]

    def to_dataframe(self) -> pd.DataFrame:
        """A table with one row for each point of the main axes (for a Profile: one row a layer)."""
        return self.dataset.to_dataframe()

    def to_dict(self) -> dict[str, Any]:
        """Plain containers (JSON-able but for NaN and infinities), with provenance and coverage."""
        return {
            "kind": self.kind,
            "coordinates": {name: _plain(item) for name, item in self.coordinates.items()},
            "variables": {name: _plain(item) for name, item in self.variables.items()},
            "coverage": self.coverage.to_dict(),
            "provenance": self.provenance.to_dict(),
        }

    def save(self, path: str | Path) -> Path:
        """Write a netCDF4 file that ``firstlight.load`` reads back to the same values."""
        from firstlight.results.archive import save

        return save(self, path)

    def parts(self) -> Parts:
        """Take apart for a file; further fields of a subclass go along by themselves."""
        own = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _SHARED}
        children = {name: value for name, value in own.items() if hasattr(value, "parts")}
        return Parts(
            self.variables,
            self.coordinates,
            {
                "provenance": self.provenance.to_dict(),
                "coverage": self.coverage.to_dict(),
                "extra": {name: value for name, value in own.items() if name not in children},
            },
            children,
        )

    @classmethod
    def assemble(cls, parts: Parts) -> Self:
        """Rebuild from what ``parts`` gave; JSON's lists come back as tuples."""
        extra = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in parts.attributes["extra"].items()
        }
        return cls.from_parts(
            parts.variables,
            parts.coordinates,
            Provenance.from_dict(parts.attributes["provenance"]),
            Coverage.from_dict(parts.attributes["coverage"]),
            **extra,
            **parts.children,
        )

    @classmethod
    def from_parts(
        cls,
        variables: Mapping[str, Variable],
        coordinates: Mapping[str, Variable],
        provenance: Provenance,
        coverage: Coverage,
        **extra: Any,
    ) -> Self:
        """Rebuild from what an archive holds."""
        return cls(
            variables=variables, coordinates=coordinates, provenance=provenance, coverage=coverage, **extra
        )


_SHARED = ("variables", "coordinates", "provenance", "coverage")


def _plain(item: Variable) -> dict[str, Any]:
    return {"dims": list(item.dims), "values": item.values.tolist()}
