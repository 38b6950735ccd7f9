"""Blueprint.read: residual networks, functions, wrappers, and reasons for what has no description."""

import math
import re
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import (
    Activation,
    AdaptivePool,
    Convolution,
    Dense,
    Norm,
    Pass,
    Pool,
    PositionPool,
    Residual,
    Unmodelled,
    walk,
)
from firstlight.errors import ModelError, UsageError


def kinds(blueprint: Blueprint) -> list[tuple[str, str]]:
    return [(layer.address, type(layer).__name__) for layer in walk(blueprint.layers)]


def function_at(blueprint: Blueprint, address: str) -> str:
    (found,) = [layer for layer in walk(blueprint.layers) if layer.address == address]
    assert isinstance(found, Activation)
    return found.function.spec


def reason_at(blueprint: Blueprint, address: str) -> str:
    (found,) = [layer for layer in walk(blueprint.layers) if layer.address == address]
    assert isinstance(found, Unmodelled)
    return found.reason


class Block(nn.Module):
    """A unit of a residual convolutional network."""

    def __init__(self, coming: int, going: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(coming, going, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(going)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(going, going, 3, padding="same", bias=False)
        self.bn2 = nn.BatchNorm2d(going)
        self.down: nn.Module | None = None
        if stride > 1:
            self.down = nn.Sequential(nn.Conv2d(coming, going, 1, stride, bias=False), nn.BatchNorm2d(going))

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.down is None else self.down(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.pool = nn.MaxPool2d(2)
        self.block1 = Block(8, 8)
        self.block2 = Block(8, 16, 2)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(functional.relu(self.conv1(x)))
        x = self.average(self.block2(self.block1(x)))
        return self.fc(torch.flatten(x, 1))


def test_residual_convolutional_network() -> None:
    blueprint = Blueprint.read(ResNet())
    assert kinds(blueprint) == [
        ("conv1", "Convolution"),
        ("#relu", "Activation"),
        ("pool", "Unmodelled"),
        ("block1#add", "Residual"),
        ("block1.conv1", "Convolution"),
        ("block1.bn1", "Norm"),
        ("block1.relu", "Activation"),
        ("block1.conv2", "Convolution"),
        ("block1.bn2", "Norm"),
        ("block1.relu#2", "Activation"),
        ("block2#add", "Residual"),
        ("block2.conv1", "Convolution"),
        ("block2.bn1", "Norm"),
        ("block2.relu", "Activation"),
        ("block2.conv2", "Convolution"),
        ("block2.bn2", "Norm"),
        ("block2.down.0", "Convolution"),
        ("block2.down.1", "Norm"),
        ("block2.relu#2", "Activation"),
        ("average", "AdaptivePool"),
        ("#flatten", "Pass"),
        ("fc", "Dense"),
    ]
    second = blueprint.layers[5]
    assert isinstance(second, Residual)
    assert [layer.address for layer in second.shortcut] == ["block2.down.0", "block2.down.1"]
    first = blueprint.layers[0]
    assert isinstance(first, Convolution)
    assert (first.kernel, first.stride, first.padding, first.has_bias) == ((3, 3), (1, 1), (0, 0), True)
    conv2 = second.body[3]
    assert isinstance(conv2, Convolution)
    assert conv2.padding == (1, 1)
    assert "neighbouring positions" in reason_at(blueprint, "pool")
    assert (blueprint.inputs, blueprint.classes) == (None, 10)


def test_an_example_tells_the_number_of_inputs_and_runs_on_a_copy() -> None:
    module = ResNet()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    blueprint = Blueprint.read(module, example=torch.randn(2, 3, 16, 16))
    assert (blueprint.inputs, blueprint.classes) == (3 * 16 * 16, 10)
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert module.training
    with pytest.raises(
        ModelError,
        match=r"Blueprint.read\(example=…\): expected a batch that the model takes, got one of shape \(2, 5\)",
    ):
        Blueprint.read(module, example=torch.randn(2, 5))


def test_convolution_variance_counts_its_own_inputs() -> None:
    module = nn.Conv2d(4, 6, 3, groups=2)
    with torch.no_grad():
        module.weight.fill_(0.5)
        assert module.bias is not None
        module.bias.fill_(0.0)
    (layer,) = Blueprint.read(module).layers
    assert isinstance(layer, Convolution)
    # fan_in = 4/2 · 9 inputs for each output
    assert layer.weight_variance == pytest.approx(18 * 0.25)
    assert layer.bias_variance == 0.0


class Functions(nn.Module):
    """Whatever people write into forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.shared = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.beta = nn.Parameter(torch.tensor(1.5))
        self.scale = nn.Parameter(0.1 * torch.ones(8))
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if mask is not None:
            x = x * mask
        x = self.first(x.view(x.size(0), -1)) / 2
        x = (x * torch.sigmoid(self.beta * x)).tanh()
        x = x + 0.3 * self.drop(self.shared(functional.leaky_relu(x, 0.2)))
        x = x - self.scale * self.shared(self.norm(0.5 * x * (1 + torch.erf(x / math.sqrt(2)))))
        return self.last(functional.dropout(functional.softplus(x), 0.2)), x


def test_functions_written_out_in_forward() -> None:
    blueprint = Blueprint.read(Functions())
    assert kinds(blueprint) == [
        ("#view", "Pass"),
        ("first", "Dense"),
        ("#truediv", "Activation"),
        ("#mul2", "Activation"),
        ("#tanh", "Activation"),
        ("#add", "Residual"),
        ("#leaky_relu", "Activation"),
        ("shared", "Dense"),
        ("drop", "Pass"),
        ("#sub", "Residual"),
        ("#mul5", "Activation"),
        ("norm", "Norm"),
        ("shared#2", "Dense"),
        ("#softplus", "Activation"),
        ("#dropout", "Pass"),
        ("last", "Dense"),
    ]
    residual = [layer.scale for layer in blueprint.layers if isinstance(layer, Residual)]
    assert residual == pytest.approx([0.3, -0.1])
    assert function_at(blueprint, "#leaky_relu") == "leaky_relu:negative_slope=0.2"
    assert function_at(blueprint, "#mul5") == "gelu"
    (halved,) = [layer for layer in blueprint.layers if layer.address == "#truediv"]
    assert isinstance(halved, Activation)
    assert halved.function.slopes == (0.5, 0.5)
    (gate,) = [layer for layer in blueprint.layers if layer.address == "#mul2"]
    assert isinstance(gate, Activation)
    u = torch.linspace(-3, 3, 13, dtype=torch.float64)
    torch.testing.assert_close(torch.from_numpy(gate.function.value(u.numpy())), u * torch.sigmoid(1.5 * u))
    assert blueprint.notes == (
        "dropout is described as off",
        "shared runs more than once with the same weights; each run is described as drawn anew",
        "it returns 2 values; the first is described",
    )
    assert (blueprint.inputs, blueprint.classes, blueprint.unmodelled) == (6, 4, ())


class Pieces(nn.Module):
    """Modules of the user's own, with and without parameters."""

    class Gate(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.sigmoid(x)

    class Swish(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.beta = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return x * torch.sigmoid(self.beta * x)

    class Affine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((5, 4), 0.5))
            self.bias = nn.Parameter(torch.zeros(5))

        def forward(self, x: Tensor) -> Tensor:
            return functional.linear(x, self.weight, self.bias)

    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 5))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.body(x)

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([self.Affine(), self.Gate(), self.Wide(), self.Swish()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_a_module_returns_carries_its_name() -> None:
    module = Pieces()
    blueprint = Blueprint.read(module)
    assert kinds(blueprint) == [
        ("layers.0", "Dense"),
        ("layers.1", "Activation"),
        ("layers.2", "Residual"),
        ("layers.2.body.0", "Norm"),
        ("layers.2.body.1", "Dense"),
        ("layers.3", "Activation"),
    ]
    assert {address for address, _ in kinds(blueprint)} <= {name for name, _ in module.named_modules()}
    dense = blueprint.layers[0]
    assert dense == Dense("layers.0", 4, 5, weight_variance=1.0, bias_variance=0.0)
    assert function_at(blueprint, "layers.1") == "silu"
    assert function_at(blueprint, "layers.3") == "silu"


class Both(nn.Module):
    def __init__(self, join: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.left = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        self.right = nn.Linear(4, 4)
        self.join = join

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(x)
        return self.join(self.left(x), self.right(x))


@pytest.mark.parametrize(
    ("join", "scale", "factor"),
    [
        (lambda a, b: a + b, 1.0, None),
        (lambda a, b: b + a, 1.0, None),
        (lambda a, b: torch.add(b, a, alpha=0.25), 0.25, None),
        (lambda a, b: b - a / 4, -0.25, None),
        (lambda a, b: 0.5 * a + b * 0.25, 0.5, 0.25),
        (lambda a, b: a - b, 1.0, -1.0),
    ],
)
def test_sums_of_two_branches(
    join: Callable[[Tensor, Tensor], Tensor], scale: float, factor: float | None
) -> None:
    blueprint = Blueprint.read(Both(join))
    relu, unit = blueprint.layers
    assert isinstance(relu, Activation)
    assert isinstance(unit, Residual)
    assert [layer.address for layer in unit.body] == ["left.0", "left.1", "left.2"]
    assert unit.shortcut[0].address == "right"
    assert unit.scale == scale
    if factor is None:
        assert len(unit.shortcut) == 1
    else:
        scaled = unit.shortcut[1]
        assert isinstance(scaled, Activation)
        assert scaled.function.slopes == (factor, factor)


@pytest.mark.parametrize(
    ("join", "reason"),
    [
        (
            lambda a, b: torch.cat([a, b], 1),
            r"joins branches; no rule .*; not described with it: left.0, left.1, left.2, right",
        ),
        (
            lambda a, b: a * b,
            r"'mul' joins the signal with a parameter or another branch in a way that no rule",
        ),
        (lambda a, b: a @ b.T, r"multiplies two signals"),
        (
            lambda a, b: torch.maximum(a, b),
            r"no description is known for the function 'maximum'; not described",
        ),
    ],
)
def test_other_meetings_of_branches_are_unmodelled(
    join: Callable[[Tensor, Tensor], Tensor], reason: str
) -> None:
    blueprint = Blueprint.read(Both(join))
    assert isinstance(blueprint.layers[0], Activation)
    (marked,) = blueprint.unmodelled
    assert re.search(reason, marked.reason), marked.reason


class Control(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) if x.sum() > 0 else x


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attend = nn.MultiheadAttention(8, 2)
        self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        y, _ = self.attend(y, y, y)
        x = x + y
        return x + self.mlp(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0])


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.head(self.first(x) + y)


class Forgetful(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(3)


def test_control_flow_is_one_unmodelled_layer_wherever_it_is() -> None:
    alone = Blueprint.read(Control())
    assert kinds(alone) == [("", "Unmodelled")]
    assert "its forward cannot be followed symbolically (TraceError" in reason_at(alone, "")
    inside = Blueprint.read(nn.Sequential(nn.Linear(4, 4), Control(), nn.ReLU()))
    assert kinds(inside) == [("0", "Dense"), ("1", "Unmodelled"), ("2", "Activation")]
    assert "control flow" in reason_at(inside, "1")


def test_attention_inside_a_residual_unit() -> None:
    blueprint = Blueprint.read(Attention())
    assert kinds(blueprint)[:4] == [
        ("#add", "Residual"),
        ("norm", "Norm"),
        ("attend", "Unmodelled"),
        ("#add2", "Residual"),
    ]
    assert "attention weighs its inputs" in reason_at(blueprint, "attend")


def test_recurrent_layers_and_their_tuples() -> None:
    blueprint = Blueprint.read(Recurrent())
    assert kinds(blueprint) == [("lstm", "Unmodelled"), ("head", "Dense")]
    assert "recurrent" in reason_at(blueprint, "lstm")


def test_several_inputs_say_what_is_left_out() -> None:
    blueprint = Blueprint.read(TwoInputs())
    assert kinds(blueprint) == [("#add", "Unmodelled"), ("head", "Dense")]
    assert "joins several inputs of the model" in reason_at(blueprint, "#add")
    assert reason_at(blueprint, "#add").endswith("not described with it: first")


def test_an_output_that_ignores_the_input() -> None:
    for module in (Forgetful(), nn.Sequential(nn.Linear(2, 2), Forgetful())):
        assert reason_at(Blueprint.read(module), "") == "its output does not depend on its input"


ODD: list[tuple[nn.Module, str]] = [
    (nn.GroupNorm(2, 4), "normalizes 2 groups by themselves; known are batch, layer and RMS norm"),
    (nn.InstanceNorm1d(4), "no variance rule for this normalization; known are batch, layer and RMS norm"),
    (nn.Embedding(3, 2), "an embedding looks rows up by token"),
    (nn.RReLU(), "a random function"),
    (nn.GLU(), "a gate multiplies two halves of the units"),
    (nn.Bilinear(2, 2, 2), "a bilinear layer multiplies two inputs"),
    (nn.ConvTranspose2d(2, 2, 2), "a transposed convolution"),
    (nn.TransformerEncoderLayer(8, 2), "attention weighs its inputs"),
    (nn.LazyLinear(3), "not initialized yet; run one batch"),
    (
        nn.Linear(2, 2, device="meta"),
        "its weights are on the meta device; pass weight_variance and bias_variance",
    ),
    (nn.MaxPool1d(3, stride=2), "its windows overlap or are padded"),
    (nn.AvgPool1d(2, padding=1), "its windows overlap or are padded"),
    (nn.MaxPool2d(2), "takes the largest of neighbouring positions"),
    (nn.AvgPool2d(2, divisor_override=3), "divides by a number of its own"),
    (nn.Conv1d(2, 2, 4, padding="same"), "puts one more behind than before"),
    (nn.Upsample(scale_factor=2), "no description is known for this class"),
]


@pytest.mark.parametrize(("module", "reason"), ODD, ids=[type(module).__name__ for module, _ in ODD])
def test_reasons(module: nn.Module, reason: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        inside = Blueprint.read(nn.Sequential(nn.Flatten(), module, nn.Tanh()))
        alone = Blueprint.read(module)
    assert reason in reason_at(inside, "1")
    assert reason in reason_at(alone, "")
    assert kinds(inside)[0] == ("0", "Pass")
    assert kinds(inside)[2] == ("2", "Activation")


def test_meta_weights_are_described_with_given_variances() -> None:
    (layer,) = Blueprint.read(nn.Linear(2, 3, device="meta"), weight_variance=2.0, bias_variance=0.0).layers
    assert layer == Dense("", 2, 3)


class OwnForward(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).abs()


def test_a_subclass_with_a_forward_of_its_own_is_not_taken_for_its_base() -> None:
    assert "a forward of its own" in reason_at(Blueprint.read(nn.Sequential(OwnForward(2, 2))), "0")


class Subclass(nn.Linear):
    pass


def test_a_mere_subclass_is() -> None:
    assert isinstance(Blueprint.read(nn.Sequential(Subclass(2, 2))).layers[0], Dense)


def test_norms_and_their_epsilons() -> None:
    blueprint = Blueprint.read(
        nn.Sequential(
            nn.BatchNorm1d(4, eps=1e-3),
            nn.LayerNorm((2, 2)),
            nn.RMSNorm(4),
            nn.GroupNorm(1, 4),
            nn.BatchNorm1d(4, affine=False),
            nn.LayerNorm(4, elementwise_affine=False),
        )
    )
    assert blueprint.layers == (
        Norm("0", "batch", 4, 1e-3),
        Norm("1", "layer", 4, shape=(2, 2)),
        Norm("2", "rms", 4, torch.finfo(torch.float32).eps),
        Norm("3", "layer", 4, whole=True),
        Norm("4", "batch", 4),
        Norm("5", "layer", 4),
    )


def test_norms_that_are_not_as_initialized() -> None:
    one, several, moved = nn.BatchNorm1d(3), nn.LayerNorm(3), nn.RMSNorm(3)
    with torch.no_grad():
        one.weight.zero_()  # the zero that starts a residual unit as the identity
        several.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
        moved.weight.fill_(0.5)
    shifted = nn.LayerNorm(3)
    with torch.no_grad():
        shifted.bias.fill_(0.1)
    blueprint = Blueprint.read(nn.Sequential(one, several, moved, shifted))
    assert kinds(blueprint) == [
        ("0", "Norm"),
        ("0#scale", "Activation"),
        ("1", "Unmodelled"),
        ("2", "Norm"),
        ("2#scale", "Activation"),
        ("3", "Unmodelled"),
    ]
    assert [layer.function.slopes for layer in blueprint.layers if isinstance(layer, Activation)] == [
        (0, 0),
        (0.5, 0.5),
    ]
    assert "its scales differ" in reason_at(blueprint, "1")
    assert "its shift is not 0" in reason_at(blueprint, "3")


def test_modes_that_matter_are_noted() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)).eval()
    (note,) = Blueprint.read(module).notes
    assert note.startswith("batch norms in eval mode are described as in train mode")
    assert Blueprint.read(module.train()).notes == ("dropout is described as off",)


def test_pools_join_units_after_dense_layers_and_positions_after_convolutions() -> None:
    flat = Blueprint.read(
        nn.Sequential(
            nn.Flatten(), nn.Linear(6, 12), nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(3), nn.AdaptiveMaxPool1d(2)
        )
    )
    assert flat.layers[2:4] == (Pool("2", "max", 2), Pool("3", "avg", 2))
    assert "windows differ in size" in reason_at(flat, "4")
    deep = Blueprint.read(
        nn.Sequential(nn.Conv1d(2, 4, 3), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(8, 6), nn.AvgPool1d(3))
    )
    assert "positions" in reason_at(deep, "1")
    assert deep.layers[4] == Pool("4", "avg", 3)


class FunctionalPools(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 12), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool1d(self.first(x), 2)
        x = functional.avg_pool1d(functional.relu(x), kernel_size=3)
        return self.second(functional.adaptive_avg_pool1d(x, 2)).softmax(-1)


def test_functional_pools_and_a_softmax_at_the_end() -> None:
    blueprint = Blueprint.read(FunctionalPools())
    pools = [layer for layer in blueprint.layers if isinstance(layer, Pool)]
    assert [(pool.kind, pool.size) for pool in pools] == [("max", 2), ("avg", 3), ("avg", 1)]
    assert isinstance(blueprint.layers[-1], Pass)
    assert blueprint.notes == (
        "#softmax: the softmax at the end keeps the order of the outputs and is passed over",
    )
    assert blueprint.classes == 2


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.LeakyReLU(0.2), "leaky_relu:negative_slope=0.2"),
        (nn.ELU(0.5), "elu:alpha=0.5"),
        (nn.PReLU(3, init=0.5), "leaky_relu:negative_slope=0.5"),
        (nn.GELU("tanh"), "gelu_tanh"),
        (nn.Hardshrink(0.25), "Hardshrink"),
    ],
)
def test_activation_modules_with_parameters(module: nn.Module, words: str) -> None:
    assert function_at(Blueprint.read(nn.Sequential(nn.Linear(3, 3), module)), "1") == words


def test_a_learned_vector_of_slopes_has_no_single_function() -> None:
    module = nn.PReLU(3)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([0.1, 0.2, 0.3]))
    assert "slopes differ between channels" in reason_at(Blueprint.read(module), "")


