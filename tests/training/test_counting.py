"""Counts against plain numpy, however they are cut; what diverged; what loggers are handed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from firstlight.results.provenance import Provenance
from firstlight.training.counting import joined, tally
from firstlight.training.recording import Records, side_by_side

ORIGIN = Provenance("measurement", "net", "data")


def drawn(seed, inits=3, samples=40, labels=4):
    generator = torch.Generator().manual_seed(seed % 2**31)
    logits = torch.randn(inits, samples, labels, generator=generator)
    logits[:, 0] = 1.0  # tied
    return logits, torch.randint(labels, (inits, samples), generator=generator)


def test_counts_are_those_of_numpy(seed):
    logits, targets = drawn(seed)
    found = tally(logits, targets)
    guess = logits.numpy().argmax(2)
    truth = targets.numpy()
    for init in range(3):
        assert found.guesses[init].tolist() == np.bincount(guess[init], minlength=4).tolist()
        assert found.totals[init].tolist() == np.bincount(truth[init], minlength=4).tolist()
        hits = truth[init][guess[init] == truth[init]]
        assert found.right[init].tolist() == np.bincount(hits, minlength=4).tolist()
        shifted = logits[init].double().numpy()
        entropy = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(40), truth[init]]
        assert found.mean_losses()[init].item() == pytest.approx(entropy.mean(), rel=1e-6)
    assert found.ties.tolist() == [1, 1, 1]


def test_batches_add_up_and_shared_targets_are_repeated(seed):
    logits, targets = drawn(seed)
    whole = tally(logits, targets[0])
    parts = tally(logits[:, :13], targets[0, :13]) + tally(logits[:, 13:], targets[0, 13:])
    assert torch.equal(whole.right, parts.right)
    assert torch.allclose(whole.losses, parts.losses, rtol=1e-6)
    alone = joined([tally(one[None], targets[0]) for one in logits])
    assert torch.equal(whole.guesses, alone.guesses)


def test_ignored_targets_count_nowhere(seed):
    logits, targets = drawn(seed, inits=1)
    masked = targets.clone()
    masked[:, 20:] = -100
    found, half = tally(logits, masked), tally(logits[:, :20], targets[:, :20])
    assert torch.equal(found.guesses, half.guesses)
    assert torch.equal(found.ties, half.ties)
    assert torch.allclose(found.mean_losses(), half.mean_losses())


def records(losses):
    """One run with these losses at steps 0, 1, …"""
    found = Records()
    logits = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    for step, loss in enumerate(losses):
        found.add(step, "train", tally(logits, torch.tensor([0, 1]), torch.tensor([loss])))
    return found


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        ([0.7, 0.5, 0.4], -1),
        ([0.7, float("nan"), float("nan")], 1),
        ([0.7, 0.5, float("inf")], 2),
        ([0.7, 90.0, 0.6], -1),
        ([0.7, 105.0, 0.6], 1),
        ([500.0, 600.0, 3.0], -1),
    ],
)
def test_a_run_has_diverged_where_the_loss_is_lost(losses, step):
    found = records(losses).trajectory(provenance=ORIGIN)
    assert found["diverged_step"].item() == step
    assert bool(found.diverged[0]) == (step >= 0)


def test_a_record_without_a_loss_is_blank():
    found = records([0.7, float("nan")]).trajectory(provenance=ORIGIN)
    assert np.isnan(found["accuracy"].values[0, 1, 0])
    assert found["samples"].values[0, :, 0].tolist() == [2, 0]


def test_records_survive_as_plain_tensors():
    found = records([0.7, 0.5])
    found.note(1, "gradient_norm", torch.tensor([[1.0, 2.0]]))
    back = Records.from_state_dict(found.state_dict())
    one, two = (item.trajectory(provenance=ORIGIN) for item in (found, back))
    assert one.dataset.identical(two.dataset)


def test_runs_side_by_side_may_lack_steps():
    found = side_by_side([records([0.7, 0.5]), records([0.7, float("nan"), float("nan")])])
    whole = found.trajectory(provenance=ORIGIN)
    assert whole.runs == 2
    assert whole["diverged_step"].values.tolist() == [-1, 1]


def test_loggers_get_flat_names():
    logged = records([0.5]).log(0, "train")
    assert logged["class_bias/max_fraction"] == 0.5
    assert logged["class_bias/recall/1"] == 1.0
    assert logged["class_bias/loss"] == pytest.approx(0.5)
