"""The graph of what a module calls, with an address for each call.

Enters: an ``nn.Module``. Leaves: its ``torch.fx`` graph, known modules and untraceable ones as single nodes.

Addresses: a module keeps its ``named_modules()`` name, its second call adds ``#2``. A function called in the
forward of module ``m`` is ``m#relu`` (``#relu`` in the root's), the next one of that name ``m#relu2``; the
one whose value ``m`` returns is ``m`` itself, so that what is measured at ``m`` is what is described there.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from firstlight.architecture.activation_callables import from_callable
from firstlight.architecture.module_descriptions import is_known
from firstlight.errors import ModelError, UsageError

__all__ = ["Trace", "trace"]


@dataclass(frozen=True)
class Trace:
    """What a module calls.

    Attributes:
        root: The module.
        output: The node whose value is the output.
        live: Nodes that the output depends on, with their place in the order of calls.
        data: Those through which the input runs (parameters and shapes are none).
        addresses: Name of each call.
        failures: Why modules were not looked into, by address.
        outputs: How many values the module returns.
    """

    root: nn.Module
    graph: fx.Graph
    output: fx.Node | None
    live: dict[fx.Node, int]
    data: frozenset[fx.Node]
    addresses: dict[fx.Node, str]
    failures: dict[str, str]
    outputs: int

    def inputs_of(self, node: fx.Node) -> list[fx.Node]:
        """The nodes through which data enters this one, in running order."""
        return sorted(
            (item for item in set(node.all_input_nodes) if item in self.data), key=self.live.__getitem__
        )

    def module(self, node: fx.Node) -> nn.Module:
        """The module that a ``call_module`` node calls."""
        return self.root.get_submodule(str(node.target))

    def shapes(self, example: torch.Tensor) -> dict[fx.Node, tuple[int, ...]]:
        """The shape of each node's value for an example batch, run on a copy."""
        runner = fx.GraphModule(copy.deepcopy(self.root).eval(), self.graph)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            try:
                ShapeProp(runner).propagate(example)
            except (RuntimeError, TypeError, ValueError) as error:
                raise ModelError(
                    f"Blueprint.read(example=…): expected a batch that the model takes, got one of shape "
                    f"{tuple(example.shape)} on which it fails: {_first_line(error)}"
                ) from error
        found: dict[fx.Node, Any] = {node: node.meta.get("tensor_meta") for node in self.live}
        return {node: tuple(meta.shape) for node, meta in found.items() if hasattr(meta, "shape")}


def trace(module: nn.Module) -> Trace | str:
    """Follow the calls of a module, or say why that is not possible."""
    # found before tracing starts, because the tracer replaces every module's call
    functions = {
        name for name, part in module.named_modules() if name and not is_known(part) and _is_function(part)
    }
    tracer = _Tracer(functions)
    # the first argument is the input whatever its default; the others keep theirs (no mask, no labels)
    others = list(inspect.signature(module.forward).parameters.values())[1:]
    defaults = {item.name: item.default for item in others if item.default is not item.empty}
    try:
        graph = tracer.trace(module, concrete_args=defaults or None)
    except Exception as error:  # whatever a user's forward raises when it runs on symbols
        return f"its forward cannot be followed symbolically ({_first_line(error)})"
    (end,) = [node for node in graph.nodes if node.op == "output"]
    returned = end.all_input_nodes
    live = _live(graph, end)
    return Trace(
        root=module,
        graph=graph,
        output=returned[0] if returned else None,
        live=live,
        data=_data(live),
        addresses=_addresses(live, tracer.returned),
        failures=tracer.failures,
        outputs=len(returned),
    )


class _Tracer(fx.Tracer):
    """Takes known modules, functions of one number, and modules that cannot be followed as single nodes."""

    def __init__(self, functions: set[str]) -> None:
        super().__init__()
        self.functions = functions
        self.failures: dict[str, str] = {}
        self.returned: dict[fx.Node, str] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_known(m) or module_qualified_name in self.functions

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        inside = getattr(m, "_orig_mod", None)
        if isinstance(inside, nn.Module):  # a compiled part: its own forward would start the compiler
            return inside(*args, **kwargs)
        address = self.path_of_module(m)
        stack = self.module_stack.copy()
        try:
            result = super().call_module(m, forward, args, kwargs)
        except Exception as error:  # as in ``trace``; the innermost module that fails becomes a node
            self.module_stack = stack  # what the failed call left on it
            self.failures[address] = f"its forward cannot be followed symbolically ({_first_line(error)})"
            return self.create_proxy("call_module", address, args, kwargs)
        if isinstance(result, fx.Proxy) and _owner(result.node) == address:
            self.returned[result.node] = address
        return result


def _is_function(module: nn.Module) -> bool:
    """Whether a user's module without parts or parameters is an elementwise function."""
    if any(True for _ in module.parameters()) or any(True for _ in module.children()):
        return False
    try:
        from_callable(module)
    except UsageError:
        return False
    return True


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _live(graph: fx.Graph, end: fx.Node) -> dict[fx.Node, int]:
    wanted, stack = {end}, [end]
    while stack:
        for node in stack.pop().all_input_nodes:
            if node not in wanted:
                wanted.add(node)
                stack.append(node)
    return {node: place for place, node in enumerate(graph.nodes) if node in wanted}


_SHAPE_METHODS = {"size", "dim", "numel", "ndimension", "stride"}
_SHAPE_ATTRIBUTES = {"shape", "ndim", "device", "dtype"}


def _data(live: dict[fx.Node, int]) -> frozenset[fx.Node]:
    data: set[fx.Node] = set()
    for node in live:
        asks_shape = (node.op == "call_method" and node.target in _SHAPE_METHODS) or (
            node.op == "call_function" and node.target is getattr and node.args[1] in _SHAPE_ATTRIBUTES
        )
        if node.op == "placeholder" or (
            not asks_shape and any(item in data for item in node.all_input_nodes)
        ):
            data.add(node)
    return frozenset(data)


def _owner(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values()]
    return str(paths[-1]) if paths else ""


def _addresses(live: dict[fx.Node, int], returned: dict[fx.Node, str]) -> dict[fx.Node, str]:
    calls: Counter[str] = Counter()
    addresses: dict[fx.Node, str] = {}
    for node in live:
        if node.op == "call_module" or node in returned:
            base = returned.get(node, str(node.target))
            separator = "#"
        elif node.op in ("call_function", "call_method"):
            name = (
                node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "function")
            )
            base = f"{_owner(node)}#{name.strip('_')}"
            separator = ""
        else:
            addresses[node] = node.name
            continue
        calls[base] += 1
        addresses[node] = base if calls[base] == 1 else f"{base}{separator}{calls[base]}"
    return addresses
