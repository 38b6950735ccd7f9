"""Activations that are shifted and shaped: γ as theory foretells it, the function itself, what is left and refused."""

from __future__ import annotations

import copy
import io
import math
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

import firstlight as fl
from firstlight import models
from firstlight.architecture.activations import activation
from firstlight.architecture.shaped_activations import ShapedActivation, shaped
from firstlight.errors import CouldNotError, ModelError, UsageError
from firstlight.remedies.activation_shaping import activation_shaping
from firstlight.remedies.activation_shift import activation_shift

WIDE = 80
X = torch.randn(300, WIDE, generator=torch.Generator().manual_seed(0))


def net(depth=3, **options):
    return fl.Blueprint.mlp(inputs=WIDE, depth=depth, width=200, classes=2, **options)


def agrees(value, stderr, wanted):
    return abs(value - wanted) < 4 * stderr


# Shift


def test_gamma_behind_shifted_activations_is_what_theory_predicts():
    for by, activated in (("data", "relu"), ("gaussian", "relu"), ("unit", "gelu")):
        factory, change = fl.repair(
            net(activation=activated), X, ["activation_shift"], inits=60, by=by, progress=False
        )
        read = fl.Blueprint.read(factory(seed=1), weight_variance=2.0, bias_variance=0.0)
        predicted = float(fl.predict(read, data=X.numpy(), draws=1).gamma[-1])
        difference = change.difference()
        assert agrees(difference.after, difference.after_stderr, predicted)
        assert difference.verdict == "helped"


def test_behind_a_norm_the_shift_is_the_registered_shifted_relu():
    """Before layer norm q is 1: ReLU − 1/√(2π). The data are not centred, so that γ is more than the 1/width that
    theory leaves out."""
    points = X + 0.8
    _, change = fl.repair(
        net(2, norm="layer"), points, ["activation_shift"], inits=60, by="unit", progress=False
    )
    other = net(2, norm="layer", activation="shifted_relu")
    predicted = float(fl.predict(other, data=points.numpy(), draws=1).gamma[-1])
    difference = change.difference()
    assert agrees(difference.after, difference.after_stderr, predicted)
    assert predicted > 20 / 200


def test_means_are_gone_in_running_order(seed):
    """Each shift is the mean of what the shifted activations before it send."""
    torch.manual_seed(seed % 2**31)
    model = models.mlp(WIDE, depth=4, width=30, classes=2)
    after, edits = activation_shift(model, X)
    seen = X
    for layer in after[1:-1]:
        seen = layer(seen)
        if isinstance(layer, ShapedActivation):
            assert float(seen.detach().mean()) == pytest.approx(0, abs=1e-6)
    assert [edit.address for edit in edits] == [f"activation{n}" for n in (1, 2, 3, 4)]
    units, _ = activation_shift(model, X, per="unit")
    seen = X
    for layer in units[1:-1]:
        seen = layer(seen)
        if isinstance(layer, ShapedActivation):
            torch.testing.assert_close(seen.mean(0), torch.zeros(30), atol=1e-5, rtol=0)


def test_one_number_a_unit_leaves_no_centre():
    _, change = fl.repair(net(), X, ["activation_shift"], inits=10, per="unit", progress=False)
    assert change.difference().after < 1e-10


def test_the_mean_is_taken_behind_a_max_pool(seed):
    torch.manual_seed(seed % 2**31)
    pictures = torch.randn(40, 3, 16, 16)
    for model in (Pooled(), PooledByFunction()):
        after, edits = activation_shift(model, pictures)
        sent = []
        after.fc.register_forward_pre_hook(lambda module, args, sent=sent: sent.append(args[0]))
        after(pictures)
        assert float(sent[0].detach().mean()) == pytest.approx(0, abs=1e-6)
        assert len(edits) == 1
        with pytest.raises(ModelError, match=r"no Gaussian mean is known .* pass by='data'"):
            activation_shift(model, pictures, by="unit")


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.act, self.pool = nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(self.pool(self.act(self.conv(x))).mean((2, 3)))


class PooledByFunction(Pooled):
    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv(x), inplace=True), 2, stride=2)
        return self.fc(x.mean((2, 3)))


