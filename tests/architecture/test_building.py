"""Blueprint.build and Blueprint.initialize: addresses, weights, seeds and what the module computes."""

import math

import pytest
import torch
from torch import Tensor, nn

from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.building import Residual
from firstlight.architecture.layers import Activation, Dense, Unmodelled, walk
from firstlight.errors import ModelError, UsageError


def test_what_the_classes_are() -> None:
    module = Blueprint.mlp(inputs=4, depth=1, width=8, norm="rms", pool=("max", 2)).build(seed=0)
    assert [type(part).__name__ for part in module.children()] == [
        "Flatten",
        "Linear",
        "RMSNorm",
        "ReLU",
        "MaxPool1d",
        "Linear",
    ]
    assert module.get_submodule("norm1").eps == 1e-5


def test_units_that_fill_no_pool_are_left_out() -> None:
    blueprint = Blueprint.mlp(inputs=4, depth=2, width=100, pool=("avg", 9), classes=3)
    module = blueprint.build(seed=0)
    assert module(torch.zeros(5, 4)).shape == (5, 3)
    assert module.get_submodule("output").in_features == 11
    assert [type(layer) for layer in Blueprint.read(module).layers] == [type(x) for x in blueprint.layers]


def test_a_seed_is_a_whole_number() -> None:
    blueprint = Blueprint.mlp(inputs=4, depth=1, width=8)
    for seed in ("a", 1.5, True, -1, 2**64):
        with pytest.raises(
            UsageError, match=r"build\(seed\): expected a whole number from 0 to 2\^64 - 1, .*, got"
        ):
            blueprint.build(seed=seed)


def test_residual_module_adds_the_scaled_body() -> None:
    x = torch.tensor([[1.0, -2.0]])
    assert torch.equal(Residual(nn.ReLU(), scale=0.5)(x), torch.tensor([[1.5, -2.0]]))
    assert torch.equal(Residual(nn.ReLU(), shortcut=nn.Flatten())(x), torch.tensor([[2.0, -2.0]]))
    assert "scale=0.5" in repr(Residual(nn.ReLU(), scale=0.5))


def test_pre_activation_norm_and_scale_do_what_the_formula_says() -> None:
    blueprint = Blueprint.mlp(inputs=3, depth=1, width=5, residual=1, residual_scale=0.5, norm="layer")
    module = blueprint.build(seed=3)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    stream = module.get_submodule("stem")(x)
    normed = (stream - stream.mean(1, keepdim=True)) / (
        stream.var(1, correction=0, keepdim=True) + 1e-5
    ).sqrt()
    inside = module.get_submodule("unit1.body.linear1")(normed.relu())
    torch.testing.assert_close(module(x), module.get_submodule("output")(stream + 0.5 * inside))


def test_weights_follow_the_law() -> None:
    blueprint = Blueprint.mlp(inputs=300, depth=2, width=400, weight_variance=1.7, bias_variance=0.3)
    module = blueprint.build(seed=1)
    for layer in walk(blueprint.layers):
        if not isinstance(layer, Dense):
            continue
        part = module.get_submodule(layer.address)
        assert isinstance(part.weight, Tensor)
        assert isinstance(part.bias, Tensor)
        count = part.weight.numel()
        # the mean square of n standard normal numbers is 1 ± √(2/n); their mean 0 ± 1/√n; five standard errors
        assert layer.fan_in * part.weight.double().square().mean().item() == pytest.approx(
            1.7, rel=5 * math.sqrt(2 / count)
        )
        assert abs(part.weight.double().mean().item()) < 5 * math.sqrt(1.7 / layer.fan_in / count)
        biases = part.bias.numel()
        assert part.bias.double().square().mean().item() == pytest.approx(0.3, rel=5 * math.sqrt(2 / biases))


def test_biases_are_there_and_zero_without_variance() -> None:
    module = Blueprint.mlp(inputs=3, depth=1, width=4).build(seed=0)
    assert all(bool((part.bias == 0).all()) for part in module.modules() if isinstance(part, nn.Linear))


def states_equal(one: nn.Module, other: nn.Module) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)


