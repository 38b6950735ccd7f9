"""What a module is to a measurement: its kind, whether it depends on its batch, and what wraps it.

Kinds follow the class, by inheritance where torch has one and by name where libraries bring their own
(``LlamaRMSNorm``, ``Conv1D``).
"""

from __future__ import annotations

import re
from typing import cast

from torch import nn

from firstlight.errors import ModelError

__all__ = ["batch_norms", "kind_of", "owns_parameters", "unwrapped"]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_CHANNEL_NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm)
_POOLS = re.compile(r"Pool(ing)?\d?d?$")
_NORM = re.compile(r"Norm(\d?d|2d)?$")
_ACTIVATIONS = {
    name
    for name, item in vars(nn.modules.activation).items()
    if isinstance(item, type) and issubclass(item, nn.Module)
} - {"MultiheadAttention", "Module"}
_PASSING = re.compile(r"(Dropout|DropPath|StochasticDepth|Identity|Flatten)")


def kind_of(module: nn.Module) -> str:
    """One word.

    >>> [kind_of(module) for module in (nn.Linear(2, 2), nn.BatchNorm2d(3), nn.LayerNorm(3), nn.GELU())]
    ['dense', 'channel norm', 'norm', 'activation']
    """
    name = type(module).__name__
    if isinstance(module, _CONVOLUTIONS):
        return "convolution"
    if isinstance(module, _CHANNEL_NORMS):
        return "channel norm"
    if isinstance(module, nn.Linear) or (name == "Conv1D" and hasattr(module, "nf")):
        return "dense"
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return "embedding"
    if _PASSING.search(name) and not any(True for _ in module.parameters()):
        return "pass"
    if isinstance(module, nn.MultiheadAttention):
        return "attention"
    if name in _ACTIVATIONS or type(module).__module__ == "transformers.activations":
        return "activation"
    if next(module.children(), None) is not None:
        return "container"
    if _NORM.search(name):
        return "norm"
    if _POOLS.search(name):
        return "pool"
    return "other"


def batch_norms(module: nn.Module) -> list[nn.Module]:
    """Modules whose output in train mode depends on which samples share the batch."""
    return [item for item in module.modules() if isinstance(item, nn.modules.batchnorm._BatchNorm)]


def owns_parameters(module: nn.Module) -> bool:
    """Whether it holds parameters of its own, not through children."""
    return any(parameter is not None for parameter in module._parameters.values())


def unwrapped(module: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    """The module inside ``torch.compile`` and parallel wrappers, with a note each; hidden layers are refused."""
    notes: list[str] = []
    _refuse_hidden(module)
    while True:
        name = type(module).__name__
        if hasattr(module, "_orig_mod"):
            module = cast(nn.Module, module._orig_mod)
            notes.append("torch.compile was taken off: the module inside was measured")
        elif name in ("DataParallel", "DistributedDataParallel"):
            module = cast(nn.Module, module.module)
            notes.append(f"{name} was taken off: the module inside was measured")
        else:
            break
    if any(hasattr(item, "_orig_mod") for item in module.modules()):
        notes.append("torch.compile inside the model was switched off while it was measured")
    return module, tuple(notes)


def _refuse_hidden(module: nn.Module) -> None:
    for address, item in module.named_modules():
        bases = [base.__name__ for base in type(item).__mro__]
        name = type(item).__name__ + (f" (at {address})" if address else "")
        if "ScriptModule" in bases:
            raise ModelError(
                f"measure(model): {name} is compiled TorchScript, whose layers cannot be observed; "
                "pass the module it was made from"
            )
        if "FSDPModule" in bases or any("FullyShardedDataParallel" in base for base in bases):
            raise ModelError(
                f"measure(model): {name} keeps only shards of its parameters here; "
                "measure the module before sharding it"
            )
