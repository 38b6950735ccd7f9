"""Models draw from torch's global random state, so every test here has its own; small models want one thread."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _own_random_state(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
