"""``load``: names, tasks, options, and what is said about mistakes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from firstlight import data
from firstlight.data import gaussian_blobs, gaussian_noise, load, names
from firstlight.errors import DataError, UsageError


def test_names():
    assert names() == [
        "gaussian", "noise", "cifar10", "cifar10:c2-a", "cifar10:c2-b", "cifar100", "mnist", "mnist:even-odd",
        "tiny-imagenet", "isbi2012",
    ]  # fmt: skip


def test_listing_names_imports_no_torch():
    code = "import sys; from firstlight.data import names; names(); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_are_not_hidden_by_modules(mnist_folder, isbi2012_folder, tiny_imagenet_folder):
    root = mnist_folder.parents[1]
    for name in ("mnist", "isbi2012", "tiny-imagenet"):
        load(name, root=root)
        assert callable(getattr(data, name.replace("-", "_")))
    assert set(data.__all__) <= set(dir(data))
    with pytest.raises(AttributeError, match="has no attribute 'imagenet'; it offers"):
        _ = data.imagenet


class TestDrawnData:
    def test_gaussian_options_belong_to_the_draw(self):
        loaded = load("gaussian:samples=12,dimensions=7,classes=3,seed=5,center=0.5,train=false")
        expected = gaussian_blobs(samples=12, dimensions=7, classes=3, seed=5, center=0.5, train=False)
        assert loaded.fingerprint == expected.fingerprint

    def test_noise(self):
        loaded = load("noise", samples=5, dimensions=4, mean=1.0)
        assert loaded.fingerprint == gaussian_noise(5, 4, mean=1.0).fingerprint

    def test_steps_afterwards(self):
        loaded = load("gaussian:samples=10,dimensions=4,first=6,standardize=batch,shift=2,inside=false")
        torch.testing.assert_close(loaded.inputs.mean(0), torch.full((4,), 2.0))
        assert len(loaded) == 6

    def test_classes_by_number(self):
        assert load("gaussian:1,samples=10,dimensions=4").label_counts == {"1": 5}

    def test_noise_has_no_split(self):
        with pytest.raises(UsageError, match=r"option: expected one of 'samples', .* got 'train'"):
            load("noise:train=false")


class TestPictures:
    def test_everything_in_one_line(self, cifar10_folder):
        line = "cifar10:c2-b,samples=5,seed=2,standardize=papers,shift=1"
        loaded = load(line, root=cifar10_folder)
        by_hand = (
            data.cifar10(root=cifar10_folder)
            .merge(
                {"vehicles": ["airplane", "automobile", "truck"], "animals": ["cat", "deer", "dog", "horse"]}
            )
            .subset(5, seed=2)
            .standardize("papers")
            .shift(1)
        )
        assert loaded.fingerprint == by_hand.fingerprint
        assert loaded.description == by_hand.description

    @pytest.mark.parametrize(
        ("name", "counts"),
        [
            ("cifar10:c2-a", {"cat": 1, "dog": 1}),
            ("cifar10:C2-B", {"vehicles": 3, "animals": 4}),
            ("cifar10:dog,cat", {"dog": 1, "cat": 1}),
            ("CIFAR10: ship , airplane+bird ", {"ship": 1, "airplane+bird": 2}),
        ],
    )
    def test_tasks_and_classes(self, cifar10_folder, name, counts):
        loaded = load(name, root=str(cifar10_folder))
        assert loaded.label_counts == counts
        assert list(loaded.label_names) == list(counts)

    def test_even_and_odd(self, mnist_folder):
        loaded = load("mnist:even-odd", root=mnist_folder)
        assert loaded.labels.tolist() == [0, 1] * 5
        assert loaded.label_names == ("even", "odd")

    def test_digits(self, mnist_folder):
        assert load("mnist:3,8", root=mnist_folder).label_counts == {"3": 1, "8": 1}

    def test_root_in_the_line(self, mnist_folder):
        assert len(load(f"mnist:train=no,root={mnist_folder}")) == 4

    def test_flattened_before_standardizing_by_coordinate(self, cifar10_folder):
        with pytest.raises(DataError, match="flatten"):
            load("cifar10:standardize=batch", root=cifar10_folder)
        loaded = load("cifar10:standardize=batch,flatten=true", root=cifar10_folder)
        assert loaded.shape == (1,)  # one pixel varies in the tiny files
        kept = load("cifar10:standardize=papers,flatten=true", root=cifar10_folder)
        assert kept.shape == (3072,)

    def test_mean_and_deviation(self, mnist_folder):
        loaded = load("mnist:standardize=0.5/0.25", root=mnist_folder)
        torch.testing.assert_close(loaded.inputs, (loaded.stored / 255 - 0.5) / 0.25)
        assert load("mnist:standardize=none", root=mnist_folder).steps == ()

    def test_superclasses(self, cifar100_folder):
        assert len(load("cifar100:labels=coarse", root=cifar100_folder).label_names) == 20

    def test_tiny_imagenet_decodes_only_what_is_drawn(self, tiny_imagenet_folder):
        broken = tiny_imagenet_folder / "train" / "n00000000" / "images" / "n00000000_0.JPEG"
        drawn = load("tiny-imagenet:samples=3,seed=1", root=tiny_imagenet_folder)
        assert 0 not in drawn.labels
        broken.write_bytes(b"broken")
        assert (
            load("tiny_imagenet:samples=3,seed=1", root=tiny_imagenet_folder).fingerprint == drawn.fingerprint
        )
        with pytest.raises(DataError, match="expected a picture"):
            load("tiny-imagenet:thing 2,samples=1", root=tiny_imagenet_folder)

    def test_drawing_comes_after_choosing_classes(self, tiny_imagenet_folder):
        loaded = load("tiny-imagenet:thing 2,thing 3,samples=4", root=tiny_imagenet_folder)
        assert loaded.label_counts == {"thing 2": 2, "thing 3": 2}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "cifar",
            {},
            r"load\(name\): expected one of 'gaussian', .* got 'cifar'; did you mean 'cifar10' or 'cifar100'",
        ),
        ("gaussian:sample=3", {}, "option: expected one of .* got 'sample'; did you mean 'samples'"),
        ("gaussian", {"dimension": 3}, "did you mean 'dimensions'"),
        ("gaussian:samples=3,samples=4", {}, "option 'samples' is given twice; give it once"),
        ("gaussian:samples=3", {"samples": 3}, "'samples' is given twice, in the name and as an argument"),
        ("gaussian:samples=many", {}, "samples: expected a whole number, got 'many'"),
        ("gaussian:center=near", {}, "center: expected a number, got 'near'"),
        ("gaussian:flatten=perhaps", {}, "flatten: expected one of 'true', 'yes', .* got 'perhaps'"),
        ("gaussian:samples=4,dimensions=3,standardize=paper", {}, "got 'paper'; did you mean 'papers'"),
        ("gaussian:samples=4,dimensions=3,first=5", {}, "first: expected between 1 and 4 samples, got 5"),
        ("gaussian:samples=4,dimensions=3,2", {}, "gaussian: class: expected one of '0', '1', got '2'"),
        ("gaussian:1,1", {}, "a class is listed twice in 1, 1"),
        ("cifar10:c2-b,cat", {}, "expected one task or a list of classes, got c2-b, cat"),
    ],
)
def test_mistakes(name, options, message):
    with pytest.raises(UsageError, match=message):
        load(name, **options)


def test_unknown_class_or_task(cifar10_folder):
    with pytest.raises(UsageError, match=r"cifar10: class: expected one of .*, got 'c2-c'"):
        load("cifar10:c2-c", root=cifar10_folder)
