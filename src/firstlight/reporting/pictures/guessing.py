"""How guesses are distributed over initializations, with the law of theory over them and the neutral one beside them.

Enters: measured guesses, theory's, or both. Leaves: a ``GuessPicture``: a histogram of one class's share where
there are two classes, of the favourite's share where there are more (classes are exchangeable over initializations,
so one class's share says little among many), and the shares by rank with the band that counting alone produces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firstlight.reporting.amounts import as_share, share_with_stderr
from firstlight.reporting.pictures.marks import line, steps
from firstlight.reporting.pictures.scales import Tick, linear_scale
from firstlight.results.guesses import Guesses

__all__ = ["GuessPicture", "RankBar", "guess_picture", "widest_share"]

_BINS = 25
_RANKS = 12
"""Ranks that are drawn one by one; the others are summed up."""
_NULL_DRAWS = 2000
_TAIL = 0.025
"""Share of neutral networks beyond either end of the band: 95 % lie inside."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RankBar:
    """The share of one rank, in percent of the width, with the band of neutral networks."""

    rank: str
    text: str
    width: float
    null_low: float
    null_high: float


@dataclass(frozen=True)
class GuessPicture:
    """A histogram and bars by rank."""

    title: str
    summary: str
    x_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    measured: str
    theory: str
    neutral: str
    measured_label: str
    theory_label: str
    bars: tuple[RankBar, ...]
    rest: str
    band_label: str


def guess_picture(
    guesses: Guesses, theory: Guesses | None = None, *, highest: float | None = None
) -> GuessPicture:
    """Draw guesses.

    Args:
        guesses: Measured ones, or theory's alone.
        theory: The law that theory knows, where ``guesses`` are measured.
        highest: Share at the right end of the histogram; see ``widest_share``.
    """
    two = guesses.labels == 2
    right = 1.0 if two else highest or widest_share(guesses, theory)
    edges = _edges(right, guesses.samples)
    right = float(edges[-1])
    shown = _bins(guesses, guesses.samples, edges)
    law = None if theory is None else _bins(theory, guesses.samples, edges)
    neutral = None if guesses.samples is None else _neutral(guesses, edges)
    top = max(float(item.max()) for item in (shown, law) if item is not None)
    scale = linear_scale(top)
    horizontal = linear_scale(right)
    bars, rest, band = _bars(guesses)
    greatest = guesses._glance
    what = (
        "share of the data that one class gets" if two else "share of the data that the favourite class gets"
    )
    count = f"{guesses.draws:,} initializations" if guesses.source == "measurement" else "theory"
    share = share_with_stderr(float(greatest.value[0]), float(greatest.stderr[0]))
    return GuessPicture(
        "Guesses of one class" if two else "Guesses of the favourite class",
        f"Histogram of the {what}, over {count}; the favourite gets {share} on average",
        what,
        tuple(
            Tick(tick.place * horizontal.high / right, tick.label)
            for tick in horizontal.ticks
            if tick.place * horizontal.high <= right * 1.001
        ),
        scale.ticks,
        steps([scale.place(float(value)) for value in shown]),
        "" if law is None else _curve(law, scale.high),
        "" if neutral is None else _curve(neutral, scale.high),
        f"measured: {count}" if guesses.source == "measurement" else "theory",
        "theory of infinite width",
        bars,
        rest,
        band,
    )


def widest_share(*given: Guesses | None) -> float:
    """A share that hardly any favourite exceeds, rounded up; 1 where favourites get much."""
    highest = max(float(np.quantile(guesses._greatest, 0.999)) for guesses in given if guesses is not None)
    return 1.0 if highest > 0.5 else linear_scale(1.1 * highest).high


def _edges(right: float, samples: int | None) -> Array:
    """Bins that hold equally many counts, because shares are counts over the number of samples."""
    if samples is None:
        return np.linspace(0.0, right, _BINS + 1)
    counts = max(1, round(right * samples))
    each = -(-counts // _BINS)
    return np.arange(0, -(-counts // each) + 1) * each / samples


def _curve(heights: Array, top: float) -> str:
    """A line through the middles of the bins, cut at the top of the plot."""
    count = len(heights)
    return line(((index + 0.5) / count, min(1.0, float(value) / top)) for index, value in enumerate(heights))


def _bins(guesses: Guesses, samples: int | None, edges: Array) -> Array:
    """Probability of each bin, the first one closed; of shares counted on ``samples`` points."""
    if guesses.labels == 2:
        law: Any = guesses
        if guesses.law is not None and samples is not None:
            law = guesses.law.with_samples(samples)
        return _differences(np.asarray(law.cdf(edges[1:])))
    if guesses.law is not None and samples is not None:
        return _differences(np.asarray(guesses.law.with_samples(samples).max_cdf(edges[1:])))
    greatest = np.sort(guesses._greatest)
    return _differences(np.searchsorted(greatest, edges[1:] + 1e-12, side="right") / len(greatest))


def _neutral(guesses: Guesses, edges: Array) -> Array:
    drawn = guesses.null.sample(_NULL_DRAWS, seed=0)
    shares = np.sort(drawn[:, 0] if guesses.labels == 2 else drawn.max(axis=1))
    return _differences(np.searchsorted(shares, edges[1:] + 1e-12, side="right") / len(shares))


def _differences(cumulative: Array) -> Array:
    return np.diff(np.concatenate([[0.0], cumulative]))


def _bars(guesses: Guesses) -> tuple[tuple[RankBar, ...], str, str]:
    ranked = guesses._glance
    count = min(_RANKS, len(ranked.value))
    low = high = np.full(count, math.nan)
    band = ""
    if guesses.samples is not None:
        ordered = -np.sort(-guesses.null.sample(_NULL_DRAWS, seed=0), axis=1)[:, :count]
        low, high = np.quantile(ordered, [_TAIL, 1 - _TAIL], axis=0)
        band = f"where 95 % of networks without preference lie, counted on {guesses.samples:,} samples"
    ends = [
        1.0 if guesses.labels == 2 else float(ranked.value[0]),
        *(high[:1] if guesses.samples is not None else ()),
    ]
    full = linear_scale(max(map(float, ends))).high  # what the width of a bar stands for
    bars = tuple(
        RankBar(
            str(rank + 1),
            share_with_stderr(float(ranked.value[rank]), float(ranked.stderr[rank])),
            100 * float(ranked.value[rank]) / full,
            100 * float(low[rank]) / full,
            100 * float(high[rank]) / full,
        )
        for rank in range(count)
    )
    further = guesses.labels - count
    left = as_share(max(0.0, 1 - float(ranked.value[:count].sum())))
    rest = f"{further:,} further classes share {left} of the data" if further else ""
    return bars, rest, band
