"""Read the published CIFAR batches, which are pickles, without letting a pickle do anything.

Enters: the bytes of a pickle. Leaves: dict, list, bytes, str, int and ``uint8`` arrays, and nothing else.

A pickle is a program that may import and call. Here every import is answered with a stand-in of ours: the names that an
array is made of become plain records, from which the array is built after its shape and length were compared; all other
names are refused. Nothing of numpy, let alone of the system, is reachable from the file.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from firstlight.errors import DataError

__all__ = ["read_pickled_arrays"]


def read_pickled_arrays(content: bytes, *, path: Path) -> dict[str, Any]:
    """Read a pickled dictionary of arrays, lists, strings and numbers.

    Args:
        content: The file's bytes.
        path: Its name, for messages.

    Raises:
        DataError: Truncated, no pickle, or one that asks for more than data.
    """
    try:
        loaded = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except _RefusedError as error:
        raise DataError(
            f"{path}: expected arrays, lists and strings only, got a pickle that imports {error}; "
            "it was not run; get the file anew from its publisher"
        ) from None
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
    ) as error:
        raise DataError(
            f"{path}: expected a whole pickled batch, got {len(content)} bytes that end or break off early ({error}); "
            "the file is truncated or no batch; get it anew"
        ) from error
    if not isinstance(loaded, dict):
        raise DataError(
            f"{path}: expected a pickled dictionary, got {type(loaded).__name__}; this is no batch file"
        )
    return {_text(key): _plain(value) for key, value in loaded.items()}


class _RefusedError(Exception):
    """The name that a pickle tried to import."""


class _StandIn:
    """What an import gives: a function of ours that cannot be altered from within the file."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: object) -> None:
        raise TypeError("state for a function")


class _PickledArray:
    """Stand-in for an array under construction; the pickle hands over shape, type and bytes."""

    array: np.ndarray[Any, Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, kind, fortran, content = state
        if not isinstance(kind, _PickledType) or kind.name != "u1":
            raise TypeError(f"an array of type {getattr(kind, 'name', kind)}, not uint8")
        if not isinstance(content, bytes) or math.prod(shape) != len(content):
            raise ValueError(f"an array of shape {shape} without its {math.prod(shape)} bytes")
        self.array = np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")


class _PickledType:
    """Stand-in for an array's element type."""

    def __init__(self, name: str | bytes, *_: object) -> None:
        self.name = _text(name)

    def __setstate__(self, state: object) -> None:
        """Byte order and the like: a byte has none."""


def _array_class(*_: object) -> None:
    """The array class is only named in a batch, never called."""
    raise TypeError("an array that is built directly")


def _new_array(_kind: object, _shape: object, _type: object) -> _PickledArray:
    return _PickledArray()


def _encode(text: str, encoding: str | bytes) -> bytes:
    """How Python 3 writes bytes at protocol 2."""
    if _text(encoding) != "latin1":
        raise ValueError(f"bytes encoded as {encoding!r}")
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], _StandIn] = {
    ("numpy.core.multiarray", "_reconstruct"): _StandIn(_new_array),
    ("numpy._core.multiarray", "_reconstruct"): _StandIn(_new_array),
    ("numpy", "ndarray"): _StandIn(_array_class),
    ("numpy", "dtype"): _StandIn(_PickledType),
    ("_codecs", "encode"): _StandIn(_encode),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise _RefusedError(f"{module}.{name}")
        return _STAND_INS[module, name]


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, _PickledArray):
        return value.array
    if isinstance(value, list):
        return [_text(item) if isinstance(item, bytes) else item for item in value]
    return _text(value) if isinstance(value, bytes) else value
