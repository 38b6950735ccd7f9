"""How long the command line and an archive take to open, over what Python itself takes: within 0.4 s."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from row import Row

import firstlight as fl

REPEATS = 11
TARGET = 0.4


def measure() -> Iterator[Row]:
    """Medians of differences to ``python -c pass``, run in turns so that a busy moment hits both."""
    with tempfile.TemporaryDirectory() as folder:
        archive = fl.predict(fl.Blueprint.mlp(depth=20)).save(Path(folder) / "profile.nc")
        commands = {
            "firstlight --help": ["-m", "firstlight", "--help"],
            "import firstlight": ["-c", "import firstlight"],
            "load an archive": ["-c", f"import firstlight; firstlight.load({str(archive)!r})"],
            "load and print an archive": [
                "-c",
                f"import firstlight; print(firstlight.load({str(archive)!r}))",
            ],
            "firstlight show": ["-m", "firstlight", "show", str(archive)],
        }
        for name, arguments in commands.items():
            differences = [seconds(arguments) - seconds(["-c", "pass"]) for _ in range(REPEATS)]
            yield Row(f"{name}, over python -c pass", statistics.median(differences), "s", TARGET)
        yield Row("predict at the command line, over python -c pass", _predict(), "s")


def _predict() -> float:
    arguments = ["-m", "firstlight", "predict", "mlp:depth=20"]
    return statistics.median(seconds(arguments) - seconds(["-c", "pass"]) for _ in range(5))


def seconds(arguments: list[str]) -> float:
    """Wall time of one interpreter."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
