"""The metric, alone and over two processes that hold different shares of the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.multiprocessing as multiprocessing

pytest.importorskip("torchmetrics")

from firstlight.errors import UsageError
from firstlight.training import track
from firstlight.training.integrations.torchmetrics import GuessFractions


def drawn():
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(50, 4, generator=generator) + torch.tensor([1.0, 0.0, 0.0, 0.0])
    logits[0] = 0.0
    return logits, torch.randint(4, (50,), generator=generator)


def test_the_metric_says_what_the_tracker_says():
    logits, targets = drawn()
    metric, tracker = GuessFractions(4), track()
    for part in (slice(0, 20), slice(20, 50)):
        metric.update(logits[part], targets[part])
        tracker.update(0, logits[part], targets[part])
    found, same = metric.compute(), tracker.trajectory()
    assert found["fractions"].numpy() == pytest.approx(same["guess_fractions"].values.ravel())
    assert found["recall"].numpy() == pytest.approx(same["recall"].values.ravel())
    assert found["max_fraction"].item() == pytest.approx(same["max_guess"].item())
    assert found["accuracy"].item() == pytest.approx(same["accuracy"].item())
    assert found["tie_fraction"].item() == pytest.approx(1 / 50)
    metric.reset()
    assert metric.guesses.sum() == 0


def process(rank, folder):
    """One of two processes: a model under DistributedDataParallel, 20 samples here and 30 there."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    logits, targets = drawn()
    part = slice(0, 20) if rank == 0 else slice(20, 50)
    model = torch.nn.parallel.DistributedDataParallel(Shift())
    metric, tracker = GuessFractions(4), track()
    metric.update(model(logits[part]), targets[part])
    tracker.update(0, model(logits[part]), targets[part])
    tracker.evaluate(1, model, (logits[part], targets[part]))
    found = metric.compute()
    tracker.synchronize()
    trajectory = tracker.trajectory()
    np.savez(
        f"{folder}/{rank}.npz",
        **{name: value.detach().numpy() for name, value in found.items()},
        tracked=trajectory["guess_fractions"].values[0, :, 0],
        samples=trajectory["samples"].values.ravel(),
    )
    torch.distributed.destroy_process_group()


class Shift(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return x + self.shift


def test_two_processes_sum_their_counts(tmp_path):
    multiprocessing.spawn(process, args=(str(tmp_path),), nprocs=2)
    logits, targets = drawn()
    whole = GuessFractions(4)
    whole.update(logits, targets)
    for rank in range(2):
        found = np.load(tmp_path / f"{rank}.npz")
        for name, value in whole.compute().items():
            assert found[name] == pytest.approx(value.numpy()), name
        assert found["tracked"] == pytest.approx(np.stack([whole.compute()["fractions"].numpy()] * 2))
        assert found["samples"].tolist() == [50, 50]


def test_misuse_is_told():
    with pytest.raises(UsageError, match="at least 2, got 1"):
        GuessFractions(1)
    with pytest.raises(UsageError, match="expected 3 labels, got 4"):
        GuessFractions(3).update(*drawn())
