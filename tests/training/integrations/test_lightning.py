"""A real ``Trainer`` of Lightning with the callback: what it sees, what it leaves alone, what a checkpoint keeps."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

lightning = pytest.importorskip("lightning.pytorch")

from firstlight.errors import UsageError  # noqa: E402
from firstlight.training.integrations.lightning import GuessCallback  # noqa: E402

# what Lightning itself says about its surroundings
pytestmark = pytest.mark.filterwarnings("ignore")


class Net(lightning.LightningModule):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.net = nn.Sequential(
            nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 2)
        )

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


X = torch.randn(96, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def fitted(*callbacks, folder, epochs=2, checkpoint=None, net=None, **options):
    net = Net() if net is None else net
    loader = DataLoader(TensorDataset(X, Y), batch_size=16)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        callbacks=list(callbacks),
        accelerator="cpu",
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **{"logger": False, **options},
    )
    torch.manual_seed(1)
    trainer.fit(net, loader, ckpt_path=checkpoint)
    return trainer, net


def test_the_training_is_the_same_with_and_without(tmp_path):
    callback = GuessCallback(test=(X, Y))
    _, with_it = fitted(callback, folder=tmp_path)
    _, without = fitted(folder=tmp_path)
    for name, value in with_it.state_dict().items():
        assert torch.equal(value, without.state_dict()[name]), name
    found = callback.tracker.trajectory()
    assert found.steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert set(found.splits) == {"train", "test"}
    assert [int(found["samples"].sel(split=name)[0, 0]) for name in ("train", "test")] == [16, 96]


def test_what_is_overheard_is_the_training_step(tmp_path):
    losses = []

    class Telling(Net):
        def training_step(self, batch, index):
            loss = super().training_step(batch, index)
            losses.append(float(loss.detach()))
            return loss

    callback = GuessCallback(schedule=1)
    fitted(callback, folder=tmp_path, net=Telling())
    assert callback.tracker.trajectory()["loss"].values.ravel() == pytest.approx(losses)


def test_logits_may_be_returned(tmp_path):
    class Returning(Net):
        def training_step(self, batch, index):
            logits = self.net(batch[0])
            return {"loss": nn.functional.cross_entropy(logits, batch[1]), "logits": logits}

    callback = GuessCallback()
    _, net = fitted(callback, folder=tmp_path, net=Returning())
    assert callback.tracker.trajectory()["samples"].values[0, 0, 0] == 16
    assert not net._forward_hooks


def test_a_training_step_out_of_earshot_is_told(tmp_path):
    class Silent(Net):
        def training_step(self, batch, index):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    with pytest.raises(UsageError, match="training step of Silent neither calls self"):
        fitted(GuessCallback(), folder=tmp_path, net=Silent())


def test_a_look_is_taken_before_the_update(tmp_path):
    callback = GuessCallback((X, Y), max_samples=None, schedule=[0])
    fitted(callback, folder=tmp_path)
    net = Net().eval()
    net.net[1].train()
    with torch.no_grad():
        expected = nn.functional.cross_entropy(net(X), Y).item()
    assert callback.tracker.trajectory()["loss"].item() == pytest.approx(expected, rel=1e-5)


def test_records_reach_the_loggers(tmp_path):
    from lightning.pytorch.loggers import CSVLogger

    fitted(GuessCallback(), folder=tmp_path, logger=CSVLogger(tmp_path, name="log"))
    [written] = tmp_path.glob("log/*/metrics.csv")
    assert "class_bias/max_fraction" in written.read_text().splitlines()[0]


def test_a_checkpoint_keeps_the_records(tmp_path):
    first = GuessCallback(schedule=3)
    trainer, _ = fitted(first, folder=tmp_path, epochs=1)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    second = GuessCallback(schedule=3)
    fitted(second, folder=tmp_path, epochs=2, checkpoint=tmp_path / "half.ckpt")
    assert second.tracker.trajectory().steps.tolist() == [0, 3, 6, 9]
    half = first.tracker.trajectory()
    assert second.tracker.trajectory()["loss"].values[0, :2].tolist() == half["loss"].values[0].tolist()
