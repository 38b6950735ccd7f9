"""Runs that are killed go on as if nothing had happened; runs that are lost do not spoil the others."""

from __future__ import annotations

import copy
import runpy
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

import firstlight as fl
from firstlight.data import gaussian_blobs
from firstlight.errors import CouldNotError, DataError, ModelError, UsageError
from firstlight.training import Recipe, running, train
from firstlight.training.snapshots import Snapshots, discard

SCRIPT = """
import sys

import torch
from torch import nn

import firstlight as fl
from firstlight.data import gaussian_blobs
from firstlight.training import Recipe, running, train


def net():
    return nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))


def trained(kind, folder=None):
    stacked = fl.Blueprint.mlp(inputs=20, depth=2, width=16, norm="batch", placement="after")
    data = gaussian_blobs(samples=200, dimensions=20)
    recipe = Recipe(rate=1e-2, batch_size=32, epochs=30)
    model = net if kind == "alone" else stacked
    return train(model, data, test=data, recipe=recipe, runs=2, seed=5, schedule=30, resume=folder)


if __name__ == "__main__":
    torch.set_num_threads(1)
    running._BETWEEN = 0.0
    trained(*sys.argv[1:])
"""


def identical(one, two):
    assert one.variables.keys() == two.variables.keys()
    for name, item in one.variables.items():
        assert item.values.tobytes() == two.variables[name].values.tobytes(), name


@pytest.mark.parametrize("kind", ["alone", "together"])
def test_a_killed_training_goes_on_to_the_same_bits(kind, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    folder, last = tmp_path / "snapshots", "block-0001.pt" if kind == "alone" else "block-0000.pt"
    process = subprocess.Popen([sys.executable, str(script), kind, str(folder)])
    while process.poll() is None and _step(folder / last) < 40:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it was killed"
    assert 40 <= _step(folder / last) < 210, "it was killed between the first and the last update"

    trained = runpy.run_path(str(script))["trained"]
    identical(trained(kind), trained(kind, folder))
    assert _step(folder / last) == 211


def _step(path):
    return torch.load(path, weights_only=True)["step"] if path.exists() else 0


BLOBS = gaussian_blobs(samples=120, dimensions=10)
NET = fl.Blueprint.mlp(inputs=10, depth=1, width=8)
SHORT = Recipe(rate=1e-2, batch_size=40, epochs=3)


def test_what_is_finished_is_not_done_again(tmp_path, monkeypatch):
    first = train(NET, BLOBS, recipe=SHORT, runs=2, resume=tmp_path / "s")
    monkeypatch.setattr(running._Plan, "engine", lambda *a: pytest.fail("trained again"))
    identical(first, train(NET, BLOBS, recipe=SHORT, runs=2, resume=tmp_path / "s"))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"recipe": Recipe(rate=2e-2, batch_size=40, epochs=3)}, "another recipe"),
        ({"seed": 1}, "another seed"),
        ({"data": gaussian_blobs(samples=120, dimensions=10, seed=1)}, "another data"),
        ({"data": (BLOBS.inputs + 1, BLOBS.labels)}, "another data"),
        ({"runs": 3}, "another runs"),
    ],
)
def test_snapshots_of_another_training_are_refused(tmp_path, changed, named):
    asked = {"data": BLOBS, "recipe": SHORT, "runs": 2, "resume": tmp_path / "s"}
    train(NET, **asked)
    with pytest.raises(CouldNotError, match=f"was left by a training with {named}"):
        train(NET, **{**asked, **changed})


