"""Every exception that firstlight raises on purpose.

The tree::

    FirstlightError
    ├── UsageError (also a ValueError)      the caller asked for something that has no meaning
    ├── ModelError (also a TypeError)       a model that cannot be read, re-drawn or run
    ├── DataError (also a ValueError)       data that cannot be used as it is
    └── CouldNotError (also a RuntimeError) a sound question that could not be answered here

A message is one sentence (or two) that says where, what was expected, what was got and what to do.
The command line turns ``UsageError`` into exit code 2 and the other three into exit code 3.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "CouldNotError",
    "DataError",
    "FirstlightError",
    "ModelError",
    "UsageError",
    "one_of",
]


class FirstlightError(Exception):
    """Base of all errors that firstlight raises on purpose."""


class UsageError(FirstlightError, ValueError):
    """An argument outside what the function is defined for."""


class ModelError(FirstlightError, TypeError):
    """A model that cannot be read, re-drawn or run."""


class DataError(FirstlightError, ValueError):
    """Data that cannot be used as it is."""


class CouldNotError(FirstlightError, RuntimeError):
    """A sound question that could not be answered with what is at hand."""


def one_of(where: str, got: object, options: Iterable[str]) -> UsageError:
    """Compose the error for a value that is none of the named options, near matches first.

    >>> str(one_of("activation", "rleu", ["relu", "tanh"]))
    "activation: expected one of 'relu', 'tanh', got 'rleu'; did you mean 'relu'?"
    """
    known = list(options)
    near = difflib.get_close_matches(str(got).lower(), known, n=3, cutoff=0.5)
    listed = ", ".join(repr(option) for option in known)
    hint = f"; did you mean {' or '.join(repr(option) for option in near)}?" if near else ""
    return UsageError(f"{where}: expected one of {listed}, got {got!r}{hint}")
