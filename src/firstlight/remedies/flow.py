"""What a network's modules and functions hand to each other: calls, in order, with the address of each slot.

Enters: what ``following`` (symbols) or ``recording`` (an example) saw. Leaves: ``Flow``, one for each way that a
forward can take, on which remedies look for the place of a norm.

A *slot* is the address under which its caller holds a module: ``layer1.0.relu``. One object in several slots, and one
slot called several times, are different things: the first is harmless for a module without parameters, the second means
that one place of the structure stands at several places of the flow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from torch import fx, nn

from firstlight.architecture.activation_callables import from_callable
from firstlight.architecture.shaped_activations import ShapedActivation
from firstlight.architecture.torch_activations import recognise
from firstlight.errors import FirstlightError
from firstlight.measurement.kinds import kind_of

__all__ = ["Call", "Flow", "kind_of_function", "kind_of_slot", "parent_of"]

_ACTIVATIONS = {
    *(
        "celu",
        "elu",
        "gelu",
        "hardshrink",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "leaky_relu",
        "logsigmoid",
    ),
    *(
        "mish",
        "prelu",
        "relu",
        "relu6",
        "rrelu",
        "selu",
        "sigmoid",
        "silu",
        "softplus",
        "softshrink",
        "softsign",
    ),
    *("tanh", "tanhshrink", "threshold", "erf", "sin"),
}
_SUMS = {"add", "iadd", "radd", "sub", "isub", "rsub"}
_PASSING = {
    "clone",
    "contiguous",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "to",
    "float",
}
_POOLS = {f"{what}_pool{rank}d" for what in ("max", "avg") for rank in (1, 2, 3)}
_POOL_MODULES = tuple(getattr(nn, f"{what}Pool{rank}d") for what in ("Max", "Avg") for rank in (1, 2, 3))
_NO_ACTIVATIONS = (nn.Softmax, nn.Softmax2d, nn.LogSoftmax, nn.Softmin, nn.GLU)


@dataclass(eq=False)
class Call:
    """One call of a module without parts, or of a function.

    Attributes:
        kind: ``"norm"``, ``"activation"``, ``"dense"``, ``"convolution"``, ``"pool"``, ``"sum"``, ``"pass"`` (changes
            nothing, or drops), ``"input"`` or ``"other"``.
        slot: Address of the module that is called; ``""`` for functions.
        caller: Address of the module whose forward makes the call.
        name: Name of the function, or of the module's class.
        module: The module (of the copy that was followed).
        inputs: Where its data come from.
        users: Who takes its value.
        returned: Whether the flow ends with its value.
        plain: Whether it takes one value and nothing else.
        node: The node of the graph that it was read from.
    """

    kind: str
    slot: str
    caller: str
    name: str
    module: nn.Module | None = None
    inputs: list[Call] = field(default_factory=list)
    users: list[Call] = field(default_factory=list)
    returned: bool = False
    plain: bool = True
    node: fx.Node | None = None

    def takes(self, source: Call) -> None:
        """Say that a value of ``source`` is an input."""
        if source not in self.inputs:
            self.inputs.append(source)
        if self not in source.users:
            source.users.append(self)

    @property
    def only_user(self) -> Call | None:
        """The one call that takes its value, where it is one and the value goes nowhere else."""
        return self.users[0] if len(self.users) == 1 and not self.returned else None

    @property
    def only_input(self) -> Call | None:
        """The one call whose value it takes."""
        return self.inputs[0] if len(self.inputs) == 1 else None

    @property
    def label(self) -> str:
        """What a reader knows it by."""
        return self.slot or f"{self.caller + '.' if self.caller else ''}{self.name}()"

    def __repr__(self) -> str:
        return f"<Call {self.kind} {self.label}>"


@dataclass
class Flow:
    """One way through the forward of a module.

    Attributes:
        scope: Address of the module whose forward it is; ``""`` for the whole model.
        calls: In running order.
        opaque: Modules that were not looked into, with the reason.
    """

    scope: str
    calls: list[Call]
    opaque: dict[str, str] = field(default_factory=dict)


def kind_of_slot(module: nn.Module) -> str:
    """What a module without parts is to the flow.

    >>> [kind_of_slot(item) for item in (nn.GELU(), nn.BatchNorm1d(2), nn.MaxPool2d(2), nn.Dropout(), nn.Softmax(-1))]
    ['activation', 'norm', 'pool', 'pass', 'other']
    """
    kind = kind_of(module)
    if kind == "channel norm" or isinstance(
        module, nn.LayerNorm | nn.RMSNorm
    ):  # parametrized ones have parts
        return "norm"
    if isinstance(module, _NO_ACTIVATIONS):
        return "other"
    if isinstance(module, ShapedActivation):
        return "activation"
    if isinstance(module, nn.Identity):
        return "pass"
    if isinstance(module, nn.Flatten):
        return "other"
    if isinstance(module, _POOL_MODULES):
        return "pool"
    if kind in ("activation", "norm", "dense", "convolution", "pass"):
        return kind
    if recognise(module) is not None or _is_own_activation(module):
        return "activation"
    return "other"


def _is_own_activation(module: nn.Module) -> bool:
    """Whether a class of the user's is a curved function of each number by itself (``x * sigmoid(x)`` written out)."""
    if (
        type(module).__module__.startswith("torch.nn.")
        or module._parameters
        or module._buffers
        or module._modules
    ):
        return False
    if module not in _OWN:
        try:
            values = from_callable(module.forward).value(np.linspace(-3.0, 3.0, 13))
        except FirstlightError:
            _OWN[module] = False
        else:
            bends = np.abs(np.diff(values, 2)).max()
            _OWN[module] = bool(bends > 1e-9 * np.abs(values).max())
    return _OWN[module]


_OWN: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
"""What was found out about a module, for as long as it lives: a trace asks many times."""


def kind_of_function(name: str) -> str:
    """What a function is to the flow, by its name.

    >>> [kind_of_function(name) for name in ("relu_", "__add__", "max_pool2d", "softmax")]
    ['activation', 'sum', 'pool', 'other']
    """
    plain = name.strip("_")
    for kind, names in (("activation", _ACTIVATIONS), ("sum", _SUMS), ("pass", _PASSING), ("pool", _POOLS)):
        if plain in names:
            return kind
    return "other"


def parent_of(slot: str) -> tuple[str, str]:
    """The address of the holder and the name in it.

    >>> parent_of("layer1.0.relu"), parent_of("norm")
    (('layer1.0', 'relu'), ('', 'norm'))
    """
    holder, _, name = slot.rpartition(".")
    return holder, name
