"""Where data sets are looked for, and the download with its hash; a small local server stands for the publisher."""

from __future__ import annotations

import hashlib
import http.server
import threading
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from firstlight.data import cifar10, isbi2012, mnist, published
from firstlight.data.locating import cache_folder, locate
from firstlight.data.published import CIFAR10, CIFAR100, ISBI2012, MNIST, TINY_IMAGENET, Archive
from firstlight.errors import DataError


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A folder, and the address under which it is served."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "publisher"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01), daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def digest_of(file: Path, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, file.read_bytes()).hexdigest()}"


@pytest.fixture
def packed_cifar10(publisher, cifar10_folder):
    """The tiny CIFAR-10 as a tar archive at the publisher's; its folder on disk is gone."""
    import shutil
    import tarfile

    folder, address = publisher
    file = folder / "cifar-10-python.tar.gz"
    with tarfile.open(file, "w:gz") as packed:
        packed.add(cifar10_folder, arcname=cifar10_folder.name)
    shutil.rmtree(cifar10_folder)
    return replace(CIFAR10, archives=(Archive(file.name, (address + file.name,), digest_of(file)),)), file


class TestLookingOnDisk:
    def test_root_is_the_folder_itself_or_the_one_above(self, cifar10_folder):
        assert locate(CIFAR10, root=cifar10_folder) == cifar10_folder
        assert locate(CIFAR10, root=cifar10_folder.parent) == cifar10_folder
        assert locate(CIFAR10, root=str(cifar10_folder.parent)) == cifar10_folder

    def test_environment_variable(self, mnist_folder, monkeypatch):
        monkeypatch.setenv("FIRSTLIGHT_DATA", str(mnist_folder.parents[1]))
        assert locate(MNIST) == mnist_folder

    def test_root_goes_before_the_variable(self, mnist_folder, tmp_path, monkeypatch):
        monkeypatch.setenv("FIRSTLIGHT_DATA", str(mnist_folder.parents[1]))
        with pytest.raises(DataError, match="found none of them"):
            locate(MNIST, root=tmp_path / "elsewhere")

    def test_cache(self, isbi2012_folder):
        cache_folder().mkdir(parents=True)
        isbi2012_folder.rename(cache_folder() / "isbi2012")
        assert locate(ISBI2012) == cache_folder() / "isbi2012"

    def test_nowhere_says_what_was_tried_and_what_to_type(self, tmp_path, monkeypatch):
        monkeypatch.setenv("FIRSTLIGHT_DATA", str(tmp_path / "mine"))
        with pytest.raises(DataError) as caught:
            cifar10(download=False)
        message = str(caught.value)
        assert message.startswith("cifar10: expected data_batch_1 or test_batch in one of ")
        for place in (tmp_path / "mine" / "cifar-10-batches-py", cache_folder() / "cifar-10-batches-py"):
            assert str(place) in message
        assert "get cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html" in message
        assert "export FIRSTLIGHT_DATA=THAT_FOLDER or pass root=THAT_FOLDER" in message

    def test_an_archive_that_is_still_packed(self, tmp_path):
        (tmp_path / "tiny-imagenet-200.zip").write_bytes(b"")
        with pytest.raises(DataError, match=rf"still packed: cd {tmp_path} && unzip tiny-imagenet-200\.zip"):
            locate(TINY_IMAGENET, root=tmp_path)

    def test_without_a_published_hash_nothing_is_fetched(self):
        with pytest.raises(
            DataError, match=r"isbi2012: expected image/0\.png or train-volume\.tif .* get the files from"
        ):
            isbi2012()


