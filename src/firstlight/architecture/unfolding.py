"""From the graph of calls to a line of layers with residual units.

Enters: a ``Trace``. Leaves: the layers in running order, what has no description as ``Unmodelled`` with its reason.

The graph is walked backwards from the output. A node with several inputs is followed to the nearest node through which
all of them run. If everything between is elementwise, the whole is one activation (x·σ(x) written out); if it is a sum
of branches, it is a residual unit; else it is unmodelled, and the walk goes on before it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn
from torch.nn import functional

from firstlight.architecture.activation_callables import from_callable, identify
from firstlight.architecture.function_kinds import (
    COPIES,
    DIFFERENCES,
    DROPOUTS,
    ELEMENTWISE,
    POOLS,
    POSITIONAL,
    PRODUCTS,
    QUOTIENTS,
    REASONS,
    SUMS,
    VIEWS,
    function_name,
)
from firstlight.architecture.layers import Activation, AdaptivePool, Layer, Pass, Unmodelled
from firstlight.architecture.module_descriptions import Describer, PendingPool, scaling
from firstlight.architecture.torch_activations import recognise, recognise_call
from firstlight.architecture.tracing import Trace
from firstlight.errors import UsageError

__all__ = ["Branching", "Step", "unfold"]


@dataclass(frozen=True)
class Branching:
    """A residual unit whose pools are not settled yet."""

    address: str
    body: tuple[Step, ...]
    shortcut: tuple[Step, ...]
    scale: float


Step = Layer | PendingPool | Branching


def unfold(trace: Trace, describer: Describer) -> tuple[list[Step], fx.Node | None]:
    """The layers from the input to the output, and the node that the input is (``None``: there are several)."""
    if trace.output is None or trace.output not in trace.data:
        return [Unmodelled("", type(trace.root).__name__, "its output does not depend on its input")], None
    return _Unfolding(trace, describer).back_to_input(trace.output)


class _Unfolding:
    def __init__(self, trace: Trace, describer: Describer) -> None:
        self.trace = trace
        self.describer = describer

    def back_to_input(self, node: fx.Node) -> tuple[list[Step], fx.Node | None]:
        steps: list[Step] = []
        entry: fx.Node | None = node
        while entry is not None and entry.op != "placeholder":
            earlier, entry = self._step(entry)
            steps = [*earlier, *steps]
        return steps, entry

    def _between(self, end: fx.Node, start: fx.Node) -> list[Step]:
        """The steps after ``start`` up to ``end``; every path back from ``end`` runs through ``start``."""
        steps: list[Step] = []
        node = end
        while node is not start:
            earlier, entry = self._step(node)
            assert entry is not None
            steps, node = [*earlier, *steps], entry
        return steps

    def _step(self, node: fx.Node) -> tuple[list[Step], fx.Node | None]:
        """The layers that a node is, and the node before them."""
        address = self.trace.addresses[node]
        entry = self._entry(node)
        if entry is not None:
            region = self._elementwise_region(node, entry)
            if region is not None:
                return [self._function(node, entry, region)], entry
        if node.op == "call_module":
            return self._module(node, address), entry
        if (
            node.target in (operator.getitem, getattr)
            and len(self.trace.inputs_of(node)) == 1
            and _of_tuple(node)
        ):
            return [], entry
        if node.target in COPIES:
            return [Pass(address, "Identity")], entry
        if node.target in VIEWS:
            return [Pass(address, "Flatten" if _flattens(node) else "View")], entry
        if node.target in DROPOUTS:
            self.describer.note("dropout is described as off")
            return [Pass(address, "Dropout")], entry
        if _averages_pictures(node):
            pooled = PendingPool(address, "avg", 2, 1, True, AdaptivePool(address, (1, 1)), adaptive=True)
            flat = [] if _argument(node, 2, "keepdim", False) else [Pass(f"{address}#flatten", "Flatten")]
            return [pooled, *flat], entry
        pool = self._pool(node, address)
        if pool is not None:
            return [pool], entry
        norm = self._functional_norm(node, address)
        if norm is not None:
            return norm, entry
        if node.target is functional.linear and entry is not None:
            return [self._functional_linear(node)], entry
        if entry is not None and len(self.trace.inputs_of(node)) == 2 and node.target in SUMS | DIFFERENCES:
            return [self._sum(node, entry)], entry
        name = function_name(node)
        reason = REASONS.get(name, f"no description is known for the function {name!r}")
        if entry is None:
            reason = f"{name!r} joins several inputs of the model; a description starts from one"
        elif node.target in SUMS | DIFFERENCES | PRODUCTS | QUOTIENTS:
            reason = f"{name!r} joins the signal with a parameter or another branch in a way that no rule describes"
        return [Unmodelled(address, name, reason + self._inside(node, entry))], entry

    def _module(self, node: fx.Node, address: str) -> list[Step]:
        module = self.trace.module(node)
        target = str(node.target)
        if address != target and any(True for _ in module.parameters()):
            self.describer.note(
                f"{target} runs more than once with the same weights; each run is described as drawn anew"
            )
        if target in self.trace.failures:
            return [Unmodelled(address, type(module).__name__, self.trace.failures[target])]
        return list(self.describer.layers(module, address))

    def _pool(self, node: fx.Node, address: str) -> Step | None:
        maker = POOLS.get(function_name(node))
        given = [*node.args[1:], *node.kwargs.values()]
        if maker is None or any(isinstance(item, fx.Node) for item in given):
            return None
        options = {key: value for key, value in node.kwargs.items() if key != "input"}
        return self.describer.layers(maker(*node.args[1:], **options), address)[0]

    def _functional_norm(self, node: fx.Node, address: str) -> list[Step] | None:
        makers: dict[Any, Callable[..., nn.Module]] = {
            functional.layer_norm: nn.LayerNorm,
            functional.rms_norm: nn.RMSNorm,
        }
        maker = makers.get(node.target)
        if maker is None:
            return None
        names = ("input", "normalized_shape", "weight", *(("bias",) if maker is nn.LayerNorm else ()), "eps")
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        scale, shift = given.get("weight"), given.get("bias")
        if (scale is not None and self._constant(scale) != 1.0) or (
            shift is not None and self._constant(shift) != 0.0
        ):
            return [Unmodelled(address, function_name(node), "its scale and shift are not (1, 0)")]
        options = {"eps": given["eps"]} if "eps" in given else {}
        shape = given["normalized_shape"]
        if isinstance(shape, fx.Node) or any(isinstance(size, fx.Node) for size in shape):
            return [Unmodelled(address, function_name(node), "its width is computed as it runs")]
        return list(self.describer.layers(maker(shape, elementwise_affine=False, **options), address))

    def _inside(self, node: fx.Node, entry: fx.Node | None) -> str:
        """The modules that an unmodelled node's branches hold, for its reason: they are listed nowhere else."""
        seen: set[fx.Node] = set()
        stack = self.trace.inputs_of(node)
        while stack:
            part = stack.pop()
            if part is not entry and part not in seen:
                seen.add(part)
                stack.extend(self.trace.inputs_of(part))
        parts = sorted((part for part in seen if part.op == "call_module"), key=self.trace.live.__getitem__)
        names = [self.trace.addresses[part] for part in parts]
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        return f"; not described with it: {shown}" if names else ""

    def _entry(self, node: fx.Node) -> fx.Node | None:
        """The nearest node through which all inputs of ``node`` run; ``None`` where the model has several inputs."""
        return self._meeting(self.trace.inputs_of(node), lambda _: True)

    def _meeting(self, nodes: Iterable[fx.Node], passable: Callable[[fx.Node], bool]) -> fx.Node | None:
        frontier = set(nodes)
        while len(frontier) > 1:
            last = max(frontier, key=self.trace.live.__getitem__)
            if last.op == "placeholder" or not passable(last):
                return None
            frontier.remove(last)
            frontier.update(self.trace.inputs_of(last))
        return frontier.pop() if frontier else None

    # -- elementwise ------------------------------------------------------------------------------------------------

    def _elementwise_region(self, node: fx.Node, entry: fx.Node) -> list[fx.Node] | None:
        """All nodes between ``entry`` and ``node``, where each acts on every number by itself."""
        region: list[fx.Node] = []
        frontier = {node}
        while frontier != {entry}:
            last = max(frontier, key=self.trace.live.__getitem__)
            if last is entry or not self._is_elementwise(last):
                return None
            frontier.remove(last)
            region.append(last)
            frontier.update(self.trace.inputs_of(last))
        return region[::-1]

    def _is_elementwise(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            return len(self.trace.inputs_of(node)) == 1 and recognise(self.trace.module(node)) is not None
        arithmetic = SUMS | DIFFERENCES | PRODUCTS | QUOTIENTS | ELEMENTWISE
        if node.op not in ("call_function", "call_method") or node.target not in arithmetic:
            return False
        return all(self._is_scalar(item) for item in node.all_input_nodes if item not in self.trace.data)

    def _is_scalar(self, node: fx.Node) -> bool:
        return node.op == "get_attr" and self._constant(node) is not None

    def _constant(self, item: object) -> float | None:
        """The number that an argument stands for: itself, or a parameter whose elements are all equal."""
        if isinstance(item, int | float):
            return float(item)
        if isinstance(item, fx.Node) and item.op == "get_attr":
            value: Any = self.trace.root
            for part in str(item.target).split("."):
                value = getattr(value, part)
            if (
                isinstance(value, Tensor)
                and not value.is_meta
                and bool((value == value.reshape(-1)[0]).all())
            ):
                return float(value.detach().reshape(-1)[0])
        return None

    def _function(self, node: fx.Node, entry: fx.Node, region: list[fx.Node]) -> Step:
        address = self.trace.addresses[node]
        if len(region) == 1:
            if node.op == "call_module":
                return self._module(node, address)[0]
            known = self._recognised(node)
            if known is not None:
                return known
            factor = self._factor(node)
            if factor is not None:
                return scaling(address, factor)
        parameters = {item for part in region for item in part.all_input_nodes if item.op == "get_attr"}
        graph = fx.Graph()
        copies = {entry: graph.placeholder("x")}
        for parameter in sorted(parameters, key=self.trace.live.__getitem__):
            # a 0-dimensional buffer in place of a parameter of any shape
            copies[parameter] = graph.call_function(float, (self._constant(parameter),))
        for part in region:
            copies[part] = graph.node_copy(part, copies.__getitem__)
        graph.output(copies[node])
        written_out = fx.GraphModule(self.trace.root, graph)
        name = function_name(node)
        try:
            return Activation(address, identify(from_callable(written_out, name=name)))
        except UsageError as error:
            return Unmodelled(address, name, str(error).partition(": ")[2])

    def _recognised(self, node: fx.Node) -> Activation | None:
        function: Any = node.target
        if isinstance(function, str):
            function = getattr(Tensor, function.rstrip("_"), None)
        keywords = dict(node.kwargs)
        names = ("input", *POSITIONAL.get(getattr(function, "__name__", ""), ()))
        keywords.update(zip(names[1:], node.args[1:], strict=False))
        keywords.pop("input", None)
        if len(node.args) > len(names) or any(isinstance(item, fx.Node) for item in keywords.values()):
            return None
        found = recognise_call(function, keywords)
        return Activation(self.trace.addresses[node], found) if found is not None else None

    # -- sums -------------------------------------------------------------------------------------------------------

    def _factor(self, node: fx.Node) -> float | None:
        """The constant a where the node is a·x, x·a or x/a with a constant a."""
        if len(node.args) != 2 or node.kwargs:
            return None
        first, second = node.args
        if node.target in PRODUCTS:
            return self._constant(second) if first in self.trace.data else self._constant(first)
        if node.target in QUOTIENTS and first in self.trace.data:
            divisor = self._constant(second)
            return 1.0 / divisor if divisor else None
        return None

    def _sum(self, node: fx.Node, entry: fx.Node) -> Step:
        sign = -1.0 if node.target in DIFFERENCES else 1.0
        weight = node.kwargs.get("alpha", 1.0)
        address = self.trace.addresses[node]
        if not isinstance(weight, int | float) or len(node.args) != 2:
            return Unmodelled(address, "add", "adds two branches with a weight that is no number")
        scales, branches = [1.0, sign * float(weight)], []
        for index, end in enumerate(node.args):
            assert isinstance(end, fx.Node)
            while end is not entry and (factor := self._factor(end)) is not None:
                scales[index] *= factor
                (end,) = self.trace.inputs_of(end)
            branches.append(self._between(end, entry))
        # the body is the branch that holds more; the other one is the shortcut
        body = 0 if _count(branches[0]) >= _count(branches[1]) else 1
        shortcut = branches[1 - body]
        if scales[1 - body] != 1.0:
            shortcut = [*shortcut, scaling(f"{address}#shortcut", scales[1 - body])]
        return Branching(address, tuple(branches[body]), tuple(shortcut), scales[body])

    def _functional_linear(self, node: fx.Node) -> Step:
        address = self.trace.addresses[node]
        tensors: list[Tensor | None] = []
        given = [*node.args[1:], *(node.kwargs[name] for name in ("weight", "bias") if name in node.kwargs)]
        for item in given:
            value: Any = None
            if isinstance(item, fx.Node):
                if item.op != "get_attr":
                    return Unmodelled(address, "linear", "its weights are computed, not drawn")
                value = self.trace.root
                for part in str(item.target).split("."):
                    value = getattr(value, part)
            tensors.append(value)
        weight, bias = [*tensors, None][:2]
        assert weight is not None
        return self.describer.dense(address, weight, bias)


def _of_tuple(node: fx.Node) -> bool:
    """Whether an indexing takes an element of what a module returned (an LSTM's tuple), or of ``*inputs``."""
    source = node.args[0]
    if not isinstance(source, fx.Node) or not isinstance(node.args[1], int | str):
        return False
    return source.op == "call_module" or (source.op == "placeholder" and str(source.target).startswith("*"))


def _flattens(node: fx.Node) -> bool:
    """Whether all axes but the first become one, as far as the call itself says."""
    if function_name(node) == "flatten":
        return _argument(node, 1, "start_dim", 0) == 1 and _argument(node, 2, "end_dim", -1) == -1
    if function_name(node) not in ("view", "reshape"):
        return False
    sizes = node.args[1:]
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    return len(sizes) == 2 and isinstance(sizes[1], int) and sizes[1] == -1


def _averages_pictures(node: fx.Node) -> bool:
    """Whether it is the mean over both axes of a picture, (sample, channel, row, column)."""
    axes = _argument(node, 1, "dim", ())
    if function_name(node) != "mean" or not isinstance(axes, tuple | list):
        return False
    return tuple(axes) in ((2, 3), (3, 2), (-2, -1), (-1, -2))


def _argument(node: fx.Node, position: int, name: str, default: object) -> object:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _count(steps: Iterable[Step]) -> int:
    return sum(
        1 + (_count([*step.body, *step.shortcut]) if isinstance(step, Branching) else 0) for step in steps
    )
