r"""A data set too large for its n×n covariance: which points stand for all of them.

Enters: the number n of points. Leaves: the columns of K that are carried, K_ab for every a and for b among a few
random points. All rules but batch norm act on single entries K_ab, so these entries are exact. What is an average over
all pairs follows from them:

- the first ``landmarks`` columns span the space in which the others are predicted (Nyström);
- the ``checks`` behind them take no part in that; what the prediction leaves of them is known exactly, and as they are
  a random sample of the points, its mean corrects the prediction and its spread is the standard error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import UsageError

__all__ = ["EXACT_UP_TO", "LANDMARKS", "Landmarks", "choose_landmarks"]

EXACT_UP_TO = 5_000
"""Points whose whole covariance is carried unless landmarks are asked for: four matrices of 200 MB."""

LANDMARKS = 1_024
"""Number of landmarks unless another is asked for."""

_LEAST = 16
_CHECKS_PER_LANDMARK = 0.25


@dataclass(frozen=True, eq=False)
class Landmarks:
    """The points whose columns are carried.

    Attributes:
        columns: Their places among all points, landmarks first (m + q,).
        number: m.
    """

    columns: NDArray[np.intp]
    number: int

    @property
    def checks(self) -> int:
        """Number of points that only check, q."""
        return len(self.columns) - self.number


def choose_landmarks(size: int, wanted: int | str | None, *, seed: int = 0) -> Landmarks | None:
    """Draw landmarks and checks, or none where the whole covariance is to be carried.

    Args:
        size: n.
        wanted: How many landmarks; ``"auto"`` for 1,024 beyond 5,000 points; None for the whole covariance.
        seed: Names the choice.

    >>> chosen = choose_landmarks(6_000, "auto")
    >>> chosen.number, chosen.checks
    (1024, 256)
    >>> choose_landmarks(5_000, "auto") is None
    True
    """
    if wanted is None or (wanted == "auto" and size <= EXACT_UP_TO):
        return None
    if wanted == "auto":
        wanted = LANDMARKS
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < _LEAST:
        raise UsageError(
            f"predict(landmarks): expected 'auto', None or a whole number from {_LEAST}, got {wanted!r}"
        )
    checks = max(_LEAST, round(_CHECKS_PER_LANDMARK * wanted))
    if wanted + checks > size:
        raise UsageError(
            f"predict(landmarks): {wanted} landmarks and {checks} checks need as many points, got {size}; "
            "pass landmarks=None to carry the whole covariance"
        )
    drawn = np.random.default_rng([seed, size]).permutation(size)[: wanted + checks]
    return Landmarks(drawn.astype(np.intp), wanted)
