"""Files: netCDF4 that any xarray opens, written whole or not at all, read without xarray, pandas or torch.

Enters: a noun, or the path of a file. Leaves: the file, or the same noun with the same values.

One noun is one group: its arrays are variables, its labels are coordinates, everything else (provenance,
coverage, the law of the guesses) is JSON in attributes; a noun inside a noun (the guesses of a profile) is
a group inside the group. Strings are variable-length UTF-8, booleans are bytes that say so, as xarray
writes them. No pickle: reading a file runs nothing that is in it.

To add a kind of result: give the class ``parts()`` and ``assemble(parts)`` (``Labelled`` has them) and add
one line to ``KINDS``.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import CouldNotError, DataError, FirstlightError, UsageError
from firstlight.results.labelled import Parts, Variable
from firstlight.results.provenance import Provenance

__all__ = ["KINDS", "SCHEMA", "Archive", "Storable", "load", "save"]

SCHEMA = 1
"""Grows when an older reader could misread a newer file."""

KINDS: dict[str, str] = {
    "arrays": "firstlight.results.arrays:Arrays",
    "change": "firstlight.results.change:Change",
    "comparison": "firstlight.results.comparison:Comparison",
    "diagnosis": "firstlight.results.diagnosis:Diagnosis",
    "guesses": "firstlight.results.guesses:Guesses",
    "phase_diagram": "firstlight.results.phase_diagram:PhaseDiagram",
    "profile": "firstlight.results.profile:Profile",
    "trajectory": "firstlight.results.trajectory:Trajectory",
}
"""Where the class of each kind lives; imported when a file of that kind is read."""

_HDF5 = b"\x89HDF\r\n\x1a\n"
_COMPRESSED = 1 << 16  # bytes from which compression pays for itself


class Storable(Protocol):
    """What can be saved."""

    @property
    def kind(self) -> str:
        """A key of ``KINDS``."""

    def parts(self) -> Parts:
        """The noun taken apart."""


def save(noun: Storable, path: str | Path) -> Path:
    """Write ``noun`` to a netCDF4 file.

    The file appears under its name when it is complete: what was there before stays until then, and an
    interruption leaves it.

    Args:
        noun: A Profile, Guesses, PhaseDiagram or any other kind in ``KINDS``.
        path: Where to; conventionally ``*.nc``.

    Returns:
        The path.
    """
    import h5netcdf

    if not hasattr(noun, "parts") or getattr(noun, "kind", None) not in KINDS:
        raise UsageError(f"save: expected one of the results ({', '.join(KINDS)}), got {type(noun).__name__}")
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        wrong = "is a folder" if target.is_dir() else f"lies in {target.parent}, which is no folder"
        raise UsageError(
            f"save({str(target)!r}): the path {wrong}; pass the name of a file in a folder that exists"
        )
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.unfinished")
    try:
        with h5netcdf.File(unfinished, "w") as file:
            _write(file, noun)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def load(path: str | Path) -> Any:
    """Read back what ``save`` wrote: a Profile, Guesses, PhaseDiagram …, whichever the file holds.

    Args:
        path: A file that firstlight wrote.

    Raises:
        UsageError: No such file, or a folder.
        DataError: Not netCDF4, cut short, damaged, or written by another program.
        CouldNotError: Written by a newer firstlight.
    """
    with _opened(Path(path)) as file:
        return _read(file, Path(path))


@dataclass(frozen=True)
class Archive:
    """A look at a file without reading its arrays.

    Attributes:
        path: The file.
        kind: What it holds, a key of ``KINDS`` or of a newer version's.
        schema: Version of the layout.
        provenance: What produced the result; None for kinds that carry none.
        variables: Axes and shape of each array by name, those of inner nouns as ``noun/name``.
    """

    path: Path
    kind: str
    schema: int
    provenance: Provenance | None
    variables: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]]

    @classmethod
    def open(cls, path: str | Path) -> Archive:
        """Look at the file, also at one of a newer schema."""
        place = Path(path)
        with _opened(place, newest=None) as file:
            stated = json.loads(file.attrs["provenance"]) if "provenance" in file.attrs else None
            return cls(
                place,
                str(file.attrs["firstlight_kind"]),
                int(file.attrs["firstlight_schema"]),
                None if stated is None else Provenance.from_dict(stated),
                dict(_shapes(file)),
            )

    def read(self) -> Any:
        """The result itself, as ``load`` reads it."""
        return load(self.path)

    def __repr__(self) -> str:
        origin = "" if self.provenance is None else f" of {self.provenance.model} by {self.provenance.engine}"
        return f"<Archive {self.path.name}: {self.kind}{origin}, {len(self.variables)} arrays, schema {self.schema}>"


def _write(group: Any, noun: Storable) -> None:
    parts = noun.parts()
    group.attrs["firstlight_kind"] = noun.kind
    group.attrs["firstlight_schema"] = np.int64(SCHEMA)
    for name, value in parts.attributes.items():
        group.attrs[name] = _json(name, value)
    every = {**parts.coordinates, **parts.variables}
    lengths: dict[str, int] = {}
    for name, item in every.items():
        for axis, length in zip(item.dims, item.values.shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise UsageError(
                    f"save: {name!r} has {length} points along {axis!r}, another array {lengths[axis]}"
                )
    group.dimensions = lengths
    for name, item in every.items():
        _write_array(group, name, item)
    group.attrs["firstlight_coordinates"] = json.dumps(list(parts.coordinates))
    others = [name for name, item in parts.coordinates.items() if item.dims != (name,)]
    if others:
        group.attrs["coordinates"] = " ".join(others)  # by this, xarray tells labels from variables
    for name, child in parts.children.items():
        _write(group.create_group(name), child)


def _write_array(group: Any, name: str, item: Variable) -> None:
    import h5py

    values: NDArray[Any] = item.values
    if values.dtype.kind in "OU":
        if not all(isinstance(entry, str) for entry in values.ravel().tolist()):
            raise UsageError(
                f"save: {name!r} holds objects that are no strings; files hold numbers, booleans and strings"
            )
        group.create_variable(name, item.dims, dtype=h5py.string_dtype(), data=values.astype(object))
        return
    if values.dtype.kind not in "biuf":
        raise UsageError(f"save: {name!r} has type {values.dtype}; files hold numbers, booleans and strings")
    options: dict[str, Any] = {}
    if values.nbytes >= _COMPRESSED:
        options = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
    stored = values.astype(np.int8) if values.dtype.kind == "b" else values
    written = group.create_variable(name, item.dims, data=stored, **options)
    if values.dtype.kind == "b":
        written.attrs["dtype"] = "bool"


def _read(group: Any, path: Path) -> Any:
    kind = str(group.attrs["firstlight_kind"])
    if kind not in KINDS:
        raise CouldNotError(
            f"load({str(path)!r}): the file holds a {kind!r}, which this version does not know; "
            f"it knows {', '.join(KINDS)}; upgrade firstlight"
        )
    arrays = {name: _read_array(stored) for name, stored in group.variables.items()}
    labels = json.loads(group.attrs["firstlight_coordinates"])
    attributes = {
        name: json.loads(value)
        for name, value in group.attrs.items()
        if not name.startswith("firstlight_") and name != "coordinates"
    }
    parts = Parts(
        {name: item for name, item in arrays.items() if name not in labels},
        {name: arrays[name] for name in labels},
        attributes,
        {name: _read(child, path) for name, child in group.groups.items()},
    )
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name).assemble(parts)


def _read_array(stored: Any) -> Variable:
    values = np.asarray(stored[...])
    if values.dtype.kind == "O":
        decoded = [
            entry.decode() if isinstance(entry, bytes) else str(entry) for entry in values.ravel().tolist()
        ]
        texts = np.empty(len(decoded), dtype=object)
        texts[:] = decoded
        values = texts.reshape(values.shape)
    elif "dtype" in stored.attrs:
        values = values.astype(bool)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    values.flags.writeable = False
    return Variable(tuple(stored.dimensions), values)


def _shapes(group: Any, prefix: str = "") -> Iterator[tuple[str, tuple[tuple[str, ...], tuple[int, ...]]]]:
    for name, stored in group.variables.items():
        yield prefix + name, (tuple(stored.dimensions), tuple(stored.shape))
    for name, child in group.groups.items():
        yield from _shapes(child, f"{prefix}{name}/")


@contextmanager
def _opened(path: Path, *, newest: int | None = SCHEMA) -> Iterator[Any]:
    """The open file, after every look that tells why it cannot be read."""
    where = f"load({str(path)!r})"
    if not path.is_file():
        wrong = "the path is a folder" if path.is_dir() else "there is no such file"
        raise UsageError(f"{where}: {wrong}; expected a file that save wrote")
    with path.open("rb") as raw:
        head = raw.read(8)
    if head != _HDF5:
        older = "; it is netCDF3, firstlight writes netCDF4" if head[:3] == b"CDF" else ""
        raise DataError(
            f"{where}: not a netCDF4 file (its first bytes are {head!r}){older}; expected a file that save wrote"
        )
    import h5netcdf

    try:
        with h5netcdf.File(path, "r") as file:
            if "firstlight_kind" not in file.attrs:
                raise DataError(
                    f"{where}: a netCDF4 or HDF5 file, but not one of firstlight's; open it with xarray"
                )
            schema = int(file.attrs["firstlight_schema"])
            if newest is not None and schema > newest:
                raise CouldNotError(
                    f"{where}: written with schema {schema}, this version reads up to {newest}; upgrade firstlight"
                )
            yield file
    except FirstlightError:
        raise
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as damage:
        raise DataError(
            f"{where}: the file is cut short or damaged ({damage}); make or copy it again"
        ) from damage


def _json(name: str, value: Any) -> str:
    def convert(unknown: Any) -> Any:
        if isinstance(unknown, (np.generic, np.ndarray)):
            return unknown.tolist()
        if isinstance(unknown, Mapping):
            return dict(unknown)
        if isinstance(unknown, Path):
            return str(unknown)
        raise UsageError(
            f"save: {name} holds a {type(unknown).__name__}, which JSON cannot say; describe it by a string or numbers"
        )

    return json.dumps(value, default=convert, ensure_ascii=False)
