r"""Batch norm maps each unit by a line, so the moments behind it follow from those before it.

Enters: what was reduced last, and a batch norm with the tensors that it read and made. Leaves: gain and shift of
each unit,

.. math:: y = g\,x + s,\qquad g = \frac{w}{\sqrt{σ^2 + ε}},\qquad s = b - g\,m,

with the mean m and variance σ² of the batch (in train mode) or the running ones. Nothing, where the norm read
another tensor than the one that was reduced, or where what it made is not that line: then its output is reduced
like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from firstlight.measurement.observables.moments import Moments

__all__ = ["Reduced", "line", "lines"]

_LINES = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_RESOLVING = (torch.float32, torch.float64)
_NEAR = 1e-5
"""How far single precision may be off the line, as a part of the terms that are summed on it."""


@dataclass(frozen=True)
class Reduced:
    """A signal and its moments; holding the tensor keeps its storage from being given to another one.

    Attributes:
        signal: The tensor as it was.
        version: Its count of changes in place.
        axis: Axis of the units.
        moments: Of this tensor alone.
    """

    signal: Tensor
    version: int
    axis: int
    moments: Moments

    @classmethod
    def of(cls, signal: Tensor, axis: int, moments: Moments) -> Reduced | None:
        """As it is now; nothing for a tensor of inference mode, which does not count its changes."""
        return None if signal.is_inference() else cls(signal, signal._version, axis % signal.ndim, moments)

    def is_now(self, other: object) -> bool:
        """Whether ``other`` still is that signal."""
        return (
            isinstance(other, Tensor)
            and not other.is_inference()
            and other.data_ptr() == self.signal.data_ptr()
            and other.shape == self.signal.shape
            and other.stride() == self.signal.stride()
            and other._version == self.version
        )


def lines(module: nn.Module) -> dict[str, _BatchNorm]:
    """By address the batch norms of torch's own classes whose output is theirs: no hook on them may change it."""
    return {
        name: item
        for name, item in module.named_modules()
        if type(item) in _LINES
        and isinstance(item, _BatchNorm)
        and not item._forward_hooks
        and "forward" not in vars(item)
    }


def line(norm: _BatchNorm, before: Reduced, read: object, made: Tensor) -> tuple[Tensor, Tensor] | None:
    """Gain and shift (unit,) of what ``norm``, one of ``lines``, did to the tensor of ``before``, in float64."""
    if before.axis != 1 or not before.is_now(read):
        return None
    if not before.moments.count or made.shape != before.signal.shape or made.dtype not in _RESOLVING:
        return None
    mean, variance = before.moments.mean, before.moments.m2 / before.moments.count
    if not norm.training and norm.running_mean is not None and norm.running_var is not None:
        mean, variance = norm.running_mean.double().cpu(), norm.running_var.double().cpu()
    gain = (variance + norm.eps).rsqrt()
    if isinstance(norm.weight, Tensor):
        gain = gain * norm.weight.double().cpu()
    shift = -gain * mean
    if isinstance(norm.bias, Tensor):
        shift = shift + norm.bias.double().cpu()
    for sample, position in ((0, 0), (-1, -1)):
        entered, left = (_of_units(tensor, sample, position) for tensor in (before.signal, made))
        terms = (gain * entered).abs() + (gain * mean).abs() + shift.abs()
        if not bool(((left - gain * entered - shift).abs() <= _NEAR * terms).all()):
            return None
    return gain, shift


def _of_units(values: Tensor, sample: int, position: int) -> Tensor:
    chosen = values[sample]
    return (chosen if chosen.ndim == 1 else chosen.flatten(1)[:, position]).double().cpu()
