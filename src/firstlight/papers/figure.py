"""PaperFigure: one figure or table of a paper as data: its settings, how it is computed, drawn and checked.

``compute`` is the only part that may compute; it asks ``Work`` for each costly piece, so that what was done once is
read from its file. ``draw`` and ``statements`` receive what ``compute`` returned and nothing else: no figure shows a
number that its own ``compute`` did not make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from firstlight.errors import one_of
from firstlight.papers.work import Work
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SCALES", "PaperFigure", "Results"]

SCALES = ("smoke", "small", "paper")
"""``smoke`` only shows that it runs; ``small`` gives numbers in a minute of two cores; ``paper`` is the paper's own."""

Results = Mapping[str, Any]


@dataclass(frozen=True)
class PaperFigure:
    """One figure of a paper.

    Attributes:
        compute: Work → the nouns by name.
        draw: Those nouns → the figure in the paper's arrangement.
        statements: Those nouns → the paper's statements beside what came out.
        scales: Settings by scale; those of ``paper`` are the paper's.
        departs: By scale, sentences that say how the settings are not the paper's.
    """

    compute: Callable[[Work], Results]
    draw: Callable[[Results], Figure]
    statements: Callable[[Results], Sequence[Statement]]
    scales: Mapping[str, Mapping[str, Any]]
    departs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def settings(self, scale: str) -> dict[str, Any]:
        """What is computed at a scale."""
        if scale not in self.scales:
            raise one_of("reproduce(scale)", scale, self.scales)
        return dict(self.scales[scale])
