"""The house style: one set of fonts, sizes, colours and line patterns, applied to a figure and never to the session.

Enters: nothing but sizes. Leaves: figures that stay legible in one column of a paper, in grey, and to
colour-blind readers: the colours are those of Okabe and Ito (2008), and no two series differ by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLUMN", "PALETTE", "Series", "house_style", "new_figure", "series_styles"]

PALETTE = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
    "yellow": "#F0E442",
}
"""Okabe and Ito's colours, those with the most contrast on white first."""

COLUMN = 3.5
"""Width in inches of one column of a two-column page."""

_GREY = "#4D4D4D"

_SETTINGS: dict[Any, Any] = {
    # STIX is what matplotlib ships that sits well beside Times and has the Greek; DejaVu fills what STIX lacks.
    "font.family": ["STIXGeneral", "DejaVu Sans"],
    "mathtext.fontset": "stix",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _GREY,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "hatch.linewidth": 0.5,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
}


class Series(NamedTuple):
    """How one series is drawn: colour, dash pattern and marker, each enough to tell it from its neighbours."""

    color: str
    linestyle: tuple[float, tuple[float, ...]] | Literal["-"]
    marker: str


def series_styles(count: int) -> list[Series]:
    """``count`` styles whose colours, dashes and markers all differ from one series to the next.

    >>> [style.marker for style in series_styles(3)]
    ['o', 's', '^']
    """
    colors = [color for name, color in PALETTE.items() if name != "yellow"]  # too pale for a line on white
    dashes: list[tuple[float, tuple[float, ...]] | Literal["-"]] = [
        "-",
        (0, (5, 1.5)),
        (0, (1, 1.2)),
        (0, (5, 1.5, 1, 1.5)),
    ]
    rounds = zip(cycle(colors), cycle(dashes), cycle("os^Dv"), strict=False)
    return [Series(*parts) for parts in islice(rounds, count)]


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the style to what is created inside, and leave matplotlib's global settings as they were."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        yield


def new_figure(*, width: float = COLUMN, height: float = 2.6) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes; call it inside ``house_style()``.

    Args:
        width: Inches; one column by default.
        height: Inches.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=200, layout="constrained")
    return figure, figure.add_subplot()
