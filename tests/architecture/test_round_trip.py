"""Any perceptron, built and read back: the same layers at the same addresses, variances within sampling error."""

import math
from dataclasses import replace
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.architecture.activations import activation_names
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import Dense, Layer, Residual, walk

FORMS = st.fixed_dictionaries(
    {
        "inputs": st.integers(1, 9),
        "classes": st.integers(2, 5),
        "activation": st.sampled_from(activation_names()),
        "bias_variance": st.sampled_from([0.0, 0.5]),
    }
)
NORMS = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "norm": st.sampled_from(["batch", "layer", "rms"]),
            "placement": st.sampled_from(["before", "after"]),
        }
    ),
)
SHAPES = st.one_of(
    st.fixed_dictionaries(
        {
            "depth": st.integers(1, 4),
            "width": st.sampled_from([4, 8, 12]),
            "pool": st.sampled_from([None, ("max", 2), ("avg", 4), ("max", 1)]),
        }
    ),
    st.fixed_dictionaries(
        {
            "depth": st.sampled_from([2, 4]),
            "width": st.integers(2, 9),
            "residual": st.sampled_from([1, 2]),
            "residual_scale": st.sampled_from([1.0, 0.5, -2.0]),
        }
    ),
)


@settings(max_examples=60, deadline=None)
@given(FORMS, NORMS, SHAPES)
def test_addresses_are_named_modules(
    form: dict[str, Any], norm: dict[str, Any], shape: dict[str, Any]
) -> None:
    blueprint = Blueprint.mlp(**form, **norm, **shape)
    module = blueprint.build(seed=0)
    names = [name for name, _ in module.named_modules()]
    described = [layer.address for layer in walk(blueprint.layers)]
    # in the order in which they run; the bodies of the units are the only modules besides
    assert [name for name in names if name and not name.endswith(".body")] == described
    output = module(torch.randn(5, form["inputs"], generator=torch.Generator().manual_seed(0)))
    assert output.shape == (5, form["classes"])
    assert output.dtype == torch.float32


def without_variances(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    plain: list[Layer] = []
    for layer in layers:
        if isinstance(layer, Dense):
            plain.append(replace(layer, weight_variance=1.0, bias_variance=0.0))
        elif isinstance(layer, Residual):
            plain.append(
                replace(layer, body=without_variances(layer.body), shortcut=without_variances(layer.shortcut))
            )
        else:
            plain.append(layer)
    return tuple(plain)


@settings(max_examples=100, deadline=None)
@given(FORMS, NORMS, SHAPES)
def test_what_is_built_reads_back(form: dict[str, Any], norm: dict[str, Any], shape: dict[str, Any]) -> None:
    blueprint = Blueprint.mlp(**form, **norm, **shape)
    found = Blueprint.read(blueprint.build(seed=0))
    assert without_variances(found.layers) == without_variances(blueprint.layers)
    assert (found.inputs, found.classes, found.depth) == (
        blueprint.inputs,
        blueprint.classes,
        blueprint.depth,
    )
    assert found.notes == ()
    if form["bias_variance"] == 0.0:
        assert all(layer.bias_variance == 0.0 for layer in walk(found.layers) if isinstance(layer, Dense))
    overridden = Blueprint.read(
        blueprint.build(seed=0), weight_variance=2.0, bias_variance=form["bias_variance"]
    )
    assert overridden.layers == blueprint.layers


def test_variances_are_read_within_sampling_error() -> None:
    blueprint = Blueprint.mlp(
        inputs=200, depth=6, width=200, weight_variance=1.3, bias_variance=0.4, residual=3
    )
    found = Blueprint.read(blueprint.build(seed=2))
    dense = [layer for layer in walk(found.layers) if isinstance(layer, Dense)]
    assert len(dense) == 8
    for layer in dense:
        # the mean square of n normal numbers has relative standard error √(2/n); five of them
        assert abs(layer.weight_variance / 1.3 - 1) < 5 * math.sqrt(2 / (layer.fan_in * layer.fan_out))
    # the output has two biases only: pool the hidden ones
    biases = [layer.bias_variance for layer in dense[:-1]]
    assert abs(sum(biases) / len(biases) / 0.4 - 1) < 5 * math.sqrt(2 / (200 * len(biases)))
