"""Counts of the argmax, with ties counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from firstlight.measurement.observables import guessing


@pytest.mark.parametrize("labels", [2, 3, 10])
def test_counts_agree_with_numpy(labels, seed):
    logits = np.random.default_rng(seed).integers(0, 4, (500, labels)).astype(float)  # many ties
    state = guessing.init(labels)
    for part in np.array_split(logits, 7):
        state = guessing.update(state, torch.from_numpy(part))
    assert state.counts.tolist() == np.bincount(logits.argmax(1), minlength=labels).tolist()
    assert state.ties == int(((logits == logits.max(1, keepdims=True)).sum(1) > 1).sum())
    assert state.rows == 500


def test_a_collapsed_signal_is_all_ties():
    state = guessing.update(guessing.init(4), torch.zeros(9, 4))
    assert (state.ties, state.rows) == (9, 9)
    assert state.counts.tolist() == [9, 0, 0, 0]
