"""Snapshots of training: written whole or not at all, read without running anything that is in them.

Enters: tensors, numbers and strings. Leaves: files in one folder, a settings file beside them. A snapshot of other
settings is refused, not overwritten.
"""

from __future__ import annotations

import io
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from firstlight.errors import CouldNotError, DataError, UsageError

__all__ = ["Snapshots", "discard"]

_SETTINGS = "settings.json"
_UNFINISHED = ".unfinished"


class Snapshots:
    """The snapshots of one training in a folder."""

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"train(resume): expected a folder, got the file {str(self.folder)!r}")
        self.folder.mkdir(parents=True, exist_ok=True)
        written = self.folder / _SETTINGS
        text = json.dumps(settings, sort_keys=True)
        if written.exists():
            self._check(json.loads(written.read_text(encoding="utf-8")), json.loads(text))
        elif any(not _is_unfinished(path) for path in self.folder.iterdir()):
            raise UsageError(
                f"train(resume): {str(self.folder)!r} holds other files; expected an empty folder, or one that an "
                "interrupted training left"
            )
        else:
            _write(written, text.encode())

    def save(self, name: str, state: Mapping[str, Any]) -> None:
        """Write a snapshot; the one before stays until this one is complete."""
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        _write(self.folder / f"{name}.pt", buffer.getvalue())

    def load(self, name: str) -> dict[str, Any] | None:
        """The snapshot of that name, or nothing."""
        path = self.folder / f"{name}.pt"
        if not path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        except Exception as error:  # torch raises whatever its readers meet
            raise DataError(
                f"train(resume): {str(path)!r} cannot be read ({type(error).__name__}); remove it to begin anew"
            ) from error
        return state

    def _check(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        other = sorted(key for key in {*there, *here} if there.get(key) != here.get(key))
        if other:
            key = other[0]
            raise CouldNotError(
                f"train(resume): {str(self.folder)!r} was left by a training with another {key} "
                f"({there.get(key)!r}, not {here.get(key)!r}); pass the same settings to go on, or another folder"
            )


def discard(folder: str | Path) -> None:
    """Take away the snapshots in a folder and in its folders, and those of these that are empty then; nothing else."""
    place = Path(folder)
    for inner in (*(item for item in place.iterdir() if item.is_dir()), place):
        for path in (*inner.glob("*.pt"), *filter(_is_unfinished, inner.iterdir()), inner / _SETTINGS):
            path.unlink(missing_ok=True)
        if not any(inner.iterdir()):
            inner.rmdir()


def _is_unfinished(path: Path) -> bool:
    """Whether a training was killed in the moment in which it wrote this."""
    return path.name.startswith(".") and path.name.endswith(_UNFINISHED)


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
