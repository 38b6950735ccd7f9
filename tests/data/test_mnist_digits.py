"""MNIST from tiny IDX files, plain and gzipped."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from firstlight.data import mnist
from firstlight.errors import DataError


def test_plain_files(mnist_folder):
    train = mnist(root=mnist_folder.parents[1])
    assert train.shape == (1, 28, 28)
    assert train.labels.tolist() == list(range(10))
    assert (train.stored[7] == 70).all()
    assert train.label_names == tuple("0123456789")


def test_gzipped_files(mnist_folder):
    test = mnist(root=mnist_folder, train=False)
    assert test.labels.tolist() == [0, 1, 2, 3]
    assert (test.stored[3] == 30).all()


def test_stored_values_can_be_written(mnist_folder):
    train = mnist(root=mnist_folder)
    train.stored[0] = 1
    assert (train.stored[0] == 1).all()


def test_missing_labels(mnist_folder):
    (mnist_folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"neither it nor train-labels-idx1-ubyte\.gz is there"):
        mnist(root=mnist_folder)


def test_truncated(mnist_folder):
    file = mnist_folder / "train-images-idx3-ubyte"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(
        DataError, match=r"expected 7856 bytes for shape \(10, 28, 28\), got 7855; the file is truncated"
    ):
        mnist(root=mnist_folder)
    file.write_bytes(whole[:10])
    with pytest.raises(DataError, match="expected a header of 16 bytes, got a file of 10"):
        mnist(root=mnist_folder)


def test_truncated_gzip(mnist_folder):
    file = mnist_folder / "t10k-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:30])
    with pytest.raises(DataError, match=r"ubyte\.gz: expected a whole gzip file, got 30 bytes"):
        mnist(root=mnist_folder, train=False)
    file.write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match="expected a whole gzip file, got 22 bytes"):
        mnist(root=mnist_folder, train=False)


def test_wrong_magic_number(mnist_folder):
    file = mnist_folder / "train-images-idx3-ubyte"
    file.write_bytes(struct.pack(">4I", 2049, 10, 28, 28) + file.read_bytes()[16:])
    with pytest.raises(DataError, match="expected the magic number 2051, got 2049"):
        mnist(root=mnist_folder)


def test_wrong_counts(mnist_folder, writers):
    (mnist_folder / "train-labels-idx1-ubyte").write_bytes(writers["idx"](np.arange(9)))
    with pytest.raises(DataError, match="got 9 labels and 10 pictures of 'train'"):
        mnist(root=mnist_folder)


def test_label_out_of_range(mnist_folder, writers):
    (mnist_folder / "t10k-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(writers["idx"](np.array([0, 1, 2, 11])))
    )
    with pytest.raises(DataError, match="expected labels from 0 to 9, got 0 to 11"):
        mnist(root=mnist_folder, train=False)
