"""Moved pictures: which follow from the seed alone, crops and warps against what they should leave as it is."""

from __future__ import annotations

from functools import partial

import torch

from firstlight.data.samples import Samples
from firstlight.papers.variance.augmentation import Moved, cropped, warped


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed % 2**31)


def test_items_follow_from_the_seed_and_from_nothing_else(seed):
    pictures = torch.rand(3, 1, 8, 8, generator=generator(seed))
    samples = Samples.from_tensors(pictures, torch.tensor([0, 1, 0]))
    first, again = (Moved(samples, partial(cropped, margin=3), copies=5, seed=4) for _ in range(2))
    other = Moved(samples, partial(cropped, margin=3), copies=5, seed=5)
    assert len(first) == 15
    state = torch.random.get_rng_state()
    items = [first[index] for index in range(15)]
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(items[index][0], again[index][0]) for index in reversed(range(15)))
    assert [int(label) for _, label in items] == [0, 1, 0] * 5
    assert any(not torch.equal(items[index][0], other[index][0]) for index in range(15))
    assert any(not torch.equal(items[0][0], items[index][0]) for index in (3, 6, 9, 12))


def test_a_crop_is_a_window_of_the_padded_picture(seed):
    picture = torch.rand(2, 6, 6, generator=generator(seed)) + 1
    padded = torch.zeros(2, 10, 10)
    padded[:, 2:8, 2:8] = picture
    windows = [padded[:, top : top + 6, left : left + 6] for top in range(5) for left in range(5)]
    draws = generator(seed + 1)
    places = set()
    for _ in range(60):
        found, label = cropped(picture, torch.tensor(1), draws, margin=2)
        assert int(label) == 1
        places.add(next(place for place, window in enumerate(windows) if torch.equal(window, found)))
    assert len(places) > 10  # of 25; the chance of fewer is below 1e-9


def test_without_displacements_a_warp_is_a_turn_or_reflection(seed):
    picture = torch.rand(1, 8, 8, generator=generator(seed))
    label = (picture[0] > 0.5).long()
    symmetries = [(picture.rot90(turn, (1, 2)), label.rot90(turn, (0, 1))) for turn in range(4)]
    symmetries += [(image.flip(2), target.flip(1)) for image, target in symmetries]
    draws, places = generator(seed + 1), set()
    for _ in range(60):
        image, target = warped(picture, label, draws, deviation=0.0)
        place = next(
            place for place, (wanted, _) in enumerate(symmetries) if torch.allclose(image, wanted, atol=1e-5)
        )
        assert torch.equal(target, symmetries[place][1])
        places.add(place)
    assert places == set(range(8))  # each is missed with chance (7/8)^60 = 3e-4


def test_displacements_have_the_deviation_that_was_asked_for(seed):
    """A ramp moved by δ pixels changes by δ steps of the ramp; the middle of the 3 × 3 grid moves by N(0, s²)."""
    side, deviation, draws = 33, 0.02, generator(seed)
    row, column = torch.meshgrid(torch.arange(33.0), torch.arange(33.0), indexing="ij")
    ramp = torch.stack([row, column]) - 16.0
    found = []
    for _ in range(400):
        image, _ = warped(ramp, torch.zeros(side, side).long(), draws, deviation=deviation)
        found.append(image[:, 16, 16])
    moved = torch.stack(found)  # turns and reflections leave the middle where it is
    expected = deviation * side
    assert abs(float(moved.std()) - expected) < 4 * expected / (2 * 800) ** 0.5


def test_a_label_map_moves_with_its_picture(seed):
    disc = torch.zeros(64, 64)
    disc[20:44, 12:40] = 1
    image, target = warped(disc[None], disc.long(), generator(seed), deviation=0.02)
    assert target.dtype == torch.int64
    assert set(target.unique().tolist()) == {0, 1}
    assert ((image[0] > 0.5).long() == target).float().mean() > 0.98
