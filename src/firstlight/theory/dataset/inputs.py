"""The covariance of the data themselves: K⁰ = X Xᵀ/d.

Enters: inputs (n, …). Leaves: the state that the first layer reads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import DataError
from firstlight.theory.dataset.composed_gram import Angles, ComposedGram
from firstlight.theory.dataset.gram import batches_of
from firstlight.theory.dataset.pairs import each_block

__all__ = ["gram_of_inputs"]

Array = NDArray[np.float64]


def gram_of_inputs(inputs: ArrayLike, *, batch_size: int | None = None, seed: int = 0) -> ComposedGram:
    """Mean products over the coordinates of n points, perturbed by noise of mean square 1.

    Args:
        inputs: (n, …), flattened to (n, d).
        batch_size: What batch norm takes together, in the order of the points; all points without it.
        seed: Names the draws of layers that have to be sampled.

    >>> state = gram_of_inputs([[1.0, 0.0], [0.0, 2.0]])
    >>> (state.matrix() * np.exp(state.log_scale)).round(12)
    array([[0.5, 0. ],
           [0. , 2. ]])
    """
    points = np.asarray(inputs, dtype=np.float64)
    points = points.reshape(len(points), -1)
    if not np.isfinite(points).all():
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise DataError(f"inputs: expected finite numbers, got NaN or infinity in point {row}")
    size, coordinates = points.shape
    greatest = float(np.abs(points).max(initial=0.0))
    points = points / greatest if greatest > 0 else points
    product = points @ points.T  # numpy uses the symmetric routine here
    lengths = np.sqrt(product.diagonal())
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)

    def to_angles(rows: slice, columns: slice) -> None:
        c = product[rows, columns] * inverse[rows, None]
        c *= inverse[columns]
        np.clip(c, -1.0, 1.0, out=c)
        np.arccos(c, out=c)
        product[rows, columns] = c
        if rows != columns:
            product[columns, rows] = c.T

    each_block(size, to_angles)
    np.fill_diagonal(product, 0.0)
    lengths /= np.sqrt(coordinates)
    return ComposedGram(
        scales=lengths,
        log_scale=2 * float(np.log(greatest)) if greatest > 0 else 0.0,
        log_noise=np.zeros(size),
        common=points.mean(axis=1),
        batches=batches_of(size, batch_size),
        observed=True,
        seed=seed,
        angles=Angles(product, lengths),
        uniform=bool(np.ptp(lengths) == 0) and greatest > 0,
    )
