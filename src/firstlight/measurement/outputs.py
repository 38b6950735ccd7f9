"""What a model returns: the tensor that carries the answer, and where its labels are.

Enters: a tensor, a tuple, a dictionary, a dataclass or a Hugging Face ``ModelOutput``. Leaves: one tensor and the axis
of its labels: that of the units of the layer that made it; where no layer did, the last for (sample, label) and for
sequences (sample, position, label), axis 1 for maps (sample, label, height, width).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from firstlight.errors import ModelError

__all__ = ["answer", "first_tensor", "label_axis", "passed_over"]

_LOGITS = ("logits", "out", "prediction_logits", "scores")
_FEATURES = ("last_hidden_state", "pooler_output", "hidden_states")
_SHOWN = 3


def answer(output: Any) -> tuple[Tensor, bool]:
    """The tensor that carries the answer, and whether it is one of logits (hidden states are not)."""
    if isinstance(output, Tensor):
        return output, True
    if (named := _named(output)) is not None:
        for names, logits in ((_LOGITS, True), (_FEATURES, False)):
            for name in names:
                if isinstance(named.get(name), Tensor):
                    return named[name], logits
    tensor = first_tensor(output)
    if tensor is None:
        raise ModelError(
            f"measure(model): the model returned {type(output).__name__} without a tensor; "
            "expected logits of shape (sample, label)"
        )
    return tensor, True


def passed_over(output: Any) -> str | None:
    """A sentence where the answer is one of several tensors, and no name said which."""
    named = _named(output) or {}
    if isinstance(output, Tensor) or any(
        isinstance(named.get(name), Tensor) for name in (*_LOGITS, *_FEATURES)
    ):
        return None
    found = list(_tensors(output, ""))
    if len(found) < 2:
        return None
    (place, _), *rest = found
    names = ", ".join(name for name, _ in rest[:_SHOWN]) + (", …" if len(rest) > _SHOWN else "")
    return f"the model returns {len(found)} tensors: {place}, the first, was taken for the answer, {names} passed over"


def _named(output: Any) -> Mapping[Any, Any] | None:
    """What has names: a dictionary, a dataclass, a named tuple."""
    if isinstance(output, Mapping):
        return output
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    return output._asdict() if isinstance(output, tuple) and hasattr(output, "_asdict") else None


def _tensors(output: Any, place: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor with its place."""
    if isinstance(output, Tensor):
        yield place, output
    elif (named := _named(output)) is not None:
        for name, value in named.items():
            yield from _tensors(value, f"{place}[{name!r}]")
    elif isinstance(output, list | tuple):
        for number, value in enumerate(output):
            yield from _tensors(value, f"{place}[{number}]")


def first_tensor(output: Any) -> Tensor | None:
    """The first tensor in a tuple, list, dictionary or dataclass, at any depth."""
    if isinstance(output, Tensor):
        return output
    named = _named(output)
    values = named.values() if named is not None else output if isinstance(output, list | tuple) else ()
    for value in values:
        if (tensor := first_tensor(value)) is not None:
            return tensor
    return None


def label_axis(logits: Tensor, samples: int, units: int | None = None) -> int:
    """Axis of the labels; refuses what has none.

    Args:
        logits: The output.
        samples: Samples that made it.
        units: Axis of units of the layer that made it, where one did.
    """
    shape = tuple(logits.shape)
    if logits.ndim < 2 or (logits.ndim == 2 and shape[0] != samples):
        raise ModelError(
            f"measure(model): expected logits of shape (sample, label), got {shape} for {samples} samples"
            "; return one row of logits for each sample"
        )
    axis = units if units is not None else 1 if logits.ndim >= 4 else -1
    if shape[axis] == 1:
        raise ModelError(
            f"measure(model): the output {shape} has 1 label, so there is nothing to choose between; "
            "expected at least 2 (for a single logit z, return two: (0, z))"
        )
    return axis
