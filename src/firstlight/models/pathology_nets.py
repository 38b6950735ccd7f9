"""The nets of "Characterizing Well-Behaved vs. Pathological Deep Neural Networks" (Labatie 2019).

Enters: pictures (convolutional) or vectors (fully connected). Leaves: the last layer's activations; there is no
classifier. First a linear map of variance 1/fan_in without activation, then ``depth`` layers of variance 2/fan_in, no
biases::

    vanilla                    linear → ReLU
    batch norm, feed-forward   linear → BN → ReLU
    batch norm, residual       x + [BN → ReLU → linear] × 2

BN has ε = 1e-3 and uses the batch (train mode), over samples and positions. Noise is a first-order perturbation of the
input: BN's statistics are held fixed, so it is only divided by √(var + ε), and ReLU passes it where x > 0; that is the
business of measurement, not of these modules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from firstlight.errors import UsageError, one_of
from firstlight.models.choices import checked_counts
from firstlight.models.kaiming import KaimingConv2d, KaimingLinear

__all__ = ["batch_norm_feedforward_net", "batch_norm_residual_net", "vanilla_net"]

EPSILON = 1e-3
LAYERS_IN_A_UNIT = 2

# torch's name for each way to continue a picture beyond its edge. With a kernel of 3 only the next pixel is needed, and
# the symmetric continuation then repeats the edge.
_BOUNDARIES = {"periodic": "circular", "symmetric": "replicate", "zeros": "zeros"}


def vanilla_net(
    inputs: int = 3, *, depth: int = 200, width: int = 128, kernel: int | None = 3, boundary: str = "periodic"
) -> nn.Sequential:
    """Vanilla net: linear → ReLU, ``depth`` times.

    Args:
        inputs: Channels of the pictures, or input dimension of a fully-connected net.
        depth: Layers after the first linear map.
        width: Channels or units of every layer (128 for the histograms, 512 else).
        kernel: Side of the convolutions, 1 or 3; the first has stride 2 when it is 3. ``None``: fully connected.
        boundary: ``"periodic"``, ``"symmetric"`` or ``"zeros"``.

    >>> [name for name, _ in vanilla_net(5, depth=1, width=4, kernel=None).named_modules()][1:]
    ['flatten', 'linear0', 'linear1', 'activation1']
    """
    layers, name, linear = _beginning("vanilla_net", inputs, depth, width, kernel, boundary)
    for number in range(1, depth + 1):
        layers.add_module(f"{name}{number}", linear())
        layers.add_module(f"activation{number}", nn.ReLU())
    return layers


def batch_norm_feedforward_net(
    inputs: int = 3, *, depth: int = 200, width: int = 512, kernel: int | None = 3, boundary: str = "periodic"
) -> nn.Sequential:
    """Batch-normalized feed-forward net: linear → BN → ReLU, ``depth`` times; arguments as for ``vanilla_net``."""
    layers, name, linear = _beginning("batch_norm_feedforward_net", inputs, depth, width, kernel, boundary)
    for number in range(1, depth + 1):
        layers.add_module(f"{name}{number}", linear())
        layers.add_module(f"norm{number}", _batch_norm(width, kernel))
        layers.add_module(f"activation{number}", nn.ReLU())
    return layers


def batch_norm_residual_net(
    inputs: int = 3, *, units: int = 500, width: int = 512, kernel: int | None = 3, boundary: str = "periodic"
) -> nn.Sequential:
    """Batch-normalized residual net: ``units`` times x + [BN → ReLU → linear] × 2; else as for ``vanilla_net``."""
    layers, name, linear = _beginning("batch_norm_residual_net", inputs, units, width, kernel, boundary)
    for number in range(1, units + 1):
        branch = nn.Sequential()
        for layer in range(1, LAYERS_IN_A_UNIT + 1):
            branch.add_module(f"norm{layer}", _batch_norm(width, kernel))
            branch.add_module(f"activation{layer}", nn.ReLU())
            branch.add_module(f"{name}{layer}", linear())
        layers.add_module(f"unit{number}", _Unit(branch))
    return layers


class _Unit(nn.Module):
    """x + branch(x)."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.branch(x)
        return x + changed


def _beginning(
    where: str, inputs: int, depth: int, width: int, kernel: int | None, boundary: str
) -> tuple[nn.Sequential, str, Callable[[], nn.Module]]:
    """The first linear map, what such a map is called, and what makes the further ones."""
    checked_counts(where, inputs=inputs, depth=depth, width=width)
    if boundary not in _BOUNDARIES:
        raise one_of(f"{where}: boundary", boundary, _BOUNDARIES)
    if kernel not in (None, 1, 3):
        raise UsageError(f"{where}: kernel: expected 1, 3 or None (fully connected), got {kernel}")
    layers = nn.Sequential()
    if kernel is None:
        layers.add_module("flatten", nn.Flatten())
        layers.add_module("linear0", KaimingLinear(inputs, width, weight_variance=1.0, bias=False))
        return layers, "linear", lambda: KaimingLinear(width, width, bias=False)
    convolution = partial(KaimingConv2d, padding=kernel // 2, padding_mode=_BOUNDARIES[boundary], bias=False)
    first = convolution(inputs, width, kernel, weight_variance=1.0, stride=2 if kernel > 1 else 1)
    layers.add_module("conv0", first)
    return layers, "conv", lambda: convolution(width, width, kernel)


def _batch_norm(width: int, kernel: int | None) -> nn.Module:
    return nn.BatchNorm1d(width, eps=EPSILON) if kernel is None else nn.BatchNorm2d(width, eps=EPSILON)