class TestDownloading:
    def test_fetched_verified_and_unpacked_once(self, packed_cifar10, monkeypatch):
        record, file = packed_cifar10
        folder = locate(record)
        assert folder == cache_folder() / "cifar-10-batches-py"
        monkeypatch.setattr("firstlight.data.cifar.CIFAR10", record)
        assert len(cifar10()) == 10
        assert not list(cache_folder().glob("*.partial"))
        file.unlink()  # the second time nothing is asked of the publisher
        assert locate(record) == folder

    def test_wrong_hash(self, packed_cifar10):
        record, file = packed_cifar10
        right = digest_of(file).removeprefix("sha256:")
        wrong = "0" * 64
        broken = replace(record, archives=(replace(record.archives[0], digest=f"sha256:{wrong}"),))
        with pytest.raises(
            DataError, match=rf"SHA256 of cifar-10-python\.tar\.gz: expected {wrong}, got {right}"
        ):
            locate(broken)
        assert not (cache_folder() / "cifar-10-batches-py").exists()
        assert not (cache_folder() / "cifar-10-python.tar.gz").exists()

    def test_md5(self, packed_cifar10):
        record, file = packed_cifar10
        known = replace(record, archives=(replace(record.archives[0], digest=digest_of(file, "md5")),))
        assert locate(known).is_dir()

    def test_next_address_when_one_fails(self, packed_cifar10, publisher):
        record, _ = packed_cifar10
        addresses = (publisher[1] + "gone.tar.gz", *record.archives[0].addresses)
        record = replace(record, archives=(replace(record.archives[0], addresses=addresses),))
        assert locate(record).is_dir()

    def test_unreachable(self, packed_cifar10, publisher):
        record, _ = packed_cifar10
        gone = replace(
            record, archives=(replace(record.archives[0], addresses=(publisher[1] + "gone.tar.gz",)),)
        )
        with pytest.raises(DataError, match=r"downloading failed \(http://127.0.0.1:\d+/gone.tar.gz: 404"):
            locate(gone)

    def test_not_allowed(self, packed_cifar10):
        record, _ = packed_cifar10
        with pytest.raises(DataError, match="cifar10: expected data_batch_1"):
            locate(record, download=False)
        assert not cache_folder().exists()

    def test_an_archive_of_something_else(self, publisher):
        folder, address = publisher
        file = folder / "tiny-imagenet-200.zip"
        with zipfile.ZipFile(file, "w") as packed:
            packed.writestr("readme.txt", "nothing here")
        record = replace(
            TINY_IMAGENET, archives=(Archive(file.name, (address + file.name,), digest_of(file)),)
        )
        with pytest.raises(DataError, match=r"expected a folder 'tiny-imagenet-200' inside, got readme\.txt"):
            locate(record)

    def test_an_interrupted_unpacking_is_done_again(self, packed_cifar10):
        record, _ = packed_cifar10
        leftover = cache_folder() / "cifar-10-python.tar.gz.partial" / "cifar-10-batches-py"
        leftover.mkdir(parents=True)
        (leftover / "data_batch_1").write_bytes(b"half")
        assert (locate(record) / "data_batch_1").stat().st_size > 4

    def test_single_gzipped_files_are_read_as_they_are(self, publisher, mnist_folder, monkeypatch):
        import gzip

        folder, address = publisher
        archives = []
        for archive in MNIST.archives:
            file = folder / archive.file
            plain = mnist_folder / archive.file.removesuffix(".gz")
            packed = mnist_folder / archive.file
            file.write_bytes(gzip.compress(plain.read_bytes()) if plain.exists() else packed.read_bytes())
            archives.append(Archive(file.name, (address + file.name,), digest_of(file)))
        monkeypatch.setattr("firstlight.data.mnist_digits.MNIST", replace(MNIST, archives=tuple(archives)))
        assert len(mnist()) == 10
        assert len(mnist(train=False)) == 4
        assert (cache_folder() / "MNIST" / "raw" / "train-images-idx3-ubyte.gz").is_file()


@pytest.mark.parametrize("record", [CIFAR10, CIFAR100, MNIST, TINY_IMAGENET])
def test_every_archive_has_a_hash_of_the_right_length(record):
    for archive in record.archives:
        algorithm, _, digest = archive.digest.partition(":")
        assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size
    assert record.archives
    assert record.name in {
        item.name for item in vars(published).values() if isinstance(item, published.Published)
    }
