"""The only hooks: they show the outputs of chosen modules while a model runs, and are gone afterwards.

Enters: a module and the names of layers. Leaves: a ``Plan`` of what runs, in running order, and a context in
which each tapped output is shown to a listener (which may put another tensor in its place). A module that is
called several times is keyed ``name#1``, ``name#2`` …

What no hook can see is listed: modules that never ran, activations called as functions, projections inside
fused attention.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from firstlight.errors import UsageError
from firstlight.measurement.kinds import kind_of, owns_parameters
from firstlight.measurement.layouts import unit_axis
from firstlight.measurement.outputs import answer, first_tensor
from firstlight.measurement.selecting import chosen
from firstlight.results.provenance import CoverageEntry

__all__ = ["Layers", "Plan", "Tap", "choose", "scout", "tapped"]

Layers = str | Sequence[str] | Callable[[str, nn.Module], bool] | None

_STANDARD = ("dense", "convolution", "norm", "channel norm", "attention")
# fmt: off
_ACTIVATIONS = {
    "relu", "relu_", "relu6", "gelu", "silu", "elu", "elu_", "selu", "selu_", "celu", "leaky_relu",
    "leaky_relu_", "prelu", "rrelu", "mish", "tanh", "tanh_", "sigmoid", "sigmoid_", "softplus",
    "softsign", "hardtanh", "hardswish", "hardsigmoid", "logsigmoid", "tanhshrink", "hardshrink",
    "softshrink", "threshold", "glu",
}
# fmt: on
_FUSED = {"scaled_dot_product_attention": "attention", "multi_head_attention_forward": "attention"}
_WEIGHING = {
    *("linear", "bilinear", "conv1d", "conv2d", "conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"),
}
"""Functions that do a layer's work; inside a module made for it they are that module's own."""


@dataclass(frozen=True)
class Tap:
    """One call of one module.

    Attributes:
        key: Name in the profile.
        name: ``named_modules()`` address.
        call: Which call of this module in one forward pass, from 0.
        kind: Kind of the module.
        module: Class name.
        shape: Shape of its output for the scouting batch.
        axis: Axis of units of its output.
        source: Key of the call whose output it reads, ``"input"`` for the model's own input, ``None`` where
            something that no module did lies between.
        weight: Numbers in its own weight: multiplications for each position.
        reads: Whether it was given a tensor; what is given none (a table of position biases) passes no signal on.
    """

    key: str
    name: str
    call: int
    kind: str
    module: str
    shape: tuple[int, ...]
    axis: int
    source: str | None = None
    weight: int = 0
    reads: bool = True

    @property
    def units(self) -> int:
        """Number of units."""
        return self.shape[self.axis] if len(self.shape) > 1 else 1

    @property
    def positions(self) -> int:
        """Positions of each unit in one sample, as the tensor counts samples."""
        total = 1
        for length in self.shape[1:]:
            total *= length
        return total // self.units


@dataclass(frozen=True)
class Plan:
    """What a forward pass runs and which of it is tapped.

    Attributes:
        ran: Every call of every module with a tensor output, in running order.
        taps: Those that are observed.
        unseen: What runs out of sight or not at all.
        output: Key of the tap whose tensor the model returns, or ``None``.
        output_axis: Axis of units of that tensor, where one module made it (which may be the model itself).
        embedding: Name of the module at which noise and gradients enter when inputs are tokens.
        joints: Names of modules through which the whole signal passes, alone.
    """

    ran: tuple[Tap, ...]
    taps: tuple[Tap, ...] = ()
    unseen: tuple[CoverageEntry, ...] = ()
    output: str | None = None
    output_axis: int | None = None
    embedding: str | None = None
    joints: frozenset[str] = frozenset()


def scout(module: nn.Module, run: Callable[[], Any], inputs: Sequence[Tensor] = ()) -> tuple[Plan, Any]:
    """Run once and list what ran; returns the plan without taps, and the output.

    Args:
        module: What runs.
        run: Calls it.
        inputs: The tensors it is called with.
    """
    calls: list[_Call] = []
    functions: list[tuple[str, str]] = []
    running: list[tuple[str, nn.Module]] = []
    read: list[tuple[Tensor | None, int]] = []
    handles = []
    for name, item in module.named_modules():
        if _is_of_weights(name):
            continue

        def before(item: nn.Module, args: Any, kwargs: Any, name: str = name) -> None:
            running.append((name, item))
            tensor = first_tensor((args, kwargs))
            read.append((tensor, -1 if tensor is None else _version(tensor)))

        def after(item: nn.Module, args: Any, output: Any, name: str = name) -> None:
            running.pop()
            tensor, version = read.pop()
            result = first_tensor(output)
            if result is not None:
                calls.append(_Call(name, item, tensor, version, result, _version(result)))

        handles.append(item.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(item.register_forward_hook(after))
    try:
        with _Functions(functions, running):
            output = run()
    finally:
        for handle in handles:
            handle.remove()
    ran = _keyed(calls, {tensor.data_ptr() for tensor in inputs})
    maker = _maker_of(output, calls, ran)
    plan = Plan(
        ran=ran,
        unseen=_unseen(module, ran, functions),
        output=maker.key if maker is not None and maker.name else None,
        output_axis=None if maker is None else maker.axis,
        embedding=next((tap.name for tap in ran if tap.kind == "embedding"), None),
        joints=_joints(module, ran),
    )
    return plan, output


def choose(plan: Plan, module: nn.Module, layers: Layers, *, with_activations: bool = False) -> Plan:
    """The plan with its taps chosen.

    ``None`` or ``"standard"`` is every dense, convolutional and norm output, and that of every other module that holds
    weights and no modules, but for embeddings: recurrent layers, attention whose parts are fused, layers of the user's
    own.
    """
    modules = dict(module.named_modules())
    activations = {tap.key for tap in plan.ran if with_activations and tap.kind == "activation"}
    if layers is None or (isinstance(layers, str) and layers == "standard"):
        keys = {tap.key for tap in plan.ran if _is_standard(tap, modules)} | activations
    elif isinstance(layers, str) and layers == "output":
        keys = set()
    elif isinstance(layers, str) and layers == "all":
        keys = {tap.key for tap in plan.ran if tap.kind != "container"}
    elif callable(layers):
        keys = {tap.key for tap in plan.ran if tap.name and layers(tap.name, modules[tap.name])}
        if not keys:
            raise UsageError(
                f"measure(layers): the predicate accepts none of the {len(plan.ran)} layers that ran"
            )
    else:
        patterns = [layers] if isinstance(layers, str) else layers
        if not isinstance(patterns, Iterable) or not all(isinstance(item, str) for item in patterns):
            raise UsageError(f"measure(layers): expected names, patterns or a predicate, got {layers!r}")
        patterns = list(patterns)
        names = list(dict.fromkeys(word for tap in plan.ran if tap.name for word in (tap.name, tap.key)))
        found = set(chosen(names, patterns)) if patterns else set()
        keys = {tap.key for tap in plan.ran if tap.key in found or tap.name in found}
    if plan.output is not None:
        keys.add(plan.output)
    taps = [tap for tap in plan.ran if tap.key in keys and tap.name]
    taps.sort(key=lambda tap: tap.key == plan.output)  # stable: only the output moves, to the end
    return replace(plan, taps=tuple(taps))


def _is_standard(tap: Tap, modules: Mapping[str, nn.Module]) -> bool:
    own = tap.kind == "other" and tap.reads and owns_parameters(modules[tap.name])
    return own or tap.kind in _STANDARD


def _is_of_weights(name: str) -> bool:
    """Whether the module computes a weight (weight norm, spectral norm): its output is no signal."""
    return "parametrizations" in name.split(".")


@contextmanager
def tapped(
    module: nn.Module, taps: Sequence[Tap], listen: Callable[[Tap, Tensor, Any], Tensor | None]
) -> Iterator[Callable[[], None]]:
    """Show each tapped output, with the arguments that made it, to ``listen``; what it returns replaces it.

    Yields a function that must be called before each forward pass.
    """
    by_name: dict[str, dict[int, Tap]] = {}
    for tap in taps:
        by_name.setdefault(tap.name, {})[tap.call] = tap
    counts: Counter[str] = Counter()
    modules = dict(module.named_modules())
    handles = []

    def hook(name: str, expected: dict[int, Tap]) -> Callable[[nn.Module, Any, Any], Any]:
        def show(_: nn.Module, args: Any, output: Any) -> Any:
            tap = expected.get(counts[name])
            counts[name] += 1
            tensor = first_tensor(output)
            if tap is None or tensor is None:
                return None
            replaced = listen(tap, tensor, args)
            return replaced if isinstance(output, Tensor) else None

        return show

    try:
        for name, expected in by_name.items():
            handles.append(modules[name].register_forward_hook(hook(name, expected)))
        yield counts.clear
    finally:
        for handle in handles:
            handle.remove()


# Reading one forward pass


class _Functions(TorchFunctionMode):
    """Notes activation, attention and weighing functions that are called outside a module made for them."""

    def __init__(self, found: list[tuple[str, str]], running: list[tuple[str, nn.Module]]) -> None:
        super().__init__()
        self.found, self.running = found, running

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if self.running and (name in _ACTIVATIONS or name in _FUSED or name in _WEIGHING):
            where, module = self.running[-1]
            kind = kind_of(module)
            if name in _WEIGHING:
                inside = kind in _STANDARD or (kind == "other" and owns_parameters(module))
            else:
                inside = kind in ("activation", "norm")
            if not inside:
                self.found.append((where, name))
        return function(*args, **(kwargs or {}))


@dataclass(frozen=True)
class _Call:
    """One call with the tensors it read and returned; versions count what is written in place."""

    name: str
    module: nn.Module
    read: Tensor | None
    read_version: int
    returned: Tensor
    version: int


def _keyed(calls: list[_Call], inputs: set[int]) -> tuple[Tap, ...]:
    totals = Counter(call.name for call in calls)
    seen: Counter[str] = Counter()
    axes: dict[tuple[int, ...], int] = {}
    made: dict[tuple[int, int], str] = {}  # (storage, version) → key of the call that left it so
    ran = []
    for call in calls:
        name, number = call.name, seen[call.name]
        seen[name] += 1
        kind, shape = kind_of(call.module), tuple(call.returned.shape)
        if kind in ("dense", "convolution", "norm", "channel norm", "embedding"):
            axis = unit_axis(kind, call.returned.ndim)
        else:  # an elementwise layer keeps the axis of the tensor that it was given
            axis = axes.get(shape, unit_axis(kind, call.returned.ndim))
        axes[shape] = axis
        key = name if totals[name] == 1 else f"{name}#{number + 1}"
        source = None
        if call.read is not None:
            place = call.read.data_ptr()
            source = made.get((place, call.read_version), "input" if place in inputs else None)
        weight = getattr(call.module, "weight", None)
        numbers = weight.numel() if isinstance(weight, Tensor) and kind in ("dense", "convolution") else 0
        ran.append(
            Tap(
                key,
                name,
                number,
                kind,
                type(call.module).__name__,
                shape,
                axis,
                source,
                weight=numbers,
                reads=call.read is not None,
            )
        )
        if (
            kind != "pass"
        ):  # what passes a tensor on did not make it; a container made only what nothing inside it made
            made.setdefault((call.returned.data_ptr(), call.version), key)
    return tuple(ran)


def _maker_of(output: Any, calls: list[_Call], ran: tuple[Tap, ...]) -> Tap | None:
    """The call of the innermost module whose output is, element for element, what the model returns."""
    tensor, _ = answer(output)
    if tensor.is_inference():  # what was written into it since cannot be told
        return None
    for call, tap in zip(reversed(calls), reversed(ran), strict=True):
        same = _place(call.returned) == _place(tensor) and call.version == tensor._version
        if same and tap.kind not in ("pass", "container"):
            return tap
    return None


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride()


def _version(tensor: Tensor) -> int:
    """How often it was written into; tensors of inference mode do not count."""
    return 0 if tensor.is_inference() else tensor._version


def _joints(module: nn.Module, ran: tuple[Tap, ...]) -> frozenset[str]:
    """Children of a Sequential root, and of Sequentials among them: between two of them nothing else is alive."""
    totals = Counter(tap.name for tap in ran)
    found: set[str] = set()

    def descend(item: nn.Module, prefix: str) -> None:
        if isinstance(item, nn.Sequential) and type(item).forward is nn.Sequential.forward:
            for name, child in item.named_children():
                address = f"{prefix}{name}"
                if totals[address] == 1:
                    found.add(address)
                    descend(child, f"{address}.")

    descend(module, "")
    return frozenset(found)


def _unseen(
    module: nn.Module, ran: tuple[Tap, ...], functions: list[tuple[str, str]]
) -> tuple[CoverageEntry, ...]:
    fired = {tap.name for tap in ran}
    entries = []
    attention = {where for where, name in functions if name in _FUSED}
    for name, item in module.named_modules():
        kind = kind_of(item)
        if (
            name in fired
            or not name
            or _is_of_weights(name)
            or kind in ("pass", "container")
            or next(item.children(), None) is not None
            or isinstance(item, nn.ModuleList | nn.ModuleDict)
        ):
            continue
        parent = name.rpartition(".")[0]
        if parent in attention:
            reason = "its weights are used inside fused attention; it is never called"
        else:
            reason = "it never ran on this data"
        entries.append(CoverageEntry(name, type(item).__name__, "unseen", reason))
    counted = Counter(functions)
    for (where, name), times in counted.items():
        often = f", {times} times" if times > 1 else ""
        if name in _FUSED:
            continue
        reason = f"called as a function{often}: there is no module to observe"
        entries.append(CoverageEntry(where or "the model itself", name.rstrip("_"), "unseen", reason))
    return tuple(entries)
