"""Every kind of data is the same data; every pass is the same pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import firstlight as fl
from firstlight.errors import DataError, UsageError
from firstlight.measurement import batches as batching
from firstlight.measurement.batches import as_batches

X = torch.from_numpy(np.random.default_rng(0).standard_normal((30, 6))).float()
Y = torch.arange(30) % 3


class Pairs(Dataset):
    def __len__(self):
        return 30

    def __getitem__(self, index):
        return X[index], int(Y[index])


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, values, scale=None):
        return self.layer(values if scale is None else values * scale)


class Items(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Unreadable(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise FileNotFoundError(f"picture_{index}.png")


def model():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


REFERENCE = fl.measure(model, X, inits=2)


@pytest.mark.parametrize(
    "data",
    [
        X.numpy(),
        X.numpy().astype(np.float64),
        X.double(),
        (X, Y),
        (X.numpy(), Y.numpy()),
        [X, Y],  # as a loader with the default collate_fn yields them
        [X.numpy(), Y.numpy()],
        TensorDataset(X, Y),
        Pairs(),
        DataLoader(Pairs(), batch_size=7),
        DataLoader(TensorDataset(X), batch_size=30),
        DataLoader(Pairs(), batch_size=7, shuffle=True),
        [X[:10], X[10:]],
        [(X[:10], Y[:10]), (X[10:], Y[10:])],
        [{"input": X[:10], "labels": Y[:10]}, {"input": X[10:], "labels": Y[10:]}],
        {"input": X, "labels": Y},
    ],
    ids=lambda data: type(data).__name__,
)
def test_every_form_is_the_same_data(data):
    profile = fl.measure(model, data, inits=2)
    np.testing.assert_allclose(profile["gamma_init"], REFERENCE["gamma_init"], rtol=2e-5)
    assert (profile.guesses.counts == REFERENCE.guesses.counts).all()
    assert profile.provenance.settings["samples"] == 30


def test_a_one_shot_iterator_is_kept():
    profile = fl.measure(model, iter([X[:10], X[10:]]), inits=3)
    np.testing.assert_allclose(profile["gamma_init"][:2], REFERENCE["gamma_init"], rtol=2e-5)
    generated = fl.measure(model, (part for part in X.split(4)), inits=2)
    np.testing.assert_allclose(generated["gamma_init"], REFERENCE["gamma_init"], rtol=2e-5)


def test_a_large_one_shot_iterator_is_refused(monkeypatch):
    monkeypatch.setattr(batching, "_KEPT_BYTES", 100)
    with pytest.raises(DataError, match="can be read once and holds more than"):
        fl.measure(model, (part for part in X.split(4)), inits=2)


def test_a_large_loader_is_read_again(monkeypatch):
    monkeypatch.setattr(batching, "_KEPT_BYTES", 100)
    loader = DataLoader(Pairs(), batch_size=7, shuffle=True)
    profile = fl.measure(model, loader, inits=2)
    np.testing.assert_allclose(profile["gamma_init"], REFERENCE["gamma_init"], rtol=2e-5)


def test_arguments_by_name():
    data = {"values": X, "scale": torch.full((30, 1), 2.0)}
    doubled = fl.measure(Named, data, inits=2, quantities="mean_square")
    plain = fl.measure(Named, {"values": X}, inits=2, quantities="mean_square")
    assert (doubled["mean_square_init"].values != plain["mean_square_init"].values).all()


class Augmented(Dataset):
    """Draws from every global generator."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        noise = torch.rand(6) + float(np.random.rand())  # noqa: NPY002
        return X[index] + noise


@pytest.mark.parametrize("kept", [0, 2**28])
def test_every_pass_of_a_random_loader_is_the_same(kept, monkeypatch):
    monkeypatch.setattr(batching, "_KEPT_BYTES", kept)

    def read(seed=0):
        found = as_batches(DataLoader(Augmented(), batch_size=5, shuffle=True), seed=seed)
        passes = [torch.cat([batch.args[0] for batch in found]) for _ in range(2)]
        torch.rand(7)
        passes.append(torch.cat([batch.args[0] for batch in found]))
        return passes

    torch.manual_seed(1)
    first = read()
    torch.manual_seed(2)
    second = read()
    assert all(torch.equal(first[0], other) for other in (*first, *second))
    assert not torch.equal(first[0], read(seed=1)[0])


