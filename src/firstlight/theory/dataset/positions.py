"""Where windows read: index tables of convolutions and weights of pools, one axis of a picture at a time.

Enters: the size of an axis and the words of the layer. Leaves: for each offset o and output position p the input
position that is read, ``(offset, position)``; or the weights of a pool, ``(output position, input position)``. A
convolution over two axes sums over the offsets of one and then of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from firstlight.architecture.layers import AdaptivePool, Convolution, PositionPool
from firstlight.theory.covariance import NoRuleError

__all__ = ["axis_index", "pool_matrix", "pooled_shape", "sources", "window_shape"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

NOTHING = -1
"""Stands for a padded zero in the tables."""


def window_shape(shape: Sequence[int], layer: Convolution) -> tuple[int, ...]:
    """Positions behind a convolution."""
    return tuple(table.shape[1] for table in sources(shape, layer))


def sources(shape: Sequence[int], layer: Convolution) -> list[Index]:
    """Which position each offset of the kernel reads for each output position, axis by axis; -1 is a padded zero.

    >>> sources([3], Convolution("", 1, 1, (3,), (1,), (1,), "circular"))[0]
    array([[2, 0, 1],
           [0, 1, 2],
           [1, 2, 0]])
    """
    if len(layer.kernel) != len(shape):
        raise NoRuleError(
            f"a convolution over {len(layer.kernel)} axes reads a signal with {len(shape)} axes of positions"
        )
    return [
        _axis_sources(size, kernel, stride, padding, dilation, layer.padding_mode)
        for size, kernel, stride, padding, dilation in zip(
            shape,
            layer.kernel,
            _each(layer.stride, shape),
            _each(layer.padding, shape),
            _each(layer.dilation, shape),
            strict=True,
        )
    ]


def _axis_sources(size: int, kernel: int, stride: int, padding: int, dilation: int, mode: str) -> Index:
    count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if count < 1:
        raise NoRuleError(
            f"its kernel reaches over {dilation * (kernel - 1) + 1} positions, more than the {size + 2 * padding} "
            "there are with padding"
        )
    at = np.add.outer(np.arange(kernel) * dilation, np.arange(count) * stride) - padding
    if mode == "circular":
        at %= size
    elif mode == "replicate":
        at = np.clip(at, 0, size - 1)
    elif mode == "reflect":
        at = np.abs(at)
        at = np.where(at >= size, 2 * (size - 1) - at, at)
    elif mode == "zeros":
        at[(at < 0) | (at >= size)] = NOTHING
    else:
        raise NoRuleError(
            f"padding mode {mode!r} is not known; known are zeros, circular, reflect, replicate"
        )
    return at


def axis_index(shape: Sequence[int], axis: int, table: Index) -> Index:
    """The table of one axis for flat positions: ``(offset, output position)``; -1 where nothing is read.

    >>> axis_index([2, 2], 1, np.array([[1, -1]]))  # reads the right neighbour, and zeros beyond the edge
    array([[ 1, -1,  3, -1]])
    """
    before, behind = int(np.prod(shape[:axis])), int(np.prod(shape[axis + 1 :]))
    offsets, count = table.shape
    read = table[:, None, :, None] * behind + np.arange(behind)
    read = read + (np.arange(before) * shape[axis] * behind)[:, None, None]
    read = np.where(table[:, None, :, None] == NOTHING, NOTHING, read)
    return read.reshape(offsets, before * count * behind)


def pooled_shape(shape: Sequence[int], layer: PositionPool | AdaptivePool) -> tuple[int, ...]:
    """Positions behind a pool."""
    return tuple(len(matrix) for matrix in _axis_weights(shape, layer))


def pool_matrix(shape: Sequence[int], layer: PositionPool | AdaptivePool) -> Array:
    """Weights of an average over positions, ``(output position, input position)``, positions flat.

    >>> pool_matrix([4], PositionPool("", (2,), (2,), (0,)))
    array([[0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0.5]])
    """
    total: Array = np.ones((1, 1))
    for matrix in _axis_weights(shape, layer):
        total = np.asarray(np.kron(total, matrix), dtype=np.float64)
    return total


def _axis_weights(shape: Sequence[int], layer: PositionPool | AdaptivePool) -> list[Array]:
    sizes = layer.output if isinstance(layer, AdaptivePool) else layer.kernel
    if len(sizes) != len(shape):
        raise NoRuleError(f"a pool over {len(sizes)} axes reads a signal with {len(shape)} axes of positions")
    if isinstance(layer, AdaptivePool):
        return [_even_windows(size, count or size) for size, count in zip(shape, layer.output, strict=True)]
    return [
        _windows(size, kernel, stride, padding, layer)
        for size, kernel, stride, padding in zip(
            shape, layer.kernel, layer.stride, layer.padding, strict=True
        )
    ]


def _windows(size: int, kernel: int, stride: int, padding: int, layer: PositionPool) -> Array:
    room = size + 2 * padding - kernel
    count = room // stride + 1
    if layer.partial and room % stride and count * stride < size + padding:  # it must begin inside
        count += 1
    if count < 1:
        raise NoRuleError(
            f"its windows of {kernel} positions are larger than the {size + 2 * padding} there are"
        )
    weights = np.zeros((count, size))
    for position in range(count):
        start = position * stride - padding
        end = min(start + kernel, size + padding)
        inside = slice(max(start, 0), min(end, size))
        weights[position, inside] = 1 / (end - start if layer.padding_counts else inside.stop - inside.start)
    return weights


def _even_windows(size: int, count: int) -> Array:
    weights = np.zeros((count, size))
    for position in range(count):
        inside = slice(position * size // count, -(-(position + 1) * size // count))
        weights[position, inside] = 1 / (inside.stop - inside.start)
    return weights


def _each(values: tuple[int, ...], shape: Sequence[int]) -> tuple[int, ...]:
    """One value for each axis; one alone stands for all."""
    return values * len(shape) if len(values) == 1 else values
