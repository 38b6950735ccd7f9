"""Accuracy over training, of all data above and by class below, a column each network: figures 2, 4 and G.1 to G.8.

Enters: what ``filtered_runs`` made. Leaves: a figure. Bands are ±1 standard error over runs; below, the solid line is
the class that a run preferred at birth, the dashed one the other. Insets: the law of G_0 at birth, over all that were
drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from firstlight.papers.norm.filtered_training import group
from firstlight.papers.norm.networks import TITLES
from firstlight.plots.style import PALETTE, Series, house_style
from firstlight.plots.trajectories import draw_births, draw_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_dynamics"]

_STYLES = {
    "unfiltered": Series(PALETTE["black"], "-", "^"),
    "neutral": Series(PALETTE["green"], "-", "o"),
    "prejudiced": Series(PALETTE["vermillion"], "-", "s"),
}

Column = tuple[str, Sequence[str]]


def draw_dynamics(results: Mapping[str, Any], columns: Sequence[Column], *, split: str) -> Figure:
    """Draw a column for each network with the groups named beside it."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(0.6 + 1.75 * len(columns), 4.0), dpi=200, layout="constrained")
        axes = figure.subplots(2, len(columns), sharex=True, sharey=True, squeeze=False)
        for (name, kinds), (top, bottom) in zip(columns, axes.T, strict=True):
            found = [(kind, runs) for kind in kinds if (runs := group(results, name, kind)) is not None]
            for kind, runs in found:
                draw_mean(top, runs, _STYLES[kind], "accuracy", split=split)
                draw_mean(bottom, runs, _STYLES[kind], "recall", split=split)
            top.set_title(TITLES[name])
            told = ", ".join(f"{runs.runs} {kind}" for kind, runs in found)
            missing = [kind for kind in kinds if kind not in dict(found)]
            told += "".join(f"\nno {kind} start" for kind in missing)
            bottom.set_xlabel(f"step\n{told}", fontsize=7, linespacing=1.3)
            draw_births(
                top.inset_axes((0.1, 0.14, 0.42, 0.24)), results[f"{name}-births"]["fractions"].values[:, 0]
            )
        axes[0, 0].set_ylabel(f"accuracy ({split} set)")
        axes[1, 0].set_ylabel("accuracy by class")
        last = max(int(results[f"{name}-runs"].steps[-1]) for name, _ in columns)
        axes[0, 0].set_xscale("symlog", linthresh=1, linscale=0.4)
        axes[0, 0].set(xlim=(-0.15, last * 1.3), ylim=(-0.02, 1.02), xticks=[0, 1, *_decades(last)])
        shown = [kind for kind in _STYLES if any(kind in kinds for _, kinds in columns)]
        handles = [
            Line2D([], [], color=_STYLES[kind].color, marker=_STYLES[kind].marker, label=kind)
            for kind in shown
        ]
        handles.append(Line2D([], [], color="0.3", label="class preferred at birth"))
        handles.append(Line2D([], [], color="0.3", linestyle=(0, (4, 1.5)), label="other class"))
        figure.legend(
            handles=handles, loc="outside upper center", ncols=min(len(handles), len(columns) + 1), fontsize=7
        )
    return figure


def _decades(last: int) -> list[int]:
    return [10**power for power in range(1, len(str(max(last, 1))))]
