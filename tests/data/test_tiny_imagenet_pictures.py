"""Tiny ImageNet from a small copy of its layout."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from firstlight.data import tiny_imagenet
from firstlight.errors import DataError, UsageError


def test_training_set(tiny_imagenet_folder):
    train = tiny_imagenet(root=tiny_imagenet_folder.parent)
    assert len(train) == 400
    assert train.shape == (3, 64, 64)
    assert train.labels.tolist() == [k // 2 for k in range(400)]
    # Class 100: a grey picture of value 100 and a red one, up to JPEG's rounding.
    grey, red = train.stored[200].float(), train.stored[201].float()
    assert (grey - 100).abs().max() <= 2
    assert (red.mean((1, 2)) - torch.tensor([100.0, 0.0, 0.0])).abs().max() <= 3


def test_names(tiny_imagenet_folder):
    names = tiny_imagenet(root=tiny_imagenet_folder, train=False).label_names
    assert names[0] == "crane (n00000000)"
    assert names[1] == "crane (n00000001)"
    assert names[2] == "thing 2"


def test_validation_set_in_the_order_of_the_annotations(tiny_imagenet_folder):
    validation = tiny_imagenet(root=tiny_imagenet_folder, train=False)
    assert validation.labels.tolist() == [0, 7, 14]
    green = validation.stored[:, 1].float().mean((1, 2))
    assert (green - torch.tensor([0.0, 50.0, 100.0])).abs().max() <= 2


def test_decoding_a_few_is_the_subset_of_all(tiny_imagenet_folder):
    some = tiny_imagenet(root=tiny_imagenet_folder, samples=20, seed=4)
    everything = tiny_imagenet(root=tiny_imagenet_folder).subset(20, seed=4)
    assert torch.equal(some.stored, everything.stored)
    assert torch.equal(some.labels, everything.labels)
    assert some.description == everything.description
    with pytest.raises(UsageError, match="samples: expected between 1 and 400 samples, got 401"):
        tiny_imagenet(root=tiny_imagenet_folder, samples=401)


def test_a_class_with_fewer_pictures(tiny_imagenet_folder):
    (tiny_imagenet_folder / "train" / "n00000005" / "images" / "n00000005_1.JPEG").unlink()
    with pytest.raises(
        DataError, match=r"n00000005/images: expected 2 pictures as in most classes, got 1 \(1 of 200"
    ):
        tiny_imagenet(root=tiny_imagenet_folder)


def test_a_missing_class(tiny_imagenet_folder):
    wnids = tiny_imagenet_folder / "wnids.txt"
    wnids.write_text("\n".join(wnids.read_text().splitlines()[:199]))
    with pytest.raises(DataError, match=r"wnids\.txt: expected 200 classes, got 199"):
        tiny_imagenet(root=tiny_imagenet_folder)


def test_truncated_picture(tiny_imagenet_folder):
    file = tiny_imagenet_folder / "train" / "n00000000" / "images" / "n00000000_0.JPEG"
    half = file.read_bytes()[: file.stat().st_size // 2]
    file.write_bytes(half)
    with pytest.raises(
        DataError, match=rf"n00000000_0\.JPEG: expected a picture, got {len(half)} bytes that do not decode"
    ):
        tiny_imagenet(root=tiny_imagenet_folder)


def test_picture_of_another_size(tiny_imagenet_folder):
    Image.new("RGB", (32, 64)).save(
        tiny_imagenet_folder / "train" / "n00000000" / "images" / "n00000000_0.JPEG"
    )
    with pytest.raises(DataError, match="expected 64 × 64 pixels, got 64 × 32"):
        tiny_imagenet(root=tiny_imagenet_folder)


def test_missing_validation_pictures(tiny_imagenet_folder):
    (tiny_imagenet_folder / "val" / "images" / "val_1.JPEG").unlink()
    with pytest.raises(DataError, match=r"missing 1 \(val_1\.JPEG\)"):
        tiny_imagenet(root=tiny_imagenet_folder, train=False)


def test_annotation_of_an_unknown_class(tiny_imagenet_folder):
    annotations = tiny_imagenet_folder / "val" / "val_annotations.txt"
    annotations.write_text(annotations.read_text() + "\nval_3.JPEG\tn99999999\t0\t0\t1\t1")
    with pytest.raises(
        DataError, match=r"val_annotations\.txt, line 4: expected a class of wnids\.txt, got 'n99999999'"
    ):
        tiny_imagenet(root=tiny_imagenet_folder, train=False)


def test_missing_annotations(tiny_imagenet_folder):
    (tiny_imagenet_folder / "val" / "val_annotations.txt").unlink()
    with pytest.raises(DataError, match=r"val_annotations\.txt: file not found; unpack the whole"):
        tiny_imagenet(root=tiny_imagenet_folder, train=False)
