"""Long measurements in chunks: each is an archive of its own, so a run that is cut short goes on where it stopped.

Enters: a function that measures chunk ``k`` (initializations of seed ``k``). Leaves: Profiles of the chunks, in order.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import firstlight as fl

__all__ = ["RESULTS", "complete", "computed", "write_table"]

RESULTS = Path(__file__).parents[1] / "results" / "agreement"


def computed(name: str, number: int, measure: Callable[[int], fl.Profile]) -> fl.Profile:
    """Chunk ``number`` of a measurement: read if it is there, else measured and kept."""
    path = RESULTS / name / f"{number:03}.nc"
    if path.exists():
        return fl.load(path)
    began = time.perf_counter()
    profile = measure(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    profile.save(path)
    print(f"{name}: chunk {number} in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return profile


def complete(name: str) -> list[fl.Profile]:
    """The chunks that are there, in order."""
    return [fl.load(path) for path in sorted((RESULTS / name).glob("*.nc"))]


def write_table(name: str, settings: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    """One JSON file for each script, with the day it speaks of."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "firstlight": fl.__version__,
        "settings": settings,
        "rows": rows,
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path
