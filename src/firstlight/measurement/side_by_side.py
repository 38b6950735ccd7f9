"""Members side by side: their first dense layers, which read the same data, in one multiplication.

Enters: modules of one architecture that begin with a narrow dense layer, drawn already. Leaves: ``Seen`` for each;
nothing where the networks are not of this kind. A multiplication by 100 units fills a processor badly, by 400 it
runs a fifth faster; behind the first layer each member goes its own way, and is watched as if it ran alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from firstlight.measurement.observing import Seen, Setting, Watch, check_inputs
from firstlight.measurement.seeding import initialization_seed, seeded, stream

__all__ = ["MEMBERS", "first_layer", "observe_side_by_side"]

MEMBERS = 4
"""Members that share the first layer; more gain nothing (measured on CPUs)."""
_NARROW = 256
"""Units from which on one member fills a processor alone."""
_SHARE = 0.1
"""Part of the work that lies in the first layer, below which sharing it does not pay."""


def first_layer(module: nn.Module, work: int) -> nn.Linear | None:
    """The narrow dense layer that reads the data, where nothing but a flattening stands before it.

    Args:
        module: A network.
        work: Multiplications of one sample in all of it.
    """
    if type(module) is not nn.Sequential or _is_hooked(module):
        return None
    for child in module:
        if type(child) in (nn.Flatten, nn.Identity) and not _is_hooked(child):
            continue
        if type(child) is not nn.Linear or _is_hooked(child):
            return None
        narrow = child.out_features <= _NARROW
        return child if narrow and child.in_features * child.out_features >= _SHARE * work else None
    return None


def observe_side_by_side(modules: Sequence[nn.Module], setting: Setting, indices: range) -> list[Seen] | None:
    """Measure initializations ``indices``, whose weights ``modules`` hold."""
    layers = [first_layer(module, setting.work) for module in modules]
    firsts = [layer for layer in layers if layer is not None]
    if len(firsts) < len(modules):
        return None
    with seeded(initialization_seed(setting.seed, indices.start, 3)), torch.no_grad():
        before = _generators()
        watches = [Watch(setting, stream(initialization_seed(setting.seed, index, 1))) for index in indices]
        weight = torch.cat([first.weight for first in firsts])
        bias = None if firsts[0].bias is None else torch.cat([first.bias for first in firsts])
        for number, batch in enumerate(setting.batches):
            if indices.start == 0:
                check_inputs(batch, number)
            batch = batch.converted(setting.dtype, setting.device)
            if len(batch.args) != 1 or batch.kwargs:
                return None
            values = batch.args[0]
            for child in _until(modules[0], firsts[0]):
                values = child(values)
            parts = functional.linear(values, weight, bias).chunk(len(modules), -1)
            for module, first, watch, part in zip(modules, firsts, watches, parts, strict=True):
                vars(first)["forward"] = _giving(part)
                try:
                    watch.take(module, batch)
                finally:
                    del vars(first)["forward"]
        if _generators() != before:  # what a member draws on its way, it draws from a seed of its own: alone
            return None
    return [watch.finalized() for watch in watches]


def _giving(part: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda values: part


def _until(module: nn.Module, layer: nn.Module) -> list[nn.Module]:
    children = list(module.children())
    return children[: children.index(layer)]


def _is_hooked(module: nn.Module) -> bool:
    return bool(module._forward_pre_hooks or module._forward_hooks or "forward" in vars(module))


def _generators() -> tuple[object, ...]:
    """States of the global generators."""
    _, keys, *rest = np.random.get_state()  # noqa: NPY002 - the global state is what a model draws from
    return random.getstate(), np.asarray(keys).tobytes(), rest, torch.get_rng_state().numpy().tobytes()
