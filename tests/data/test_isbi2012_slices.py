"""ISBI 2012 from tiny slices, as PNG folders and as TIFF stacks."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from firstlight.data import isbi2012
from firstlight.errors import DataError, UsageError


def test_slices_with_a_label_for_every_pixel(isbi2012_folder):
    samples = isbi2012(root=isbi2012_folder.parent)
    assert samples.shape == (1, 6, 8)
    assert samples.stored[:, 0, 0, 0].tolist() == [0, 10, 20]
    assert samples.labels.shape == (3, 6, 8)
    assert samples.labels[0, 0].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert samples.label_counts == {"membrane": 72, "cell": 72}
    inputs, labels = samples.subset(2)[0:2]
    assert inputs.shape == (2, 1, 6, 8)
    assert labels.shape == (2, 6, 8)


def test_slices_are_in_numerical_order(isbi2012_folder):
    for k in range(3, 12):
        for kind in ("image", "label"):
            Image.fromarray(np.full((6, 8), 10 * k if kind == "image" else 255, np.uint8)).save(
                isbi2012_folder / kind / f"{k}.png"
            )
    assert isbi2012(root=isbi2012_folder).stored[:, 0, 0, 0].tolist() == [10 * k for k in range(12)]


def test_tiff_stacks(isbi2012_folder, tmp_path):
    stacks = tmp_path / "stacks"
    stacks.mkdir()
    for kind, file in (("image", "train-volume.tif"), ("label", "train-labels.tif")):
        pages = [Image.open(isbi2012_folder / kind / f"{k}.png").convert("L") for k in range(3)]
        pages[0].save(stacks / file, save_all=True, append_images=pages[1:])
    one, other = isbi2012(root=stacks), isbi2012(root=isbi2012_folder)
    assert one.fingerprint == other.fingerprint
    (stacks / "train-labels.tif").unlink()
    with pytest.raises(DataError, match=r"train-labels\.tif: file not found"):
        isbi2012(root=stacks)
    (stacks / "train-volume.tif").write_bytes(b"no stack at all")
    with pytest.raises(DataError, match="expected a TIFF stack, got 15 bytes that do not decode"):
        isbi2012(root=stacks)


def test_no_test_labels(isbi2012_folder):
    with pytest.raises(UsageError, match="the 30 test slices have no public labels"):
        isbi2012(root=isbi2012_folder, train=False)


def test_a_gap(isbi2012_folder):
    (isbi2012_folder / "image" / "1.png").unlink()
    with pytest.raises(DataError, match=r"without a gap, missing \[1\]"):
        isbi2012(root=isbi2012_folder)


def test_unequal_counts(isbi2012_folder):
    (isbi2012_folder / "label" / "2.png").unlink()
    with pytest.raises(DataError, match=r"got slices \(3, 6, 8\) and maps \(2, 6, 8\)"):
        isbi2012(root=isbi2012_folder)


def test_other_label_values(isbi2012_folder):
    Image.fromarray(np.full((6, 8), 7, np.uint8)).save(isbi2012_folder / "label" / "0.png")
    with pytest.raises(
        DataError, match=r"expected label values 0 \(membrane\) and 255 \(cell\), got \[0, 7, 255\]"
    ):
        isbi2012(root=isbi2012_folder)


def test_unequal_sizes(isbi2012_folder):
    Image.fromarray(np.zeros((5, 8), np.uint8)).save(isbi2012_folder / "image" / "0.png")
    with pytest.raises(DataError, match="expected slices of one size"):
        isbi2012(root=isbi2012_folder)


def test_truncated_slice(isbi2012_folder):
    file = isbi2012_folder / "image" / "2.png"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(DataError, match=r"2\.png: expected a picture, got 40 bytes that do not decode"):
        isbi2012(root=isbi2012_folder)
