"""Networks that are broken or odd on purpose, one fault each, with the findings that name it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from case import Case, pictures, points
from torch import Tensor, nn

from firstlight.models import batch_norm_feedforward_net, mlp
from firstlight.models.kaiming import KaimingLinear

__all__ = ["FAULTS"]

_COLLAPSE = (
    "zero-dimensional-signal",
    "one-dimensional-signal",
    "dead-units",
    "prejudice-grows-with-depth",
    "constant-output",
    "tied-guesses",
)
_REGIMES = ("neutral-start", "weak-prejudice", "deep-prejudice")


def _stack(
    depth: int,
    gain: float,
    activation: Callable[[], nn.Module],
    *,
    width: int = 64,
    inputs: int = 64,
    labels: int = 10,
    head: float = 1.0,
    bias: float = 0.0,
) -> nn.Sequential:
    """A perceptron with weights N(0, gain²/fan_in), its biases constant."""
    layers = nn.Sequential()
    for number in range(depth + 1):
        last = number == depth
        linear = nn.Linear(inputs if number == 0 else width, labels if last else width)
        nn.init.normal_(linear.weight, 0.0, (head if last else gain) / math.sqrt(linear.in_features))
        nn.init.constant_(linear.bias, 0.0 if last else bias)
        layers.append(linear)
        if not last:
            layers.append(activation())
    return layers


def _all_dead() -> nn.Module:
    return _stack(3, math.sqrt(2), nn.ReLU, bias=-100.0)


def _biased_head() -> nn.Module:
    net = mlp(64, depth=2, width=64, classes=10)
    head = net[-1]
    assert isinstance(head, KaimingLinear)
    with torch.no_grad():
        assert head.bias is not None
        head.bias[3] = 20.0
    return net


def _duplicated_labels() -> nn.Module:
    net = mlp(64, depth=2, width=64, classes=5)
    with torch.no_grad():
        net[-1].weight[4] = net[-1].weight[1]  # type: ignore[index, operator]
    return net


def _zero_head() -> nn.Module:
    net = mlp(64, depth=3, width=64, classes=10)
    with torch.no_grad():
        net[-1].weight.zero_()  # type: ignore[operator, union-attr]
    return net


def _loud_head() -> nn.Module:
    return _stack(3, math.sqrt(2), nn.ReLU, head=50.0)


def _bottleneck() -> nn.Module:
    sizes = [64, 64, 1, 64, 64, 10]
    layers = [nn.Linear(before, after, bias=False) for before, after in pairwise(sizes)]
    for layer in layers:
        nn.init.normal_(layer.weight, 0.0, math.sqrt(1 / layer.in_features))
    return nn.Sequential(*layers)


class _Scaled(nn.Module):
    """Multiplies by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class _LogOfSignal(nn.Module):
    """The logarithm of numbers of both signs."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x)


class _Square(nn.Module):
    """x²: what it makes of a scale is its square."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x


