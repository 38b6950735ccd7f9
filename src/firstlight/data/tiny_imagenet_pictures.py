"""Tiny ImageNet: 200 classes of 64 × 64 colour pictures (Stanford CS231n, from ImageNet).

Enters: ``tiny-imagenet-200/`` with ``wnids.txt``, ``words.txt``, ``train/<wnid>/images/*.JPEG``, ``val/images/*.JPEG``
and ``val/val_annotations.txt``; copies with fewer pictures, equally many in each class, will do. Leaves: ``Samples`` of
shape (3, 64, 64).

Decoding is what costs: about 0.1 ms a picture. ``samples=`` decodes only those that are drawn.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from firstlight.data.batching import chosen
from firstlight.data.locating import locate
from firstlight.data.pictures import decoded
from firstlight.data.published import TINY_IMAGENET
from firstlight.data.samples import Samples
from firstlight.errors import DataError

__all__ = ["tiny_imagenet"]

_CLASSES = 200
_SIDE = 64


def tiny_imagenet(
    *,
    train: bool = True,
    samples: int | None = None,
    seed: int = 0,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Samples:
    """Read Tiny ImageNet: up to 100,000 training pictures, or the 10,000 of the validation set.

    Args:
        train: Training or validation set (the test set has no public labels).
        samples: Decode only so many, the same as ``tiny_imagenet().subset(samples, seed=seed)``.
        seed: Names that draw.
        root: Folder to read from; default: ``$FIRSTLIGHT_DATA``, then the cache.
        download: Whether to fetch it when it is nowhere.
    """
    folder = locate(TINY_IMAGENET, root=root, download=download)
    identifiers = _lines(folder / "wnids.txt")
    if len(set(identifiers)) != _CLASSES:
        raise DataError(
            f"{folder / 'wnids.txt'}: expected {_CLASSES} classes, got {len(set(identifiers))}; get the data set anew"
        )
    listed = _training_files(folder, identifiers) if train else _validation_files(folder, identifiers)
    steps: tuple[str, ...] = ()
    total = len(listed)
    if samples is not None:
        listed = [
            listed[index] for index in chosen(total, samples, seed=seed, where="tiny-imagenet: samples")
        ]
        steps = (f"{samples} of {total} drawn with seed {seed}",)
    stored = np.empty((len(listed), 3, _SIDE, _SIDE), np.uint8)
    for index, (path, _) in enumerate(listed):
        picture = decoded(path, mode="RGB")  # (row, column, channel)
        if picture.shape != (_SIDE, _SIDE, 3):
            raise DataError(
                f"{path}: expected {_SIDE} × {_SIDE} pixels, got {picture.shape[0]} × {picture.shape[1]}; get it anew"
            )
        stored[index] = picture.transpose(2, 0, 1)
    return Samples.from_tensors(
        torch.from_numpy(stored),
        torch.tensor([label for _, label in listed], dtype=torch.int64),
        label_names=_label_names(folder, identifiers),
        name="tiny-imagenet",
        title=f"Tiny ImageNet {'train' if train else 'validation'}",
        steps=steps,
    )


def _training_files(folder: Path, identifiers: list[str]) -> list[tuple[Path, int]]:
    """Class by class in the order of ``wnids.txt``, in a class by number."""
    listed, counts = [], {}
    for label, identifier in enumerate(identifiers):
        place = folder / "train" / identifier / "images"
        files = sorted(place.glob("*.JPEG"), key=lambda file: (len(file.name), file.name))
        counts[identifier] = len(files)
        listed += [(file, label) for file in files]
    usual = Counter(counts.values()).most_common(1)[0][0]
    odd = [identifier for identifier, count in counts.items() if count != usual or count == 0]
    if odd:
        raise DataError(
            f"{folder / 'train' / odd[0] / 'images'}: expected {usual or 500} pictures as in most classes, "
            f"got {counts[odd[0]]} ({len(odd)} of {len(counts)} classes differ); the copy is not complete; get it anew"
        )
    return listed


def _validation_files(folder: Path, identifiers: list[str]) -> list[tuple[Path, int]]:
    """In the order of ``val_annotations.txt``: file, class, box, between tabs."""
    annotations, images = folder / "val" / "val_annotations.txt", folder / "val" / "images"
    labels = {identifier: label for label, identifier in enumerate(identifiers)}
    listed = []
    for number, line in enumerate(_lines(annotations), start=1):
        file, _, rest = line.partition("\t")
        identifier = rest.partition("\t")[0]
        if identifier not in labels:
            raise DataError(
                f"{annotations}, line {number}: expected a class of wnids.txt, got {identifier!r}; get the file anew"
            )
        listed.append((images / file, labels[identifier]))
    present = {file.name for file in images.glob("*.JPEG")}
    missing = [path.name for path, _ in listed if path.name not in present]
    if missing or not listed:
        raise DataError(
            f"{images}: expected the {len(listed)} pictures that val_annotations.txt lists, "
            f"missing {len(missing)} ({', '.join(missing[:3])}); get the data set anew"
        )
    return listed


def _label_names(folder: Path, identifiers: list[str]) -> tuple[str, ...]:
    """First word for each class; its identifier is added where two classes share the word."""
    words = dict(line.split("\t", 1) for line in _lines(folder / "words.txt") if "\t" in line)
    names = [words.get(identifier, identifier).split(",")[0].strip() for identifier in identifiers]
    counts = Counter(names)
    return tuple(
        name if counts[name] == 1 else f"{name} ({identifier})"
        for name, identifier in zip(names, identifiers, strict=True)
    )


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: file not found; unpack the whole tiny-imagenet-200 archive") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected text, got bytes that are none ({error}); get the file anew"
        ) from error
    return [line for line in text.splitlines() if line.strip()]
