"""The flow of a model followed on symbols (``torch.fx``): no data is needed.

Enters: a copy of a model that belongs to nobody. Leaves: the flows of the model, and of those parts that it could not
be followed into from above.

Where a forward asks a question that only data can answer (``if x.shape[1] != self.channels: raise``), both answers
are followed, up to a limit; an answer that ends in the module's own exception is no way through. Questions are answered
only for the module whose flow is being followed: a part that asks some is looked at by itself.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn

from firstlight.architecture.module_descriptions import is_known
from firstlight.errors import FirstlightError
from firstlight.remedies.flow import Call, Flow, kind_of_function, kind_of_slot

__all__ = ["flow_of", "flows", "graph_of", "holding_whole", "is_leaf", "reason_of"]

_WAYS = 16
"""Ways through one forward that are followed; a loop over data would have no end."""
_REFUSALS = (ValueError, AssertionError, NotImplementedError)
"""What a module raises by itself when it does not like its input."""


def flows(model: nn.Module) -> tuple[list[Flow], dict[str, str]]:
    """All flows, outermost first, and the reasons why parts could not be followed at all."""
    found: list[Flow] = []
    failed: dict[str, str] = {}

    def visit(address: str) -> None:
        module = model.get_submodule(address)
        if is_leaf(module):
            return
        ways = _ways(module, address)
        if isinstance(ways, str):
            failed[address] = ways
            inside = [f"{address}.{name}" if address else name for name, _ in module.named_children()]
        else:
            found.extend(ways)
            inside = [name for way in ways for name in way.opaque]
        for name in dict.fromkeys(inside):
            visit(name)

    visit("")
    return found, failed


def is_leaf(module: nn.Module) -> bool:
    """Whether a module is one call, not looked into."""
    if next(module.children(), None) is None:
        return is_known(module) or kind_of_slot(module) != "other"
    return is_known(module)


def holding_whole(model: nn.Module, slot: str) -> str:
    """The part that holds a slot and runs as one piece, with its class; or "" where its own forward calls the slot.

    >>> holding_whole(nn.Sequential(nn.TransformerEncoderLayer(4, 2)), "0.norm1")
    '0 (TransformerEncoderLayer)'
    """
    holder = slot.rpartition(".")[0]
    while holder:
        part = model.get_submodule(holder)
        if next(part.children(), None) is not None and is_leaf(part):
            return f"{holder} ({type(part).__name__})"
        holder = holder.rpartition(".")[0]
    return ""


def graph_of(module: nn.Module, opened: set[str]) -> fx.Graph | str:
    """The whole forward of one module as a graph whose parts stay calls, or why there is none.

    Args:
        module: The module.
        opened: Addresses of parts that are looked into.
    """
    graphs = []
    was = module.training
    try:
        for training in (False, True):
            module.training = training
            graphs.append(_Whole(opened).trace(module))
    except Exception as error:  # whatever a user's forward raises when it runs on symbols
        return reason_of(error)
    finally:
        module.training = was
    first, second = (str(graph) for graph in graphs)
    if first != second:
        return "its forward does one thing in train mode and another in eval mode, and a graph holds only one"
    return graphs[0]


def reason_of(error: Exception) -> str:
    """Why a forward could not be followed."""
    text = str(error).strip()
    told = f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
    return f"its forward cannot be followed symbolically ({told})"


class _Whole(fx.Tracer):
    """Keeps every part a call; refuses what a graph would lose."""

    def __init__(self, opened: set[str]) -> None:
        super().__init__()
        self.opened = opened
        self.graded = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name not in self.opened

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        if (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")) != self.graded:
            raise RuntimeError("a part runs under no_grad or autocast, which a graph does not hold")
        return super().create_node(*args, **kwargs)


class _TooManyError(Exception):
    """More questions than are followed."""


class _AskedError(Exception):
    """A part asks a question of the data."""


class _Follower(fx.Tracer):
    """Looks into parts that ask no questions; the others stay calls."""

    def __init__(self, answers: list[bool]) -> None:
        super().__init__()
        self.answers = answers
        self.given: list[bool] = []
        self.depth = 0
        self.opaque: dict[str, str] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_leaf(m)

    def to_bool(self, obj: fx.Proxy) -> bool:
        if self.depth > 1:
            raise _AskedError("it asks a question that depends on the data")
        if len(self.given) >= _WAYS:
            raise _TooManyError
        answer = self.answers[len(self.given)] if len(self.given) < len(self.answers) else False
        self.given.append(answer)
        return answer

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        stack, before = self.module_stack.copy(), len(self.graph.nodes)
        self.depth += 1
        try:
            return super().call_module(m, forward, args, kwargs)
        except (_TooManyError, FirstlightError):
            raise
        except Exception as error:
            if self.depth == 1:  # the module itself
                raise
            self.module_stack = stack  # what the failed call left on it
            for node in list(self.graph.nodes)[: before - 1 : -1]:
                self.graph.erase_node(node)
            address = self.path_of_module(m)
            self.opaque = {
                name: reason for name, reason in self.opaque.items() if not name.startswith(f"{address}.")
            }
            self.opaque[address] = reason_of(error)
            return self.create_proxy("call_module", address, args, kwargs)
        finally:
            self.depth -= 1


class _Called(nn.Module):
    """Calls a module with its required arguments alone."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        required = [
            item
            for item in inspect.signature(inner.forward).parameters.values()
            if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)
        ]
        self.count = max(1, sum(item.default is item.empty for item in required)) if required else 0

    def forward(self, given: Any) -> Any:
        return self.inner(*(given[place] for place in range(self.count)))


