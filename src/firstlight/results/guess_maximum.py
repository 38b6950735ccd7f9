"""The law of the greatest guess fraction of a network.

Enters: the law of guesses. Leaves: P(max_c G_c ≤ g), its quantiles and mean; for two labels exactly,
because max(G, 1 − G) ≤ g means 1 − g ≤ G ≤ g, so that P = 2 F(g) − 1; for more labels from draws of the
joint law, with their standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import UsageError

if TYPE_CHECKING:
    from firstlight.results.guess_law import GuessLaw

__all__ = ["MaximumLaw"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MaximumLaw:
    """The law of max_c G_c.

    Attributes:
        law: The law of the fractions.
    """

    law: GuessLaw

    @property
    def exact(self) -> bool:
        """Whether no draws are involved."""
        return self.law.labels == 2 or bool(self.law.atoms)

    @cached_property
    def draws(self) -> Array:
        """Sorted greatest fractions of ``default_draws`` draws, seed 0."""
        from firstlight.results.guess_law import default_draws

        return np.sort(self.law.sample(default_draws(self.law.labels)).max(axis=1))

    def cdf(self, g: ArrayLike) -> Array:
        """P(max_c G_c ≤ g)."""
        values = np.asarray(g, dtype=np.float64)
        if not self.exact:
            return np.asarray(np.searchsorted(self.draws, values, side="right") / self.draws.size)[()]
        return np.asarray(1 - self.survival(values))[()]

    def survival(self, g: ArrayLike) -> Array:
        """P(max_c G_c > g)."""
        values = np.asarray(g, dtype=np.float64)
        if not self.exact:
            return np.asarray(1 - np.searchsorted(self.draws, values, side="right") / self.draws.size)[()]
        if self.law.atoms:
            place = max(place for place, _ in self.law.atoms)
            return np.asarray(np.where(values < place, 1.0, 0.0))[()]
        upper = 2 * np.asarray(self.law.cdf(1 - values))  # by symmetry; keeps small probabilities small
        return np.asarray(np.where(values < 0.5, 1.0, np.where(values >= 1, 0.0, upper)))[()]

    def cdf_stderr(self, g: ArrayLike) -> Array:
        """Standard error of ``cdf``: zero where exact, √(p(1−p)/n) over n draws else."""
        values = np.asarray(g, dtype=np.float64)
        if self.exact:
            return np.zeros_like(values)[()]
        found = np.asarray(self.cdf(values))
        return np.asarray(np.sqrt(found * (1 - found) / self.draws.size))[()]

    def quantile(self, p: ArrayLike) -> Array:
        """The inverse of ``cdf``."""
        probabilities = np.asarray(p, dtype=np.float64)
        if not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise UsageError(f"quantile(p): expected probabilities between 0 and 1, got {p!r}")
        if self.law.atoms:
            return np.full_like(probabilities, max(place for place, _ in self.law.atoms))[()]
        if self.law.labels == 2:
            return np.asarray(1 - np.asarray(self.law.quantile((1 - probabilities) / 2)))[()]
        return np.asarray(np.quantile(self.draws, probabilities, method="inverted_cdf"))[()]

    @property
    def mean(self) -> float:
        """E max_c G_c."""
        return self.law.mean_max
