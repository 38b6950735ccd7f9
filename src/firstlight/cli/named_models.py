"""A model by one word of the command line: Python code, a line that describes a perceptron, a Hugging Face config.

Enters: ``package.module:factory``, ``path/to/file.py:factory``, ``mlp:depth=20,norm=layer`` or ``hf:path-or-class``.
Leaves: a ``NamedModel`` that ``measure`` takes. Every mistake is one sentence with what to type instead; an
exception in the user's own code is told with its file and line.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from firstlight.architecture.blueprint import Blueprint
from firstlight.errors import FirstlightError, ModelError, UsageError, one_of

__all__ = ["NamedModel", "imported", "model_named", "own_mistakes_told"]

FORMS = "package.module:factory, path/to/file.py:factory, mlp:depth=20,norm=layer or hf:path-or-class"
_OURS = str(Path(__file__).parents[1]) + os.sep


@dataclass(frozen=True)
class NamedModel:
    """What the word names.

    Attributes:
        model: A module, a factory without required arguments, or a Blueprint.
        folder: Where the user's code lies, if it is code.
        words: The line of text, if it is one.
    """

    model: Any
    folder: Path | None = None
    words: str | None = None

    @property
    def blueprint(self) -> Blueprint | None:
        """The Blueprint, if it is one."""
        return self.model if isinstance(self.model, Blueprint) else None


def model_named(words: str) -> NamedModel:
    """Find the model that ``words`` name."""
    head, colon, rest = words.partition(":")
    if head == "hf":
        from firstlight.cli.hugging_face import factory_of_config

        return NamedModel(factory_of_config(rest))
    if head == "mlp" or "=" in rest:
        return NamedModel(Blueprint.parse(words), words=words)
    if not colon and not words.endswith(".py"):
        raise UsageError(f"model: expected {FORMS}, got {words!r}")
    found, module = imported(words, "model")
    folder = Path(module.__file__).resolve().parent if module.__file__ else None
    _check(found, words)
    return NamedModel(found, folder)


def imported(words: str, where: str) -> tuple[Any, ModuleType]:
    """The object that ``module:attribute`` or ``file.py:attribute`` names, and the module it is in."""
    place, _, attribute = (words, "", "") if words.endswith(".py") else words.rpartition(":")
    module = _from_file(place, where) if place.endswith(".py") else _from_package(place, where)
    if not attribute:
        raise UsageError(
            f"{where}: expected {place}:NAME, got no name behind the file; it offers {_listed(module)}"
        )
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            offered = _offered(module) if found is module else [key for key in vars(found) if key[0] != "_"]
            if not offered:
                raise UsageError(f"{where}: {place} has no {part!r}, and offers nothing else")
            raise one_of(f"{where} {words!r}: {part!r} is not there", part, offered)
        found = getattr(found, part)
    return found, module


@contextmanager
def own_mistakes_told(folder: Path | None, whose: str = "model") -> Iterator[None]:
    """Turn an exception that user code in ``folder`` raised into one sentence with its file and line."""
    try:
        yield
    except (FirstlightError, OSError, MemoryError):
        raise
    except Exception as error:
        if folder is None or (line := _own_line(error, str(folder) + os.sep)) is None:
            raise
        raise ModelError(f"the {whose}'s own code failed at {line}: {_told(error)}") from error


def _from_file(place: str, where: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"{where}: there is no file {place!r} (looked in {Path.cwd()})")
    name = f"firstlight_given_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{where}: {place!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    folder = path.resolve().parent
    _search_first(folder)  # as for a script, its neighbours can be imported
    sys.modules[name] = module
    with _importing(place):
        spec.loader.exec_module(module)
    return module


def _from_package(place: str, where: str) -> ModuleType:
    _search_first(Path.cwd())  # as for `python -m`
    try:
        with _importing(place):
            return importlib.import_module(place)
    except ModelError as error:
        cause = error.__cause__
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        if missing is None or not (place == missing or place.startswith(f"{missing}.")):
            raise
        file = Path(*place.split(".")).with_suffix(".py")
        hint = f"; type {file}:NAME to read the file" if file.is_file() else ""
        raise UsageError(
            f"{where}: there is no module {missing!r} (looked in {Path.cwd()} and the installed packages); "
            f"expected {FORMS}{hint}"
        ) from None


@contextmanager
def _importing(place: str) -> Iterator[None]:
    try:
        yield
    except FirstlightError:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = next((frame for frame in reversed(frames) if "importlib" not in frame.filename), None)
        line = "" if at is None or at.filename.startswith(_OURS) else f" at {_short(at.filename)}:{at.lineno}"
        raise ModelError(f"importing {place} failed{line}: {_told(error)}") from error


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _offered(module: ModuleType) -> list[str]:
    """Names that could be models: modules, and functions and classes that are defined there."""
    from torch import nn

    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (
            isinstance(value, nn.Module | Blueprint)
            or ((inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == module.__name__)
        )
    ]


def _listed(module: ModuleType) -> str:
    return ", ".join(_offered(module)) or "nothing"


def _check(found: Any, words: str) -> None:
    """Refuse what is no model, and factories that need arguments."""
    from torch import nn

    if isinstance(found, nn.Module | Blueprint):
        return
    if not callable(found) or (inspect.isclass(found) and not issubclass(found, nn.Module)):
        kind = f"the class {found.__name__}" if inspect.isclass(found) else f"an object of {type(found)!r}"
        raise UsageError(
            f"model {words!r}: expected an nn.Module, or a function without arguments that returns one, got {kind}"
        )
    missing = _required(found)
    if missing:
        place = words.rpartition(":")[0]
        arguments = ", ".join(f"{name}=…" for name in missing)
        raise UsageError(
            f"model {words!r}: the factory requires {', '.join(missing)}; write "
            f"`def make_model(): return {found.__qualname__}({arguments})` "
            f"there and type {place}:make_model"
        )


def _required(factory: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        item.name
        for item in parameters
        if item.default is item.empty and item.kind not in variable and item.name != "seed"
    ]


def _own_line(error: Exception, folder: str) -> str | None:
    """``file:line`` of the innermost frame that is the user's own, or nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        file = os.path.realpath(frame.filename)
        if file.startswith(folder) and not file.startswith(_OURS) and "site-packages" not in file:
            return f"{_short(file)}:{frame.lineno}"
    return None


def _short(file: str) -> str:
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except ValueError:
        return file


def _told(error: BaseException) -> str:
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
