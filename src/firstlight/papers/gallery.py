"""The gallery: a page with every figure that was reproduced, its statements and verdicts, from the files alone.

Enters: a folder that ``reproduce`` wrote. Leaves: ``index.md`` (MyST) with the pictures beside it. Nothing is computed
here and no number is typed: what the page says stands in ``reproduction.json``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from firstlight.errors import UsageError
from firstlight.papers.catalogue import CATALOGUE, PAPERS
from firstlight.papers.figure import SCALES
from firstlight.results.reproduction import Statement
from firstlight.results.rounding import number, with_stderr

__all__ = ["write_gallery"]


def write_gallery(folder: str | Path, target: str | Path) -> Path:
    """Write the page of all reproductions under ``folder``, each at the largest scale that was computed.

    Args:
        folder: What ``reproduce`` was given as ``out``.
        target: Folder of the page and its pictures; made where it does not exist.

    Returns:
        The page.
    """
    found = {key: told for key in CATALOGUE if (told := _newest(Path(folder) / key)) is not None}
    if not found:
        raise UsageError(
            f"gallery: {str(folder)!r} holds no reproduction; run firstlight reproduce --out {folder} first"
        )
    page = Path(target)
    page.mkdir(parents=True, exist_ok=True)
    sections = [_head(found)]
    for paper, title in PAPERS.items():
        keys = [key for key in found if key.startswith(f"{paper}/")]
        if keys:
            sections.append(f"## {title}\n")
            sections += [_section(key, *found[key], page) for key in keys]
    index = page / "index.md"
    index.write_text("\n".join(sections), encoding="utf-8")
    return index


def _newest(folder: Path) -> tuple[dict[str, Any], Path] | None:
    """What the largest scale says, and its folder."""
    for scale in reversed(SCALES):
        told = folder / scale / "reproduction.json"
        if told.exists():
            return json.loads(told.read_text(encoding="utf-8")), told.parent
    return None


def _head(found: dict[str, tuple[dict[str, Any], Path]]) -> str:
    statements = [item for told, _ in found.values() for item in told["statements"]]
    held = sum(bool(item["agrees"]) for item in statements)
    whole = sum(bool(told["agrees"]) for told, _ in found.values())
    return (
        "# Gallery\n\n"
        "Figures of the four papers, computed anew by `firstlight reproduce` and drawn from what it computed. "
        "Below each, the paper's statements beside the numbers that came out.\n\n"
        f"{len(found)} figures with {len(statements)} statements: {held} hold; in {whole} figures all do. "
        "Where one does not, the table says what came out and why that may be.\n"
    )


def _section(key: str, told: dict[str, Any], folder: Path, page: Path) -> str:
    picture = f"{key.replace('/', '-')}.png"
    shutil.copyfile(folder / "figure.png", page / picture)
    rows = [_row(Statement.from_dict(_numbers(item))) for item in told["statements"]]
    lines = [
        f"### {key}: {told['title']}\n",
        f"![{told['title']}]({picture})\n",
        f"`firstlight reproduce {key} --scale {told['scale']}`\n",
        "| the paper says | expected | came out | verdict |",
        "|---|---|---|---|",
        *rows,
    ]
    if told["departs"]:
        lines += ["", "Not as in the paper:", "", *(f"- {sentence}" for sentence in told["departs"])]
    return "\n".join(lines) + "\n"


def _row(statement: Statement) -> str:
    verdict = "agrees" if statement.agrees else "**differs**"
    if statement.because:
        verdict += f": {statement.because}"
    cells = (
        statement.says,
        f"{statement.relation} {number(statement.expected)}",
        with_stderr(statement.measured, statement.stderr),
        verdict,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _numbers(plain: dict[str, Any]) -> dict[str, Any]:
    """Numbers as Python has them, from what strict JSON can say."""
    read = dict(plain)
    for name in ("expected", "measured", "stderr", "tolerance"):
        read[name] = float("nan") if plain[name] is None else float(plain[name])
    return read
