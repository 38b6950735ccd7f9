"""CIFAR-10 and CIFAR-100 from tiny batches in their formats."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from firstlight.data import cifar10, cifar100
from firstlight.errors import DataError, UsageError


def test_cifar10_in_published_order(cifar10_folder):
    train = cifar10(root=cifar10_folder.parent)
    assert len(train) == 10
    assert train.shape == (3, 32, 32)
    # Red, then green, then blue, row by row.
    assert train.stored[:, 0, 0, 0].tolist() == list(range(10))
    assert (train.stored[:, 1, 0, 0] == 255).all()
    assert train.labels.tolist() == list(range(10))
    assert train.label_names[3] == "cat"
    test = cifar10(root=cifar10_folder, train=False)
    assert test.stored[:, 0, 0, 0].tolist() == [10, 11]


def test_pixels_that_are_not_the_published_ones_are_named(cifar10_folder):
    samples = cifar10(root=cifar10_folder, train=False)
    assert samples.description.startswith("CIFAR-10 test, pixels differ from the published files: 2 samples")


def test_cifar100_fine_and_coarse(cifar100_folder):
    fine, coarse = cifar100(root=cifar100_folder.parent), cifar100(root=cifar100_folder, labels="coarse")
    assert fine.labels.tolist() == [99, 0, 5, 7]
    assert fine.label_names[99] == "fine99"
    assert len(fine.label_names) == 100
    assert coarse.labels.tolist() == [19, 0, 1, 1]
    assert len(coarse.label_names) == 20
    assert torch.equal(fine.stored, coarse.stored)
    assert len(cifar100(root=cifar100_folder, train=False)) == 3
    assert fine.description.startswith("CIFAR-100 train")
    assert coarse.description.startswith("CIFAR-100 (superclasses) train")


def test_unknown_labels(cifar100_folder):
    with pytest.raises(
        UsageError,
        match=r"cifar100\(labels\): expected one of 'fine', 'coarse', got 'corse'; did you mean 'coarse'",
    ):
        cifar100(root=cifar100_folder, labels="corse")


def test_missing_batch(cifar10_folder):
    (cifar10_folder / "data_batch_4").unlink()
    with pytest.raises(
        DataError, match=r"data_batch_4: file not found; its folder holds batches\.meta, data_batch_1"
    ):
        cifar10(root=cifar10_folder)


def test_truncated_batch(cifar10_folder):
    file = cifar10_folder / "data_batch_2"
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(DataError, match="data_batch_2: expected a whole pickled batch, got 2000 bytes"):
        cifar10(root=cifar10_folder)


@pytest.mark.parametrize(
    ("data", "entries", "message"),
    [
        (
            np.zeros((3, 3072), np.uint8),
            {"labels": [1, 2, 3]},
            r"expected 2 pictures as batches\.meta says, got 3",
        ),
        (np.zeros((2, 3071), np.uint8), {"labels": [1, 2]}, r"of shape \(pictures, 3072\), got \(2, 3071\)"),
        (np.zeros((2, 3072), np.uint8), {"labels": [1]}, "expected one label for each of 2 pictures, got 1"),
        (np.zeros((2, 3072), np.uint8), {"labels": [1, 10]}, "expected labels from 0 to 9, got 0 to 10"),
        (
            np.zeros((2, 3072), np.uint8),
            {"labels": [1, b"x"]},
            "expected 'labels' to be a list of whole numbers",
        ),
        (
            np.zeros((2, 3072), np.uint8),
            {"etiquettes": [1, 2]},
            "expected the entries 'data' and 'labels', got data, etiquettes",
        ),
    ],
)
def test_wrong_content(cifar10_folder, writers, data, entries, message):
    (cifar10_folder / "data_batch_3").write_bytes(writers["batch"](data, **entries))
    with pytest.raises(DataError, match=message):
        cifar10(root=cifar10_folder)


def test_meta_of_another_data_set(cifar100_folder):
    (cifar100_folder / "meta").write_bytes(pickle.dumps({b"label_names": [b"a"]}, protocol=2))
    with pytest.raises(DataError, match="meta: expected the entry 'fine_label_names', got label_names"):
        cifar100(root=cifar100_folder)
