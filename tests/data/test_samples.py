"""Samples: conversion, choice of classes, standardization, shifts, batches, fingerprints."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight.data import Samples, gaussian_blobs
from firstlight.errors import DataError, UsageError


def pictures(count: int = 40, *, seed: int = 0, name: str = "cifar10") -> Samples:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 3, 4, 4), generator=generator, dtype=torch.uint8)
    labels = torch.arange(count) % 4
    return Samples.from_tensors(pixels, labels, label_names=("cat", "dog", "ship", "truck"), name=name)


class TestInputs:
    def test_pixels_become_fractions(self):
        samples = pictures()
        torch.testing.assert_close(samples.inputs, samples.stored / 255)
        assert samples.inputs.dtype == torch.float32
        assert samples.stored.dtype == torch.uint8

    def test_inputs_are_made_once(self):
        samples = pictures()
        assert samples.inputs is samples.inputs

    def test_indexing_agrees_with_inputs(self):
        samples = pictures().standardize("papers").shift(0.5)
        picture, label = samples[7]
        assert picture.shape == (3, 4, 4)
        assert label == 3
        torch.testing.assert_close(picture, samples.inputs[7], rtol=0, atol=0)
        several, labels = samples[2:5]
        torch.testing.assert_close(several, samples.inputs[2:5], rtol=0, atol=0)
        assert labels.tolist() == [2, 3, 0]

    def test_iteration_ends(self):
        assert len(list(pictures(5))) == 5

    def test_converting_leaves_the_stored_values_alone(self):
        values = torch.randn(6, 3)
        before = values.clone()
        samples = Samples.from_tensors(values, torch.zeros(6)).standardize((1.0, 2.0))
        torch.testing.assert_close(samples.inputs, (before - 1) / 2)
        assert torch.equal(values, before)

    def test_data_loader_collates(self):
        samples = pictures(10)
        loader = torch.utils.data.DataLoader(samples, batch_size=4)
        batches = list(loader)
        assert [len(labels) for _, labels in batches] == [4, 4, 2]
        torch.testing.assert_close(
            torch.cat([inputs for inputs, _ in batches]), samples.inputs, rtol=0, atol=0
        )

    def test_description_names_every_step(self):
        samples = (
            pictures(name="cifar10")
            .select(["dog", "cat"])
            .subset(5, seed=3)
            .standardize("papers")
            .shift(1)
            .flatten()
        )
        assert samples.description == (
            "cifar10; classes dog, cat; 5 of 20 drawn with seed 3; standardized with the papers' constants; "
            "shifted by 1 inside the standardization; flattened: 5 samples of shape (48,), 2 labels"
        )
        assert repr(samples) == f"<Samples: {samples.description}>"


class TestRefusals:
    def test_lengths_differ(self):
        with pytest.raises(DataError, match=r"expected one label \(map\) for each of 3 samples, got 2"):
            Samples.from_tensors(torch.zeros(3, 2), torch.zeros(2))

    def test_label_without_a_name(self):
        with pytest.raises(DataError, match="expected labels from 0 to 1, got 0 to 5"):
            Samples.from_tensors(torch.zeros(2, 2), torch.tensor([0, 5]), label_names=("a", "b"))

    def test_not_a_number(self):
        with pytest.raises(DataError, match="expected finite inputs, got NaN"):
            Samples.from_tensors(torch.tensor([[1.0], [float("nan")]]), torch.zeros(2))

    def test_nothing_left(self):
        samples = Samples.from_tensors(torch.zeros(2, 1), torch.zeros(2), label_names=("a", "b"))
        with pytest.raises(DataError, match="expected at least one sample, got none"):
            samples.select(["b"])


class TestChoosing:
    def test_subset_is_deterministic_and_nested(self):
        samples = pictures()
        small, large = samples.subset(5, seed=2), samples.subset(20, seed=2)
        assert torch.equal(small.stored, large.stored[:5])
        assert torch.equal(small.stored, samples.subset(5, seed=2).stored)
        assert not torch.equal(small.stored, samples.subset(5, seed=3).stored)

    def test_whole_subset_is_a_permutation(self):
        samples = pictures()
        everything = samples.subset(40)
        assert sorted(everything.stored.flatten(1).tolist()) == sorted(samples.stored.flatten(1).tolist())

    @pytest.mark.parametrize("count", [0, 41, -1])
    def test_impossible_counts(self, count):
        with pytest.raises(UsageError, match=f"subset: expected between 1 and 40 samples, got {count}"):
            pictures().subset(count)
        with pytest.raises(UsageError, match=f"first: expected between 1 and 40 samples, got {count}"):
            pictures().first(count)

    def test_select_numbers_anew_in_the_given_order(self):
        samples = pictures()
        chosen = samples.select(["truck", 0])
        assert chosen.label_names == ("truck", "cat")
        assert torch.equal(chosen.stored[chosen.labels == 0], samples.stored[samples.labels == 3])
        assert torch.equal(chosen.stored[chosen.labels == 1], samples.stored[samples.labels == 0])

    def test_merge(self):
        samples = pictures()
        merged = samples.merge({"vehicle": ["ship", "truck"], "dog": "dog"})
        assert merged.label_counts == {"vehicle": 20, "dog": 10}
        kept = [label for label in samples.labels.tolist() if label != 0]
        assert merged.labels.tolist() == [1 if label == 1 else 0 for label in kept]

    def test_unknown_class_offers_near_matches(self):
        with pytest.raises(
            UsageError, match=r"cifar10: class: expected one of 'cat', .* got 'shp'; did you mean 'ship'"
        ):
            pictures().select(["shp"])
        with pytest.raises(UsageError, match="expected a number from 0 to 3, got 4"):
            pictures().select([4])

    def test_a_class_belongs_to_one_group(self):
        with pytest.raises(UsageError, match="class 'cat' is listed twice"):
            pictures().merge({"pets": ["cat", "dog"], "others": ["cat"]})
        with pytest.raises(UsageError, match="a class is listed twice in cat, cat"):
            pictures().select(["cat", "Cat"])

    def test_empty_groups(self):
        with pytest.raises(UsageError, match="group 'pets': expected at least one class"):
            pictures().merge({"pets": []})
        with pytest.raises(UsageError, match="expected at least one class, got none"):
            pictures().select([])

    def test_label_maps_have_no_classes_to_choose(self):
        maps = Samples.from_tensors(torch.zeros(2, 1, 3, 3), torch.zeros(2, 3, 3), label_names=("a", "b"))
        with pytest.raises(UsageError, match="got a label for every pixel"):
            maps.select(["a"])
        assert maps.label_counts == {"a": 18, "b": 0}


class TestStandardizing:
    def test_papers_constants(self):
        samples = pictures()
        mean = torch.tensor([0.4914, 0.4822, 0.4465])[:, None, None]
        deviation = torch.tensor([0.2023, 0.1994, 0.2010])[:, None, None]
        expected = (samples.stored / 255 - mean) / deviation
        torch.testing.assert_close(samples.standardize("papers").inputs, expected, rtol=1e-5, atol=1e-5)

    def test_papers_leave_gaussian_data_alone(self):
        blobs = gaussian_blobs(samples=10, dimensions=5)
        assert torch.equal(blobs.standardize("papers").inputs, blobs.inputs)

    def test_no_constants_in_the_papers(self):
        with pytest.raises(UsageError, match="got 'flowers'; use 'per-channel', 'batch' or a pair"):
            pictures(name="flowers").standardize("papers")

    def test_per_channel(self):
        values = pictures().standardize("per-channel").inputs.double()
        torch.testing.assert_close(
            values.mean((0, 2, 3)), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-6
        )
        deviation = values.std((0, 2, 3), correction=0)
        torch.testing.assert_close(deviation, torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-6)

    def test_per_channel_after_another_standardization_is_the_same(self):
        samples = pictures()
        direct = samples.standardize("per-channel").inputs
        again = (
            samples.standardize("batch")
            .standardize((3.0, 0.1))
            .standardize("papers")
            .standardize("batch")
            .inputs
        )
        torch.testing.assert_close(samples.standardize((3.0, 0.1)).standardize("per-channel").inputs, direct)
        torch.testing.assert_close(again, samples.standardize("batch").inputs, rtol=1e-4, atol=1e-5)

    def test_per_channel_equals_per_coordinate_once_flattened(self):
        flat = pictures().flatten()
        torch.testing.assert_close(flat.standardize("per-channel").inputs, flat.standardize("batch").inputs)

    def test_by_coordinate_uses_the_biased_variance(self):
        values = pictures().standardize("batch").inputs.double()
        assert values.mean(0).abs().max() < 1e-6
        torch.testing.assert_close(
            values.std(0, correction=0), torch.ones(3, 4, 4, dtype=torch.float64), rtol=0, atol=1e-6
        )

    def test_constant_coordinates(self):
        samples = pictures()
        samples.stored[:, :, 0] = 9
        with pytest.raises(
            DataError, match=r"got 12 of 48 constant over these samples \(0/0\); flatten\(\) first"
        ):
            samples.standardize("batch")
        zeroed = samples.standardize("batch", constant="zero").inputs
        assert (zeroed[:, :, 0] == 0).all()
        dropped = samples.flatten().standardize("batch")
        assert dropped.shape == (36,)
        torch.testing.assert_close(dropped.inputs, zeroed[:, :, 1:].flatten(1))

    def test_everything_constant(self):
        constant = Samples.from_tensors(torch.ones(4, 3), torch.zeros(4))
        with pytest.raises(DataError, match="got 3 constant ones over 4 samples"):
            constant.standardize("batch")
        with pytest.raises(DataError, match="expected channels that vary, got 3 of 3 constant"):
            constant.standardize("per-channel")

    def test_a_large_constant_does_not_eat_the_variance(self):
        values = torch.randn(1000, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        shifted = (values + 1000).float()
        samples = Samples.from_tensors(shifted, torch.zeros(1000)).standardize("batch")
        exact = (shifted.double() - shifted.double().mean(0)) / shifted.double().std(0, correction=0)
        # float32 keeps about 7 digits of 1000·(1/σ).
        torch.testing.assert_close(samples.inputs.double(), exact, rtol=0, atol=5e-4)

    def test_unknown_ways(self):
        with pytest.raises(
            UsageError,
            match="standardize: expected one of 'papers', 'per-channel', 'batch', got 'per-chanel'",
        ):
            pictures().standardize("per-chanel")
        with pytest.raises(UsageError, match="expected positive standard deviations, got 0"):
            pictures().standardize((0.0, 0.0))
        with pytest.raises(UsageError, match=r"expected one number or 3 \(one a channel\), got shape \(2,\)"):
            pictures().standardize(((0.0, 1.0), 1.0))

    def test_none_does_nothing(self):
        samples = pictures()
        assert samples.standardize(None) is samples


class TestShifting:
    def test_inside_lowers_by_the_shift_over_the_deviation(self):
        samples = pictures()
        plain = samples.standardize("papers").inputs
        shifted = samples.standardize("papers").shift(6.0).inputs
        drop = torch.tensor([6 / 0.2023, 6 / 0.1994, 6 / 0.2010])[:, None, None]
        torch.testing.assert_close(plain - shifted, drop.expand(40, 3, 4, 4), rtol=1e-5, atol=1e-4)
        # "About −30", as the design notes of the experiments have it.
        assert drop.mean() == pytest.approx(30, rel=0.01)

    def test_inside_means_mean_plus_shift(self):
        samples = pictures()
        mean, deviation = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
        program = samples.standardize((tuple(value + 1.0 for value in mean), deviation))
        torch.testing.assert_close(
            samples.standardize("papers").shift(1.0).inputs, program.inputs, rtol=1e-5, atol=1e-5
        )

    def test_inside_commutes_with_fixed_constants(self):
        samples = pictures()
        one, other = samples.shift(2.0).standardize("papers"), samples.standardize("papers").shift(2.0)
        torch.testing.assert_close(one.inputs, other.inputs, rtol=1e-5, atol=1e-5)

    def test_outside_adds_afterwards(self):
        samples = pictures().standardize("papers")
        torch.testing.assert_close(samples.shift(1.5, inside=False).inputs, samples.inputs + 1.5)

    def test_zero_changes_nothing(self):
        samples = pictures()
        assert samples.shift(0) is samples

    @given(shift=st.floats(-10, 10), inside=st.booleans())
    def test_flattening_commutes(self, shift, inside):
        samples = pictures(4).standardize("papers").shift(shift, inside=inside)
        torch.testing.assert_close(samples.flatten().inputs, samples.inputs.flatten(1), rtol=0, atol=0)


class TestBatches:
    def test_stored_order(self):
        samples = pictures(10)
        batches = samples.batches(4)
        assert len(batches) == 3
        assert [len(labels) for _, labels in batches] == [4, 4, 2]
        torch.testing.assert_close(torch.cat([inputs for inputs, _ in batches]), samples.inputs)

    def test_every_pass_is_the_same(self):
        batches = pictures().batches(16, seed=5)
        first, second = ([labels.tolist() for _, labels in batches] for _ in range(2))
        assert first == second

    def test_shuffled_batches_hold_everything_once(self):
        samples = pictures()
        inputs = torch.cat([inputs for inputs, _ in samples.batches(7, seed=5)])
        assert sorted(inputs.flatten(1).tolist()) == sorted(samples.inputs.flatten(1).tolist())
        assert not torch.equal(inputs, samples.inputs)

    def test_drop_last(self):
        batches = pictures(10).batches(4, drop_last=True)
        assert [len(labels) for _, labels in batches] == [4, 4]
        assert len(batches) == 2

    def test_impossible_batches(self):
        with pytest.raises(UsageError, match="expected a batch_size of at least 1, got 0"):
            pictures().batches(0)
        with pytest.raises(UsageError, match="40 samples make no full batch of 64"):
            pictures().batches(64, drop_last=True)


class TestFingerprint:
    def test_equal_content_equal_fingerprint(self):
        assert pictures().fingerprint == pictures().fingerprint
        assert len(pictures().fingerprint) == 64

    @pytest.mark.parametrize(
        "change",
        [
            lambda samples: samples.subset(40),
            lambda samples: samples.first(39),
            lambda samples: samples.shift(1e-3),
            lambda samples: samples.standardize("papers"),
            lambda samples: samples.merge(
                {"a": ["cat"], "dog": ["dog"], "ship": ["ship"], "truck": ["truck"]}
            ),
            lambda samples: samples.flatten(),
        ],
    )
    def test_any_change_shows(self, change):
        assert change(pictures()).fingerprint != pictures().fingerprint

    def test_global_random_state_is_untouched(self):
        before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        list(gaussian_blobs(samples=20, dimensions=3).subset(5).batches(2, seed=1))
        assert torch.equal(torch.get_rng_state(), before)
        assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002
