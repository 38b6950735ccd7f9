"""The fixture ``real_data``: the folder that holds a real data set, or a skip that says what is missing.

Looked at: ``$FIRSTLIGHT_DATA``, then ``../shared/data`` beside the repository, whose ``prepare.py`` is run once, for
what is asked for only, into a folder that later runs find again. Mark such tests with ``@pytest.mark.real_data``: the
root conftest turns their skips into failures where the data is promised (``FIRSTLIGHT_REQUIRE_DATA``).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

STORED = Path(__file__).resolve().parents[2] / "shared" / "data"

LANDMARKS = {
    "cifar10": "cifar-10-batches-py/test_batch",
    "mnist": "MNIST/raw/t10k-labels-idx1-ubyte",
    "tiny-imagenet": "tiny-imagenet-200/wnids.txt",
    "isbi2012": "isbi2012/image/0.png",
    "extra": "extra/cifar10-original-sample.npz",
}


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """A function: name of a data set → folder to pass as ``root=``."""
    return _folder_with


def _folder_with(name: str) -> Path:
    named = os.environ.get("FIRSTLIGHT_DATA")
    if named and (Path(named) / LANDMARKS[name]).is_file():
        return Path(named)
    if (STORED / "prepare.py").is_file():
        return _prepared(name)
    pytest.skip(f"{name}: neither $FIRSTLIGHT_DATA ({named}) nor {STORED} holds it")


def _prepared(name: str) -> Path:
    version = hashlib.sha256((STORED / "SHA256SUMS").read_bytes()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"firstlight-data-{os.getuid()}-{version}"
    folder.mkdir(exist_ok=True)
    done = folder / f".{name}-prepared"
    with open(folder / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel workers wait for the first
        if not done.exists():
            subprocess.run([sys.executable, STORED / "prepare.py", folder, "--only", name], check=True)
            done.touch()
    return folder