def _ways(module: nn.Module, address: str) -> list[Flow] | str:
    """Every way through a forward, or why it cannot be followed."""
    pending: list[list[bool]] = [[]]
    found: list[Flow] = []
    refused = ""
    while pending:
        answers = pending.pop()
        tracer = _Follower(answers)
        try:
            graph = tracer.trace(_Called(module))
        except _TooManyError:
            return "its forward depends on the data in more ways than can be followed"
        except _REFUSALS as error:
            if not tracer.given:
                return reason_of(error)
            refused, graph = reason_of(error), None
        except Exception as error:  # whatever a user's forward raises when it runs on symbols
            return reason_of(error)
        for place in range(len(answers), len(tracer.given)):
            pending.append([*tracer.given[:place], not tracer.given[place]])
        if len(found) + len(pending) > _WAYS:
            return "its forward depends on the data in more ways than can be followed"
        if graph is not None:
            flow = flow_of(graph, module, address, "inner")
            for name, reason in tracer.opaque.items():
                flow.opaque[
                    ".".join(filter(None, (address, name.removeprefix("inner").removeprefix("."))))
                ] = reason
            found.append(flow)
    return found or refused


def flow_of(graph: fx.Graph, module: nn.Module, address: str, inside: str = "") -> Flow:
    """The calls of a graph of ``module``, which stands at ``address``; parameters and shapes are none.

    Args:
        graph: The graph.
        module: What it calls parts of.
        address: Of the module in the model.
        inside: What the graph puts before the names of the parts.
    """
    calls: dict[fx.Node, Call] = {}
    order: list[Call] = []

    def within(name: str) -> str:
        return name.removeprefix(inside).removeprefix(".") if inside else name

    def whole(name: str) -> str:
        return ".".join(item for item in (address, within(name)) if item)

    for node in graph.nodes:
        sources = [calls[item] for item in node.all_input_nodes if item in calls]
        if node.op == "placeholder" or (node.op == "call_function" and _is_argument(node)):
            call = Call("input", "", address, node.name)
        elif node.op == "output":
            for source in sources:
                source.returned = True
            continue
        elif not sources or _asks_shape(node):
            continue
        elif node.op == "call_module":
            part = module.get_submodule(within(str(node.target)))
            kind = kind_of_slot(part) if is_leaf(part) else "other"
            call = Call(
                kind, whole(str(node.target)), whole(_caller(node, inside)), type(part).__name__, part
            )
            call.plain = len(node.args) == 1 and not node.kwargs
        else:
            name = (
                node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "function")
            )
            call = Call(kind_of_function(name), "", whole(_caller(node, inside)), name.strip("_"))
        call.node = node
        for source in sources:
            call.takes(source)
        calls[node] = call
        order.append(call)
    return Flow(address, order)


def _is_argument(node: fx.Node) -> bool:
    first = node.args[0] if node.args else None
    return (
        node.target is operator.getitem
        and isinstance(first, fx.Node)
        and first.op == "placeholder"
        and not _owner(node)
    )


def _asks_shape(node: fx.Node) -> bool:
    if node.op == "call_method":
        return node.target in ("size", "dim", "numel", "ndimension", "stride")
    return node.target is getattr and node.args[1] in ("shape", "ndim", "device", "dtype")


def _owner(node: fx.Node) -> list[str]:
    stack = node.meta.get("nn_module_stack") or {}
    return [str(entry[0]) for entry in stack.values()]


def _caller(node: fx.Node, inside: str) -> str:
    """The innermost module whose forward runs; the called module itself stands last on the stack."""
    owners = _owner(node)
    if node.op == "call_module" and owners and owners[-1] == node.target:
        owners = owners[:-1]
    return owners[-1] if owners else inside
