"""The real files: counts, first labels, known means, and speed that does not hide a decode of everything."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from firstlight.data import cifar10, isbi2012, load, mnist, tiny_imagenet

pytestmark = pytest.mark.real_data


class TestCifar10:
    def test_counts_and_order(self, real_data):
        root = real_data("cifar10")
        train, test = cifar10(root=root), cifar10(root=root, train=False)
        assert set(train.label_counts.values()) == {5000}
        assert set(test.label_counts.values()) == {1000}
        # The published order begins frog, truck, truck, deer, automobile; the test set cat, ship, ship, airplane, frog.
        assert [train.label_names[label] for label in train.labels[:5]] == [
            "frog",
            "truck",
            "truck",
            "deer",
            "automobile",
        ]
        assert [test.label_names[label] for label in test.labels[:5]] == [
            "cat",
            "ship",
            "ship",
            "airplane",
            "frog",
        ]

    def test_standardized_by_the_papers_constants(self, real_data):
        samples = load("cifar10:standardize=papers", root=real_data("cifar10"))
        mean, deviation = samples.inputs.mean((0, 2, 3)), samples.inputs.std((0, 2, 3))
        # The constants are the well-known means, but the deviations are those within pictures, averaged (0.20);
        # over all pixels the deviation is 0.247, so the standardized one is 1.22.
        torch.testing.assert_close(mean, torch.zeros(3), rtol=0, atol=0.02)
        torch.testing.assert_close(deviation, torch.tensor([1.22, 1.22, 1.30]), rtol=0.02, atol=0)

    def test_tasks(self, real_data):
        root = real_data("cifar10")
        assert load("cifar10:c2-a", root=root).label_counts == {"cat": 5000, "dog": 5000}
        assert load("cifar10:c2-b,train=false", root=root).label_counts == {"vehicles": 3000, "animals": 4000}

    def test_pixels_are_those_of_the_originals_up_to_their_reencoding(self, real_data):
        train = cifar10(root=real_data("cifar10"))
        with np.load(real_data("extra") / "extra" / "cifar10-original-sample.npz") as stored:
            original, labels = torch.from_numpy(stored["train_images"]), stored["train_labels"]
        assert train.labels[: len(labels)].tolist() == labels.tolist()
        difference = (train.stored[: len(original)].float() - original.float()).abs().mean()
        exact = "differ" not in train.title
        assert difference == (0 if exact else pytest.approx(5.8, abs=0.6))


class TestMnist:
    def test_published_files(self, real_data):
        root = real_data("mnist")
        train, test = mnist(root=root), mnist(root=root, train=False)
        assert train.description == "MNIST train: 60000 samples of shape (1, 28, 28), 10 labels"
        assert len(test) == 10_000
        assert train.labels[:5].tolist() == [5, 0, 4, 1, 9]
        assert test.labels[:5].tolist() == [7, 2, 1, 0, 4]

    def test_the_papers_constants_are_the_mean_and_deviation(self, real_data):
        samples = mnist(root=real_data("mnist")).standardize("papers")
        assert samples.inputs.mean() == pytest.approx(0, abs=5e-4)
        assert samples.inputs.std() == pytest.approx(1, abs=5e-4)

    def test_constant_pixels_are_dropped(self, real_data):
        samples = load("mnist:standardize=batch,flatten=true", root=real_data("mnist"))
        assert samples.shape == (717,)  # 67 pixels are zero in all 60,000 digits
        assert samples.inputs.std(0, correction=0).sub(1).abs().max() < 1e-3

    def test_even_and_odd(self, real_data):
        assert load("mnist:even-odd", root=real_data("mnist")).label_counts == {"even": 29_492, "odd": 30_508}


class TestTinyImagenet:
    def test_a_few(self, real_data):
        root = real_data("tiny-imagenet")
        samples = tiny_imagenet(root=root, samples=300)
        assert samples.shape == (3, 64, 64)
        assert len(samples.label_names) == 200
        assert "goldfish" in samples.label_names
        validation = tiny_imagenet(root=root, train=False, samples=300)
        assert validation.labels.unique().numel() > 100

    @pytest.mark.slow
    def test_all(self, real_data):
        root = real_data("tiny-imagenet")
        for train in (True, False):
            samples = tiny_imagenet(root=root, train=train)
            assert len(set(samples.label_counts.values())) == 1
            assert len(samples) >= 10_000


def test_isbi2012(real_data):
    samples = isbi2012(root=real_data("isbi2012"))
    assert samples.description == "ISBI 2012 train: 30 samples of shape (1, 512, 512), 2 labels"
    cell = samples.label_counts["cell"] / samples.labels.numel()
    assert cell == pytest.approx(0.78, abs=0.005)
