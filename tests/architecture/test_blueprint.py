"""Blueprint.mlp: structure, errors, words and dictionaries."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from firstlight.architecture.activations import activation
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import Activation, Dense, Norm, Pool, Residual, Unmodelled, walk
from firstlight.errors import UsageError


def addresses(blueprint: Blueprint) -> list[str]:
    return [layer.address for layer in walk(blueprint.layers)]


def test_plain_stack() -> None:
    blueprint = Blueprint.mlp(inputs=6, depth=2, width=4, classes=3, weight_variance=1.5, bias_variance=0.1)
    assert addresses(blueprint) == ["flatten", "linear1", "activation1", "linear2", "activation2", "output"]
    dense = [layer for layer in blueprint.layers if isinstance(layer, Dense)]
    assert [(layer.fan_in, layer.fan_out) for layer in dense] == [(6, 4), (4, 4), (4, 3)]
    assert {(layer.weight_variance, layer.bias_variance) for layer in dense} == {(1.5, 0.1)}
    assert (blueprint.depth, blueprint.width, blueprint.activation) == (2, 4, activation("relu"))
    assert (blueprint.inputs, blueprint.classes, blueprint.unmodelled) == (6, 3, ())


def test_norm_placements() -> None:
    before = Blueprint.mlp(depth=1, width=4, norm="batch")
    assert addresses(before) == ["flatten", "linear1", "norm1", "activation1", "output"]
    after = Blueprint.mlp(depth=1, width=4, norm="rms", placement="after")
    assert addresses(after) == ["flatten", "linear1", "activation1", "norm1", "output"]
    assert Blueprint.mlp(depth=1, norm="layer") == Blueprint.mlp(depth=1, norm="layer", placement="before")


def test_pool_divides_what_the_next_layer_sees_and_comes_before_the_norm() -> None:
    blueprint = Blueprint.mlp(depth=2, width=12, pool=("avg", 3), norm="layer", placement="after")
    assert addresses(blueprint)[1:5] == ["linear1", "activation1", "pool1", "norm1"]
    assert [layer.fan_in for layer in blueprint.layers if isinstance(layer, Dense)] == [1000, 4, 4]
    assert {layer.width for layer in blueprint.layers if isinstance(layer, Norm)} == {4}
    assert {(layer.kind, layer.size) for layer in blueprint.layers if isinstance(layer, Pool)} == {("avg", 3)}
    before = Blueprint.mlp(depth=1, width=12, pool=("max", 3), norm="layer")
    assert {layer.width for layer in before.layers if isinstance(layer, Norm)} == {12}


def test_residual_units() -> None:
    blueprint = Blueprint.mlp(inputs=6, depth=4, width=8, residual=2, residual_scale=0.5, norm="batch")
    assert [layer.address for layer in blueprint.layers] == ["flatten", "stem", "unit1", "unit2", "output"]
    unit = blueprint.layers[3]
    assert isinstance(unit, Residual)
    assert unit.scale == 0.5
    assert [layer.address for layer in unit.body] == [
        f"unit2.body.{name}"
        for name in ("norm1", "activation1", "linear1", "norm2", "activation2", "linear2")
    ]
    after = Blueprint.mlp(depth=2, width=8, residual=2, norm="rms", placement="after").layers[2]
    assert isinstance(after, Residual)
    assert [layer.address.rpartition(".")[2] for layer in after.body] == ["activation1", "norm1", "linear1"]
    assert blueprint.depth == 4
    assert blueprint.width == 8


def test_numbers_of_numpy_are_numbers() -> None:
    given: dict[str, Any] = {"depth": np.int64(3), "width": np.int32(4), "bias_variance": np.float32(0.25)}
    assert Blueprint.mlp(**given) == Blueprint.mlp(depth=3, width=4, bias_variance=0.25)


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"depth": 0}, r"depth: expected at least 1, got 0; depth counts hidden layers"),
    ({"depth": 2.0}, r"depth: expected a whole number of at least 1, got 2.0"),
    ({"depth": True}, r"depth: expected a whole number of at least 1, got True"),
    ({"depth": "3"}, r"depth: expected a whole number of at least 1, got '3'"),
    ({"width": 0}, r"width: expected at least 1, got 0"),
    ({"inputs": -5}, r"inputs: expected at least 1, got -5"),
    ({"classes": 1}, r"classes: expected at least 2, got 1; a guess needs two labels"),
    ({"classes": 2.5}, r"classes: expected a whole number"),
    ({"activation": "rleu"}, r"activation: expected one of .* got 'rleu'; did you mean 'relu'"),
    (
        {"norm": "bacth"},
        r"norm: expected one of 'batch', 'layer', 'rms', got 'bacth'; did you mean 'batch'\?",
    ),
    (
        {"norm": "layer", "placement": "befor"},
        r"placement: expected one of 'before', 'after', .* mean 'before'\?",
    ),
    ({"placement": "after"}, r"placement='after': expected a norm to place, got norm=None; pass norm="),
    ({"pool": ("max", 0)}, r"pool size: expected at least 1, got 0"),
    ({"pool": ("max", 2.0)}, r"pool size: expected a whole number of at least 1, got 2.0"),
    ({"pool": ("mx", 2)}, r"pool: expected one of 'max', 'avg', got 'mx'; did you mean 'max'\?"),
    (
        {"pool": ("max", 1001)},
        r"pool=\('max', 1001\): expected at most as many units as width=1000, got 1001; widen the layer",
    ),
    ({"pool": 4}, r"pool: expected None, \('max', K\), \('avg', K\) or the words 'max/K', got 4"),
    ({"pool": ("max", 2), "residual": 1}, r"pool=\('max', 2\): expected None together with residual=1"),
    ({"depth": 5, "residual": 2}, r"residual: expected a number of units that divides depth=5, got 2"),
    ({"residual": 0}, r"residual: expected at least 1, got 0"),
    ({"residual_scale": 0.5}, r"residual_scale=0.5: expected 1.0 without residual units"),
    ({"residual": 1, "residual_scale": float("inf")}, r"residual_scale: expected a finite number, got inf"),
    (
        {"weight_variance": -1.0},
        r"weight_variance: expected a finite number above 0, got -1.0; weights are N",
    ),
    ({"weight_variance": 0}, r"weight_variance: expected a finite number above 0, got 0"),
    ({"weight_variance": True}, r"weight_variance: expected a finite number above 0, got True"),
    ({"bias_variance": float("nan")}, r"bias_variance: expected a finite number of at least 0, got nan"),
    (
        {"bias_variance": -0.1},
        r"bias_variance: expected a finite number of at least 0, got -0.1; biases are N",
    ),
    ({"input_variance": 0.0}, r"input_variance: expected a finite number above 0, got 0.0"),
    ({"input_mean": "a"}, r"input_mean: expected a finite number, got 'a'"),
]


@pytest.mark.parametrize(("given", "message"), ERRORS, ids=[str(given) for given, _ in ERRORS])
def test_what_cannot_be_is_refused_in_one_sentence(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Blueprint.mlp(**{"depth": 1, **given})
    assert "\n" not in str(caught.value)


CASES: list[dict[str, Any]] = [
    {"depth": 1},
    {"depth": 20, "width": 100, "norm": "layer", "placement": "before", "pool": ("max", 2)},
    {"depth": 4, "width": 8, "residual": 2, "residual_scale": 0.5, "norm": "rms", "placement": "after"},
    {"depth": 3, "activation": "leaky_relu:negative_slope=0.2", "input_mean": 0.5, "input_variance": 2.0},
    {"depth": 3, "activation": ("hardtanh", {"min_val": -2.0, "max_val": 2.0}), "inputs": 7, "classes": 10},
]


@pytest.mark.parametrize("given", CASES, ids=str)
def test_the_repr_is_the_call(given: dict[str, Any]) -> None:
    blueprint = Blueprint.mlp(**given)
    again = eval(repr(blueprint), {"Blueprint": Blueprint})
    assert again == blueprint
    assert "\n" not in repr(blueprint)


@pytest.mark.parametrize("given", CASES, ids=str)
def test_dictionaries_survive_json(given: dict[str, Any]) -> None:
    blueprint = Blueprint.mlp(**given)
    again = Blueprint.from_dict(json.loads(json.dumps(blueprint.to_dict())))
    assert again == blueprint
    assert repr(again) == repr(blueprint)


def test_dictionaries_of_read_modules_survive_json() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
    blueprint = Blueprint.read(module)
    assert Blueprint.from_dict(json.loads(json.dumps(blueprint.to_dict()))) == blueprint


def test_callables_leave_their_name_and_are_refused_on_the_way_back() -> None:
    def bent(x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(x, -0.3, 0.7)

    plain = json.loads(json.dumps(Blueprint.mlp(depth=1, activation=bent).to_dict()))
    assert plain["arguments"]["activation"] == {"activation": "bent", "callable": True}
    with pytest.raises(
        UsageError, match=r"Python callable 'bent', of which a dictionary keeps the name only; make"
    ):
        Blueprint.from_dict(plain)


def test_other_dictionaries_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"expected what Blueprint.to_dict writes .* got kind 'profile', version None"
    ):
        Blueprint.from_dict({"kind": "profile"})


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (
            "mlp:depth=20,norm=layer,placement=before,pool=max/2",
            {"depth": 20, "norm": "layer", "pool": ("max", 2)},
        ),
        ("mlp:depth=4,residual=2,residual_scale=0.5", {"depth": 4, "residual": 2, "residual_scale": 0.5}),
        ("mlp: depth = 3 , width = 10 , norm = none", {"depth": 3, "width": 10}),
        (
            "mlp:activation=hardtanh:min_val=-2,max_val=2,depth=1",
            {"depth": 1, "activation": ("hardtanh", {"min_val": -2, "max_val": 2})},
        ),
        (
            "mlp:depth=1,weight_variance=1e-3,input_mean=-1",
            {"depth": 1, "weight_variance": 1e-3, "input_mean": -1},
        ),
    ],
)
def test_words_are_read(words: str, given: dict[str, Any]) -> None:
    assert Blueprint.parse(words) == Blueprint.mlp(**given)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "mlp:dept=3",
            r"blueprint 'mlp:dept=3': expected one of 'inputs', 'depth', .* did you mean 'depth'\?",
        ),
        ("mlp:depth=x", r"depth: expected a whole number of at least 1, got 'x'"),
        ("mlp:depth=2.5", r"depth: expected a whole number of at least 1, got 2.5"),
        ("mlp:depth=2,depth=3", r"expected 'depth' once, got it twice"),
        ("mlp:depth", r"expected argument=value with commas between, got 'depth'; for example"),
        ("mlp", r"blueprint 'mlp': expected a depth, got none; for example 'mlp:depth=20'"),
        ("cnn:depth=3", r"expected one of 'mlp', got 'cnn'"),
        ("mlp:depth=1,pool=max/0", r"pool size: expected at least 1, got 0"),
        ("mlp:depth=1,pool=max/x", r"pool size: expected a whole number of at least 1, got 'x'"),
        ("mlp:depth=1,placement=after", r"placement='after': expected a norm to place"),
        (
            "mlp:depth=1,activation=elu:beta=2",
            r"expected one of 'inputs', .* got 'beta'|parameter: expected one of 'alpha'",
        ),
    ],
)
def test_words_that_mean_nothing_are_refused(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Blueprint.parse(words)


def test_tables_name_every_layer() -> None:
    blueprint = Blueprint.mlp(inputs=6, depth=4, width=8, residual=2, norm="batch", activation="gelu")
    for table in (blueprint.describe(), blueprint._repr_html_()):
        for layer in walk(blueprint.layers):
            assert layer.address in table
        assert "gelu" in table
    marked = Blueprint((Unmodelled("lstm", "LSTM", "a < b & so on"),), None, 2)
    assert "unmodelled: a < b & so on" in marked.describe()
    assert "a &lt; b &amp; so on" in marked._repr_html_()
    assert repr(marked) == "<Blueprint of network: 1 layers, 2 classes, 1 unmodelled>"


def test_conveniences_where_there_is_no_one_answer() -> None:
    relu, tanh = Activation("a", activation("relu")), Activation("b", activation("tanh"))
    mixed = Blueprint((Dense("x", 2, 3), relu, Dense("y", 3, 4), tanh, Dense("z", 4, 2)), 2, 2)
    assert (mixed.width, mixed.activation, mixed.depth) == (None, None, 2)
