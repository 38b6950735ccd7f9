"""ISBI 2012: electron-microscopy slices with membrane labels (Cardona et al. 2010; Arganda-Carreras et al. 2015).

Enters: ``isbi2012/image/0.png`` … with ``isbi2012/label/0.png`` …, or the challenge's ``train-volume.tif`` with
``train-labels.tif``. Leaves: ``Samples`` of shape (1, 512, 512) with a label for every pixel: 0 membrane, 1 cell.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firstlight.data.locating import locate
from firstlight.data.pictures import decoded
from firstlight.data.published import ISBI2012
from firstlight.data.samples import Samples
from firstlight.errors import DataError, UsageError

__all__ = ["isbi2012"]


def isbi2012(
    *, train: bool = True, root: str | os.PathLike[str] | None = None, download: bool = True
) -> Samples:
    """Read the 30 training slices with their label maps.

    Args:
        train: Must be true: the challenge's test slices have no public labels.
        root: Folder to read from; default: ``$FIRSTLIGHT_DATA``, then the cache.
        download: No hash of the archive is published, so nothing is fetched.
    """
    if not train:
        raise UsageError(
            "isbi2012(train=False): the 30 test slices have no public labels; use train=True and keep some slices apart"
        )
    folder = locate(ISBI2012, root=root, download=download)
    if (folder / "train-volume.tif").is_file():
        pictures, maps = (_stack(folder / f"train-{kind}.tif") for kind in ("volume", "labels"))
    else:
        pictures, maps = (_slices(folder / kind) for kind in ("image", "label"))
    if pictures.shape != maps.shape:
        raise DataError(
            f"{folder}: expected a label map for each slice, got slices {pictures.shape} and maps {maps.shape}; "
            "get both anew"
        )
    values = np.unique(maps)
    if not set(values.tolist()) <= {0, 255}:
        raise DataError(
            f"{folder}: expected label values 0 (membrane) and 255 (cell), got {values[:10].tolist()}; "
            "get the labels anew"
        )
    return Samples.from_tensors(
        torch.from_numpy(pictures[:, None]),  # (sample, channel, row, column)
        torch.from_numpy((maps == 255).astype(np.int64)),
        label_names=["membrane", "cell"],
        name="isbi2012",
        title="ISBI 2012 train",
    )


def _slices(folder: Path) -> np.ndarray[Any, Any]:
    """All slices 0.png, 1.png, … without a gap."""
    numbers = sorted(int(file.stem) for file in folder.glob("*.png") if file.stem.isdigit())
    if not numbers or numbers != list(range(len(numbers))):
        missing = sorted(set(range(max(numbers, default=0) + 1)) - set(numbers))
        raise DataError(
            f"{folder}: expected 0.png, 1.png, … without a gap, missing {missing[:5]}; get the folder anew"
        )
    slices = [decoded(folder / f"{number}.png", mode="L") for number in numbers]
    if len({item.shape for item in slices}) > 1:
        raise DataError(
            f"{folder}: expected slices of one size, got {sorted({item.shape for item in slices})}; get the folder anew"
        )
    return np.stack(slices)


def _stack(file: Path) -> np.ndarray[Any, Any]:
    """All pages of a TIFF stack."""
    from PIL import Image, ImageSequence

    if not file.is_file():
        raise DataError(
            f"{file}: file not found; put train-volume.tif and train-labels.tif into {file.parent}"
        )
    try:
        with Image.open(file) as stack:
            return np.stack([np.asarray(page.convert("L")) for page in ImageSequence.Iterator(stack)])
    except OSError as error:
        raise DataError(
            f"{file}: expected a TIFF stack, got {file.stat().st_size} bytes that do not decode ({error}); get it anew"
        ) from error
