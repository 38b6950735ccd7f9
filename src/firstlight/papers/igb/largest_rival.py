r"""The paper's approximation of the fractions of several classes: each against its largest rival alone (appendix H).

Enters: γ, the number of classes M, and how many initializations to draw. Leaves: the approximate fractions of each.
With centres :math:`\mu_c \sim N(0, \gamma)` in units of the standard deviation over the data,

.. math:: \tilde G_c = \Phi\big((\mu_c - \max_{c' \ne c} \mu_{c'}) / \sqrt 2\big) .

A point goes to c only if c beats all its rivals, so :math:`\tilde G_c \ge G_c`, with equality for two classes. The
exact law is ``GuessLaw``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

__all__ = ["fractions_against_largest_rival"]


def fractions_against_largest_rival(
    gamma: float, labels: int, draws: int, *, seed: int = 0
) -> NDArray[np.float64]:
    """Approximate fractions ``(draw, label)``; the centres are those of ``GuessLaw.sample`` with the same seed.

    >>> fractions_against_largest_rival(1e12, 3, 2, seed=1).sum(1).tolist()
    [1.0, 1.0]
    """
    centre_seed = np.random.SeedSequence(seed).spawn(2)[0]
    centers = math.sqrt(gamma) * np.random.default_rng(centre_seed).standard_normal((draws, labels))
    ordered = np.sort(centers, axis=1)
    largest, second = ordered[:, -1:], ordered[:, -2:-1]
    rivals = np.where(centers == largest, second, largest)
    return np.asarray(ndtr((centers - rivals) / math.sqrt(2)))
