"""Multi-layer perceptrons of Francazi et al. (2024, 2026): SHLP (one hidden layer) and MHLP (twenty), 100 units each.

Enters: sizes, norm and its place. Leaves: a plain ``nn.Sequential`` with the layer names of ``Blueprint.mlp``::

    before:  Linear → norm → activation          after:  Linear → activation → norm

in every hidden layer; the output layer is plain. Weights N(0, 2/fan_in), the output's too; biases 0; norms have scale
1, shift 0 and ε = 1e-5.
"""

from __future__ import annotations

from torch import nn

from firstlight.models.choices import activation_named, checked_counts, checked_placement, norm1d_named
from firstlight.models.kaiming import KaimingLinear

__all__ = ["mhlp", "mlp", "shlp"]


def shlp(
    inputs: int = 1000,
    *,
    classes: int = 2,
    norm: str | None = None,
    placement: str = "before",
    activation: str = "relu",
) -> nn.Sequential:
    """Single-hidden-layer perceptron: one hidden layer of 100 units."""
    return mlp(
        inputs, depth=1, width=100, classes=classes, norm=norm, placement=placement, activation=activation
    )


def mhlp(
    inputs: int = 1000,
    *,
    classes: int = 2,
    norm: str | None = None,
    placement: str = "before",
    activation: str = "relu",
) -> nn.Sequential:
    """Multi-hidden-layer perceptron: twenty hidden layers of 100 units."""
    return mlp(
        inputs, depth=20, width=100, classes=classes, norm=norm, placement=placement, activation=activation
    )


def mlp(
    inputs: int,
    *,
    depth: int,
    width: int,
    classes: int,
    norm: str | None = None,
    placement: str = "before",
    activation: str = "relu",
) -> nn.Sequential:
    """Perceptron of any depth and width.

    Args:
        inputs: Input dimension; pictures are flattened.
        depth: Hidden layers.
        width: Units in each.
        classes: Outputs.
        norm: ``None``, ``"batch"``, ``"layer"`` or ``"rms"``.
        placement: ``"before"`` or ``"after"`` the activation.
        activation: ``"relu"``, ``"tanh"``, ``"gelu"`` or ``"linear"``.

    >>> [name for name, _ in mlp(3, depth=1, width=4, classes=2, norm="layer", placement="after").named_children()]
    ['flatten', 'linear1', 'activation1', 'norm1', 'output']
    """
    checked_counts("mlp", inputs=inputs, depth=depth, width=width, classes=classes)
    checked_placement("mlp", placement)
    layers = nn.Sequential()
    layers.add_module("flatten", nn.Flatten())
    for number in range(1, depth + 1):
        layers.add_module(f"linear{number}", KaimingLinear(inputs if number == 1 else width, width))
        if norm is not None and placement == "before":
            layers.add_module(f"norm{number}", norm1d_named("mlp", norm, width))
        layers.add_module(f"activation{number}", activation_named("mlp", activation))
        if norm is not None and placement == "after":
            layers.add_module(f"norm{number}", norm1d_named("mlp", norm, width))
    layers.add_module("output", KaimingLinear(width, classes))
    return layers