def test_functional_activations_take_their_parameters_along() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = functional.elu(functional.gelu(x, approximate="tanh"), 0.5).relu()
            return functional.hardtanh(torch.sin(x), min_val=-2, max_val=2).relu_().sigmoid()

    blueprint = Blueprint.read(Net())
    found = [layer.function.spec for layer in blueprint.layers if isinstance(layer, Activation)]
    assert found == [
        "gelu_tanh",
        "elu:alpha=0.5",
        "relu",
        "sin",
        "hardtanh:min_val=-2.0,max_val=2.0",
        "relu",
        "sigmoid",
    ]
    assert [layer.address for layer in blueprint.layers if "relu" in layer.address] == ["#relu", "#relu2"]


def test_dictionaries_of_outputs() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": self.head(x)}

    assert Blueprint.read(Net()).classes == 3


def test_wrappers_are_taken_off_with_a_note() -> None:
    inner = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    parallel = Blueprint.read(nn.DataParallel(inner))
    assert kinds(parallel) == [("0", "Dense"), ("1", "Activation")]
    assert parallel.notes == (
        "the wrapper DataParallel was taken off; addresses are those of the module inside",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled = torch.compile(inner, backend="eager")
    assert isinstance(compiled, nn.Module)
    assert kinds(Blueprint.read(compiled)) == kinds(parallel)
    assert "torch.compile was taken off" in Blueprint.read(compiled).notes[0]
    part = Blueprint.read(nn.Sequential(nn.Linear(3, 3), compiled))
    assert [address for address, _ in kinds(part)] == ["0", "1._orig_mod.0", "1._orig_mod.1"]


class FSDPLinear(nn.Linear):
    """Named as torch names a sharded module."""


def test_what_cannot_be_read_is_refused_by_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(nn.Linear(3, 2))
    with pytest.raises(
        ModelError, match=r"got the ScriptModule RecursiveScriptModule; pass the module that it was compiled"
    ):
        Blueprint.read(scripted)
    with pytest.raises(ModelError, match=r"got FSDPLinear at 0, which shards them; pass the module before"):
        Blueprint.read(nn.Sequential(FSDPLinear(2, 2)))
    with pytest.raises(ModelError, match=r"expected a module, got the class Linear; call it to make one"):
        Blueprint.read(nn.Linear)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"expected an nn.Module, got int"):
        Blueprint.read(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"weight_variance: expected a finite number above 0, got -1"):
        Blueprint.read(nn.Linear(2, 2), weight_variance=-1)