def test_what_a_model_draws_does_not_move_the_loader():
    found = as_batches(DataLoader(Augmented(), batch_size=5, shuffle=True), seed=0)
    quiet = torch.cat([batch.args[0] for batch in found])
    again = as_batches(DataLoader(Augmented(), batch_size=5, shuffle=True), seed=0)
    loud = []
    for batch in again:
        torch.rand(3)
        loud.append(batch.args[0])
    assert torch.equal(quiet, torch.cat(loud))


@pytest.mark.parametrize(
    "data", [X, Pairs(), DataLoader(Pairs(), batch_size=7)], ids=["tensor", "set", "loader"]
)
def test_max_samples(data):
    profile = fl.measure(model, data, inits=1, max_samples=11)
    assert profile.provenance.settings["samples"] == 11
    assert profile.guesses.samples == 11


def test_the_order_of_mini_batches_matters_to_batch_norm_alone():
    ordered = as_batches(X, seed=0, batch_size=10)
    assert ordered.cut is not None
    assert torch.equal(next(iter(ordered.cut(10, False))).args[0], X[:10])
    shuffled = [batch.args[0] for batch in ordered.cut(10, True)]
    assert not torch.equal(shuffled[0], X[:10])
    assert torch.equal(torch.cat(shuffled).sort(0).values, X.sort(0).values)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (torch.zeros(0, 6), "the data is empty"),
        ([], "yields no batch"),
        (DataLoader(TensorDataset(torch.zeros(0, 6))), "yields no batch"),
        ([[]], "a batch is an empty sequence"),
        ([["a", "b"]], "a batch holds no tensor"),
        ([torch.zeros(0, 6)], "a batch is empty"),
        ({"labels": Y}, "a dictionary without inputs"),
        ({"a": X, "b": Y[:5]}, "same number of samples, got {'a': 30, 'b': 5}"),
        (3.5, "cannot read a float; expected a tensor, an array"),
        (np.array(["a"]), "expected numbers, got an array of <U1"),
        (torch.tensor(1.0), "expected samples along the first axis"),
        (X.round().long(), "the inputs are torch.int64, and the model has no embedding"),
        (X.to(torch.complex64), "the inputs are complex; expected floating point"),
        (X.to_sparse(), "expected dense tensors, got torch.sparse_coo; pass x.to_dense"),
        ([X.to_sparse()], "expected dense tensors, got torch.sparse_coo; pass x.to_dense"),
        (
            Items([X[0], X[1, :5]]),
            "Items of 2 cannot be read: RuntimeError: stack expects .* give all samples one shape",
        ),
        (
            Items([object()]),
            "Items of 1 cannot be read: TypeError: default_collate: .*collate_fn of your own",
        ),
        (Items(["cat", "dog"]), "a batch holds no tensor, got list"),
        (Unreadable(), "Unreadable of 3 cannot be read: FileNotFoundError: picture_0.png"),
    ],
)
def test_data_that_cannot_be_used(data, message):
    with pytest.raises(DataError, match=message):
        fl.measure(model, data, inits=1)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("inits", [1, 3])
def test_inputs_that_are_not_finite(value, inits):
    broken = X.clone()
    broken[17, 2] = value
    with pytest.raises(
        DataError, match=r"(NaN|infinite) inputs in 1 of 30 samples of batch 0 \(first: sample 17"
    ):
        fl.measure(model, broken, inits=inits)


def test_a_loader_makes_its_own_batches():
    with pytest.raises(UsageError, match="the DataLoader makes batches of 7, got batch_size=5"):
        fl.measure(model, DataLoader(Pairs(), batch_size=7), inits=1, batch_size=5)


def test_a_list_of_two_batches_is_no_pair():
    halves = [X[:15], X[15:]]
    assert len(list(as_batches(halves, seed=0))) == 2
    tokens = [torch.zeros(4, 7, dtype=torch.long), torch.zeros(4, 7, dtype=torch.long)]
    assert len(list(as_batches(tokens, seed=0))) == 2


def test_whole_numbers_of_numpy_are_whole_numbers():
    expected = fl.measure(model, Pairs(), inits=2, batch_size=8, max_samples=20)
    got = fl.measure(model, Pairs(), inits=np.int32(2), batch_size=np.int64(8), max_samples=np.int64(20))
    assert got.gamma.equals(expected.gamma)
