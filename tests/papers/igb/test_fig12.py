"""A hundred classes at 32 pixels: which pictures, and how they were made smaller."""

from __future__ import annotations

import pytest
import torch

from firstlight.data.tiny_imagenet_pictures import tiny_imagenet
from firstlight.papers.igb.fig12 import CLASSES, hundred_classes


@pytest.mark.real_data
def test_the_stand_in_is_the_first_hundred_classes_averaged_to_half_the_side(real_data, seed):
    root = real_data("tiny-imagenet")
    found = hundred_classes("tiny-imagenet", 12, seed=seed, root=root)
    assert (found.shape, len(found)) == ((3, 32, 32), 12)
    drawn = tiny_imagenet(samples=48, seed=seed, root=root)
    kept = [index for index in range(48) if int(drawn.labels[index]) < CLASSES][:12]
    assert found.labels.tolist() == [int(drawn.labels[index]) for index in kept]
    pixels = drawn.inputs[kept]
    small = (
        pixels[..., ::2, ::2] + pixels[..., 1::2, ::2] + pixels[..., ::2, 1::2] + pixels[..., 1::2, 1::2]
    ) / 4
    mean, deviation = small.mean((0, 2, 3), keepdim=True), small.std((0, 2, 3), keepdim=True)
    torch.testing.assert_close(found.inputs, (small - mean) / deviation, rtol=1e-2, atol=2e-2)


@pytest.mark.real_data
def test_the_description_says_what_stands_in(real_data):
    found = hundred_classes("tiny-imagenet", 5, seed=0, root=real_data("tiny-imagenet"))
    assert "Tiny ImageNet" in found.description
    assert "2 × 2 pixels averaged" in found.description
