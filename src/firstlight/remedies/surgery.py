"""Put a module at another place of a model: by the order of a Sequential, by slots, or by a graph.

Enters: a model that may be changed, and the slots concerned. Leaves: the same model with the module elsewhere.

- In one Sequential the children change their order; names go with them, numbers are given anew.
- Between different modules the slot that is left holds ``Vacated()``, and the one that gains a neighbour holds both in
  ``Together``. Every class, and every forward, stays what it was.
- Where a forward calls the activation as a function, or one activation module at several places, no slot can say where
  the norm goes. The module with that forward then becomes a ``torch.fx.GraphModule`` of the same name with the same
  parts, parameters and buffers; what else its class could do is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import fx, nn

from firstlight.errors import ModelError
from firstlight.remedies.flow import parent_of
from firstlight.remedies.following import graph_of

__all__ = [
    "Together",
    "Vacated",
    "as_graph",
    "common_holder",
    "fill",
    "in_one_sequence",
    "is_sequence",
    "moved_in_sequence",
    "vacate",
]


class Vacated(nn.Identity):
    """The place from which a norm was moved; hands on what it gets."""


class Together(nn.Sequential):
    """Two modules in the place of one."""


def fill(model: nn.Module, slot: str, module: nn.Module) -> None:
    """Put a module into a slot."""
    holder, name = parent_of(slot)
    model.get_submodule(holder)._modules[name] = module


def vacate(model: nn.Module, slot: str) -> None:
    """Take the module out of a slot; of two together, the other one stays alone."""
    holder, name = parent_of(slot)
    both = model.get_submodule(holder)
    if isinstance(both, Together) and len(both) == 2:
        [other] = [item for key, item in both.named_children() if key != name]
        fill(model, holder, other)
    else:
        fill(model, slot, Vacated())


def is_sequence(module: nn.Module) -> bool:
    """Whether a module does nothing but run its children in order."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def in_one_sequence(model: nn.Module, slots: tuple[str, ...]) -> bool:
    """Whether all slots are in the same Sequential."""
    holders = {parent_of(slot)[0] for slot in slots}
    return len(holders) == 1 and is_sequence(model.get_submodule(holders.pop()))


def moved_in_sequence(model: nn.Module, slot: str, anchor: str, *, behind: bool) -> str:
    """Move the child in ``slot`` right behind (or before) the one in ``anchor``; its new address.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2), nn.ReLU())
    >>> moved_in_sequence(net, "1", "2", behind=True), net[1]
    ('2', ReLU())
    """
    holder, name = parent_of(slot)
    sequence = model.get_submodule(holder)
    children = dict(sequence._modules)
    moving = children.pop(name)
    order = list(children)
    place = order.index(parent_of(anchor)[1]) + behind
    order.insert(place, name)
    children[name] = moving
    numbered = all(key.isdigit() for key in order)
    sequence._modules.clear()
    for number, key in enumerate(order):
        sequence._modules[str(number) if numbered else key] = children[key]
    return ".".join(item for item in (holder, str(place) if numbered else name) if item)


def as_graph(
    model: nn.Module, address: str, opened: set[str], change: Callable[[fx.Graph, nn.Module], None]
) -> nn.Module:
    """The model in which the forward of the module at ``address`` is a changed graph; a new root where it is the root.

    Args:
        model: The model, which is changed.
        address: Of the module.
        opened: Addresses, from that module on, of parts that the graph looks into.
        change: Changes the graph of the module that it is given.
    """
    module = model.get_submodule(address)
    graph = graph_of(module, opened)
    if isinstance(graph, str):
        raise ModelError(f"{address or 'the model itself'} ({type(module).__name__}): {graph}")
    change(graph, module)
    plain = fx.Graph()  # of no tracer of ours, which a pickle would have to find
    plain.output(plain.graph_copy(graph, {}))
    plain.lint()
    made = fx.GraphModule(module, plain, class_name=type(module).__name__)
    made._modules.clear()
    made._modules.update(module._modules)
    made._parameters.update(module._parameters)
    made._buffers.update(module._buffers)
    made._non_persistent_buffers_set = set(module._non_persistent_buffers_set)
    for name, value in module.__dict__.items():
        is_hooks = name.endswith("_hooks") or "_hooks_" in name
        is_plain = not name.startswith("_") and name not in made.__dict__ and not hasattr(type(made), name)
        if is_hooks or is_plain:
            made.__dict__[name] = value
    made.training = module.training
    if not address:
        return made
    fill(model, address, made)
    return model


def common_holder(addresses: list[str]) -> str:
    """The address of the innermost module that holds all of these.

    >>> common_holder(["layer1.0", "layer1.0.down"]), common_holder(["layer1.0", "layer2.0"])
    ('layer1.0', '')
    """
    split = [address.split(".") if address else [] for address in addresses]
    shared: list[str] = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