def test_a_seed_names_the_weights_and_leaves_the_global_state() -> None:
    blueprint = Blueprint.mlp(inputs=3, depth=2, width=4, norm="batch", bias_variance=0.1)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = blueprint.build(seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert states_equal(one, blueprint.build(seed=7))
    assert not states_equal(one, blueprint.build(seed=8))


def test_no_seed_draws_from_the_global_state() -> None:
    blueprint = Blueprint.mlp(inputs=3, depth=2, width=4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        one, two = blueprint.build(), blueprint.build()
        torch.manual_seed(5)
        again = blueprint.build()
    assert states_equal(one, again)
    assert not states_equal(one, two)


def test_initialize_draws_everything_anew_in_place() -> None:
    blueprint = Blueprint.mlp(inputs=3, depth=2, width=4, residual=1, norm="batch", bias_variance=0.2)
    module = blueprint.build(seed=0)
    parameters = {name: tensor.data_ptr() for name, tensor in module.named_parameters()}
    module.train()
    module(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)))  # moves the running statistics
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.fill_(9.0)
    blueprint.initialize(module, torch.Generator().manual_seed(4))
    assert states_equal(module, blueprint.build(seed=4))
    assert {name: tensor.data_ptr() for name, tensor in module.named_parameters()} == parameters
    assert all(tensor.requires_grad and tensor.grad is None for tensor in module.parameters())


def test_initialize_works_on_a_module_that_was_read() -> None:
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    Blueprint.read(module, weight_variance=2.0, bias_variance=0.0).initialize(
        module, torch.Generator().manual_seed(0)
    )
    assert isinstance(module[0].bias, Tensor)
    assert bool((module[0].bias == 0).all())


def test_user_modules_are_copied_into_each_place() -> None:
    class Gate(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.sigmoid(1.7 * x)

    own = Gate()
    module = Blueprint.mlp(inputs=3, depth=2, width=4, activation=own).build(seed=0)
    parts = [part for part in module.modules() if isinstance(part, Gate)]
    assert len(parts) == 2
    assert own not in parts
    lines = Blueprint.mlp(inputs=3, depth=1, width=4, activation=lambda x: torch.clamp(x, -0.3, 0.7)).build(
        seed=0
    )
    assert module(torch.ones(1, 3)).shape == (1, 2)
    assert lines(torch.ones(1, 3)).shape == (1, 2)


def test_nested_sequentials_that_were_read_are_built_again() -> None:
    module = nn.Sequential(
        nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Sequential(nn.Linear(4, 2, bias=False))
    )
    blueprint = Blueprint.read(module)
    again = blueprint.build(seed=0)
    assert [name for name, _ in again.named_modules()] == [name for name, _ in module.named_modules()]
    assert again.get_submodule("1.0").bias is None


def test_what_cannot_be_built_is_refused_by_name() -> None:
    blueprint = Blueprint((Dense("a", 2, 2), Unmodelled("b.lstm", "LSTM", "no rule")), 2, 2)
    with pytest.raises(
        ModelError, match=r"b.lstm: expected a layer that can be built, got Unmodelled \(no rule\)"
    ):
        blueprint.build()
    with pytest.raises(ModelError, match=r"b.lstm \(LSTM\): expected a layer whose law of weights is known"):
        blueprint.initialize(nn.ModuleDict({"a": nn.Linear(2, 2)}))
    with pytest.raises(ModelError, match=r"a: expected a module of that name, .* got Linear without one"):
        blueprint.initialize(nn.Linear(2, 2))
    twice = Blueprint((Dense("a", 2, 2), Dense("a#2", 2, 2)), 2, 2)
    with pytest.raises(ModelError, match=r"a#2: expected layers that are modules and run once"):
        twice.build()
    numeric = ActivationFunction("cbrt", lambda u: u ** (1 / 3), lambda u: u)
    with pytest.raises(
        ModelError, match=r"activation 'cbrt': expected a registered name or a callable on tensors"
    ):
        Blueprint((Activation("c", numeric),), 2, 2).build()


def test_branches_of_one_layer_are_built_as_they_were_read() -> None:
    body = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
    module = nn.Sequential(Residual(body, shortcut=nn.Linear(3, 3), scale=0.5), Residual(nn.Linear(3, 3)))
    blueprint = Blueprint.read(module)
    built = blueprint.build(seed=0)
    assert Blueprint.read(built, weight_variance=1.0, bias_variance=0.0).layers == (
        Blueprint.read(module, weight_variance=1.0, bias_variance=0.0).layers
    )
