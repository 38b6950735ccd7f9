"""What a module offers is what it says: ``__all__`` lists exactly its public names, and the root's names resolve."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import firstlight

SOURCE = Path(firstlight.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name not in {"__init__.py", "__main__.py"})


def public_names(tree: ast.Module) -> set[str]:
    """Names that the module itself defines at its top level and that do not begin with an underscore."""
    names = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


def exported_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def is_for_types(tree: ast.Module, name: str) -> bool:
    """Whether the name is a shorthand in annotations, ``Array = NDArray[np.float64]`` or ``State = TypeVar(…)``."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if (
                found == name and not name.isupper()
            ):
                if isinstance(value, ast.Subscript | ast.BinOp) and name[0].isupper():
                    return True
                if isinstance(value, ast.Call) and getattr(value.func, "id", "") in {"TypeVar", "ParamSpec"}:
                    return True
    return False


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_all_lists_the_public_names(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    exported = exported_names(tree)
    assert exported is not None, f"{path}: no __all__"
    assert len(exported) == len(set(exported))
    defined = public_names(tree)
    assert sorted(set(exported) - defined) == [], "exported but not defined here"
    forgotten = {name for name in defined - set(exported) if not is_for_types(tree, name)}
    assert sorted(forgotten) == [], (
        "public but not exported; add it to __all__ or begin it with an underscore"
    )


def test_the_check_can_fail():
    tree = ast.parse(
        '__all__ = ["a"]\ndef a(): ...\ndef b(): ...\nArray = list[int]\nLIMIT: int = 3\n_c = 1\n'
    )
    assert public_names(tree) - set(exported_names(tree) or []) == {"b", "Array", "LIMIT"}
    assert is_for_types(tree, "Array")
    assert not is_for_types(tree, "LIMIT")


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
