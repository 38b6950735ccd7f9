"""The flow of a model recorded while it runs an example: for parts that cannot be followed on symbols.

Enters: a copy of a model that belongs to nobody, and a batch. Leaves: the one flow that this batch took. What is seen
is every call of a module and every torch function that the forwards call outside of modules without parts; tensors are
told apart by their identity, and are all kept until the end so that none is taken for another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from firstlight.measurement.batches import Batch
from firstlight.measurement.observing import run
from firstlight.remedies.flow import Call, Flow, kind_of_function, kind_of_slot
from firstlight.remedies.following import is_leaf

__all__ = ["recorded"]


def recorded(model: nn.Module, batch: Batch) -> Flow:
    """Run the batch in eval mode and record what happens."""
    model.eval()
    recorder = _Recorder(model)
    with ExitStack() as stack, torch.no_grad():
        for address, module in model.named_modules():
            stack.callback(
                module.register_forward_pre_hook(recorder.entering(address), with_kwargs=True).remove
            )
            stack.callback(module.register_forward_hook(recorder.leaving(address), always_call=False).remove)
        source = Call("input", "", "", "input")
        recorder.calls.append(source)
        for tensor in batch.tensors:
            recorder.keep(tensor, source)
        with recorder:
            output = run(model, batch)
    for tensor in _tensors(output):
        if id(tensor) in recorder.origin:
            recorder.origin[id(tensor)].returned = True
    return Flow("", recorder.calls)


class _Recorder(TorchFunctionMode):
    """Which call every tensor came from."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.calls: list[Call] = []
        self.origin: dict[int, Call] = {}
        self.kept: list[Tensor] = []
        self.running: list[str] = []
        self.inside: str | None = None
        """The module without parts that runs; what it calls is its own business."""

    def keep(self, tensor: Tensor, call: Call) -> None:
        self.origin[id(tensor)] = call
        self.kept.append(tensor)

    def entering(self, address: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            if self.inside is not None:
                return
            if not is_leaf(module):
                self.running.append(address)
                return
            self.inside = address
            call = Call(kind_of_slot(module), address, self._caller(), type(module).__name__, module)
            call.plain = len(args) == 1 and not kwargs
            self._connect(call, (args, kwargs))
            self.calls.append(call)

        return enter

    def leaving(self, address: str) -> Callable[..., None]:
        def leave(module: nn.Module, args: Any, output: Any) -> None:
            if self.inside == address:
                self.inside = None
                for tensor in _tensors(output):
                    self.keep(tensor, self.calls[-1])
            elif self.inside is None and self.running and self.running[-1] == address:
                self.running.pop()

        return leave

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        result = func(*args, **given)
        made = _tensors(result)
        if self.inside is not None or not made:
            return result
        name = str(getattr(func, "__name__", "function"))
        call = Call(kind_of_function(name), "", self._caller(), name.strip("_"))
        self._connect(call, (args, given))
        if call.inputs:
            self.calls.append(call)
            for tensor in made:
                self.keep(tensor, call)
        return result

    def _caller(self) -> str:
        return self.running[-1] if self.running else ""

    def _connect(self, call: Call, structure: Any) -> None:
        for tensor in _tensors(structure):
            if id(tensor) in self.origin:
                call.takes(self.origin[id(tensor)])


def _tensors(structure: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists and mappings (a Hugging Face output is one)."""
    if isinstance(structure, Tensor):
        return [structure]
    if isinstance(structure, Mapping):
        structure = list(structure.values())
    if isinstance(structure, list | tuple):
        return [tensor for item in structure for tensor in _tensors(item)]
    return []
