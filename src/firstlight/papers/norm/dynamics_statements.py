"""What sections 3 and 4 and appendix G.2 state of filtered training, each with the number that came out.

Enters: what ``filtered_runs`` made. Leaves: statements. Averages and standard errors are over runs. Three numbers
sum a group up, all from its trajectory on one split:

- its class gap at a record, the accuracy of the class preferred at birth minus that of the other;
- the onset, the first record at which the neutral runs beside it are right 60 % of the time on average;
- τ_0.6, the step from which a run stays right 60 % of the time; where it never is, the last step stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from firstlight.papers.figure import Results
from firstlight.papers.norm.filtered_training import NEUTRAL, PREJUDICED, group
from firstlight.papers.norm.networks import TITLES
from firstlight.results.guess_law import GuessLaw
from firstlight.results.reproduction import Statement
from firstlight.results.trajectory import Trajectory

__all__ = [
    "convergence_apart",
    "gap_at_onset",
    "gap_of_neutral",
    "gap_outgrows_accuracy",
    "less_gap_behind",
    "more_gained",
    "no_prejudiced_start",
    "share_of_starts",
    "some_prejudice_left",
    "spreads_apart",
]

Group = tuple[str, str]
"""A network and the kind of its starts."""
Measured = tuple[float, float]
"""A number and its standard error."""

_LEVEL = 0.6
"""The accuracy of the paper's τ_0.6 (figure G.11)."""

_NORMS = {"batch": "BN", "layer": "LN"}
_MISSING = "no such start was found among the draws"


def share_of_starts(results: Results, name: str, kind: str, where: str) -> Statement:
    """Share of the draws that are neutral or prejudiced, against the law of one hidden layer, γ = 1/(π − 1)."""
    law = GuessLaw(gamma=1 / (math.pi - 1), labels=2)
    threshold = NEUTRAL if kind == "neutral" else PREJUDICED
    below, above = law.cdf(np.array([0.5 - threshold / 2, 0.5 + threshold / 2]))
    inside = float(above - below)
    expected = inside if kind == "neutral" else 1 - inside
    gaps = _birth_gaps(results, name)
    found = gaps < threshold if kind == "neutral" else gaps > threshold
    share = float(found.mean())
    stderr = math.sqrt(max(expected * (1 - expected), 0) / len(gaps))
    return Statement(
        f"{TITLES[name]}: share of {kind} starts by the law of G_0 at γ = 1/(π−1) ({where})",
        "=",
        expected,
        share,
        stderr,
        because=f"of {len(gaps)} draws",
    )


def no_prejudiced_start(results: Results, name: str, where: str) -> Statement:
    """Behind a norm that follows the ReLU: the most one-sided of all draws stays below the threshold."""
    gaps = _birth_gaps(results, name)
    return Statement(
        f"{TITLES[name]}: no prejudiced start exists; greatest |f_0 − f_1| of all draws ({where})",
        "<",
        PREJUDICED,
        float(gaps.max()),
        because=f"of {len(gaps)} draws, {int((gaps < NEUTRAL).sum())} of them neutral",
    )


def gap_of_neutral(
    results: Results, name: str, where: str, *, split: str = "train", kind: str = "neutral"
) -> Statement:
    """After a neutral birth, and after any where there are no others, the classes stay together."""
    return _gap_at_onset(results, name, kind, "<", "show no class gap", where, split)


def gap_at_onset(
    results: Results, name: str, where: str, *, split: str = "train", reason: str = ""
) -> Statement:
    """After a prejudiced birth the classes are still apart when neutral runs have learned something.

    ``reason`` is the likely one where they are not.
    """
    said = _gap_at_onset(results, name, "prejudiced", ">", "keep a class gap", where, split)
    if said.agrees or not reason or math.isnan(said.measured):
        return said
    return replace(said, because=f"{said.because}; {reason}")


def convergence_apart(
    results: Results,
    slow: Group,
    fast: Group,
    where: str,
    *,
    split: str = "train",
    because: str = "",
) -> Statement:
    """How many steps later one group gets to 60 % than another."""
    late, early = (_settling_times(results, *item, split=split) for item in (slow, fast))
    return _weighed(
        Statement(
            f"τ_0.6 is later for {_told(slow)} than for {_told(fast)}, by so many steps ({split} set; {where})",
            ">",
            0.0,
            late[0] - early[0],
            math.hypot(late[1], early[1]),
            because=_MISSING
            if math.isnan(late[0] - early[0])
            else "; ".join(
                [because] * bool(because)
                + [f"τ of {_told(slow)} runs: {_listed_times(results, slow, split)}"]
            ),
        )
    )


