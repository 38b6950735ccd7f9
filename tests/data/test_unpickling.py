"""Pickles: what the published batches hold is read, everything else is refused and never run."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from firstlight.data.unpickling import read_pickled_arrays
from firstlight.errors import DataError

HERE = Path("some_batch")


def python2_batch(pixels: np.ndarray, labels: list[int]) -> bytes:
    """Protocol 2 as Python 2 wrote it: byte strings by the U and T opcodes, ``numpy.core`` by its old name."""
    rows, columns = pixels.shape
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        + b"(K\x01"
        + b"M" + struct.pack("<H", rows) + b"M" + struct.pack("<H", columns)
        + b"\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + b"T" + struct.pack("<i", pixels.size) + pixels.tobytes()
        + b"tb"
    )  # fmt: skip
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\x04data" + array + b"U\x06labels" + listed + b"U\x0bbatch_labelU\x05batchu."


@pytest.fixture
def pixels(seed) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (3, 40), dtype=np.uint8)


def test_python2_batches(pixels):
    read = read_pickled_arrays(python2_batch(pixels, [3, 1, 2]), path=HERE)
    np.testing.assert_array_equal(read["data"], pixels)
    assert read["labels"] == [3, 1, 2]
    assert read["batch_label"] == "batch"


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_python3_batches(pixels, protocol, order):
    content = {
        b"data": np.asarray(pixels, order=order),
        b"labels": [1, 2, 3],
        b"names": [b"a", b"b"],
        "plain": 7,
    }
    read = read_pickled_arrays(pickle.dumps(content, protocol=protocol), path=HERE)
    np.testing.assert_array_equal(read["data"], pixels)
    assert read["labels"] == [1, 2, 3]
    assert read["names"] == ["a", "b"]
    assert read["plain"] == 7


class Command:
    """Pickles into a call of the operating system."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_command_is_refused_and_not_run(tmp_path, protocol):
    target = tmp_path / "touched"
    content = pickle.dumps({b"data": Command(target)}, protocol=protocol)
    with pytest.raises(
        DataError,
        match=r"some_batch: expected arrays, lists and strings only, got a pickle that imports \w+\.system",
    ):
        read_pickled_arrays(content, path=HERE)
    assert not target.exists()
    pickle.loads(content)  # the test can fail: the same bytes do touch the file
    assert target.exists()


@pytest.mark.parametrize(
    "name",
    [
        b"builtins\neval",
        b"__builtin__\neval",
        b"numpy\nload",
        b"numpy.core.multiarray\nscalar",
        b"copyreg\n_reconstructor",
        b"firstlight.data.unpickling\n_encode",
        b"_codecs\ndecode",
    ],
)
def test_every_other_name_is_refused(name):
    imported = name.decode().replace("\n", ".")
    with pytest.raises(DataError, match=f"imports {imported}; it was not run"):
        read_pickled_arrays(b"\x80\x02c" + name + b"\nU\x011\x85R.", path=HERE)


def test_dotted_names_reach_nothing():
    # Protocol 4 looks names up through attributes: numpy → ndarray.tofile.
    content = b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93."
    with pytest.raises(DataError, match=r"imports numpy\.ndarray\.tofile"):
        read_pickled_arrays(content, path=HERE)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02cnumpy\nndarray\nK\x05\x85R.",  # an array built directly
        b"\x80\x02cnumpy\nndarray\n}U\x01aK\x01sb.",  # a stand-in altered
        b"\x80\x02cnumpy\nndarray\nN}U\x01aK\x01s\x86b.",  # likewise, by slots
        b"\x80\x02cnumpy\nndarray\n)\x81.",  # a class instantiated
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aU\x05utf-7\x86R.",  # another codec
    ],
)
def test_what_batches_never_do_is_refused(content):
    with pytest.raises(DataError, match="some_batch: expected a whole pickled batch"):
        read_pickled_arrays(content, path=HERE)


@pytest.mark.parametrize("kind", [np.float64, np.int32, object])
def test_only_bytes_become_arrays(kind):
    content = pickle.dumps({b"data": np.zeros((2, 2), kind)}, protocol=2)
    with pytest.raises(DataError, match=r"an array of type .*, not uint8"):
        read_pickled_arrays(content, path=HERE)


def test_truncated_anywhere(pixels):
    whole = python2_batch(pixels, [3, 1, 2])
    for length in range(0, len(whole), 7):
        with pytest.raises(
            DataError, match=f"some_batch: expected a whole pickled batch, got {length} bytes"
        ):
            read_pickled_arrays(whole[:length], path=HERE)


def test_shape_beyond_the_bytes(pixels):
    content = python2_batch(pixels, [1]).replace(b"M" + struct.pack("<H", 3), b"M" + struct.pack("<H", 4), 1)
    with pytest.raises(DataError, match=r"an array of shape \(4, 40\) without its 160 bytes"):
        read_pickled_arrays(content, path=HERE)


def test_no_dictionary():
    with pytest.raises(DataError, match="expected a pickled dictionary, got list"):
        read_pickled_arrays(pickle.dumps([1, 2]), path=HERE)


def test_no_pickle_at_all():
    with pytest.raises(DataError, match="some_batch: expected a whole pickled batch, got 15 bytes"):
        read_pickled_arrays(b"<!DOCTYPE html>", path=HERE)