def test_reading_leaves_the_module_and_the_random_state_as_they_were() -> None:
    module = ResNet()
    module.block1.conv1.requires_grad_(False)
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    random = torch.get_rng_state()
    Blueprint.read(module, example=torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(state[name], tensor) for name, tensor in module.state_dict().items())
    assert not module.block1.conv1.weight.requires_grad
    assert all(part.training and not part._forward_hooks for part in module.modules())


def test_nan_weights_are_told() -> None:
    module = nn.Linear(2, 2)
    with torch.no_grad():
        module.weight[0, 0] = math.nan
    assert reason_at(Blueprint.read(module), "") == "its weights are not finite numbers"


def test_parametrized_weights_are_read_as_they_stand() -> None:
    module = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    (layer,) = Blueprint.read(nn.Sequential(module)).layers
    assert isinstance(layer, Dense)
    assert layer.weight_variance == pytest.approx(3 * module.weight.square().mean().item(), rel=1e-6)


def test_the_alias_of_nothing() -> None:
    assert Blueprint.read(nn.Sequential()).layers == ()
    assert kinds(Blueprint.read(nn.Identity())) == [("", "Pass")]


def test_a_failure_deep_inside_leaves_the_rest_described() -> None:
    deep = nn.Sequential(
        nn.Linear(4, 4), nn.Sequential(nn.Tanh(), nn.Sequential(Control(), nn.ReLU())), nn.Linear(4, 2)
    )
    assert kinds(Blueprint.read(deep)) == [
        ("0", "Dense"),
        ("1.0", "Activation"),
        ("1.1.0", "Unmodelled"),
        ("1.1.1", "Activation"),
        ("2", "Dense"),
    ]


