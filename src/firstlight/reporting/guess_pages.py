"""Guesses as a Document: one line, and the leading ranks."""

from __future__ import annotations

from firstlight.reporting.amounts import share_with_stderr
from firstlight.reporting.document import Document, Section, Table
from firstlight.results.guesses import Guesses

__all__ = ["guess_page"]

_RANKS = 20
"""Ranks that are listed."""


def guess_page(guesses: Guesses) -> Document:
    """The Document of Guesses."""
    ranked = guesses._glance
    rows = tuple(
        (str(rank + 1), share_with_stderr(float(value), float(stderr)))
        for rank, (value, stderr) in enumerate(
            zip(ranked.value[:_RANKS], ranked.stderr[:_RANKS], strict=True)
        )
    )
    table = Table(
        ("rank", "share of the data"), rows, 1, "classes ranked within each initialization, then averaged"
    )
    line = " ".join(repr(guesses)[1:-1].split())
    return Document(guesses.kind, "Guesses", sections=(Section(sentences=(line,), tables=(table,)),))
