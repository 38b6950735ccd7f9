"""What a check looks at: the profiles, the thresholds and the level, with the questions that checks share.

Enters: one profile (and theory, and the other mode, where they are known). Leaves: tables (init, layer) of its
quantities, numbers by initialization, and which layers are comparable along the depth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from firstlight.diagnosis.intervals import Interval, of_mean, of_ratio, of_scale
from firstlight.diagnosis.thresholds import Threshold
from firstlight.results.profile import Profile

__all__ = ["Evidence"]

Array = NDArray[np.float64]

_WEIGHTED = ("dense", "convolution")
_NOTHING = Interval(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class Evidence:
    """Everything that a check may look at.

    Attributes:
        profile: The network that is judged.
        thresholds: The table, with what the policy replaced.
        level: Of every interval, or of all intervals together where many layers are scanned.
        theory: What theory says of it, where it is known.
        other_mode: The same initializations in the other mode, where they were measured.
    """

    profile: Profile
    thresholds: Mapping[str, Threshold]
    level: float = 0.95
    theory: Profile | None = None
    other_mode: Profile | None = None

    @property
    def layers(self) -> list[str]:
        """Addresses in running order, the output last."""
        return self.profile.layers

    @property
    def inits(self) -> int:
        """Initializations behind the profile; 0 for theory, which has none."""
        return int(self.profile.provenance.settings.get("inits", 0)) if self.measured else 0

    @property
    def measured(self) -> bool:
        """Whether it comes from an ensemble of initializations."""
        return self.profile.provenance.engine == "measurement"

    @property
    def samples(self) -> int | None:
        """Data points."""
        if self.profile.guesses is not None and self.profile.guesses.samples is not None:
            return self.profile.guesses.samples
        found = self.profile.provenance.settings.get("samples")
        return None if found is None else int(found)

    @cached_property
    def kinds(self) -> list[str]:
        """Kind of each layer; "" where the profile does not say."""
        if "kind" not in self.profile.coordinates:
            return [""] * len(self.layers)
        return [str(kind) for kind in self.profile.coordinates["kind"].values]

    @cached_property
    def hidden(self) -> list[int]:
        """Positions of the layers with weights, the output left out: what depth is counted in."""
        every = range(len(self.layers) - 1)
        if not any(self.kinds):
            return list(every)
        return [place for place in every if self.kinds[place] in _WEIGHTED]

    @property
    def other(self) -> Evidence | None:
        """The same questions to the other mode."""
        return None if self.other_mode is None else replace(self, profile=self.other_mode, other_mode=None)

    @cached_property
    def units(self) -> Array | None:
        """Units of each layer, where they are known."""
        item = self.profile.coordinates.get("units")
        return None if item is None else np.asarray(item.values, dtype=float)

    @cached_property
    def sizes(self) -> Array | None:
        """Units times positions of each layer, where they are known."""
        item = self.profile.coordinates.get("positions")
        return (
            None if item is None or self.units is None else self.units * np.asarray(item.values, dtype=float)
        )

    def interval_of(self, column: Array, level: float) -> Interval:
        """Mean of one layer's values over initializations; theory's value has no width."""
        if self.measured:
            return of_mean(column, level)
        return Interval(*[float(column[0])] * 3)

    def scale_of(self, logarithms: Array, level: float) -> Interval:
        """Exp of values by initialization, of a typical one; theory's value has no width."""
        found = of_scale(logarithms, level)
        return found if self.measured else Interval(*[found.value] * 3)

    @cached_property
    def roles(self) -> list[str]:
        """What a layer is among its like: its address without the numbers, so that layers of one role are comparable.

        >>> re.sub(r"[0-9]+", "#", "encoder.layer.3.attention.query")
        'encoder.layer.#.attention.query'
        """
        return [re.sub(r"[0-9]+", "#", name) for name in self.layers]

    def table(self, name: str) -> Array | None:
        """Values of a quantity, ``(init, layer)``; a single row where there are no initializations."""
        if f"{name}_init" in self.profile.variables:
            return np.asarray(self.profile.variables[f"{name}_init"].values, dtype=float)
        if name in self.profile.variables and not self.measured:
            return np.asarray(self.profile.variables[name].values, dtype=float)[None]
        return None

    def log_table(self, name: str) -> Array | None:
        """Logarithms of a quantity, ``(init, layer)``; −∞ where it is zero."""
        table = self.table(f"log_{name}")
        if table is not None:
            return table
        table = self.table(name)
        if table is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(table))

    def by_init(self, name: str) -> Array | None:
        """A number of the whole network, ``(init,)``."""
        item = self.profile.variables.get(name)
        return None if item is None or item.dims != ("init",) else np.asarray(item.values, dtype=float)

    def scalar(self, name: str) -> float | None:
        """A number of the data."""
        item = self.profile.variables.get(name)
        return None if item is None or item.dims != () else float(item.values)

    @cached_property
    def null_gamma(self) -> float:
        """What γ a neutral network shows on so many data points: their mean scatters by V/n, and V misses as much."""
        whole = self.profile.provenance.settings.get("theory") == "population"
        return 0.0 if whole or not self.samples or self.samples < 2 else 1 / self.samples

    def beyond_null(self, gamma: Interval) -> Interval:
        """γ with the scatter of n data points taken off: C → C + V/n and V → V(1 − 1/n) turned around."""
        share = self.null_gamma
        return Interval(*(max(bound * (1 - share) - share, 0.0) for bound in gamma))

    def gamma_at(self, place: int, level: float) -> Interval:
        """γ of one layer beyond the null, as a ratio of averages."""
        centers, variances = self.table("center_variance"), self.table("data_variance")
        if self.measured and centers is not None and variances is not None:
            return self.beyond_null(of_ratio(centers[:, place], variances[:, place], level))
        gamma = self.table("gamma")
        if self.measured or gamma is None:
            return _NOTHING
        return self.beyond_null(Interval(*[float(gamma[0, place])] * 3))

    @cached_property
    def output_gamma(self) -> Interval:
        """γ of the logits, a shift common to all labels left out where that was measured (it moves no guess)."""
        return self.output_gamma_at(self.level)

    def output_gamma_at(self, level: float) -> Interval:
        """The same with an interval of another level."""
        centers, variances = (self.by_init(f"logit_{part}_variance_init") for part in ("center", "data"))
        if centers is not None and variances is not None:
            return self.beyond_null(of_ratio(centers, variances, level))
        return self.gamma_at(len(self.layers) - 1, level)