def test_functional_norms_variable_arguments_and_defaults() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.head = nn.Linear(4, 2)

        def forward(self, x: Tensor | None = None, scale: float = 2.0) -> Tensor:
            assert x is not None
            x = functional.layer_norm(x * scale, (4,), self.weight)
            return self.head(functional.rms_norm(x, (4,), eps=1e-6))

    blueprint = Blueprint.read(Net())
    assert kinds(blueprint) == [
        ("#mul", "Activation"),
        ("#layer_norm", "Norm"),
        ("#rms_norm", "Norm"),
        ("head", "Dense"),
    ]
    assert blueprint.layers[1] == Norm("#layer_norm", "layer", 4)
    assert blueprint.layers[2] == Norm("#rms_norm", "rms", 4, 1e-6)

    class Variable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 2)

        def forward(self, *inputs: Tensor, **options: Tensor) -> Tensor:
            return self.head(inputs[0])

    assert kinds(Blueprint.read(Variable())) == [("head", "Dense")]


def test_sums_of_three_branches_nest() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = x + self.a(x)
            return y + self.b(functional.relu(y)) + self.c(x)

    (outer,) = Blueprint.read(Net()).layers
    assert isinstance(outer, Residual)
    assert [layer.address for layer in outer.shortcut] == ["c"]
    first, second = outer.body
    assert isinstance(first, Residual)
    assert isinstance(second, Residual)
    assert [layer.address for layer in first.body] == ["a"]
    assert [layer.address for layer in second.body] == ["#relu", "b"]