class _Residual(nn.Module):
    """x + branch(x), no norm anywhere."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(KaimingLinear(width, width), nn.ReLU(), KaimingLinear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


def _residual_without_norm() -> nn.Module:
    return nn.Sequential(KaimingLinear(64, 64), *(_Residual(64) for _ in range(20)), KaimingLinear(64, 10))


def _max_pools() -> nn.Module:
    layers = nn.Sequential()
    for channels in (3, 16, 16, 16):
        layers.append(nn.Conv2d(channels, 16, 3, padding=1, bias=False))
        nn.init.kaiming_normal_(layers[-1].weight, nonlinearity="relu")  # type: ignore[arg-type]
        layers.append(nn.ReLU())
        layers.append(nn.MaxPool2d(2))
    return layers.append(nn.Flatten()).append(KaimingLinear(16, 10))


def _rms_after() -> nn.Module:
    layers = nn.Sequential()
    for _ in range(20):
        layers.extend([KaimingLinear(64, 64), nn.ReLU(), nn.RMSNorm(64)])
    return layers.append(KaimingLinear(64, 10))


def _bn_feed_forward() -> nn.Module:
    return nn.Sequential(
        batch_norm_feedforward_net(64, depth=100, width=32, kernel=None), KaimingLinear(32, 10)
    )


def _constant(seed: int) -> Tensor:
    return torch.ones(128, 64) * points(1, 64)(seed)[0]


FAULTS = (
    Case(
        "ReLU, 100 layers, no norm",
        lambda: mlp(64, depth=100, width=32, classes=10),
        points(),
        # at this width the data end on a ray, along which they still differ in length: no point
        has=("deep-prejudice", "prejudice-grows-with-depth", "one-dimensional-signal"),
        may=("zero-dimensional-signal", "dead-units", "vanishing-signal", "exploding-sensitivity"),
    ),
    Case(
        "all ReLUs dead",
        _all_dead,
        points(),
        has=("dead-units", "constant-output"),
        may=(*_COLLAPSE, *_REGIMES, "vanishing-signal", "vanishing-gradients", "one-label-preferred"),
    ),
    Case(
        "weights ten times too small",
        lambda: _stack(10, 0.14, nn.ReLU),
        points(),
        has=("vanishing-signal", "vanishing-gradients"),
        may=(*_REGIMES, *_COLLAPSE),
    ),
    Case(
        "weights five times too large",
        lambda: _stack(10, 5 * math.sqrt(2), nn.ReLU, head=5.0),
        points(),
        has=("exploding-signal", "exploding-gradients", "large-logits", "high-initial-loss"),
        may=(*_REGIMES, *_COLLAPSE),
    ),
    Case(
        "sigmoid, 20 layers",
        lambda: _stack(20, 1.0, nn.Sigmoid),
        points(),
        has=("deep-prejudice", "zero-dimensional-signal", "vanishing-gradients", "constant-output"),
        may=(*_COLLAPSE, "vanishing-sensitivity"),
    ),
    Case(
        "layer norm before ReLU, 50 layers",
        lambda: mlp(64, depth=50, width=50, classes=10, norm="layer", placement="before"),
        points(),
        has=("deep-prejudice", "prejudice-grows-with-depth", "norm-before-activation"),
        may=_COLLAPSE,
    ),
    Case(
        "RMS norm after ReLU, 20 layers",
        _rms_after,
        points(),
        has=("deep-prejudice", "prejudice-grows-with-depth"),
        may=_COLLAPSE,
    ),
    Case(
        "pixels between 0 and 1",
        lambda: nn.Sequential(nn.Flatten(), mlp(768, depth=2, width=64, classes=10)),
        pictures(pixels=True),
        has=("uncentred-data", "deep-prejudice"),
        may=("prejudice-grows-with-depth", "dead-units"),
    ),
    Case(
        "batch norm before ReLU, 100 layers",
        _bn_feed_forward,
        points(),
        has=("exploding-sensitivity", "exploding-gradients", "norm-before-activation", "modes-differ"),
        may=(*_REGIMES, "vanishing-signal"),
    ),
    Case(
        "a head with one large bias",
        _biased_head,
        points(),
        has=("one-label-preferred", "deep-prejudice"),
        may=("large-logits", "high-initial-loss", "prejudice-grows-with-depth"),
    ),
    Case(
        "constant inputs",
        lambda: mlp(64, depth=3, width=64, classes=10),
        _constant,
        has=("constant-output", "uncentred-data"),
        may=(*_COLLAPSE, *_REGIMES),
    ),
    Case(
        "two labels share their weights",
        _duplicated_labels,
        points(labels=5),
        has=("labels-guessed-alike", "tied-guesses"),
        may=("weak-prejudice", "deep-prejudice", "prejudice-grows-with-depth"),
    ),
    Case(
        "tanh, saturated, 10 layers",
        lambda: _stack(10, 20.0, nn.Tanh),
        points(),
        has=("exploding-sensitivity", "exploding-gradients", "neutral-start"),
    ),
    Case(
        "linear with a bottleneck of one unit",
        _bottleneck,
        points(),
        has=("one-dimensional-signal", "neutral-start"),
    ),
    Case(
        "ReLU and max-pool, 4 blocks",
        _max_pools,
        pictures(),
        has=("deep-prejudice",),
        may=("dead-units", "prejudice-grows-with-depth", "high-initial-loss"),
    ),
    Case(
        "batch norm in eval mode, pixels up to 255",
        lambda: nn.Sequential(
            nn.Flatten(),
            _Scaled(255.0),
            mlp(768, depth=3, width=64, classes=10, norm="batch", placement="before"),
        ),
        pictures(pixels=True),
        has=("modes-differ", "large-logits", "high-initial-loss", "uncentred-data", "deep-prejudice"),
        may=("prejudice-grows-with-depth", "norm-before-activation", "dead-units"),
        options={"mode": "eval"},
    ),
    Case(
        "a softmax before the loss's own",
        lambda: nn.Sequential(*mlp(64, depth=2, width=64, classes=10), nn.Softmax(-1)),
        points(),
        has=("probabilities-as-logits",),
        may=("weak-prejudice", "deep-prejudice", "prejudice-grows-with-depth"),
    ),
    Case(
        "a head of zeros",
        _zero_head,
        points(),
        has=("tied-guesses",),
        may=("one-label-preferred", "prejudice-grows-with-depth", "vanishing-gradients"),
    ),
    Case(
        "residual sums without norm, 20 blocks",
        _residual_without_norm,
        points(),
        has=("exploding-signal", "exploding-gradients", "large-logits", "high-initial-loss"),
        may=(*_REGIMES, "prejudice-grows-with-depth"),
    ),
    Case(
        "a logarithm of negative numbers",
        lambda: nn.Sequential(KaimingLinear(64, 64), _LogOfSignal(), KaimingLinear(64, 10)),
        points(),
        has=("non-finite-output",),
        may=("tied-guesses", "one-label-preferred", *_REGIMES),
    ),
    Case(
        "tanh, ordered phase, 30 layers",
        lambda: _stack(30, 0.5, nn.Tanh),
        points(),
        has=("vanishing-signal", "vanishing-gradients"),
        may=_REGIMES,
    ),
    Case(
        "tanh, chaotic phase, 20 layers",
        lambda: _stack(20, 3.0, nn.Tanh),
        points(),
        has=("exploding-sensitivity", "exploding-gradients", "neutral-start"),
    ),
    Case(
        "a head fifty times too large",
        _loud_head,
        points(),
        has=("large-logits", "high-initial-loss"),
        may=("weak-prejudice", "deep-prejudice", "prejudice-grows-with-depth"),
    ),
    Case(
        "squares for activations, 4 layers",
        lambda: _stack(4, 1.5, _Square),
        points(),
        has=("exploding-signal", "large-logits", "high-initial-loss"),
        may=(*_REGIMES, *_COLLAPSE, "exploding-gradients", "exploding-sensitivity", "vanishing-gradients"),
    ),
)
"""What was put there, in ``has``; the rest of an audit must be silent but for ``may``."""