class Block(nn.Module):
    """One ReLU module called twice, and a gate."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.gate, self.relu = (
            nn.Linear(6, 6),
            nn.Linear(6, 6),
            nn.Linear(6, 6),
            nn.ReLU(inplace=True),
        )
        self.sigmoid = nn.Sigmoid()

    def forward(self, x):
        y = self.fc2(self.relu(self.fc1(x)))
        return self.relu(x + y * self.sigmoid(self.gate(x)))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(functional.gelu(self.blocks(functional.leaky_relu(x, 0.1)), approximate="tanh"))


def by_hand(model, x, shifts):
    """The network above with its shifts, in running order."""
    s = iter(shifts)
    x = functional.leaky_relu(x, 0.1) - next(s)
    for block in model.blocks:
        y = block.fc2(torch.relu(block.fc1(x)) - next(s))
        x = torch.relu(x + y * torch.sigmoid(block.gate(x))) - next(s)
    return model.head(functional.gelu(x, approximate="tanh") - next(s))


def test_functions_and_modules_that_are_called_twice(seed):
    torch.manual_seed(seed % 2**31)
    model, x = Network(), torch.randn(50, 6)
    after, edits = activation_shift(model, x)
    places = [item for item in after.modules() if isinstance(item, ShapedActivation)]
    assert len(edits) == len(places) == 6
    assert {item.address for item in edits.left} == {"blocks.0.sigmoid", "blocks.1.sigmoid"}
    assert all("multiplies another one" in item.reason for item in edits.left)
    shifts = shifts_in_order(after, x)
    torch.testing.assert_close(after(x), by_hand(model, x, shifts))
    for name, value in model.state_dict().items():
        assert torch.equal(value, after.state_dict()[name])


def shifts_in_order(model, x):
    order = []
    hooks = [
        item.register_forward_hook(lambda module, args, output: order.append(module.shift))
        for item in model.modules()
        if isinstance(item, ShapedActivation)
    ]
    model(x)
    for hook in hooks:
        hook.remove()
    return order


def test_what_a_norm_takes_away_is_left():
    for norm, left in (("batch", 2), ("layer", 2), ("rms", 0)):
        model = models.mlp(WIDE, depth=2, width=20, classes=2, norm=norm, placement="after")
        if left:
            with pytest.raises(
                ModelError, match=r"found no activation .* the norm behind it \(norm1\) takes"
            ):
                activation_shift(model, X)
        else:
            assert len(activation_shift(model, X)[1]) == 2


class Excited(nn.Module):
    """An activation that goes on and is multiplied by a gate made of itself."""

    def __init__(self):
        super().__init__()
        self.fc, self.squeeze, self.act, self.gate = nn.Linear(6, 6), nn.Linear(6, 6), nn.ReLU(), nn.Sigmoid()

    def forward(self, x):
        x = self.act(self.fc(x))
        return x * self.gate(self.squeeze(x))


def test_what_is_gated_is_shifted_and_the_gate_is_not():
    _, edits = activation_shift(nn.Sequential(Excited(), nn.Linear(6, 2)), torch.randn(9, 6))
    assert [edit.address for edit in edits] == ["0.act"]
    assert [item.address for item in edits.left] == ["0.gate"]


def test_transformer_layers_of_torch_are_named():
    layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
    with pytest.raises(ModelError, match=r"0: TransformerEncoderLayer runs as one piece"):
        activation_shift(nn.Sequential(layer), torch.randn(4, 3, 6))


# Shaping


@pytest.mark.parametrize("by", ["leak", "shift"])
@pytest.mark.parametrize("gamma", [0.2, 4.0])
def test_the_output_has_the_chosen_gamma(by, gamma):
    _, change = fl.repair(net(), X, ["activation_shaping"], inits=64, by=by, gamma=gamma, progress=False)
    difference = change.difference()
    assert agrees(difference.after, difference.after_stderr, gamma)
    assert any("γ of the output by theory" in note for note in change.notes)


def test_shaping_where_norms_and_residuals_are():
    blueprint = net(2, norm="layer")
    for start in (blueprint, lambda: Residuals()):
        _, change = fl.repair(start, X, ["activation_shaping"], inits=60, gamma=0.3, progress=False)
        difference = change.difference()
        assert agrees(difference.after, difference.after_stderr, 0.3)


class Residuals(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(WIDE, 200), nn.Linear(200, 2)
        self.one, self.two = nn.Linear(200, 200), nn.Linear(200, 200)
        for item in self.children():
            nn.init.kaiming_normal_(item.weight)
            nn.init.zeros_(item.bias)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.one(functional.relu(x))
        x = x + self.two(functional.relu(x))
        return self.head(functional.relu(x))


def convolutional():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4),
        nn.Flatten(), nn.Linear(128, 2),
    )  # fmt: skip
    for layer in model:
        if hasattr(layer, "weight"):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    return model


def test_pictures_are_as_many_as_theory_can_carry():
    pictures = torch.randn(160, 3, 8, 8, generator=torch.Generator().manual_seed(0)) + 0.5
    before = fl.measure(convolutional, pictures, inits=60, quantities=["gamma"], progress=False)
    wanted = float(before.gamma[-1]) / 2
    _, change = fl.repair(
        convolutional, pictures, ["activation_shaping"], inits=60, gamma=wanted, progress=False
    )
    difference = change.difference()
    assert agrees(difference.after, difference.after_stderr, wanted)
    assert any("of 160 points" in note for note in change.notes)
    with pytest.raises(
        CouldNotError, match=r"GB for 8 pictures of 3 × 64 × 64, .* make the pictures smaller"
    ):
        activation_shaping(convolutional()[:5], torch.randn(20, 3, 64, 64))


def test_the_scale_of_the_signal_stays():
    """E φ_λ(z)² = E φ(z)² = ½ for ReLU, by quadrature that knows nothing of kernels."""
    after, _ = activation_shaping(models.mlp(4, depth=1, width=4, classes=2), torch.zeros(2, 4), amount=-0.3)
    module = after.activation1
    z = torch.linspace(-12, 12, 400_001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    value = copy.deepcopy(module).double()(z)
    assert float(torch.trapezoid(value.square() * density, z)) == pytest.approx(0.5, abs=1e-6)
    assert float(module(torch.tensor(-1.0)) / module(torch.tensor(1.0))) == pytest.approx(0.3)


def test_shaped_functions_are_read_as_they_run(seed):
    torch.manual_seed(seed % 2**31)
    for inner in (nn.ReLU(), nn.GELU(), nn.LeakyReLU(0.2)):
        module = ShapedActivation(inner, shift=0.25, leak=0.125, scale=1.5)
        function = activation(module)
        u = torch.linspace(-3, 3, 50, dtype=torch.float64)
        torch.testing.assert_close(
            torch.from_numpy(function.value(u.numpy())), copy.deepcopy(module).double()(u)
        )
        half = 1e-6
        slope = (function.value(u.numpy() + half) - function.value(u.numpy() - half)) / (2 * half)
        torch.testing.assert_close(
            torch.from_numpy(function.derivative(u.numpy())), torch.from_numpy(slope), atol=1e-6, rtol=1e-6
        )
        assert shaped(activation(inner), shift=0.25, leak=0.125, scale=1.5) == replace(function, source=None)


def test_what_theory_cannot_reach_or_read_is_refused():
    model = net(1).build(seed=0)
    with pytest.raises(CouldNotError, match=r"by theory γ of the output goes from 1\.\d+ to 0\.\d+ at λ = 1"):
        activation_shaping(model, X + 1, gamma=0.01)
    soft = nn.Sequential(nn.Linear(WIDE, 9), nn.ReLU(), nn.Linear(9, 9), nn.Softmax(-1), nn.Linear(9, 2))
    with pytest.raises(CouldNotError, match=r"theory cannot read the model: 3 \(Softmax\)"):
        activation_shaping(soft, X)
    with pytest.raises(UsageError, match=r"activation_shaping\(gamma\): expected a number above 0, got -1"):
        activation_shaping(model, X, gamma=-1)
    with pytest.raises(UsageError, match="γ is solved for all activations together"):
        activation_shaping(model, X, layers=["activation1"])
    with pytest.raises(UsageError, match="expected one of 'leak', 'shift', got 'both'"):
        activation_shaping(model, X, by="both")


# An ordinary module; refusals


def traced():
    return activation_shift(Network(), torch.randn(9, 6))[0]


def plain():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 5), nn.GELU(), nn.Linear(5, 3))
    return activation_shaping(model, torch.randn(9, 6), amount=0.2)[0]


@pytest.mark.filterwarnings(
    "ignore:`torch.jit:DeprecationWarning", "ignore:The TorchScript type system:UserWarning"
)
@pytest.mark.parametrize("make", [traced, plain])
def test_the_result_is_an_ordinary_module(make, tmp_path):
    model, x = make(), torch.randn(7, 6)
    with torch.no_grad():
        wanted = model(x)
        torch.testing.assert_close(pickle.loads(pickle.dumps(model))(x), wanted)
        torch.testing.assert_close(copy.deepcopy(model)(x), wanted)
        torch.save(model.state_dict(), tmp_path / "state.pt")
        fresh = make()
        fresh.load_state_dict(torch.load(tmp_path / "state.pt"))
        torch.testing.assert_close(fresh(x), wanted)
        compiled = torch.jit.script(copy.deepcopy(model))
        torch.jit.save(compiled, io.BytesIO())
        torch.testing.assert_close(compiled(x), wanted)
    nn.functional.cross_entropy(model(x), torch.arange(7) % 3).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert not torch.allclose(model(x), wanted)


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        for _ in range(int(x.sum() > 0) + 1):
            x = functional.relu(self.fc(x))
        return self.fc(x)


def test_what_cannot_be_reached_is_refused_by_name():
    model = Dynamic()
    with pytest.raises(
        ModelError, match=r"activation_shift: cannot change relu\(\): the model itself \(Dynamic\)"
    ):
        activation_shift(model, torch.randn(5, 6))
    with pytest.raises(ModelError, match="found no activation to change in Linear: it has none"):
        activation_shift(nn.Linear(6, 2), torch.randn(5, 6))
    with pytest.raises(UsageError, match=r"the mean of one unit is known by='data' only, got by='unit'"):
        activation_shift(model, X, per="unit", by="unit")
    with pytest.raises(UsageError, match="expected a whole number of at least 2, got 1"):
        activation_shift(model, X, samples=1)


def test_hugging_face_swin_is_watched(seed):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed % 2**31)
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4, num_labels=3
    )
    model = transformers.SwinForImageClassification(config).eval()
    after, edits = activation_shift(model, torch.randn(4, 3, 32, 32))
    assert len(edits) == 4
    assert all(edit.address.endswith("activation_fn") for edit in edits)
    assert type(after) is type(model)