def test_a_hugging_face_residual_network_is_read_with_its_gaps_named() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1])
    blueprint = Blueprint.read(transformers.ResNetForImageClassification(config))
    assert ("classifier.1", "Dense") in kinds(blueprint)
    assert all(layer.reason for layer in blueprint.unmodelled)


class Pictures(nn.Module):
    """Ways to write pooling, views and copies."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding="valid", padding_mode="circular", dilation=(1, 2))
        self.norm = nn.LayerNorm((6, 4, 4))
        self.fc = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x).contiguous())
        x = functional.avg_pool2d(x, 2, padding=1, count_include_pad=False, ceil_mode=True)
        x = x.mean((2, 3))
        return self.fc(x.view(x.size(0), -1))


def test_convolutions_and_pools_of_positions_are_described_in_full() -> None:
    blueprint = Blueprint.read(Pictures())
    layers = blueprint.layers
    convolution = layers[0]
    assert isinstance(convolution, Convolution)
    assert (convolution.stride, convolution.padding, convolution.dilation) == ((2, 2), (0, 0), (1, 2))
    assert convolution.padding_mode == "circular"
    norm = layers[2]
    assert isinstance(norm, Norm)
    assert norm.shape == (6, 4, 4)
    pool = layers[3]
    assert pool == PositionPool(pool.address, (2, 2), (2, 2), (1, 1), padding_counts=False, partial=True)
    assert isinstance(layers[4], AdaptivePool)
    assert layers[4].output == (1, 1)
    assert [layer.kind for layer in layers if isinstance(layer, Pass)] == ["Identity", "Flatten", "Flatten"]
    assert Blueprint.from_dict(blueprint.to_dict()).layers == layers
    (view,) = Blueprint.read(nn.Sequential(nn.Flatten(2))).layers
    assert isinstance(view, Pass)
    assert view.kind == "View"


def test_pools_of_positions_are_built_as_they_were_read() -> None:
    module = nn.Sequential(
        nn.Conv2d(2, 3, 3, dilation=2, padding=2, padding_mode="reflect"),
        nn.AvgPool2d(2, padding=1, count_include_pad=False, ceil_mode=True),
        nn.BatchNorm2d(3),
        nn.GroupNorm(1, 3),
        nn.LayerNorm((3, 4, 4)),
        nn.AdaptiveAvgPool2d((None, 2)),
    )
    built = Blueprint.read(module).build(seed=0)
    built.load_state_dict(module.state_dict())
    images = torch.randn(2, 2, 7, 6)
    torch.testing.assert_close(built(images), module(images))
