"""Any elementwise callable on tensors as an activation: examined, evaluated in float64, its kinks found.

Enters: a function or module that maps a tensor to a tensor of the same shape, element by element. Leaves: an
``ActivationFunction`` whose value goes through torch in double precision. Torch's own activations are recognised and
answered by the registered one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firstlight.architecture.activation_derivatives import derivative_of
from firstlight.architecture.activation_discovery import LIMIT, find_kinks
from firstlight.architecture.activations import ActivationFunction, activation, activation_names
from firstlight.architecture.torch_activations import recognise
from firstlight.errors import CouldNotError, UsageError

__all__ = ["from_callable", "identify"]

Array = NDArray[np.float64]


def from_callable(spec: Callable[[Any], Any], *, name: str | None = None) -> ActivationFunction:
    """Turn a callable on tensors into an activation.

    Args:
        spec: Function or module; a module is copied and the copy made double, so that it stays as it is.
        name: What to call it; by default its own name.

    Raises:
        UsageError: It fails, is random, changes the shape, mixes elements, is complex or not finite in |u| ≤ 40.

    >>> softened = from_callable(lambda x: torch.where(x > 0.37, x, 0.1 * x))
    >>> softened.kinks
    (0.37,)
    >>> from_callable(torch.nn.functional.hardtanh).name
    'hardtanh'
    """
    known = recognise(spec)
    if known is not None:
        return known
    name = name or _name(spec)
    double = copy.deepcopy(spec).double() if isinstance(spec, nn.Module) else spec
    _examine(double, name)

    def value(u: Array) -> Array:
        return _evaluate(double, np.asarray(u, dtype=np.float64), name)

    kinks = find_kinks(value, name=name)
    found = ActivationFunction(name, value, derivative_of(double, value, kinks), kinks, source=spec)
    return _with_slopes(found)


def identify(found: ActivationFunction) -> ActivationFunction:
    """The registered activation that a function equals to rounding, or the function itself.

    >>> identify(from_callable(lambda x: x * torch.sigmoid(x))).name
    'silu'
    """
    places = np.concatenate([np.linspace(-LIMIT, LIMIT, 161), np.linspace(-3.01, 3.02, 101)])
    heights = found.value(places)
    for name in activation_names():
        other = activation(name)
        if other.kinks == found.kinks and np.allclose(other.value(places), heights, rtol=1e-12, atol=1e-14):
            return other
    return found


def _name(spec: Callable[[Any], Any]) -> str:
    inner = getattr(spec, "func", spec)  # functools.partial
    own = None if isinstance(inner, nn.Module) else getattr(inner, "__name__", None)
    return str(own or type(inner).__name__)


@torch.no_grad()
def _evaluate(double: Callable[[Any], Any], u: Array, name: str) -> Array:
    values = double(torch.from_numpy(u.reshape(-1).copy()))
    result: Array = values.numpy().astype(np.float64).reshape(u.shape)
    lost = ~np.isfinite(result) & np.isfinite(u)
    if lost.any():
        raise CouldNotError(
            f"activation {name!r}: expected finite values, got {result[lost][0]} at u = {u[lost][0]:.6g}; "
            "theory met inputs of that size; write the function without overflow, or bound the variances"
        )
    return result


@torch.no_grad()
def _examine(double: Callable[[Any], Any], name: str) -> None:
    """Refuse what is no elementwise function of real numbers, in one sentence each."""
    even = torch.linspace(-LIMIT, LIMIT, 240, dtype=torch.float64)
    probe = torch.cat([even, _irregular(199), torch.zeros(1, dtype=torch.float64)])
    where = f"activation {name!r}"
    with torch.random.fork_rng(devices=[]):
        result = _call(double, probe, where)
        if not isinstance(result, Tensor):
            raise UsageError(
                f"{where}: expected a tensor back for a tensor, got {type(result).__name__}; "
                "pass a function of a tensor, or a module rather than its class"
            )
        if result.shape != probe.shape:
            raise UsageError(
                f"{where}: expected the shape it was given, {tuple(probe.shape)}, got {tuple(result.shape)}; "
                "an activation acts on each number by itself"
            )
        if not result.dtype.is_floating_point:
            raise UsageError(
                f"{where}: expected real floating-point values, got {result.dtype}; "
                "add .to(x.dtype) or take the real part"
            )
        if not result.isfinite().all():
            place = int((~result.isfinite()).nonzero()[0])
            raise UsageError(
                f"{where}: expected finite values for |u| ≤ {LIMIT:g}, "
                f"got {float(result[place])} at u = {float(probe[place]):.6g}; "
                "theory averages over all of them, so say what the function is there (torch.where, torch.clamp)"
            )
        if not _agree(_call(double, probe, where), result):
            raise UsageError(
                f"{where}: expected the same values for the same input, got others when asked again; "
                "a random function (dropout, RReLU in training mode) is no activation: call .eval() on it first"
            )
        order = torch.randperm(len(probe), generator=torch.Generator().manual_seed(0))
        mixed = not _agree(_call(double, probe[order], where), result[order])
        mixed |= not _agree(_call(double, probe[order[:97]], where), result[order[:97]])
        table = _call(double, probe[order].reshape(40, 11), where)
        mixed |= table.shape != (40, 11) or not _agree(table.reshape(-1), result[order])
    if mixed:
        raise UsageError(
            f"{where}: expected each output to depend on its own input alone, got values that change with the other "
            "elements; normalizations, softmax and attention are layers, not activations"
        )


def _call(double: Callable[[Any], Any], x: Tensor, where: str) -> Any:
    try:
        return double(x.clone())  # a clone: the callable may work in place
    except Exception as error:  # whatever a user's function raises is told in the user's words
        raise UsageError(
            f"{where}: expected a function of a float64 tensor of any shape, got {type(error).__name__} "
            f"on shape {tuple(x.shape)}: {str(error).splitlines()[0] if str(error) else 'no message'}"
        ) from error


def _agree(one: Tensor, other: Tensor) -> bool:
    # vector units and their scalar tails may round differently, and a jump may then fall on the other side: allow
    # rounding, and one such element
    close = torch.isclose(one.double(), other.double(), rtol=1e-6, atol=1e-9)
    return one.shape == other.shape and int((~close).sum()) <= 1


def _irregular(count: int) -> Tensor:
    steps = torch.arange(1, count + 1, dtype=torch.float64)
    return 6.0 * torch.sin(steps * 2.399963)  # multiples of the golden angle: no regular spacing


def _with_slopes(found: ActivationFunction) -> ActivationFunction:
    """Note the closed form ``shift + left·min(u, 0) + right·max(u, 0)`` where the callable has it to rounding."""
    if found.kinks not in ((), (0.0,)):
        return found
    ends = np.array([-1.0, 0.0, 1.0])
    below, shift, above = (float(height) for height in found.value(ends))
    left, right = shift - below, above - shift
    places = np.concatenate([np.linspace(-LIMIT, LIMIT, 257), [-1e4, -1e3, 1e3, 1e4]])
    try:
        seen = found.value(places)
    except CouldNotError:  # not finite far out: then it is not this form
        return found
    form = shift + left * np.minimum(places, 0.0) + right * np.maximum(places, 0.0)
    bound = 1e-14 * (np.abs(shift) + np.maximum(abs(left), abs(right)) * np.abs(places))
    if (np.abs(seen - form) > bound).any():
        return found
    return replace(found, slopes=(left, right), shift=shift)
