"""Memory does not grow with samples or with initializations."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys
import torch
from torch import nn
import firstlight as fl

torch.set_num_threads(1)
samples, inits = int(sys.argv[1]), int(sys.argv[2])

class Stream:
    def __iter__(self):
        generator = torch.Generator().manual_seed(0)
        for _ in range(samples // 500):
            yield torch.randn(500, 200, generator=generator)

def measure(samples, inits):
    fl.measure(
        lambda: nn.Sequential(nn.Linear(200, 200), nn.LayerNorm(200), nn.ReLU(), nn.Linear(200, 10)),
        Stream(), inits=inits, quantities="all", progress=False, max_samples=samples,
    )

measure(500, 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
measure(samples, inits)
print(json.dumps((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))
"""


def growth(samples: int, inits: int) -> float:
    """Megabytes by which the peak grows over a measurement of 500 samples and 2 initializations."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(samples), str(inits)], capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout))


@pytest.mark.slow
def test_samples_do_not_matter():
    """Of a loader at most 64 MB are kept for later passes; 200,000 more samples are 160 MB."""
    kept = growth(100_000, 1)
    assert kept < 2 * 64 + 32
    assert growth(300_000, 1) - kept < 40


@pytest.mark.slow
def test_initializations_do_not_matter():
    """A module is 0.2 MB and an activation 0.4 MB: 990 of either that stayed alive would be 170 MB or more."""
    assert growth(1000, 1000) - growth(1000, 10) < 40
