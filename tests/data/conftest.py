"""Tiny files in each data set's format."""

from __future__ import annotations

import gzip
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

CIFAR10_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


@pytest.fixture(autouse=True)
def _away_from_home(request, monkeypatch, tmp_path):
    """No test finds data by accident: neither the user's folder nor the user's cache."""
    if request.node.get_closest_marker("real_data") is None:
        monkeypatch.delenv("FIRSTLIGHT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def batch_bytes(data: np.ndarray, **entries: object) -> bytes:
    """A batch as Python 3 writes it at protocol 2, bytes keys included."""
    content = {b"data": data, **{key.encode(): value for key, value in entries.items()}}
    return pickle.dumps(content, protocol=2)


@pytest.fixture
def cifar10_folder(tmp_path) -> Path:
    """Two pictures in each batch; the first pixel of picture k of the training set is k."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    meta = {b"label_names": [name.encode() for name in CIFAR10_NAMES], b"num_cases_per_batch": 2}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
    for index, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        data = np.zeros((2, 3072), np.uint8)
        data[:, 0] = 2 * index, 2 * index + 1
        data[:, 1024] = 255  # first green value
        labels = [(2 * index) % 10, (2 * index + 1) % 10]
        (folder / name).write_bytes(batch_bytes(data, labels=labels))
    return folder


@pytest.fixture
def cifar100_folder(tmp_path) -> Path:
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    meta = {
        b"fine_label_names": [f"fine{k}".encode() for k in range(100)],
        b"coarse_label_names": [f"coarse{k}".encode() for k in range(20)],
    }
    (folder / "meta").write_bytes(pickle.dumps(meta, protocol=2))
    for name, count in (("train", 4), ("test", 3)):
        data = np.arange(count, dtype=np.uint8)[:, None] * np.ones((1, 3072), np.uint8)
        fine = [99, 0, 5, 7][:count]
        coarse = [19, 0, 1, 1][:count]
        (folder / name).write_bytes(batch_bytes(data, fine_labels=fine, coarse_labels=coarse))
    return folder


def idx_bytes(array: np.ndarray) -> bytes:
    magic = 2048 + array.ndim
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def mnist_folder(tmp_path) -> Path:
    """Ten digits 0 … 9 whose pixels all equal 10 · digit; the test split is gzipped."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    digits = np.arange(10, dtype=np.uint8)
    pictures = 10 * digits[:, None, None] * np.ones((1, 28, 28), np.uint8)
    (folder / "train-images-idx3-ubyte").write_bytes(idx_bytes(pictures))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx_bytes(digits))
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(pictures[:4])))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(digits[:4])))
    return folder


@pytest.fixture
def tiny_imagenet_folder(tmp_path) -> Path:
    """200 classes of two grey or coloured pictures; validation lists three."""
    folder = tmp_path / "tiny-imagenet-200"
    identifiers = [f"n{k:08d}" for k in range(200)]
    for k, identifier in enumerate(identifiers):
        images = folder / "train" / identifier / "images"
        images.mkdir(parents=True)
        Image.new("L", (64, 64), k).save(images / f"{identifier}_0.JPEG", quality=95)
        Image.new("RGB", (64, 64), (k, 0, 0)).save(images / f"{identifier}_1.JPEG", quality=95)
    validation = folder / "val" / "images"
    validation.mkdir(parents=True)
    for k in range(3):
        Image.new("RGB", (64, 64), (0, 50 * k, 0)).save(validation / f"val_{k}.JPEG", quality=95)
    (folder / "wnids.txt").write_text("\n".join(identifiers))
    # Classes 0 and 1 share their first word.
    words = ["crane, bird", "crane, machine", *(f"thing {k}, synonym" for k in range(2, 200))]
    lines = [f"{identifier}\t{word}" for identifier, word in zip(identifiers, words, strict=True)]
    (folder / "words.txt").write_text("\n".join(lines))
    annotations = [f"val_{k}.JPEG\t{identifiers[7 * k]}\t0\t0\t63\t63" for k in range(3)]
    (folder / "val" / "val_annotations.txt").write_text("\n".join(annotations))
    return folder


@pytest.fixture
def isbi2012_folder(tmp_path) -> Path:
    folder = tmp_path / "isbi2012"
    for kind in ("image", "label"):
        (folder / kind).mkdir(parents=True)
    for k in range(3):
        picture = np.full((6, 8), 10 * k, np.uint8)
        label = np.zeros((6, 8), np.uint8)
        label[:, :4] = 255
        Image.fromarray(picture).save(folder / "image" / f"{k}.png")
        Image.fromarray(label).save(folder / "label" / f"{k}.png")
    return folder


@pytest.fixture
def writers() -> dict[str, Callable[..., bytes]]:
    return {"batch": batch_bytes, "idx": idx_bytes}
