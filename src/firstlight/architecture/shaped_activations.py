r"""An activation that is shifted, leaks and is scaled: what remedies put in the place of another.

.. math:: x \mapsto s\,\bigl((1 - λ)\,φ(x) + λ\,x - c\bigr)

Enters: an activation, as a module or as a function of a number. Leaves: the shaped one of the same kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firstlight.architecture.activations import ActivationFunction

__all__ = ["ShapedActivation", "shaped"]

Array = NDArray[np.float64]


class ShapedActivation(nn.Module):
    """scale · ((1 − leak) · φ(x) + leak · x − shift), its numbers buffers that are saved with the model.

    Args:
        activation: φ; one that works in place is made not to, because x is needed again.
        shift: One number, or one a unit in a shape that one sample takes.
        leak: λ.
        scale: s.

    >>> ShapedActivation(nn.ReLU(), shift=0.5)(torch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  1.5000])
    """

    def __init__(
        self, activation: nn.Module, *, shift: float | Tensor = 0.0, leak: float = 0.0, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.activation = activation
        if getattr(activation, "inplace", False):
            activation.inplace = False  # type: ignore[assignment]
        given: dict[str, Any] = {"shift": shift, "leak": leak, "scale": scale}
        for name, value in given.items():
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.get_default_dtype()).clone())
        self.training = activation.training
        self.shift: Tensor  # not of the class: scripting would read that as a word
        self.leak: Tensor
        self.scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Values of the same shape."""
        y = self.activation(x)
        shaped_value: Tensor = self.scale * (y + self.leak * (x - y) - self.shift)
        return shaped_value

    def extra_repr(self) -> str:
        """The numbers that differ from those of φ alone."""
        told = [
            f"{name}={float(value):.4g}" if value.numel() == 1 else f"{name} of {value.numel()} units"
            for name, value, plain in (
                ("shift", self.shift, 0),
                ("leak", self.leak, 0),
                ("scale", self.scale, 1),
            )
            if bool((value != plain).any())
        ]
        return ", ".join(told)


def shaped(
    function: ActivationFunction, *, shift: float = 0.0, leak: float = 0.0, scale: float = 1.0
) -> ActivationFunction:
    """The shaped function of a number, with its kinks and derivative.

    >>> from firstlight.architecture.activations import activation
    >>> shaped(activation("relu"), leak=0.2, shift=0.5).slopes
    (0.2, 1.0)
    """

    def value(u: Array) -> Array:
        return scale * ((1 - leak) * function.value(u) + leak * u - shift)

    def derivative(u: Array) -> Array:
        return scale * ((1 - leak) * function.derivative(u) + leak)

    slopes = None
    if function.slopes is not None:
        left, right = (scale * ((1 - leak) * slope + leak) for slope in function.slopes)
        slopes = (left, right)
    return ActivationFunction(
        f"{function.spec} shaped by shift {shift!r}, leak {leak!r}, scale {scale!r}",
        value,
        derivative,
        function.kinks,
        slopes=slopes,
        shift=scale * ((1 - leak) * function.shift - shift),
    )
