"""Arrays of guesses: refused where they mean nothing, averaged by rank, pooled over exchangeable labels.

Enters: counts or fractions ``(init, label)`` as an engine or a user gives them. Leaves: checked copies, or
their summaries with standard errors over initializations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import DataError, UsageError
from firstlight.results.guess_law import Estimate

__all__ = ["average_ranks", "checked_counts", "checked_fractions", "cumulated"]

Array = NDArray[np.float64]


def checked_counts(
    counts: ArrayLike, samples: int | None, ties: ArrayLike | None
) -> tuple[NDArray[np.int64], int, Array | None]:
    """Whole counts ``(init, label)``, the data points behind each row, and the tie fractions ``(init,)``."""
    array = np.array(counts)
    _check_shape("Guesses.from_counts(counts)", array)
    if not np.isfinite(array).all() or (array != np.rint(array)).any() or (array < 0).any():
        raise DataError(
            "Guesses.from_counts(counts): expected whole numbers of data points, none negative; "
            "pass counts, or fractions to Guesses.from_draws"
        )
    whole = array.astype(np.int64)
    totals = whole.sum(axis=1)
    points = int(totals[0]) if samples is None else int(samples)
    if points < 1 or (totals != points).any():
        raise DataError(
            f"Guesses.from_counts(counts): expected every row to sum to {points} data points, "
            f"got sums from {totals.min()} to {totals.max()}; count every initialization on the same data"
        )
    tied = None if ties is None else np.array(ties, dtype=np.float64)
    if tied is not None and tied.shape != (len(whole),):
        raise UsageError(f"Guesses.from_counts(ties): expected shape ({len(whole)},), got {tied.shape}")
    return whole, points, tied


def checked_fractions(fractions: ArrayLike) -> Array:
    """Fractions ``(init, label)`` whose rows sum to one."""
    array = np.array(fractions, dtype=np.float64)
    _check_shape("Guesses.from_draws(fractions)", array)
    if not np.allclose(array.sum(axis=1), 1, rtol=0, atol=1e-9) or (array < 0).any():
        raise DataError(
            "Guesses.from_draws(fractions): expected rows of fractions that sum to one, none negative"
        )
    return array


def average_ranks(fractions: Array) -> Estimate:
    """Fractions by rank, greatest first, averaged over rows; NaN errors for a single row."""
    ordered = -np.sort(-fractions, axis=1)
    count = len(ordered)
    spread = ordered.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full(ordered.shape[1], np.nan)
    return Estimate(ordered.mean(axis=0), spread, count)


def cumulated(places: ArrayLike, often: ArrayLike) -> tuple[Array, Array]:
    """Distinct fractions, ascending, and the share of all (initialization, label) at or below each."""
    total = np.cumsum(np.asarray(often, dtype=np.float64))
    return np.asarray(places, dtype=np.float64), total / total[-1]


def _check_shape(where: str, array: NDArray[np.generic]) -> None:
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 2:
        raise UsageError(f"{where}: expected (init, label) with two labels or more, got shape {array.shape}")
