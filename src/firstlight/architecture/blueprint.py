"""Blueprint: what a network is made of, in the few words that theory folds over and ``build`` turns into a module.

Enters: the numbers of a perceptron (``mlp``), one line of text (``parse``), a dictionary (``from_dict``) or an
``nn.Module`` (``read``). Leaves: layers with their ``named_modules()`` addresses, and on request the plain module.
Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.layers import Activation, Convolution, Dense, Layer, Unmodelled, walk
from firstlight.architecture.perceptron import Perceptron, number

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["Blueprint"]


@dataclass(frozen=True, repr=False)
class Blueprint:
    """A network before its weights are drawn.

    Attributes:
        layers: In running order; residual units hold their bodies (``layers.walk`` visits all).
        inputs: Number of input coordinates; ``None`` where a module does not say.
        classes: Number of outputs; ``None`` where a module does not say.
        input_mean: Mean of the i.i.d. input coordinates, for population theory.
        input_variance: Their variance.
        name: Short name.
        description: One line for people.
        arguments: The arguments of ``mlp`` that made it, or nothing.
        notes: Sentences on how it came about that a reader of results should see (wrappers taken off …).
    """

    layers: tuple[Layer, ...]
    inputs: int | None
    classes: int | None
    input_mean: float = 0.0
    input_variance: float = 1.0
    name: str = ""
    description: str = ""
    arguments: tuple[tuple[str, Any], ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def mlp(
        cls,
        *,
        inputs: int = 1000,
        depth: int,
        width: int = 1000,
        classes: int = 2,
        activation: object = "relu",
        norm: str | None = None,
        placement: str | None = None,
        pool: tuple[str, int] | None = None,
        residual: int | None = None,
        residual_scale: float = 1.0,
        weight_variance: float = 2.0,
        bias_variance: float = 0.0,
        input_mean: float = 0.0,
        input_variance: float = 1.0,
    ) -> Blueprint:
        """Describe a multi-layer perceptron with normalization, pooling or residual units.

        Args:
            inputs: Number of input coordinates.
            depth: Number of hidden layers, at least 1.
            width: Units of each hidden layer, before pooling.
            classes: Number of labels, at least 2.
            activation: Whatever ``firstlight.architecture.activations.activation`` reads: a name, a module, a callable.
            norm: ``None``, ``"batch"``, ``"layer"`` or ``"rms"``.
            placement: ``"before"`` the activation (the default where there is a norm) or ``"after"`` it (and after the
                pool).
            pool: ``("max", K)`` or ``("avg", K)`` over K neighbouring units, after the activation; a remainder of fewer
                than K units is left out, as torch does.
            residual: Number of residual units that share the hidden layers, behind a dense stem.
            residual_scale: α of ``x + α·body(x)``.
            weight_variance: σ_w²; weights are N(0, σ_w²/fan_in), the output's too.
            bias_variance: σ_b²; biases are N(0, σ_b²).
            input_mean: Mean of the input coordinates.
            input_variance: Variance of the input coordinates.

        >>> Blueprint.mlp(depth=2, width=100, norm="layer", placement="after")
        Blueprint.mlp(depth=2, width=100, norm='layer', placement='after')
        >>> [layer.address for layer in Blueprint.mlp(depth=1, pool=("max", 4)).layers]
        ['flatten', 'linear1', 'activation1', 'pool1', 'output']
        """
        perceptron = Perceptron.checked(
            inputs=inputs,
            depth=depth,
            width=width,
            classes=classes,
            activation=activation,
            norm=norm,
            placement=placement,
            pool=pool,
            residual=residual,
            residual_scale=residual_scale,
            weight_variance=weight_variance,
            bias_variance=bias_variance,
        )
        mean = number("input_mean", input_mean)
        variance = number("input_variance", input_variance, above=0.0)
        given = {**vars(perceptron), "input_mean": mean, "input_variance": variance}
        return cls(
            layers=perceptron.layers(),
            inputs=perceptron.inputs,
            classes=perceptron.classes,
            input_mean=mean,
            input_variance=variance,
            name="mlp",
            arguments=tuple(given.items()),
        )

    @classmethod
    def parse(cls, words: str) -> Blueprint:
        """Read one line of text: ``mlp:depth=20,norm=layer,placement=before,pool=max/2``.

        >>> Blueprint.parse("mlp:depth=20,norm=layer,activation=leaky_relu:negative_slope=0.2")
        Blueprint.mlp(depth=20, activation='leaky_relu:negative_slope=0.2', norm='layer', placement='before')
        """
        from firstlight.architecture.wording import arguments_of

        return cls.mlp(**arguments_of(words))

    @classmethod
    def read(
        cls,
        module: nn.Module,
        *,
        weight_variance: float | None = None,
        bias_variance: float | None = None,
        example: torch.Tensor | None = None,
    ) -> Blueprint:
        """Describe a module that exists; what cannot be described is marked ``Unmodelled`` with its reason.

        Args:
            module: Any ``nn.Module``.
            weight_variance: σ_w² of every layer; by default fan_in · mean(W²) of each weight tensor.
            bias_variance: σ_b² of every layer; by default mean(b²) of each bias.
            example: One batch of inputs, for models whose structure depends on shapes.
        """
        from firstlight.architecture.reading import read

        return read(module, weight_variance=weight_variance, bias_variance=bias_variance, example=example)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Blueprint:
        """Rebuild what ``to_dict`` wrote."""
        from firstlight.architecture.serialization import from_dict

        return from_dict(plain)

    def to_dict(self) -> dict[str, Any]:
        """Plain containers that JSON takes; a Python callable leaves its name only, and ``from_dict`` refuses it."""
        from firstlight.architecture.serialization import to_dict

        return to_dict(self)

    def build(self, seed: int | None = None) -> nn.Module:
        """The plain float32 module with drawn weights.

        Args:
            seed: Names the weights; torch's global random state is then untouched. ``None`` draws from that state.
        """
        from firstlight.architecture.building import build

        return build(self, seed)

    def initialize(self, module: nn.Module, generator: torch.Generator | None = None) -> None:
        """Draw all weights of a module built from this blueprint anew, in place.

        Args:
            module: What ``build`` returned (or any module with the same addresses and shapes).
            generator: Where the draws come from; ``None`` means torch's global random state.
        """
        from firstlight.architecture.building import initialize

        initialize(self, module, generator)

    @property
    def depth(self) -> int:
        """Number of hidden layers, counted by their activations."""
        return sum(isinstance(layer, Activation) for layer in walk(self.layers))

    @property
    def width(self) -> int | None:
        """Units of the hidden layers where all have the same number, else ``None``."""
        linear = [layer for layer in walk(self.layers) if isinstance(layer, Dense | Convolution)]
        widths = {item.fan_out if isinstance(item, Dense) else item.out_channels for item in linear[:-1]}
        return widths.pop() if len(widths) == 1 else None

    @property
    def activation(self) -> ActivationFunction | None:
        """The activation where there is one kind only, else ``None``."""
        found = [layer.function for layer in walk(self.layers) if isinstance(layer, Activation)]
        return found[0] if found and all(function == found[0] for function in found) else None

    @property
    def unmodelled(self) -> tuple[Unmodelled, ...]:
        """The layers that no description fits, with their reasons."""
        return tuple(layer for layer in walk(self.layers) if isinstance(layer, Unmodelled))

    def describe(self) -> str:
        """A table of the layers, one a line."""
        from firstlight.architecture.wording import text_table

        return text_table(self)

    def __repr__(self) -> str:
        from firstlight.architecture.wording import one_line

        return one_line(self)

    def _repr_html_(self) -> str:
        from firstlight.architecture.wording import html_table

        return html_table(self)
