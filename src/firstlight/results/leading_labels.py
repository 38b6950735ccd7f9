"""Counts of very many labels (a vocabulary), reduced to the leading ones without losing an answer.

Enters: full counts ``(init, label)``. Leaves: counts of the k labels that were guessed most, one column for
all others, and beside them, exactly, each initialization's greatest count, its agreement (for the bias),
the leading ranks and the pooled histogram of counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import UsageError
from firstlight.results.labelled import Variable, variable

__all__ = ["LeadingLabels", "lead"]


@dataclass(frozen=True, eq=False)
class LeadingLabels:
    """What the counts of the leading labels leave out.

    Attributes:
        ids: Labels that kept a column, most guessed first, ``(top,)``.
        maximum: Greatest count among all labels, ``(init,)``.
        agreement: Share of pairs of data points with the same guess, ``(init,)``; NaN for a single data
            point.
        ranked: Fractions by rank among all labels, averaged over initializations, ``(top,)``.
        ranked_stderr: Their standard errors.
        pooled_counts: Distinct counts over all initializations and labels, ascending.
        pooled_frequency: How often each occurs.
    """

    ids: NDArray[np.int64]
    maximum: NDArray[np.int64]
    agreement: NDArray[np.float64]
    ranked: NDArray[np.float64]
    ranked_stderr: NDArray[np.float64]
    pooled_counts: NDArray[np.int64]
    pooled_frequency: NDArray[np.int64]

    def variables(self) -> dict[str, Variable]:
        """As named arrays, for files."""
        return {
            "ids": variable("top", self.ids),
            "maximum": variable("init", self.maximum),
            "agreement": variable("init", self.agreement),
            "ranked": variable("top", self.ranked),
            "ranked_stderr": variable("top", self.ranked_stderr),
            "pooled_counts": variable("distinct", self.pooled_counts),
            "pooled_frequency": variable("distinct", self.pooled_frequency),
        }


def lead(counts: NDArray[np.int64], top: int) -> tuple[LeadingLabels, NDArray[np.int64]]:
    """Keep the labels with the greatest counts in total.

    Answers what they leave out, and their counts with a last column for all others, ``(init, top + 1)``.
    """
    if top < 1:
        raise UsageError(f"top: expected a number of labels of at least 1, got {top!r}")
    ids = np.argsort(-counts.sum(axis=0), kind="stable")[:top]
    kept = counts[:, ids]
    points = counts.sum(axis=1)
    pairs = points * (points - 1.0)
    agreement = np.full(len(counts), np.nan)
    np.divide((counts * (counts - 1.0)).sum(axis=1), pairs, out=agreement, where=pairs > 0)
    ordered = -np.sort(-counts, axis=1)[:, :top] / points[:, None]
    spread = ordered.std(axis=0, ddof=1) / np.sqrt(len(counts)) if len(counts) > 1 else np.full(top, np.nan)
    values, often = np.unique(counts, return_counts=True)
    leading = LeadingLabels(
        ids=ids,
        maximum=counts.max(axis=1),
        agreement=agreement,
        ranked=ordered.mean(axis=0),
        ranked_stderr=spread,
        pooled_counts=values,
        pooled_frequency=often,
    )
    return leading, np.concatenate([kept, (points - kept.sum(axis=1))[:, None]], axis=1)
