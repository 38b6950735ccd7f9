"""The perceptron of the papers, as layers: dense stacks with norms before or after, pools, residual units.

Enters: the arguments of ``Blueprint.mlp``. Leaves: the checked arguments, and the layers with their addresses::

    flatten → [linear → (norm if before) → activation → (pool) → (norm if after)] × depth → output
    flatten → stem → [x + scale · body(x)] × units → output,
                      body = [(norm if before) → activation → (norm if after) → linear] × depth/units
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from numbers import Real
from typing import Any

from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.activations import activation as _function_of
from firstlight.architecture.layers import Activation, Dense, Layer, Norm, Pass, Pool, Residual
from firstlight.errors import UsageError, one_of

__all__ = ["Perceptron", "count_of_classes", "number", "whole_number"]


@dataclass(frozen=True)
class Perceptron:
    """Arguments of ``Blueprint.mlp``, checked on construction; see there for what they mean."""

    inputs: int
    depth: int
    width: int
    classes: int
    activation: ActivationFunction
    norm: str | None
    placement: str | None
    pool: tuple[str, int] | None
    residual: int | None
    residual_scale: float
    weight_variance: float
    bias_variance: float

    @classmethod
    def checked(
        cls,
        *,
        inputs: object,
        depth: object,
        width: object,
        classes: object,
        activation: object,
        norm: object,
        placement: object,
        pool: object,
        residual: object,
        residual_scale: object,
        weight_variance: object,
        bias_variance: object,
    ) -> Perceptron:
        """Turn what the caller gave into a perceptron, or say in one sentence what is wrong with it."""
        norm, placement = _norm_and_placement(norm, placement)
        width = whole_number("width", width)
        depth = whole_number("depth", depth, hint="depth counts hidden layers")
        pool = _pool(pool, width)
        scale = number("residual_scale", residual_scale)
        if residual is not None:
            residual = whole_number(
                "residual", residual, hint="residual is the number of residual units, or None"
            )
            if pool is not None:
                raise UsageError(
                    f"pool={pool!r}: expected None together with residual={residual}, because a pool changes the "
                    "width that the shortcut must keep; drop one of the two"
                )
            if depth % residual:
                raise UsageError(
                    f"residual: expected a number of units that divides depth={depth}, got {residual}; "
                    "each unit holds depth/residual layers"
                )
        elif scale != 1.0:
            raise UsageError(
                f"residual_scale={scale!r}: expected 1.0 without residual units; pass residual=<number of units>"
            )
        return cls(
            inputs=whole_number("inputs", inputs),
            depth=depth,
            width=width,
            classes=count_of_classes(classes),
            activation=_function_of(activation),
            norm=norm,
            placement=placement,
            pool=pool,
            residual=residual,
            residual_scale=scale,
            weight_variance=number(
                "weight_variance",
                weight_variance,
                above=0.0,
                hint="weights are N(0, weight_variance/fan_in), 2 for ReLU and 1 for tanh as a rule",
            ),
            bias_variance=number(
                "bias_variance",
                bias_variance,
                least=0.0,
                hint="biases are N(0, bias_variance), 0 for none",
            ),
        )

    def layers(self) -> tuple[Layer, ...]:
        """The layers in running order."""
        return self._stack() if self.residual is None else self._residual_stack(self.residual)

    def _stack(self) -> tuple[Layer, ...]:
        layers: list[Layer] = [Pass("flatten", "Flatten")]
        incoming = self.inputs
        for level in range(1, self.depth + 1):
            layers.append(self._dense(f"linear{level}", incoming, self.width))
            outgoing = self.width
            if self.placement == "before":
                layers.append(self._norm(f"norm{level}", outgoing))
            layers.append(Activation(f"activation{level}", self.activation))
            if self.pool is not None:
                layers.append(Pool(f"pool{level}", *self.pool))
                outgoing //= self.pool[1]
            if self.placement == "after":
                layers.append(self._norm(f"norm{level}", outgoing))
            incoming = outgoing
        return (*layers, self._dense("output", incoming, self.classes))

    def _residual_stack(self, units: int) -> tuple[Layer, ...]:
        layers: list[Layer] = [Pass("flatten", "Flatten"), self._dense("stem", self.inputs, self.width)]
        for unit in range(1, units + 1):
            body: list[Layer] = []
            for level in range(1, self.depth // units + 1):
                within = f"unit{unit}.body."
                if self.placement == "before":
                    body.append(self._norm(f"{within}norm{level}", self.width))
                body.append(Activation(f"{within}activation{level}", self.activation))
                if self.placement == "after":
                    body.append(self._norm(f"{within}norm{level}", self.width))
                body.append(self._dense(f"{within}linear{level}", self.width, self.width))
            layers.append(Residual(f"unit{unit}", tuple(body), scale=self.residual_scale))
        return (*layers, self._dense("output", self.width, self.classes))

    def _dense(self, address: str, fan_in: int, fan_out: int) -> Dense:
        return Dense(address, fan_in, fan_out, self.weight_variance, self.bias_variance)

    def _norm(self, address: str, width: int) -> Norm:
        assert self.norm is not None  # a placement without a norm is refused by ``checked``
        return Norm(address, self.norm, width)


def whole_number(where: str, got: object, *, least: int = 1, hint: str = "") -> int:
    """The number as an ``int``, or the error that says why not; booleans and floats are none."""
    tail = f"; {hint}" if hint else ""
    try:
        value = None if isinstance(got, bool) else operator.index(got)  # type: ignore[arg-type]
    except TypeError:
        value = None
    if value is None:
        raise UsageError(f"{where}: expected a whole number of at least {least}, got {got!r}{tail}")
    if value < least:
        raise UsageError(f"{where}: expected at least {least}, got {value}{tail}")
    return value


def number(
    where: str, got: object, *, least: float | None = None, above: float | None = None, hint: str = ""
) -> float:
    """The number as a ``float``, or the error that says why not; booleans, NaN and infinities are none."""
    wanted = "a finite number"
    if least is not None:
        wanted += f" of at least {least:g}"
    if above is not None:
        wanted += f" above {above:g}"
    value = math.nan if isinstance(got, bool) or not isinstance(got, Real) else float(got)
    if (
        not math.isfinite(value)
        or (least is not None and value < least)
        or (above is not None and value <= above)
    ):
        raise UsageError(f"{where}: expected {wanted}, got {got!r}{f'; {hint}' if hint else ''}")
    return value


def count_of_classes(got: object) -> int:
    """The number of classes, at least 2."""
    value = whole_number("classes", got)
    if value < 2:
        raise UsageError(
            f"classes: expected at least 2, got {value}; a guess needs two labels to choose between "
            "(a single sigmoid output is classes=2)"
        )
    return value


def _norm_and_placement(norm: object, placement: object) -> tuple[str | None, str | None]:
    if norm is not None and norm not in ("batch", "layer", "rms"):
        raise one_of("norm", norm, ["batch", "layer", "rms"])
    if placement is not None and placement not in ("before", "after"):
        raise one_of("placement", placement, ["before", "after"])
    if norm is None and placement is not None:
        raise UsageError(
            f"placement={placement!r}: expected a norm to place, got norm=None; "
            "pass norm='batch', 'layer' or 'rms', or drop placement"
        )
    if norm is None:
        return None, None
    return str(norm), str(placement or "before")


def _pool(pool: Any, width: int) -> tuple[str, int] | None:
    if pool is None:
        return None
    if isinstance(pool, str) and "/" in pool:
        kind, _, given = pool.partition("/")
        pool = (kind, int(given) if given.strip().isdigit() else given)
    if not isinstance(pool, tuple | list) or len(pool) != 2:
        raise UsageError(f"pool: expected None, ('max', K), ('avg', K) or the words 'max/K', got {pool!r}")
    kind, size = pool
    if kind not in ("max", "avg"):
        raise one_of("pool", kind, ["max", "avg"])
    size = whole_number("pool size", size, hint="a pool joins K neighbouring units")
    if size > width:
        raise UsageError(
            f"pool=({kind!r}, {size}): expected at most as many units as width={width}, got {size}; widen the layer"
        )
    return kind, size
