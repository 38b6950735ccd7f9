"""CIFAR-10 and CIFAR-100 from the Python batches (Krizhevsky 2009).

Enters: ``cifar-10-batches-py/`` (``data_batch_1`` … ``data_batch_5``, ``test_batch``, ``batches.meta``) or
``cifar-100-python/`` (``train``, ``test``, ``meta``). Leaves: ``Samples`` of shape (3, 32, 32), a byte a value.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from firstlight.data.locating import locate
from firstlight.data.published import CIFAR10, CIFAR100, Published
from firstlight.data.samples import Samples
from firstlight.data.unpickling import read_pickled_arrays
from firstlight.errors import DataError, one_of

__all__ = ["cifar10", "cifar100"]

_SHAPE = (3, 32, 32)


def cifar10(
    *, train: bool = True, root: str | os.PathLike[str] | None = None, download: bool = True
) -> Samples:
    """Read CIFAR-10: 50,000 training or 10,000 test pictures of ten classes, in published order.

    The description says so when the pixels are not those of the published files (copies that were re-encoded).

    Args:
        train: Training or test set.
        root: Folder to read from; default: ``$FIRSTLIGHT_DATA``, then the cache.
        download: Whether to fetch it when it is nowhere.
    """
    folder = locate(CIFAR10, root=root, download=download)
    meta = _read(folder / "batches.meta")
    names = _names(meta, "label_names", folder / "batches.meta")
    files = [f"data_batch_{number}" for number in range(1, 6)] if train else ["test_batch"]
    return _samples(
        CIFAR10, folder, files, "labels", names, "CIFAR-10", train, per_file=meta.get("num_cases_per_batch")
    )


def cifar100(
    *,
    train: bool = True,
    labels: Literal["fine", "coarse"] = "fine",
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Samples:
    """Read CIFAR-100: 50,000 training or 10,000 test pictures.

    Args:
        train: Training or test set.
        labels: The 100 classes (``"fine"``) or the 20 superclasses (``"coarse"``).
        root: Folder to read from; default: ``$FIRSTLIGHT_DATA``, then the cache.
        download: Whether to fetch it when it is nowhere.
    """
    if labels not in ("fine", "coarse"):
        raise one_of("cifar100(labels)", labels, ["fine", "coarse"])
    folder = locate(CIFAR100, root=root, download=download)
    names = _names(_read(folder / "meta"), f"{labels}_label_names", folder / "meta")
    title = "CIFAR-100" if labels == "fine" else "CIFAR-100 (superclasses)"
    return _samples(CIFAR100, folder, ["train" if train else "test"], f"{labels}_labels", names, title, train)


def _samples(
    published: Published,
    folder: Path,
    files: list[str],
    label_key: str,
    names: list[str],
    title: str,
    train: bool,
    *,
    per_file: object = None,
) -> Samples:
    digests = dict(published.digests)
    pictures, labels, exact = [], [], True
    for file in files:
        content = _content(folder / file)
        exact &= hashlib.md5(content, usedforsecurity=False).hexdigest() == digests[file]
        batch = read_pickled_arrays(content, path=folder / file)
        data, listed = _checked(batch, label_key, folder / file)
        if per_file is not None and len(data) != per_file:
            raise DataError(
                f"{folder / file}: expected {per_file} pictures as batches.meta says, got {len(data)}; "
                "get the file anew"
            )
        pictures.append(data)
        labels.append(listed)
    found = np.concatenate(labels)
    if found.min() < 0 or found.max() >= len(names):
        raise DataError(
            f"{folder}: expected {label_key} from 0 to {len(names) - 1}, got {found.min()} to {found.max()}; "
            "get the files anew"
        )
    stored = torch.from_numpy(np.concatenate(pictures).reshape(-1, *_SHAPE))
    remark = "" if exact else ", pixels differ from the published files"
    return Samples.from_tensors(
        stored,
        torch.from_numpy(found),
        label_names=names,
        name=published.name,
        title=f"{title} {'train' if train else 'test'}{remark}",
    )


def _checked(
    batch: dict[str, Any], label_key: str, path: Path
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    for key in ("data", label_key):
        if key not in batch:
            raise DataError(
                f"{path}: expected the entries 'data' and {label_key!r}, got {', '.join(sorted(batch))}; "
                "this is no batch file; get it anew"
            )
    data, listed = batch["data"], batch[label_key]
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != int(np.prod(_SHAPE)):
        shape = data.shape if isinstance(data, np.ndarray) else type(data).__name__
        raise DataError(f"{path}: expected 'data' of shape (pictures, 3072), got {shape}; get the file anew")
    if not isinstance(listed, list) or not all(isinstance(label, int) for label in listed):
        raise DataError(f"{path}: expected {label_key!r} to be a list of whole numbers; get the file anew")
    if len(listed) != len(data):
        raise DataError(
            f"{path}: expected one label for each of {len(data)} pictures, got {len(listed)}; get the file anew"
        )
    return data, np.array(listed, dtype=np.int64)


def _names(meta: dict[str, Any], key: str, path: Path) -> list[str]:
    if key not in meta:
        raise DataError(
            f"{path}: expected the entry {key!r}, got {', '.join(sorted(meta))}; get the file anew"
        )
    return [str(name) for name in meta[key]]


def _read(path: Path) -> dict[str, Any]:
    return read_pickled_arrays(_content(path), path=path)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        present = ", ".join(sorted(item.name for item in path.parent.iterdir()))
        raise DataError(
            f"{path}: file not found; its folder holds {present}; unpack the whole archive there"
        ) from None