def test_a_folder_of_yours_is_not_written_to(tmp_path):
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(UsageError, match="holds other files; expected an empty folder"):
        train(NET, BLOBS, recipe=SHORT, resume=tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_damaged_snapshot_is_told(tmp_path):
    train(NET, BLOBS, recipe=SHORT, runs=2, resume=tmp_path / "s")
    (tmp_path / "s" / "block-0000.pt").write_bytes(b"\x80\x04 no snapshot")
    with pytest.raises(DataError, match=r"block-0000\.pt' cannot be read .* remove it to begin anew"):
        train(NET, BLOBS, recipe=SHORT, runs=2, resume=tmp_path / "s")


class Explosive(nn.Module):
    """A network whose run diverges where the first weight was drawn negative."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 2)

    def forward(self, x):
        z = self.linear(x)
        return z if bool(self.linear.weight[0, 0] > 0) else z * torch.tensor(float("inf"))


@pytest.mark.parametrize("together", [True, False])
def test_lost_runs_are_marked_and_spoil_no_average(together):
    wild = Recipe(optimizer="sgd", rate=1e30, batch_size=40, epochs=2)
    found = train(NET, BLOBS, recipe=wild, runs=4, together=together, schedule=1)
    assert found.diverged.all()
    assert (found["diverged_step"].values > 0).all()
    assert np.isfinite(found["loss"].values[:, 0]).all()
    assert "4 of 4 runs diverged" in repr(found)


def test_a_lost_run_beside_sound_ones(seed):
    found = train(Explosive, BLOBS, recipe=SHORT, runs=8, seed=seed % 1000, schedule=1)
    lost = found.diverged
    assert 0 < lost.sum() < 8  # fair coins: all alike in 1 of 128 seeds
    sound = train(
        Explosive, BLOBS, recipe=SHORT, runs=np.flatnonzero(~lost).tolist(), seed=seed % 1000, schedule=1
    )
    for name in ("loss", "accuracy", "max_guess"):
        assert found.mean(name).identical(sound.mean(name))
    assert found.mean("loss")["count"].values.tolist() == [int((~lost).sum())] * 10


def test_members_that_are_lost_leave_the_others_alone():
    """One member of a stack starts from NaN; its neighbours take the updates they take without it."""
    from firstlight.measurement.initialization import drawing
    from firstlight.training.ensembles import Together
    from firstlight.training.examples import examples

    def weights(broken):
        draw = drawing(NET, seed=0)
        modules = [copy.deepcopy(draw.module_of(run)) for run in range(3)]
        if broken:
            nn.init.constant_(modules[1].output.weight, torch.nan)
        engine = Together(modules, range(3), recipe=SHORT, data=examples(BLOBS), seed=0)
        for step in range(9):
            engine.step(step)
        return engine.state_dict()["leaves"]

    for name, value in weights(broken=True).items():
        assert torch.equal(value[[0, 2]], weights(broken=False)[name][[0, 2]])


def test_the_users_model_and_generators_are_untouched():
    module = nn.Sequential(nn.Linear(10, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)).eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    drawn = torch.get_rng_state()
    train(module, BLOBS, recipe=SHORT, runs=2)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert not module.training
    assert torch.equal(drawn, torch.get_rng_state())


def test_learning_happens_and_runs_differ():
    found = train(NET, BLOBS, test=BLOBS, recipe=Recipe(rate=1e-2, batch_size=40, epochs=40), runs=3)
    assert found.splits == ("train", "test")
    assert found.mean("accuracy").value.values[-1] > 0.9
    assert len(set(found["loss"].values[:, 0, 0].tolist())) == 3
    assert found.provenance.settings["modes"] == {"train": "train", "test": "eval"}
    assert found.steps.tolist() == [*range(8), *sorted({*found.steps.tolist()} - {*range(8)})]


class Pictures(Dataset):
    """A data set that augments: it draws from the global generators."""

    classes = ("a", "b")

    def __len__(self):
        return 40

    def __getitem__(self, index):
        noise = torch.randn(1, 4, 4) + np.random.randn()  # noqa: NPY002
        return noise * 0.1 + (index % 2), index % 2


def test_a_data_set_that_augments_is_the_same_each_time():
    net = lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))  # noqa: E731
    twice = [train(net, Pictures(), recipe=SHORT, runs=2, schedule=2) for _ in range(2)]
    identical(*twice)
    assert twice[0].labels == ("a", "b")


def test_segmentation_counts_pixels():
    net = lambda: nn.Conv2d(1, 2, 3, padding=1)  # noqa: E731
    pictures = torch.randn(12, 1, 6, 6)
    found = train(net, (pictures, (pictures[:, 0] > 0).long()), recipe=SHORT, runs=1)
    assert found["samples"].values[0, 0, 0] == 12 * 36


def test_misuse_is_told():
    with pytest.raises(UsageError, match="a number of at least 1, or different initializations"):
        train(NET, BLOBS, runs=[1, 1])
    with pytest.raises(UsageError, match="modes of train, got one of 'test'"):
        train(NET, BLOBS, modes={"test": "eval"})
    with pytest.raises(DataError, match="follow your own loop with"):
        train(NET, [1, 2, 3])
    with pytest.raises(DataError, match="a batch of 1 sample, which has no batch statistics"):
        train(
            lambda: nn.Sequential(nn.Linear(10, 4), nn.BatchNorm1d(4), nn.Linear(4, 2), nn.Dropout(0.1)),
            BLOBS,
            recipe=Recipe(batch_size=119, epochs=1),
        )
    with pytest.raises(ModelError, match="failed on a batch of shape"):
        train(lambda: nn.Sequential(nn.Linear(7, 2), nn.Dropout()), BLOBS, recipe=SHORT)
    with pytest.raises(UsageError, match="expected one of 'adam', 'sgd', got 'adma'; did you mean 'adam'"):
        Recipe(optimizer="adma")
    with pytest.raises(UsageError, match="is of SGD"):
        Recipe(momentum=0.9)


@pytest.mark.parametrize("together", [True, False])
def test_a_batch_of_one_is_refused_before_training(together):
    blueprint = fl.Blueprint.mlp(inputs=6, depth=1, width=8, norm="batch")
    data = (torch.randn(41, 6, generator=torch.Generator().manual_seed(0)), torch.arange(41) % 2)
    with pytest.raises(DataError, match="41 samples in batches of 8 leave a batch of 1 sample"):
        train(
            blueprint, data, recipe=Recipe(batch_size=8, epochs=1), runs=2, together=together, progress=False
        )
    one = Recipe(batch_size=1, epochs=1)
    with pytest.raises(DataError, match="41 samples in batches of 1 leave a batch of 1 sample"):
        train(blueprint, data, recipe=one, runs=2, together=together, progress=False)


def test_labels_without_an_output_are_refused():
    data = (torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3)
    with pytest.raises(DataError, match="a target is 2, but the model has 2 outputs"):
        train(lambda: nn.Linear(6, 2), data, recipe=Recipe(batch_size=8, epochs=1), runs=2, progress=False)


def test_what_was_being_written_when_a_training_was_killed_is_no_obstacle(tmp_path):
    left = tmp_path / ".settings.json.0123.unfinished"
    left.write_text("{")
    snapshots = Snapshots(tmp_path, {"seed": 0})
    snapshots.save("block-0000", {"step": 3})
    (tmp_path / ".block-0000.pt.4567.unfinished").write_bytes(b"PK")
    assert Snapshots(tmp_path, {"seed": 0}).load("block-0000") == {"step": 3}
    discard(tmp_path)
    assert not tmp_path.exists()
