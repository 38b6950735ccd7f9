"""A model run on data by a remedy that only wants to look: afterwards it is as it was.

Enters: a working model, data, a mode. Leaves: what the model answers, batch by batch. Modes are set as ``measure`` sets
them (everything in eval mode, batch norms in the mode that is asked for); modes, buffers and random generators
come back as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from firstlight.errors import one_of
from firstlight.measurement.asking import asked_for
from firstlight.measurement.batches import as_batches
from firstlight.measurement.kinds import batch_norms
from firstlight.measurement.observables import guessing
from firstlight.measurement.observing import Setting, check_inputs, guessed, run
from firstlight.measurement.outputs import answer
from firstlight.measurement.scouting import settle
from firstlight.measurement.seeding import random_state_preserved

__all__ = ["borrowed", "guess_fractions", "setting_of"]


@contextmanager
def borrowed(model: nn.Module, mode: str) -> Iterator[None]:
    """Run the model inside, without gradients."""
    if mode not in ("train", "eval"):
        raise one_of("mode", mode, ["train", "eval"])
    modes = [(item, item.training) for item in model.modules()]
    buffers = [(item, item.detach().clone()) for item in model.buffers()]
    try:
        model.eval()
        if mode == "train":
            for norm in batch_norms(model):
                norm.train()
        with random_state_preserved(), torch.no_grad():
            yield
    finally:
        for item, training in modes:
            item.training = training
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


def setting_of(model: nn.Module, data: Any, mode: str, *, samples: int | None = None) -> Setting:
    """How to run this model on these data: batches of the size that ``measure`` takes, and where the labels are."""
    batches = as_batches(data, seed=0, max_samples=samples)
    with borrowed(model, mode):
        setting, _ = settle(
            model, batches, asked_for(["guesses"]), layers="output", seed=0, batch_size=None, loss=None
        )
    return setting


def guess_fractions(model: nn.Module, setting: Setting, mode: str) -> Tensor:
    """Share of the data that is guessed as each label, (label,), float64."""
    assert setting.label_axis is not None
    counts: guessing.GuessCounts | None = None
    with borrowed(model, mode):
        for number, batch in enumerate(setting.batches):
            check_inputs(batch, number)
            logits, _ = answer(run(model, batch.converted(setting.dtype, setting.device)))
            counts = guessed(counts, logits, setting.label_axis, {})
    assert counts is not None  # scouting has seen a batch
    return counts.counts.double() / counts.rows