def less_gap_behind(
    results: Results, biased: Group, other: Group, where: str, *, split: str = "train"
) -> Statement:
    """The initial bias is reabsorbed faster: ∫ class gap over the steps, by how many steps' worth it is greater."""
    (a, a_error), (b, b_error) = (_gap_areas(results, *item, split=split) for item in (biased, other))
    return _weighed(
        Statement(
            f"the class gap costs {_told(biased)} more than {_told(other)}, summed over training in steps "
            f"({split} set; {where})",
            ">",
            0.0,
            a - b,
            math.hypot(a_error, b_error),
            because=_MISSING if math.isnan(a - b) else "",
        )
    )


def more_gained(results: Results, more: str, less: str, where: str, *, split: str = "train") -> Statement:
    """Moving one norm behind the ReLU gains more steps of τ_0.6 than moving the other."""
    gains = []
    for norm in (more, less):
        late = _settling_times(results, f"{norm}-before", "prejudiced", split=split)
        early = _settling_times(results, f"{norm}-after", "neutral", split=split)
        gains.append((late[0] - early[0], math.hypot(late[1], early[1])))
    (a, a_error), (b, b_error) = gains
    missing = math.isnan(a - b)
    return _weighed(
        Statement(
            f"τ_0.6 gains more steps by moving {_NORMS[more]} behind the ReLU than by moving {_NORMS[less]} "
            f"({split} set; {where})",
            ">",
            0.0,
            a - b,
            math.hypot(a_error, b_error),
            because=_MISSING
            if missing
            else f"{a:.0f} and {b:.0f} steps; in one hidden layer the two norms have the same law, "
            "so no difference is expected of them",
        )
    )


def gap_outgrows_accuracy(results: Results, name: str, other: str, where: str, *, split: str) -> Statement:
    """Deep: the classes differ while the accuracies overlap; class gap − difference in accuracy, over the records."""
    late, early = group(results, name, "prejudiced"), group(results, other, "neutral")
    measured, stderr = math.nan, 0.0
    if late is not None and early is not None:
        gap = np.abs(late.quantity("class_gap", split=split).values)
        accuracy = early.mean("accuracy", split=split).value.values
        apart = np.abs(late.quantity("accuracy", split=split).values - accuracy)
        measured, stderr = _average((gap - apart).mean(1))
    return _weighed(
        Statement(
            f"{TITLES[name]}, prejudiced: its classes are further apart than its accuracy is from that of "
            f"{TITLES[other]}, by so much on average over the records ({split} set; {where})",
            ">",
            0.0,
            measured,
            stderr,
            because=_MISSING if math.isnan(measured) else "",
        )
    )


def spreads_apart(results: Results, wide: str, narrow: str, where: str, *, says: str) -> Statement:
    """By how much the standard deviation of G_0 over all draws is greater for one network than for another."""
    (a, a_error), (b, b_error) = (_spread_of_births(results, name) for name in (wide, narrow))
    return Statement(
        f"{says}: the spread of G_0 of {TITLES[wide]} exceeds that of {TITLES[narrow]} ({where})",
        ">",
        0.0,
        a - b,
        math.hypot(a_error, b_error),
        because=f"standard deviations {a:.3f} and {b:.3f}",
    )


def some_prejudice_left(results: Results, name: str, says: str, where: str) -> Statement:
    """The spread of G_0 is wider than counting noise on so many samples, ½/√D, alone would make it."""
    spread, error = _spread_of_births(results, name)
    runs: Trajectory = results[f"{name}-runs"]
    noise = 0.5 / math.sqrt(int(runs["samples"].values[:, :, 0].max()))
    return Statement(
        f"{says}: its spread of G_0 exceeds the counting noise of neutral networks ({where})",
        ">",
        noise,
        spread,
        error,
    )


def _spread_of_births(results: Results, name: str) -> Measured:
    """Standard deviation of G_0 about ½ over the draws; its error is that of a mean of squares."""
    squares = (results[f"{name}-births"]["fractions"].values[:, 0] - 0.5) ** 2
    spread = math.sqrt(float(squares.mean()))
    error = float(squares.std(ddof=1)) / math.sqrt(len(squares)) / max(2 * spread, 1e-12)
    return spread, error


