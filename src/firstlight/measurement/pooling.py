"""``pool``: measurements of one network over different initializations, as one measurement over all of them.

Enters: Profiles by ``measure`` with the same layers and quantities, measured with different seeds or on different data.
Leaves: the Profile of all their initializations, in the order given. The per-initialization values are put side by
side and reduced as ``measure`` reduces them, so one pooled profile of chunks is what one long measurement would say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import UsageError
from firstlight.measurement.asking import ALL, asked_for
from firstlight.measurement.summarizing import summarize
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import Variable, variable
from firstlight.results.profile import Profile

__all__ = ["pool"]


def pool(profiles: Iterable[Profile]) -> Profile:
    """Join measurements over their initializations.

    Args:
        profiles: Measurements of one architecture; their seeds, or their data, should differ.

    Returns:
        One profile. γ is the ratio of averages over all initializations, which takes ``center_variance`` and
        ``data_variance`` beside ``gamma`` in what was measured.
    """
    parts = list(profiles)
    _check(parts)
    first = parts[0]
    names = [name for name in ALL if f"{name}_init" in first.variables]
    if "gamma" in names and not {"center_variance", "data_variance"} <= set(names):
        raise UsageError(
            "pool: γ over all initializations is a ratio of averages; expected center_variance and data_variance "
            f"beside gamma, got {', '.join(names)}; measure all three"
        )
    tables = _tables(parts, names)
    count = sum(_count(part, names) for part in parts)
    settings = {
        **first.provenance.settings,
        "inits": count,
        "pooled": len(parts),
        "pooled_seeds": [part.provenance.seed for part in parts],
    }
    notes = tuple(dict.fromkeys(note for part in parts for note in part.provenance.notes))
    data = dict.fromkeys(part.provenance.data for part in parts)
    return Profile.from_layers(
        first.layers,
        summarize(tables, asked_for(names)),
        provenance=replace(
            first.provenance,
            data=first.provenance.data
            if len(data) == 1
            else f"{first.provenance.data}, and {len(data) - 1} more",
            settings=settings,
            notes=notes,
        ),
        coverage=first.coverage,
        guesses=_guesses(parts),
        extra=_mean_std_ratio(parts),
        kinds=[str(kind) for kind in first.coordinates["kind"].values]
        if "kind" in first.coordinates
        else None,
    )


def _check(parts: Sequence[Profile]) -> None:
    if not parts:
        raise UsageError("pool: expected at least one profile, got none")
    first = parts[0]
    for number, part in enumerate(parts):
        if part.provenance.engine != "measurement":
            raise UsageError(
                f"pool: expected measurements, got a profile by {part.provenance.engine} at position {number}"
            )
        if part.layers != first.layers or set(part.variables) != set(first.variables):
            raise UsageError(
                f"pool: the profile at position {number} has other layers or quantities than the first; "
                "expected measurements of one architecture with the same quantities"
            )
        for key in ("mode", "model"):
            here, there = getattr(part.provenance, key), getattr(first.provenance, key)
            if here != there:
                raise UsageError(
                    f"pool: the profile at position {number} is of {key} {here!r}, the first of {there!r}; "
                    "expected measurements of one network in one mode"
                )


def _tables(parts: Sequence[Profile], names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """What ``measure`` saw of all initializations; noise and gradients as logarithms, as it keeps them."""
    kept = [f"log_{name}" if f"log_{name}_init" in parts[0].variables else name for name in names]
    return {name: np.concatenate([part.variables[f"{name}_init"].values for part in parts]) for name in kept}


def _count(part: Profile, names: Sequence[str]) -> int:
    return len(part.variables[f"{names[0]}_init"].values) if names else 0


def _mean_std_ratio(parts: Sequence[Profile]) -> dict[str, Variable] | None:
    if "mean_std_ratio_init" not in parts[0].variables:
        return None
    ratios = np.concatenate([part.variables["mean_std_ratio_init"].values for part in parts])
    return {
        "mean_std_ratio": variable("layer", ratios.mean(0)),
        "mean_std_ratio_init": variable(("init", "layer"), ratios),
    }


def _guesses(parts: Sequence[Profile]) -> Guesses | None:
    found: list[Any] = [part.guesses for part in parts if part.guesses is not None]
    if not found:
        return None
    if any(guesses.counts is None or guesses.top is not None for guesses in found):
        raise UsageError(
            "pool: guesses among so many labels keep columns for the most guessed only, which differ between "
            "profiles; measure all initializations at once, or leave out the guesses"
        )
    return Guesses.from_counts(
        np.concatenate([guesses.counts for guesses in found]),
        ties=np.concatenate([guesses.tie_fractions for guesses in found]),
        label_names=found[0].label_names,
    )
