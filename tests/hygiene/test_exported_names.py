"""What a module offers is what it says: ``__all__`` holds its public names, and the names of the root resolve."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import firstlight

SOURCE = Path(firstlight.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name not in {"__init__.py", "__main__.py"})


def defined_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """What the module holds at its top level: functions and classes, and all else (constants, what it imports)."""
    made, values = set(), set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                made.add(name)
            case ast.Assign(targets=targets):
                names_bound = (name for target in targets for name in ast.walk(target))
                values.update(name.id for name in names_bound if isinstance(name, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                values.add(name)
            case ast.ImportFrom(names=names):
                values.update(name.asname or name.name for name in names)
    return made, values


def exported_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def faults(tree: ast.Module) -> list[str]:
    """What ``__all__`` says wrongly; a module may keep documented constants and type shorthands to itself."""
    exported = exported_names(tree)
    if exported is None:
        return ["no __all__"]
    made, values = defined_names(tree)
    public = {name for name in made if not name.startswith("_")}
    return [
        *(f"{name}: exported but not here" for name in exported if name not in made | values),
        *(f"{name}: exported but begins with an underscore" for name in exported if name.startswith("_")),
        *(f"{name}: exported twice" for name in set(exported) if exported.count(name) > 1),
        *(f"{name}: public but not exported" for name in sorted(public - set(exported))),
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_all_lists_the_public_names(path):
    assert faults(ast.parse(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", ["no __all__"]),
        ('__all__ = ["a"]\nfrom b import c as d', ["a: exported but not here"]),
        ('__all__ = ["_a"]\ndef _a(): ...', ["_a: exported but begins with an underscore"]),
        ('__all__ = ["a", "a"]\na = 1', ["a: exported twice"]),
        ('__all__ = ["a"]\ndef a(): ...\nclass B: ...\nLIMIT: int = 3', ["B: public but not exported"]),
        ('__all__ = ["a"]\nfrom b import a', []),
        ('__all__ = ["a", "b"]\na, b = 1, 2', []),
        ('__all__ = ["LIMIT"]\nLIMIT = 3\nArray = list[int]\ndef _own(): ...', []),
    ],
)
def test_the_check_can_fail(text, expected):
    assert faults(ast.parse(text)) == expected


@pytest.mark.parametrize("directory", sorted({path.parent for path in MODULES}), ids=lambda path: path.name)
def test_every_room_says_what_it_is(directory):
    opening = directory / "__init__.py"
    assert opening.exists(), f"{directory.name} has no __init__.py"
    assert ast.get_docstring(ast.parse(opening.read_text(encoding="utf-8"))), f"{opening}: no docstring"


@pytest.mark.parametrize("name", firstlight.__all__)
def test_root_names_resolve(name):
    value = getattr(firstlight, name)
    assert value.__module__ == firstlight._HOMES[name]


def test_root_names_are_told_to_type_checkers():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    told = {(alias.name, node.module) for node in block.body for alias in node.names}
    assert told == set(firstlight._HOMES.items())


def test_an_unknown_root_name_lists_what_there_is():
    with pytest.raises(AttributeError, match=r"no attribute 'predicts'; it offers .*phases, predict"):
        firstlight.predicts  # noqa: B018
