"""Find a data set on disk, or fetch it.

Enters: which data set, perhaps a folder. Leaves: the folder that holds its files. Looked at, in this order:

1. ``root``, when given, and nothing else;
2. the folder that the environment variable ``FIRSTLIGHT_DATA`` names;
3. the user's cache folder, into which the published archive is downloaded, checked against its hash and unpacked.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

from firstlight.data.published import Archive, Published
from firstlight.errors import DataError

__all__ = ["ENVIRONMENT_VARIABLE", "cache_folder", "locate"]

ENVIRONMENT_VARIABLE = "FIRSTLIGHT_DATA"


def locate(
    published: Published, *, root: str | os.PathLike[str] | None = None, download: bool = True
) -> Path:
    """Return the folder that holds the files of a data set.

    Args:
        published: Which.
        root: Look here only: the data set's own folder or the one above it.
        download: Whether to fetch it into the cache when it is nowhere.

    Raises:
        DataError: Nowhere to be found or fetched; says which paths were tried and what to type.
    """
    if root is not None:
        bases = [Path(root).expanduser()]
    else:
        named = os.environ.get(ENVIRONMENT_VARIABLE)
        bases = [*([Path(named).expanduser()] if named else []), cache_folder()]
    tried = []
    for base in bases:
        for folder in published.folders:
            place = base / folder
            if any((place / landmark).is_file() for landmark in published.landmarks):
                return place
            tried.append(place)
    failures: list[str] = []
    if root is None and download and published.archives:
        failures = _fetch(published, cache_folder())
        if not failures:
            return locate(published, root=cache_folder())
    raise DataError(_not_found(published, bases, tried, failures))


def cache_folder() -> Path:
    """The user's cache folder for data sets, as the operating system has it."""
    import pooch

    return Path(pooch.os_cache("firstlight")) / "data"


def _fetch(published: Published, cache: Path) -> list[str]:
    """Download, verify and unpack into the cache; returns what went wrong, nothing when all is there."""
    folder = cache / published.folders[0]
    for archive in published.archives:
        into = cache if archive.packed else folder
        failures = _download(archive, into)
        if failures:
            return failures
        if archive.packed:
            _unpack(into / archive.file, folder)
    return []


def _download(archive: Archive, into: Path) -> list[str]:
    import pooch

    failures = []
    for address in archive.addresses:
        try:
            pooch.retrieve(address, known_hash=archive.digest, fname=archive.file, path=into)
        except OSError as error:  # no network, refused, not found, disk full
            failures.append(f"{address}: {error}")
        except ValueError as error:  # the hash differs; pooch has removed the file
            found = re.search(r"expected (\S+) but got (\S+?)\.", str(error))
            hashes = f"expected {found[1].rpartition(':')[2]}, got {found[2]}" if found else str(error)
            failures.append(
                f"{address}: {archive.digest.partition(':')[0].upper()} of {archive.file}: {hashes}"
            )
        else:
            return []
    return failures


def _unpack(file: Path, folder: Path) -> None:
    """Unpack beside the final place and rename, so that an interrupted run leaves no half data set."""
    partial = file.with_name(file.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    if file.suffix == ".zip":
        with zipfile.ZipFile(file) as packed:
            packed.extractall(partial)
    else:
        with tarfile.open(file) as packed_tar:
            packed_tar.extractall(partial, filter="data")
    source = partial / folder.name
    if not source.is_dir():
        raise DataError(
            f"{file}: expected a folder {folder.name!r} inside, got {', '.join(_listed(partial))}; get the archive anew"
        )
    shutil.rmtree(folder, ignore_errors=True)
    source.rename(folder)
    shutil.rmtree(partial)


def _listed(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def _not_found(published: Published, bases: list[Path], tried: list[Path], failures: list[str]) -> str:
    landmark = " or ".join(published.landmarks[:2])
    parts = [
        f"{published.name}: expected {landmark} in one of {', '.join(map(str, tried))}, found none of them"
    ]
    if failures:
        parts.append(f"downloading failed ({'; '.join(failures)})")
    for archive in published.archives:
        for base in bases:
            if archive.packed and (base / archive.file).is_file():
                command = "unzip" if archive.file.endswith(".zip") else "tar -xzf"
                parts.append(
                    f"{base / archive.file} is there but still packed: cd {base} && {command} {archive.file}"
                )
                return "; ".join(parts)
    what = ", ".join(archive.file for archive in published.archives) or "the files"
    parts.append(
        f"get {what} from {published.page}, unpack into a folder, and type "
        f"export {ENVIRONMENT_VARIABLE}=THAT_FOLDER or pass root=THAT_FOLDER"
    )
    return "; ".join(parts)
