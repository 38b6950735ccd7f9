"""``reproduce``: the key of a figure → its results, the figure and the comparison with the paper.

Enters: a key such as ``"igb/fig5"`` and a scale. Leaves: a ``Reproduction``, and in its folder the results
(``*.nc``), the figure (``figure.svg`` and ``figure.png``) and the verdict (``reproduction.json``). A sitting that was
interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from firstlight.errors import UsageError
from firstlight.papers.catalogue import CATALOGUE, figure_of
from firstlight.papers.work import Work
from firstlight.results.reproduction import Reproduction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FOLDER", "forget", "reproduce"]

FOLDER = Path("reproductions")
"""Where reproductions are kept when nothing else is said."""


def reproduce(
    key: str,
    *,
    scale: str = "small",
    out: str | Path = FOLDER,
    seed: int = 0,
    data_root: str | Path | None = None,
    again: bool = False,
    progress: bool = True,
) -> Reproduction:
    """Compute one figure of a paper anew, draw it, and check what the paper says of it.

    Args:
        key: Paper and figure, such as ``"igb/fig5"``; ``firstlight reproduce --list`` shows all.
        scale: ``"small"`` (a minute of two cores), ``"paper"`` (the paper's own sizes), or ``"smoke"``, which only
            shows that it runs.
        out: Folder that gets a folder for the figure and the scale.
        seed: Names every initialization and draw.
        data_root: Folder of the data sets; ``$FIRSTLIGHT_DATA`` and the usual places otherwise.
        again: Compute everything anew, whatever an earlier sitting left.
        progress: Whether to show bars on a terminal.
    """
    figure = figure_of(key)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"reproduce(seed): expected a whole number, 0 or larger, got {seed!r}")
    folder = Path(out) / key / scale
    work = Work(
        key,
        figure.settings(scale),
        seed,
        folder,
        shared=Path(out) / "shared",
        data_root=None if data_root is None else Path(data_root),
        progress=progress,
        again=again,
    )
    results = figure.compute(work)
    _write(figure.draw(results), folder)
    made = Reproduction(
        key=key,
        title=CATALOGUE[key].title,
        scale=scale,
        settings={"seed": seed, **work.settings},
        statements=tuple(figure.statements(results)),
        departs=tuple(figure.departs.get(scale, ())),
        results=results,
        folder=folder,
        seconds=sum(work.seconds.values()),
    )
    text = json.dumps(_plain(made.to_dict()), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "reproduction.json").write_text(text + "\n", encoding="utf-8")
    return made


def forget(keys: Iterable[str], *, scale: str, out: str | Path = FOLDER) -> None:
    """Drop what earlier sittings computed for these figures, and the pieces that figures share.

    Args:
        keys: Papers and figures.
        scale: Which scale of them.
        out: What ``reproduce`` is given.
    """
    for folder in (*(Path(out) / key / scale for key in keys), Path(out) / "shared"):
        for piece in folder.glob("*.nc"):
            piece.unlink()


def _write(drawn: Figure, folder: Path) -> None:
    from firstlight.plots.style import house_style

    with house_style():
        drawn.savefig(folder / "figure.png", dpi=110)
        drawn.savefig(folder / "figure.svg", metadata={"Date": None})


def _plain(value: object) -> object:
    """What strict JSON can say: NaN becomes null, infinities become words."""
    match value:
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if value != value:
            return None
        case float() if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        case _:
            return value
