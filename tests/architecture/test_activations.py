"""Names, parameters and errors of the register of activations."""

import subprocess
import sys

import numpy as np
import pytest

from firstlight.architecture.activations import ActivationFunction, activation, activation_names
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.kinked_activations import leaky_relu
from firstlight.errors import UsageError

EXPECTED = {
    "relu",
    "leaky_relu",
    "gelu",
    "gelu_tanh",
    "silu",
    "tanh",
    "erf",
    "sigmoid",
    "softplus",
    "elu",
    "selu",
    "mish",
    "hardtanh",
    "abs",
    "linear",
    "sin",
    "cos",
    "shifted_relu",
    "hardsigmoid",
    "hardswish",
    "relu6",
    "softsign",
    "celu",
}


def test_every_promised_name_is_there() -> None:
    assert set(activation_names()) == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_spec_reads_back(name: str) -> None:
    function = activation(name)
    assert function.name == name
    assert function.spec == name
    assert activation(function.spec) == function
    assert activation(function) is function


@pytest.mark.parametrize(
    "spec",
    [
        "leaky_relu:negative_slope=0.2",
        ("leaky_relu", {"negative_slope": 0.2}),
        ["leaky_relu", {"negative_slope": 0.2}],
        "Leaky-ReLU: negative_slope = 0.2",
        leaky_relu(0.2),
        leaky_relu(negative_slope=0.2),
    ],
)
def test_parameters_in_every_form(spec: object) -> None:
    function = activation(spec)
    assert function.parameters == (("negative_slope", 0.2),)
    assert function.slopes == (0.2, 1.0)
    assert function.spec == "leaky_relu:negative_slope=0.2"
    np.testing.assert_array_equal(function.value(np.array([-2.0, 0.0, 3.0])), [-0.4, 0.0, 3.0])


def test_a_function_made_by_hand_is_built_as_it_was_made() -> None:
    network = Blueprint.mlp(inputs=3, depth=1, width=2, activation=leaky_relu(0.4)).build()
    [slope] = [item.negative_slope for item in network.modules() if hasattr(item, "negative_slope")]
    assert slope == 0.4
    with pytest.raises(UsageError, match="negative_slope: expected a finite number"):
        leaky_relu(float("nan"))


def test_default_parameters_are_left_out() -> None:
    assert activation("elu:alpha=1") == activation("elu")
    assert activation("hardtanh:min_val=-2,max_val=2").spec == "hardtanh:min_val=-2.0,max_val=2.0"
    assert activation("hardtanh:min_val=-2,max_val=2").kinks == (-2.0, 2.0)


def test_aliases() -> None:
    assert activation("identity") == activation("linear")
    assert activation("swish") == activation("silu")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rleu", r"activation: expected one of 'abs', 'celu'.* got 'rleu'; did you mean 'relu'"),
        (
            "leaky_relu:negative=2",
            r"parameter: expected one of 'negative_slope', got 'negative'; did you mean",
        ),
        ("relu:alpha=1", r"activation 'relu': takes no parameters, got 'alpha'"),
        (
            "leaky_relu:0.2",
            r"expected name:parameter=value .* got '0.2'; for example 'leaky_relu:negative_slope=0.2'",
        ),
        ("elu:alpha=nan", r"activation 'elu', alpha: expected a finite number, got nan"),
        ("elu:alpha=big", r"activation 'elu', alpha: expected a finite number, got 'big'"),
        (("elu", {"alpha": True}), r"alpha: expected a finite number, got True"),
        (("elu", 3), r"expected a pair \(name, \{parameter: value\}\), got int in second place"),
        ("celu:alpha=0", r"activation 'celu', alpha: expected a positive number, got 0.0"),
        ("softplus:beta=-1", r"activation 'softplus', beta: expected a positive number, got -1.0"),
        ("hardtanh:min_val=2", r"activation 'hardtanh': expected min_val < max_val, got 2.0 and 1.0"),
        (3, r"activation: expected a registered name, a pair .* got 3 of type int; names: abs, celu"),
        (None, r"got None of type NoneType"),
    ],
)
def test_what_is_no_activation_says_so_in_one_sentence(spec: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        activation(spec)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_slopes_and_shift_are_the_function_exactly(name: str) -> None:
    function = activation(name)
    if function.slopes is None:
        assert name not in {"relu", "leaky_relu", "abs", "linear", "shifted_relu"}
        return
    u = np.array([-1e100, -7.5, -1e-200, 0.0, 1e-200, 0.3, 1e100])
    left, right = function.slopes
    expected = function.shift + left * np.minimum(u, 0) + right * np.maximum(u, 0)
    np.testing.assert_array_equal(function.value(u), expected)


def test_shifted_relu_has_mean_zero_at_unit_variance() -> None:
    # E max(z, 0) = 1/√(2π) for z ~ N(0, 1): integrate the tent exactly, by parts
    assert activation("shifted_relu").shift == pytest.approx(-1 / np.sqrt(2 * np.pi), abs=1e-16)
    assert activation("shifted_relu:shift=-0.25").value(np.array(1.0)) == 0.75


def test_functions_can_be_keys_and_compare_by_what_they_are() -> None:
    assert len({activation("relu"), activation("relu"), activation("tanh")}) == 2
    own = ActivationFunction("own", np.cbrt, lambda u: 1 / (3 * np.cbrt(u) ** 2), None)
    assert own.kinks is None
    assert activation(own) is own


def test_no_torch_is_imported_for_names_and_blueprints() -> None:
    program = (
        "import sys\n"
        "import firstlight.architecture.blueprint as b\n"
        "blueprint = b.Blueprint.parse('mlp:depth=3,norm=layer,activation=gelu')\n"
        "repr(blueprint), blueprint.describe(), blueprint.to_dict(), blueprint._repr_html_()\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
