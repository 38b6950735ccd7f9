"""Imports go down one staircase, and what must open fast imports nothing heavy at module level.

Every import statement counts, wherever it stands (in a function, under ``TYPE_CHECKING``): a step that names a higher
one, even for a type, has to know who reads it. Only the root resolves names of every room, lazily.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "firstlight"

STAIRCASE = (
    {"errors"},
    {"results"},
    {"architecture", "data", "models", "plots", "diagnosis"},
    {"theory", "measurement"},
    {"remedies"},
    {"training", "auditing"},
    {"reporting"},
    {"papers"},
    {"cli"},
)
STEP = {room: number for number, rooms in enumerate(STAIRCASE) for room in rooms}

HEAVY = {"torch", "pandas", "xarray", "matplotlib", "plotly", "transformers"}
LIGHT_ROOMS = ("results", "cli")
LIGHT_FILES = (
    "__init__.py",
    "__main__.py",
    "errors.py",
    "architecture/__init__.py",
    "architecture/layers.py",
    "architecture/activations.py",
    "architecture/blueprint.py",
)


class Import(NamedTuple):
    module: str
    line: int
    on_opening: bool
    """Whether the statement runs when its module is imported."""


def imports_of(path: Path, root: Path) -> list[Import]:
    """Every module that the file at ``path`` imports, with the line and the moment."""
    package = ["firstlight", *path.relative_to(root).parts[:-1]]
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return list(_walk(tree, package, on_opening=True))


def _walk(node: ast.AST, package: list[str], *, on_opening: bool) -> Iterator[Import]:
    match node:
        case ast.Import(names=names):
            for name in names:
                yield Import(name.name, node.lineno, on_opening)
        case ast.ImportFrom(module=module, names=names, level=level):
            parents = package[: len(package) - level + 1] if level else []
            origin = ".".join([*parents, *([module] if module else [])])
            for (
                name
            ) in names:  # `from firstlight import errors` names a room as much as `import firstlight.errors`
                yield Import(f"{origin}.{name.name}", node.lineno, on_opening)
        case ast.Call(
            func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(module))]
        ):
            if called in {"import_module", "__import__"}:
                yield Import(module, node.lineno, on_opening)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            for child in node.body:
                yield from _walk(child, package, on_opening=False)
            for child in node.orelse:
                yield from _walk(child, package, on_opening=on_opening)
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            on_opening = False
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, package, on_opening=on_opening)


def root_names(root: Path) -> dict[str, str]:
    """The home of each name that the root resolves lazily, read without importing it."""
    if not (root / "__init__.py").exists():
        return {}
    for node in ast.parse((root / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "_HOMES":
            homes: dict[str, str] = ast.literal_eval(node.value)
            return homes
    return {}


def violations(root: Path) -> list[str]:
    """One sentence for each import that climbs, goes sideways or is heavy where it must be light."""
    found = []
    homes = root_names(root)
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        room = relative.parts[0].removesuffix(".py")
        where = f"src/firstlight/{relative.as_posix()}"
        if room not in STEP and room not in {"__init__", "__main__"}:
            found.append(
                f"{where}:1: room {room!r} has no step; add it to STAIRCASE in {Path(__file__).name}"
            )
            continue
        light = room in LIGHT_ROOMS or relative.as_posix() in LIGHT_FILES
        for module, line, on_opening in imports_of(path, root):
            top, _, inner = module.partition(".")
            if top in HEAVY and on_opening and light:
                found.append(
                    f"{where}:{line}: {top} at module level; import it in the function that needs it"
                )
            if top != "firstlight" or room in {"__init__", "__main__"}:
                continue
            name = inner.partition(".")[0]
            target = homes[name].split(".")[1] if name in homes else name
            if target not in STEP:
                if not name.startswith("__") and room != "cli":  # above it there is nothing to climb to
                    found.append(f"{where}:{line}: imports {module}; name the room it lives in")
                continue
            if target == room or STEP[target] < STEP[room]:
                continue
            direction = "climbs" if STEP[target] > STEP[room] else "goes sideways"
            found.append(f"{where}:{line}: {room} imports {target} ({module}): {direction} on the staircase")
    return found


def test_every_import_goes_down():
    assert violations(SOURCE) == []


def test_the_rooms_are_seen():
    assert len(list(SOURCE.rglob("*.py"))) > 5
    assert root_names(SOURCE)["Profile"] == "firstlight.results.profile"


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("results/a.py", "import firstlight.theory.phases", "results/a.py:1: results imports theory"),
        (
            "results/a.py",
            "def f():\n    from firstlight.cli import main",
            "results/a.py:2: results imports cli",
        ),
        ("theory/a.py", "from firstlight.measurement import taps", "goes sideways"),
        ("measurement/a.py", "from ..theory import rules", "measurement imports theory"),
        ("theory/rules/a.py", "from ...cli import main", "theory imports cli"),
        ("theory/a.py", "from firstlight import cli", "theory imports cli"),
        ("results/a.py", "from firstlight import predict", "results imports theory"),
        ("theory/a.py", "import firstlight", "name the room"),
        ("theory/a.py", "import_module('firstlight.papers.x')", "theory imports papers"),
        (
            "results/a.py",
            "if TYPE_CHECKING:\n    from firstlight.theory import x",
            "results/a.py:2: results imports theory",
        ),
        ("results/a.py", "\nimport torch", "results/a.py:2: torch at module level"),
        ("architecture/blueprint.py", "from torch import nn", "torch at module level"),
        ("cli/a.py", "try:\n    import pandas.io\nexcept ImportError: ...", "pandas at module level"),
        ("helpers/a.py", "", "room 'helpers' has no step"),
    ],
)
def test_a_planted_violation_is_named(tmp_path, file, text, expected):
    (tmp_path / "__init__.py").write_text('_HOMES = {"predict": "firstlight.theory.predicting"}\n')
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    [found] = violations(tmp_path)
    assert expected in found


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("results/a.py", "from firstlight.errors import UsageError\nfrom .b import c"),
        ("results/a.py", "def f():\n    import torch"),
        ("results/a.py", "if TYPE_CHECKING:\n    import pandas"),
        ("measurement/a.py", "import torch"),
        ("cli/a.py", "from firstlight import __version__, predict"),
        ("cli/a.py", "import firstlight as fl"),
    ],
)
def test_what_is_allowed_passes(tmp_path, file, text):
    (tmp_path / "__init__.py").write_text('_HOMES = {"predict": "firstlight.theory.predicting"}\n')
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    assert violations(tmp_path) == []
