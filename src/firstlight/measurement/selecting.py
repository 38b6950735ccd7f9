"""Layers by name: exact, fnmatch, ``re:`` regular expression, ``~`` exclusion, or a predicate.

>>> chosen(["stem.0", "blocks.0.norm", "blocks.1.norm"], ["blocks.*", "~blocks.1*"])
['blocks.0.norm']
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

from firstlight.errors import UsageError

__all__ = ["chosen"]


def chosen(names: Sequence[str], patterns: Iterable[str]) -> list[str]:
    """The names that some pattern matches and no ``~`` pattern does, in their own order.

    With exclusions only, all other names are chosen. A pattern that matches nothing is an error.
    """
    wanted: set[str] = set()
    unwanted: set[str] = set()
    listed = list(patterns)
    for pattern in listed:
        excluded = pattern.startswith("~")
        matches = _matcher(pattern.removeprefix("~"))
        found = [name for name in names if matches(name)]
        if not found:
            near = difflib.get_close_matches(pattern.lstrip("~").removeprefix("re:"), names, n=3, cutoff=0.4)
            hint = f"near matches: {', '.join(near)}" if near else f"known: {', '.join(list(names)[:8])}"
            more = ", …" if not near and len(names) > 8 else ""
            raise UsageError(
                f"measure(layers): the pattern {pattern!r} matches no layer that ran; {hint}{more}"
            )
        (unwanted if excluded else wanted).update(found)
    if not any(not pattern.startswith("~") for pattern in listed):
        wanted = set(names)
    return [name for name in names if name in wanted and name not in unwanted]


def _matcher(pattern: str) -> Callable[[str], object]:
    if pattern.startswith("re:"):
        try:
            return re.compile(pattern[3:]).search
        except re.error as error:
            raise UsageError(f"measure(layers): {pattern!r} is no regular expression: {error}") from error
    return lambda name: name == pattern or fnmatch.fnmatchcase(name, pattern)
