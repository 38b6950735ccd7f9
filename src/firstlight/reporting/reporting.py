"""``report``: any result → a terminal, HTML, Markdown, JSON or JUnit.

Enters: a noun, or several to be set side by side, and a path or a format. Leaves: the text, or the file and its
path. The suffix of the path decides the format:

========== ======== =======================================================
suffix     format   for whom
========== ======== =======================================================
.html      html     people: one file that works offline, with pictures
.md        markdown a pull request
.txt       text     a log; what a terminal shows, without colours
.json      json     programs
.xml       junit    continuous integration; a Diagnosis only
========== ======== =======================================================
"""

from __future__ import annotations

import os
import uuid
from importlib import import_module
from pathlib import Path
from typing import Any

from firstlight.errors import UsageError, one_of

__all__ = ["FORMATS", "SUFFIXES", "report"]

FORMATS: dict[str, str] = {
    "text": "firstlight.reporting.terminal:text_report",
    "html": "firstlight.reporting.html:html_report",
    "markdown": "firstlight.reporting.markdown:markdown_report",
    "json": "firstlight.reporting.strict_json:json_report",
    "junit": "firstlight.reporting.junit:junit_report",
}
"""What writes each format; imported when it is asked for."""

SUFFIXES = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".txt": "text",
    ".json": "json",
    ".xml": "junit",
}


def report(noun: Any, path: str | Path | None = None, *, format: str | None = None) -> str | Path:
    """Tell a result.

    Args:
        noun: A Profile, Diagnosis, Comparison, Change, Trajectory, PhaseDiagram, Guesses or Reproduction; or a list of
            Diagnoses (or of Profiles), which are set side by side.
        path: Where to write; the suffix decides the format.
        format: ``"text"``, ``"html"``, ``"markdown"``, ``"json"`` or ``"junit"``, whatever the suffix; without a path,
            ``"text"`` by default.

    Returns:
        The path, or the text where there is none.

    >>> import firstlight as fl
    >>> told = report(fl.predict(fl.Blueprint.mlp(depth=3)))
    >>> told.splitlines()[0]
    'Blueprint.mlp(depth=3)'
    """
    target = None if path is None else Path(path)
    kind = format or ("text" if target is None else _format_of(target))
    if kind not in FORMATS:
        raise one_of("report(format)", kind, FORMATS)
    if target is not None and (target.is_dir() or not target.parent.is_dir()):
        wrong = "is a folder" if target.is_dir() else f"lies in {target.parent}, which is no folder"
        raise UsageError(
            f"report({str(target)!r}): the path {wrong}; pass the name of a file in a folder that exists"
        )
    module, _, name = FORMATS[kind].partition(":")
    text: str = getattr(import_module(module), name)(noun)
    if target is None:
        return text
    _write(target, text)
    return target


def _format_of(target: Path) -> str:
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"report({str(target)!r}): expected a name that ends in {', '.join(SUFFIXES)}, "
            f"got {suffix or 'no suffix'!r}; or pass format="
        )
    return SUFFIXES[suffix]


def _write(target: Path, text: str) -> None:
    """The file appears when it is complete; what was there before stays until then."""
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
