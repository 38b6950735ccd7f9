"""MNIST from the IDX files (LeCun, Cortes & Burges).

Enters: ``MNIST/raw/{train,t10k}-{images-idx3,labels-idx1}-ubyte``, plain or ``.gz``. Leaves: ``Samples`` of shape
(1, 28, 28).

An IDX file is a magic number (2051 for pictures, 2049 for labels), the sizes as big-endian 32-bit numbers, and the
bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firstlight.data.locating import locate
from firstlight.data.published import MNIST
from firstlight.data.samples import Samples
from firstlight.errors import DataError

__all__ = ["mnist"]


def mnist(
    *, train: bool = True, root: str | os.PathLike[str] | None = None, download: bool = True
) -> Samples:
    """Read MNIST: 60,000 training or 10,000 test digits.

    Args:
        train: Training or test set.
        root: Folder to read from; default: ``$FIRSTLIGHT_DATA``, then the cache.
        download: Whether to fetch it when it is nowhere.
    """
    folder = locate(MNIST, root=root, download=download)
    split = "train" if train else "t10k"
    pictures, exact = _read(folder / f"{split}-images-idx3-ubyte", magic=2051, axes=3)
    labels, _ = _read(folder / f"{split}-labels-idx1-ubyte", magic=2049, axes=1)
    if len(pictures) != len(labels):
        raise DataError(
            f"{folder}: expected as many labels as pictures, got {len(labels)} labels and {len(pictures)} pictures of "
            f"{split!r}; get both files anew"
        )
    return Samples.from_tensors(
        torch.from_numpy(pictures[:, None]),  # (sample, channel, row, column)
        torch.from_numpy(labels.astype(np.int64)),
        label_names=[str(digit) for digit in range(10)],
        name="mnist",
        title=f"MNIST {'train' if train else 'test'}{'' if exact else ', pixels differ from the published files'}",
    )


def _read(path: Path, *, magic: int, axes: int) -> tuple[np.ndarray[Any, Any], bool]:
    """The array in an IDX file, and whether it is the published one."""
    content, path = _content(path)
    header = struct.calcsize(f">{1 + axes}I")
    if len(content) < header:
        raise DataError(
            f"{path}: expected a header of {header} bytes, got a file of {len(content)}; it is truncated; get it anew"
        )
    found, *sizes = struct.unpack(f">{1 + axes}I", content[:header])
    if found != magic:
        raise DataError(
            f"{path}: expected the magic number {magic}, got {found}; this is not the IDX file its name says; "
            "get it anew"
        )
    expected = header + math.prod(sizes)
    if len(content) != expected:
        raise DataError(
            f"{path}: expected {expected} bytes for shape {tuple(sizes)}, got {len(content)}; "
            "the file is truncated or damaged; get it anew"
        )
    digest = dict(MNIST.digests).get(path.name.removesuffix(".gz"))
    exact = digest is None or hashlib.md5(content, usedforsecurity=False).hexdigest() == digest
    # A copy, since a tensor on read-only bytes could be written through.
    return np.frombuffer(content, np.uint8, offset=header).reshape(sizes).copy(), exact


def _content(path: Path) -> tuple[bytes, Path]:
    if path.is_file():
        return path.read_bytes(), path
    packed = path.with_name(path.name + ".gz")
    if not packed.is_file():
        raise DataError(
            f"{path}: neither it nor {packed.name} is there; put the four MNIST files into {path.parent}"
        )
    try:
        return gzip.decompress(packed.read_bytes()), packed
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{packed}: expected a whole gzip file, got {packed.stat().st_size} bytes that do not unpack ({error}); "
            "get it anew"
        ) from error
