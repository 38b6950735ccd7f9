"""The public data sets: where their files lie, where the published archives are, and their hashes.

Enters: nothing. Leaves: a record for each data set. An archive is listed only with a hash that its authors or the
common frameworks publish; a data set without one has to be put on disk by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CIFAR10", "CIFAR100", "ISBI2012", "MNIST", "TINY_IMAGENET", "Archive", "Published"]


@dataclass(frozen=True)
class Archive:
    """One file as published.

    Attributes:
        file: Its name.
        addresses: Where it can be had, tried in this order.
        digest: ``"sha256:…"`` or ``"md5:…"``.
    """

    file: str
    addresses: tuple[str, ...]
    digest: str

    @property
    def packed(self) -> bool:
        """Whether it holds a folder (a lone ``.gz`` file is read as it is)."""
        return self.file.endswith((".tar.gz", ".zip"))


@dataclass(frozen=True)
class Published:
    """One data set.

    Attributes:
        name: As in ``load(name)``.
        folders: Where its files lie below a data folder, the usual place first; ``""`` is the folder itself.
        landmarks: Files of which one is there when the data set is.
        archives: What can be downloaded; empty where no hash is published.
        page: Where a person finds it.
        digests: MD5 of single files as published, to tell exact copies from re-encoded ones.
    """

    name: str
    folders: tuple[str, ...]
    landmarks: tuple[str, ...]
    archives: tuple[Archive, ...]
    page: str
    digests: tuple[tuple[str, str], ...] = ()


CIFAR10 = Published(
    name="cifar10",
    folders=("cifar-10-batches-py", "cifar10", ""),
    landmarks=("data_batch_1", "test_batch"),
    archives=(
        Archive(
            "cifar-10-python.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
            "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        ),
    ),
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    digests=(
        ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", "634d18415352ddfa80567beed471001a"),
        ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
        ("test_batch", "40351d587109b95175f43aff81a1287e"),
    ),
)

CIFAR100 = Published(
    name="cifar100",
    folders=("cifar-100-python", "cifar100", ""),
    # "train" and "test" are also folders of other data sets, so the landmark is a file that only this one has.
    landmarks=("meta",),
    archives=(
        Archive(
            "cifar-100-python.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",),
            "sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        ),
    ),
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    digests=(
        ("train", "16019d7e3df5f24257cddd939b257f8d"),
        ("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),
    ),
)

_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

MNIST = Published(
    name="mnist",
    folders=("MNIST/raw", "mnist", ""),
    landmarks=tuple(
        f"{split}-images-idx3-ubyte{ending}" for split in ("train", "t10k") for ending in ("", ".gz")
    ),
    archives=tuple(
        Archive(file, tuple(mirror + file for mirror in _MNIST_MIRRORS), digest)
        for file, digest in (
            (
                "train-images-idx3-ubyte.gz",
                "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            (
                "train-labels-idx1-ubyte.gz",
                "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            (
                "t10k-images-idx3-ubyte.gz",
                "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            (
                "t10k-labels-idx1-ubyte.gz",
                "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        )
    ),
    page="https://yann.lecun.com/exdb/mnist/",
    digests=(
        ("train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb"),
        ("t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea"),
    ),
)

TINY_IMAGENET = Published(
    name="tiny-imagenet",
    folders=("tiny-imagenet-200", "tiny-imagenet", ""),
    landmarks=("wnids.txt",),
    archives=(
        Archive(
            "tiny-imagenet-200.zip",
            ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
            "md5:90528d7ca1a48142e341f4ef8d21d0de",
        ),
    ),
    page="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
)

ISBI2012 = Published(
    name="isbi2012",
    folders=("isbi2012", "ISBI2012", ""),
    landmarks=("image/0.png", "train-volume.tif"),
    archives=(),
    page="https://imagej.net/events/isbi-2012-segmentation-challenge",
)
