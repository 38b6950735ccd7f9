"""What hooks see and what they cannot: reused modules, tuples, fused attention, functions, wrappers, ties."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import firstlight as fl
from firstlight.errors import ModelError, UsageError


def inputs(*shape):
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape)).float()


class Reusing(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.shared, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.spare = nn.Linear(6, 6)

    def forward(self, x):
        x = functional.relu(self.first(x))
        x = torch.tanh(self.shared(x))
        x = functional.relu(self.shared(x))
        return self.head(x)


class Tuple(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.GRU(6, 5, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        hidden, _ = self.recurrent(x)
        return {"features": hidden, "logits": self.head(hidden[:, -1])}


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.block(x).mean(1))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 7)
        self.body = nn.Linear(7, 7)
        self.head = nn.Linear(7, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(functional.gelu(self.body(self.embedding(ids))))


def test_reused_modules_are_keyed_by_call():
    profile = fl.measure(Reusing, inputs(20, 6), inits=2, quantities="all")
    assert profile.layers == ["first", "shared#1", "shared#2", "head"]
    model = Reusing()
    kept = fl.measure(model, inputs(20, 6), inits=1, redraw="keep")
    with torch.no_grad():
        second = model.shared(torch.tanh(model.shared(functional.relu(model.first(inputs(20, 6))))))
    assert float(kept.data_variance.sel(layer="shared#2")) == pytest.approx(
        second.var(0, correction=0).mean().item(), rel=1e-5
    )
    only = fl.measure(Reusing, inputs(20, 6), inits=1, layers="shared#2")
    assert only.layers == ["shared#2", "head"]


def test_what_is_not_seen_is_listed():
    profile = fl.measure(Reusing, inputs(20, 6), inits=1)
    missing = {(entry.layer, entry.kind): entry.reason for entry in profile.coverage.missing}
    assert "never ran" in missing["spare", "Linear"]
    assert "called as a function, 2 times" in missing["the model itself", "relu"]
    assert "called as a function" in missing["the model itself", "tanh"]


def test_tuple_and_dictionary_outputs():
    profile = fl.measure(Tuple, inputs(10, 4, 6), inits=2, layers=["recurrent"], quantities="all")
    assert profile.layers == ["recurrent", "head"]
    assert profile.guesses.counts.sum(1).tolist() == [10, 10]
    assert np.isfinite(profile.sensitivity).all()


def test_fused_attention_is_taken_apart_and_its_projection_listed():
    profile = fl.measure(Attending, inputs(10, 4, 8), inits=2, quantities="all")
    assert "block.linear1" in profile.layers
    assert "block.norm2" in profile.layers
    [entry] = [entry for entry in profile.coverage.missing if entry.layer.endswith("out_proj")]
    assert "fused attention" in entry.reason
    assert np.isfinite(profile.sensitivity).all()


def test_tied_weights_stay_tied_and_tokens_carry_noise():
    model = Tied()
    before = model.embedding.weight.clone()
    ids = torch.arange(30).reshape(5, 6) % 11
    profile = fl.measure(model, ids, inits=3, quantities="all")
    assert profile.layers == ["body", "head"]
    assert profile.guesses.counts.sum(1).tolist() == [30] * 3
    assert np.isfinite(profile.sensitivity).all()
    assert np.isfinite(profile.gradient_scale).all()
    assert torch.equal(model.embedding.weight, before)
    assert model.head.weight is model.embedding.weight


def test_in_place_activations_do_not_change_what_was_seen():
    def net(inplace):
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=inplace), nn.Linear(8, 2))

    pictures = [
        fl.measure(lambda inplace=inplace: net(inplace), inputs(20, 6), inits=2, quantities="all")
        for inplace in (False, True)
    ]
    for name, item in pictures[0].variables.items():
        np.testing.assert_array_equal(item.values, pictures[1].variables[name].values, err_msg=name)


def test_choosing_layers():
    net = lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))  # noqa: E731
    x = inputs(9, 6)
    assert fl.measure(net, x, inits=1).layers == ["0", "1", "3"]
    assert fl.measure(net, x, inits=1, layers="all").layers == ["0", "1", "2", "3"]
    assert fl.measure(net, x, inits=1, layers=["re:^[12]$", "~2"]).layers == ["1", "3"]
    predicate = fl.measure(net, x, inits=1, layers=lambda name, module: isinstance(module, nn.ReLU))
    assert predicate.layers == ["2", "3"]
    assert predicate.coordinates["kind"].values.tolist() == ["activation", "dense"]
    with pytest.raises(UsageError, match="the predicate accepts none of the"):
        fl.measure(net, x, inits=1, layers=lambda name, module: False)
    with pytest.raises(UsageError, match=r"'4' matches no layer"):
        fl.measure(net, x, inits=1, layers=["4"])


def test_the_output_is_last_even_where_no_module_made_it():
    class Added(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 2), nn.Linear(6, 2)

        def forward(self, x):
            return self.a(x) + self.b(x)

    profile = fl.measure(Added, inputs(9, 6), inits=1, quantities="all")
    assert profile.layers == ["a", "b", "output"]
    assert np.isfinite(profile.gradient_scale).all()


def test_segmentation_counts_pixels():
    profile = fl.measure(lambda: nn.Conv2d(1, 3, 3, padding=1), inputs(4, 1, 6, 6), inits=2)
    assert profile.guesses.counts.sum(1).tolist() == [144, 144]


def test_channels_last_memory_is_the_same():
    net = lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 2))  # noqa: E731
    x = inputs(5, 3, 8, 8)
    first, second = (
        fl.measure(net, data, inits=2, quantities="all")
        for data in (x, x.contiguous(memory_format=torch.channels_last))
    )
    np.testing.assert_allclose(first["gamma_init"], second["gamma_init"], rtol=1e-4)
    np.testing.assert_allclose(first["effective_rank_init"], second["effective_rank_init"], rtol=1e-4)


def test_compiled_and_parallel_models_are_unwrapped_with_a_note():
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))
    plain = fl.measure(model, inputs(9, 6), inits=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, while it loads its compiler
        compiled = torch.compile(model)
    for wrapped, word in ((compiled, "torch.compile"), (nn.DataParallel(model), "DataParallel")):
        profile = fl.measure(wrapped, inputs(9, 6), inits=2)
        assert profile.layers == plain.layers
        assert (profile.gamma.values == plain.gamma.values).all()
        assert any(word in note for note in profile.provenance.notes)


def test_compiled_parts_run_as_they_were_written():
    """Fresh parts are compiled inside the factory, so that torch loads its compiler during the measurement."""

    def plain():
        return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))

    def factory():
        model = plain()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            model[0] = torch.compile(model[0])
        return model

    found = fl.measure(factory, inputs(9, 6), inits=2, quantities="all")
    expected = fl.measure(plain, inputs(9, 6), inits=2, quantities="all")
    assert (found.sensitivity.values == expected.sensitivity.values).all()
    assert any("torch.compile inside the model" in note for note in found.provenance.notes)


def test_what_hides_its_layers_is_refused_by_name():
    class FullyShardedDataParallel(nn.Module):
        pass

    class RecursiveScriptModule(nn.Module):
        pass

    class ScriptModule(RecursiveScriptModule):
        pass

    with pytest.raises(ModelError, match="FullyShardedDataParallel keeps only shards"):
        fl.measure(FullyShardedDataParallel(), inputs(3, 3))
    with pytest.raises(ModelError, match="is compiled TorchScript"):
        fl.measure(ScriptModule(), inputs(3, 3))
    with pytest.raises(ModelError, match=r"ScriptModule \(at 1\) is compiled TorchScript"):
        fl.measure(nn.Sequential(nn.Linear(3, 3), ScriptModule()), inputs(3, 3))
    with pytest.raises(ModelError, match=r"FullyShardedDataParallel \(at 0\) keeps only shards"):
        fl.measure(lambda: nn.Sequential(FullyShardedDataParallel()), inputs(3, 3))


def test_what_computes_a_weight_is_no_layer():
    def factory():
        norms = nn.utils.parametrizations
        return nn.Sequential(
            norms.weight_norm(nn.Linear(6, 4)), nn.ReLU(), norms.spectral_norm(nn.Linear(4, 2))
        )

    profile = fl.measure(factory, inputs(9, 6), inits=2, quantities="all")
    assert profile.layers == ["0", "1", "2"]
    assert profile.coverage.complete


class Borrowing(nn.Module):
    """Weights used by function, and a layer that no address leads to."""

    def __init__(self):
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.randn(4, 6)), nn.Linear(4, 2)
        self.hidden = [nn.Linear(4, 4)]

    def forward(self, x):
        return self.head(self.hidden[0](nn.functional.linear(x, self.weight)))


def test_weights_used_by_function_are_listed():
    [listed] = fl.measure(Borrowing, inputs(9, 6), inits=1).coverage.missing
    assert (listed.layer, listed.kind) == ("the model itself", "linear")
    assert "2 times" in listed.reason


class Recurring(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.recurrent = nn.Embedding(20, 8), nn.LSTM(8, 6, batch_first=True)
        self.own, self.head = Scaling(6), nn.Linear(6, 3)

    def forward(self, ids):
        return self.head(self.own(self.recurrent(self.embedding(ids))[0][:, -1]))


class Scaling(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(units))

    def forward(self, x):
        return x * self.scale


def test_layers_of_any_kind_that_hold_weights_are_standard():
    ids = torch.randint(0, 20, (7, 5), generator=torch.Generator().manual_seed(0))
    profile = fl.measure(Recurring, ids, inits=2, quantities="all")
    assert profile.layers == ["recurrent", "own", "head"]
    assert np.isfinite(profile.sensitivity).all()
    assert np.isfinite(profile.gradient_scale).all()
    assert any("enter at embedding" in note for note in profile.provenance.notes)
