"""A copy to work on, and a copy put back into the module that it was taken from.

Enters: a module. Leaves: a copy that shares nothing with it; or, for a remedy in place, the same module object with the
structure of its changed copy, in which every parameter and buffer that is still there is the same tensor as before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from firstlight.errors import ModelError

__all__ = ["duplicate", "followed_in_place", "require_ordinary"]

Result = TypeVar("Result")


def duplicate(model: nn.Module, where: str = "repair") -> nn.Module:
    """A copy of the model; refuses what is no module, is compiled, or cannot be copied.

    >>> layer = nn.Linear(2, 2)
    >>> duplicate(layer).weight is layer.weight
    False
    """
    require_ordinary(model, where)
    try:
        return copy.deepcopy(model)
    except Exception as error:  # whatever a user's __deepcopy__ raises
        raise ModelError(
            f"{where}: {type(model).__name__} cannot be copied ({error}); pass a factory that builds it instead"
        ) from error


def followed_in_place(
    model: nn.Module, change: Callable[[nn.Module], tuple[nn.Module, Result]], where: str
) -> Result:
    """Change a copy, and only when that has succeeded give the model its structure and values.

    Args:
        model: The module to change.
        change: Changes the module that it is given, and returns it.
        where: Who asks, for messages.

    An optimizer that holds the model's parameters goes on with those that are still there.
    """
    require_ordinary(model, where)
    originals: dict[int, Tensor] = {}
    memo: dict[int, object] = {}
    try:
        working = copy.deepcopy(model, memo)
    except Exception as error:  # as above
        raise ModelError(f"{where}: {type(model).__name__} cannot be copied ({error})") from error
    for tensor in (*model.parameters(), *model.buffers()):
        originals[id(memo[id(tensor)])] = tensor
    changed, result = change(working)
    if changed is not working or type(changed) is not type(model):
        raise ModelError(
            f"{where}: the model itself becomes a {type(changed).__name__}, which cannot be done in place; "
            "use the model that repair returns"
        )
    with torch.no_grad():
        for module in working.modules():
            held: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for kept in held:
                for name, tensor in kept.items():
                    original = originals.get(id(tensor))
                    if original is not None:
                        original.data = tensor.data
                        kept[name] = original
    model.__dict__.clear()
    model.__dict__.update(working.__dict__)
    return result


def require_ordinary(model: object, where: str) -> None:
    """Refuse what is no module, compiled, quantized or wrapped, by the address of the part that is."""
    if not isinstance(model, nn.Module):
        raise ModelError(f"{where}: expected an nn.Module, got {type(model).__name__}")
    for name, module in model.named_modules():
        kind, at = type(module).__name__, name or "the model itself"
        if isinstance(module, torch.jit.ScriptModule):
            raise ModelError(
                f"{where}: {at} ({kind}) is compiled TorchScript, whose structure is fixed; "
                "repair the module that it was made from, then compile"
            )
        if type(module).__module__.startswith(
            ("torch.ao.nn.quantized", "torch.nn.quantized", "torch.ao.nn.intrinsic")
        ):
            raise ModelError(
                f"{where}: {at} ({kind}) is quantized: its scales were chosen for the place where it stands; "
                "repair the float model, then quantize"
            )
        if hasattr(module, "_orig_mod"):
            raise ModelError(
                f"{where}: {at} is wrapped by torch.compile; repair the module inside (._orig_mod), then compile"
            )
        if kind in ("DataParallel", "DistributedDataParallel") or "FullyShardedDataParallel" in kind:
            raise ModelError(f"{where}: {at} is wrapped by {kind}; repair the module inside, then wrap it")
