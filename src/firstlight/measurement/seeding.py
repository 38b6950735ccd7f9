"""An initialization is a seed: children of one ``SeedSequence``, and generators that come back as they were.

Initialization ``i`` of seed ``s`` is ``SeedSequence(s, spawn_key=(i,))`` for ever: it depends neither on the
number of workers nor on the order of work. What an initialization needs besides its weights (noise, read-out)
are children of that child.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["data_seed", "initialization_seed", "random_state_preserved", "seeded", "stream", "torch_seed"]

_DATA = 0x64617461
"""Keeps the order of the data apart from all initializations."""


def initialization_seed(seed: int, index: int, *purpose: int) -> np.random.SeedSequence:
    """The seed of initialization ``index``; ``purpose`` names what else is drawn.

    1: noise, 2: the read-out, 3: what the model draws while it runs.

    >>> initialization_seed(0, 3).generate_state(1) == np.random.SeedSequence(0).spawn(4)[3].generate_state(1)
    array([ True])
    """
    return np.random.SeedSequence(seed, spawn_key=(index, *purpose))


def data_seed(seed: int) -> np.random.SeedSequence:
    """The seed of everything that is random about the data: subsets, shuffling, augmentation."""
    return np.random.SeedSequence([seed, _DATA])


def torch_seed(sequence: np.random.SeedSequence) -> int:
    """63 bits, which ``torch.manual_seed`` takes on every platform."""
    return int(sequence.generate_state(1, np.uint64)[0]) >> 1


def stream(sequence: np.random.SeedSequence) -> np.random.Generator:
    """A stream of numbers that does not depend on how many are taken at a time."""
    return np.random.default_rng(sequence)


@contextmanager
def random_state_preserved() -> Iterator[None]:
    """Whatever is drawn inside, the global generators of python, numpy and torch come back as they were."""
    python = random.getstate()
    legacy = np.random.get_state()  # noqa: NPY002 - the global state is what user code draws from
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002


@contextmanager
def seeded(sequence: np.random.SeedSequence) -> Iterator[None]:
    """The global generators start from ``sequence`` inside, and come back as they were."""
    with random_state_preserved():
        number = torch_seed(sequence)
        random.seed(number)
        np.random.seed(number % 2**32)  # noqa: NPY002 - user code draws from the global state
        if torch.cuda.is_available():
            torch.manual_seed(number)
        else:  # the same stream; torch.manual_seed would also queue seeds for absent devices, slowly
            torch.default_generator.manual_seed(number)
        yield