def _settling_times(results: Results, name: str, kind: str, *, split: str) -> Measured:
    """Mean τ_0.6 of a group; NaN where it is empty."""
    runs = group(results, name, kind)
    if runs is None:
        return math.nan, 0.0
    times = runs.convergence_time(_LEVEL, split=split, interpolate=True).values
    return _average(np.where(np.isnan(times), runs.steps[-1], times))


def _gap_at_onset(
    results: Results, name: str, kind: str, relation: str, says: str, where: str, split: str
) -> Statement:
    """The class gap at the onset, against the largest that a neutral birth may have."""
    runs, (onset, reached) = group(results, name, kind), _onset(results, name, split)
    measured, stderr = (
        (math.nan, 0.0)
        if runs is None
        else _average(runs.quantity("class_gap", split=split).values[~runs.diverged, onset])
    )
    step = int(results[f"{name}-runs"].steps[onset])
    when = (
        "the first record where neutral runs reach" if reached else "the last one, neutral runs never reach"
    )
    return _weighed(
        Statement(
            f"{TITLES[name]}: {kind} starts {says} in training; accuracy of the class preferred at birth − of the "
            f"other at step {step}, {when} 60 % ({split} set; {where})",
            relation,
            NEUTRAL,
            measured,
            stderr,
            because=_MISSING if runs is None else _turns(runs, split),
        )
    )


def _turns(runs: Trajectory, split: str) -> str:
    """How many runs, and how often the class that they prefer changes from record to record."""
    signs = np.sign(runs.quantity("class_gap", split=split).values)
    changes = (signs[:, 1:] * signs[:, :-1] < 0).sum(1)
    return f"{runs.runs} runs; from record to record the sign of the gap changes {changes.mean():.1f} times on average"


def _gap_areas(results: Results, name: str, kind: str, *, split: str) -> Measured:
    """Mean of ∫ class gap over the steps."""
    runs = group(results, name, kind)
    return (math.nan, 0.0) if runs is None else _average(runs.class_gap_area(split=split).values)


def _birth_gaps(results: Results, name: str) -> NDArray[np.float64]:
    fractions = results[f"{name}-births"]["fractions"].values
    return np.asarray(np.abs(fractions[:, 0] - fractions[:, 1]))


def _onset(results: Results, name: str, split: str) -> tuple[int, bool]:
    """Place of the first record at which the neutral runs are right 60 % of the time, or the last; whether they are."""
    runs: Trajectory | None = group(results, name, "neutral")
    last = len(results[f"{name}-runs"].steps) - 1
    if runs is None:
        return last, False
    reached = np.flatnonzero(runs.mean("accuracy", split=split).value.values >= _LEVEL)
    return (int(reached[0]), True) if len(reached) else (last, False)


def _average(values: NDArray[np.float64] | Sequence[float]) -> Measured:
    found = np.asarray(values)
    if len(found) < 2:
        return float(found.mean()), 0.0
    return float(found.mean()), float(found.std(ddof=1) / math.sqrt(len(found)))


def _weighed(statement: Statement) -> Statement:
    """With a word where the number lies on the side stated, but its error is too large to tell."""
    apart = statement.measured - statement.expected
    right = apart > 0 if statement.relation == ">" else apart < 0
    if statement.agrees or not right:
        return statement
    doubt = "on the side stated, but too few runs to tell: less than 3 standard errors from the bound"
    return replace(statement, because="; ".join(filter(None, [statement.because, doubt])))


def _listed_times(results: Results, chosen: Group, split: str) -> str:
    """τ_0.6 of each run with the class that it preferred at birth."""
    runs = group(results, *chosen)
    assert runs is not None  # asked where there are times
    times = runs.convergence_time(_LEVEL, split=split, interpolate=True).values
    preferred = runs.variables["order"].values[:, 0]
    return ", ".join(
        f"{'never' if math.isnan(time) else f'{time:.0f}'} ({runs.labels[label]})"
        for time, label in zip(times, preferred, strict=True)
    )


def _told(chosen: Group) -> str:
    name, kind = chosen
    return f"{kind} {TITLES[name]}"
