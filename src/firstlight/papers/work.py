"""Work: what a figure computes, piece by piece, each kept in a file of its own so that a later sitting goes on there.

Enters: a folder, settings and a seed. Leaves: nouns, computed now or read back. A piece belongs to the settings and the
seed it was made with: where those have changed, the folder's pieces are made anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from firstlight.errors import UsageError

__all__ = ["Work", "digest"]

Noun = TypeVar("Noun")

_SECONDS = "seconds.json"


@dataclass
class Work:
    """One figure's sitting at its desk.

    Attributes:
        key: Paper and figure.
        settings: What is to be computed.
        seed: Names every draw.
        folder: Where the pieces are kept.
        shared: Where pieces are kept that several figures read, by a digest of what made them.
        data_root: Folder of the data sets, or None for the usual places.
        progress: Whether to show bars on a terminal.
        again: Make everything anew, whatever an earlier sitting left here or in ``shared``.
    """

    key: str
    settings: Mapping[str, Any]
    seed: int
    folder: Path
    shared: Path
    data_root: Path | None = None
    progress: bool = False
    again: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._anew = set[Path]()
        told = self.folder / "settings.json"
        wanted = json.dumps({"seed": self.seed, **self.settings}, sort_keys=True, indent=1)
        if self.again or not told.exists() or told.read_text(encoding="utf-8") != wanted:
            self._forget()
            told.write_text(wanted, encoding="utf-8")
        kept = self.folder / _SECONDS
        if kept.exists():
            self.seconds.update(json.loads(kept.read_text(encoding="utf-8")))

    def __getitem__(self, name: str) -> Any:
        """A setting."""
        return self.settings[name]

    def _forget(self) -> None:
        """Drop the pieces of the folder."""
        for piece in [*self.folder.glob("*.nc"), *self.folder.glob(_SECONDS)]:
            piece.unlink()
        self.seconds.clear()

    def piece(self, name: str, make: Callable[[], Noun]) -> Noun:
        """The noun of that name: read from its file, or made and saved."""
        return self._kept(self.folder / f"{name}.nc", name, make)

    def common_piece(self, name: str, made_from: Mapping[str, Any], make: Callable[[], Noun]) -> Noun:
        """A noun that several figures read; ``made_from`` is everything that it depends on, the seed included.

        Where two processes want it at once, the second waits for the first and reads what it made.
        """
        from filelock import FileLock

        self.shared.mkdir(parents=True, exist_ok=True)
        path = self.shared / f"{name}-{digest(made_from)}.nc"
        with FileLock(path.with_suffix(".lock")):
            return self._kept(path, name, make)

    def _kept(self, path: Path, name: str, make: Callable[[], Noun]) -> Noun:
        from firstlight.results.archive import load, save

        if path.exists() and (path in self._anew or not self.again):
            return load(path)  # type: ignore[no-any-return]
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise UsageError(
                f"Work.piece({name!r}): expected letters, digits, '-', '_' and '.', for a file name"
            )
        began = time.perf_counter()
        noun = make()
        save(noun, path)  # type: ignore[arg-type]
        self._anew.add(path)
        self.seconds[name] = time.perf_counter() - began
        (self.folder / _SECONDS).write_text(json.dumps(self.seconds), encoding="utf-8")
        return noun


def digest(made_from: Mapping[str, Any]) -> str:
    """Ten characters that stand for settings.

    >>> digest({"width": 100, "depth": 1}) == digest({"depth": 1, "width": 100})
    True
    """
    text = json.dumps(made_from, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]
