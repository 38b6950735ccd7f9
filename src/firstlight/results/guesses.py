"""Guesses: how a network splits the data among its labels before it has learned anything.

Enters: the law that theory knows, counts that a measurement made, or draws of a joint law that has no
closed form. Leaves: one noun with the same questions for all three: fractions by initialization, the
greatest, the ranked, distribution function, quantiles, draws.

Class labels are exchangeable over initializations: every label has the same law, and which label wins says
nothing. So ``cdf`` and ``quantile`` speak of the fraction of one label, any label; from counts they are the
empirical ones, all labels pooled. Averages over initializations are taken after ranking (before it, they
are 1/M whatever the bias).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import CouldNotError, UsageError
from firstlight.results.guess_arrays import average_ranks, checked_counts, checked_fractions, cumulated
from firstlight.results.guess_law import Estimate, GuessLaw, default_draws
from firstlight.results.guess_null import NullLaw, null, null_corrected_bias
from firstlight.results.labelled import Parts, Variable, variable
from firstlight.results.leading_labels import LeadingLabels, lead

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from firstlight.results.guess_counts import CountedLaw

__all__ = ["Guesses"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Guesses:
    """Guess fractions over initializations.

    Make one with ``from_law`` (theory), ``from_counts`` (measurement) or ``from_draws`` (a joint law that
    can only be sampled).

    Attributes:
        labels: Number of labels M.
        law: The law of the fractions, where theory knows it.
        counts: Measured counts ``(init, label)``; the columns of the leading labels and of all others where
            ``top`` is given.
        drawn: Fractions ``(init, label)`` drawn from a joint law.
        samples: Data points that each initialization was counted on; None for exact fractions.
        tie_fractions: Fraction of the data points on which several labels shared the greatest output, by
            initialization.
        top: Which labels have columns of their own, and what is known of the others, where labels are many.
        label_names: Names of the labels.
        draws: Number of draws that ``fractions`` takes from a law.
        seed: Names those draws.

    >>> guesses = Guesses.from_law(GuessLaw(18.39))
    >>> guesses
    <Guesses: 2 labels, theory; γ = 18.39 (deep prejudice); greatest fraction 0.927 on average>
    >>> round(float(guesses.cdf(0.1)), 4)
    0.3825
    """

    kind: ClassVar[str] = "guesses"

    labels: int
    law: GuessLaw | None = None
    counts: NDArray[np.int64] | None = None
    drawn: Array | None = None
    samples: int | None = None
    tie_fractions: Array | None = None
    top: LeadingLabels | None = None
    label_names: tuple[str, ...] | None = None
    draws: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if sum(source is not None for source in (self.law, self.counts, self.drawn)) != 1:
            raise UsageError(
                "Guesses: expected exactly one of a law, counts or draws; use from_law, from_counts or from_draws"
            )
        if self.label_names is not None and len(self.label_names) != self.labels:
            raise UsageError(
                f"Guesses(label_names): expected {self.labels} names, got {len(self.label_names)}"
            )
        for array in (self.counts, self.drawn, self.tie_fractions):
            if array is not None:
                array.flags.writeable = False

    @classmethod
    def from_law(
        cls,
        law: GuessLaw,
        *,
        samples: int | None = None,
        label_names: Sequence[str] | None = None,
        draws: int | None = None,
        seed: int = 0,
    ) -> Guesses:
        """Guesses by theory.

        Args:
            law: The law of the fractions.
            samples: Speak of fractions counted over that many data points; None for infinitely many.
            label_names: Names of the labels.
            draws: Initializations that ``fractions`` draws; 10,000 by default, fewer where draws · labels
                would exceed 2·10⁷.
            seed: Names the draws.
        """
        if samples is not None:
            null(law.labels, samples)  # refuses what is no number of data points
        count = default_draws(law.labels) if draws is None else draws
        return cls(
            law.labels, law=law, samples=samples, label_names=_names(label_names), draws=count, seed=seed
        )

    @classmethod
    def from_counts(
        cls,
        counts: ArrayLike,
        *,
        samples: int | None = None,
        ties: ArrayLike | None = None,
        top: int | None = None,
        label_names: Sequence[str] | None = None,
    ) -> Guesses:
        """Guesses by measurement.

        Args:
            counts: Data points guessed as each label, ``(init, label)``.
            samples: Data points behind each row; the row sums by default, which must agree.
            ties: Fraction of tied data points, ``(init,)``.
            top: Keep columns for that many labels (those with the greatest counts in total) and one for all
                others. The greatest fractions, the leading ranks, the bias and the pooled distribution stay
                exact.
            label_names: Names of all labels.
        """
        whole, points, tied = checked_counts(counts, samples, ties)
        leading = None
        labels = whole.shape[1]
        if top is not None and top < labels:
            leading, whole = lead(whole, top)
        return cls(
            labels,
            counts=whole,
            samples=points,
            tie_fractions=tied,
            top=leading,
            label_names=_names(label_names),
            draws=len(whole),
        )

    @classmethod
    def from_draws(
        cls,
        fractions: ArrayLike,
        *,
        samples: int | None = None,
        seed: int = 0,
        label_names: Sequence[str] | None = None,
    ) -> Guesses:
        """Guesses from draws of a joint law without a closed form.

        Args:
            fractions: One row for each drawn initialization, ``(init, label)``, summing to one.
            samples: Data points the fractions are counted on; None for exact fractions.
            seed: The seed of the draws, for the record.
            label_names: Names of the labels.
        """
        array = checked_fractions(fractions)
        return cls(
            array.shape[1],
            drawn=array,
            samples=samples,
            label_names=_names(label_names),
            draws=len(array),
            seed=seed,
        )

    @property
    def source(self) -> str:
        """``"theory"``, ``"measurement"`` or ``"draws"``."""
        if self.law is not None:
            return "theory"
        return "measurement" if self.counts is not None else "draws"

    @property
    def counted(self) -> CountedLaw | None:
        """The law of the counted fractions, where a law and a number of data points are known."""
        return None if self.law is None or self.samples is None else self.law.with_samples(self.samples)

    @cached_property
    def fractions(self) -> xr.DataArray:
        """Fractions ``(init, label)``: measured ones, or ``draws`` draws from the law under ``seed``."""
        import xarray as xr

        return xr.DataArray(
            self._values,
            dims=("init", "label"),
            coords={"label": self._columns},
            name="fractions",
            attrs={"source": self.source, "draws": self.draws, "seed": self.seed},
        )

    @cached_property
    def max(self) -> xr.DataArray:
        """The greatest fraction of each initialization, ``(init,)``; for its law see ``law.max``."""
        return self._by_init(self._greatest, "max")

    @property
    def ranked(self) -> xr.DataArray:
        """Fractions by rank, greatest first, averaged over initializations, ``(rank,)``.

        Exact where theory has a closed form (two labels, infinitely many data points); ``ranked_stderr`` is
        the error else. Where only the leading labels were kept, as many ranks.
        """
        return self._by_rank(self._ranked.value, "ranked")

    @property
    def ranked_stderr(self) -> xr.DataArray:
        """Standard error of ``ranked`` over initializations or draws, ``(rank,)``; NaN for a single initialization."""
        return self._by_rank(self._ranked.stderr, "ranked_stderr")

    @property
    def ties(self) -> xr.DataArray | None:
        """Fraction of the data points on which labels tied, ``(init,)``; None where nobody counted.

        A tie is decided by rounding or by the order of the labels: where many tie, the fractions say little.
        """
        return None if self.tie_fractions is None else self._by_init(self.tie_fractions, "ties")

    @cached_property
    def bias(self) -> xr.DataArray:
        """Bias beyond counting noise, ``(init,)``: 0 on average without preference, 1 for one guess.

        See ``null_corrected_bias`` for its definition.
        """
        if self.samples == 1:
            raise CouldNotError(
                "guesses.bias: one data point shows no bias; count the guesses on at least two"
            )
        if self.top is not None:
            return self._by_init((self.labels * self.top.agreement - 1) / (self.labels - 1), "bias")
        return self._by_init(null_corrected_bias(self._values, self.samples), "bias")

    @property
    def null(self) -> NullLaw:
        """Guesses of a neutral network counted on as many data points."""
        return null(self.labels, self.samples)

    def pdf(self, g: ArrayLike) -> Array:
        """Density of the fraction of one label; theory without counting noise only."""
        if self.law is not None and self.samples is None:
            return self.law.pdf(g)
        if self.law is not None:
            raise CouldNotError(
                f"guesses.pdf: fractions counted on {self.samples} data points have no density; "
                "use guesses.law.pdf for the fractions behind them, or guesses.counted.pmf"
            )
        raise CouldNotError(
            f"guesses.pdf: {self.source} knows fractions, not their density; use guesses.cdf or guesses.quantile, "
            "draw a histogram of guesses.fractions, or ask predict for the law"
        )

    def cdf(self, g: ArrayLike) -> Array:
        """P(G_c ≤ g) for one label; from counts or draws, the share of all (initialization, label) at or below g."""
        if self.law is not None:
            return (self.counted or self.law).cdf(g)
        values = np.asarray(g, dtype=np.float64)
        places, cumulative = self._pooled
        slack = 1e-9 / (self.samples or 1)  # a fraction is a count over D, up to rounding
        index = np.searchsorted(places, values + slack, side="right")
        found = np.concatenate([[0.0], cumulative])[index]
        return np.asarray(np.where(np.isnan(values), np.nan, found))[()]

    def quantile(self, p: ArrayLike) -> Array:
        """The inverse of ``cdf``."""
        if self.law is not None:
            return (self.counted or self.law).quantile(p)
        probabilities = np.asarray(p, dtype=np.float64)
        if not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise UsageError(f"guesses.quantile(p): expected probabilities between 0 and 1, got {p!r}")
        places, cumulative = self._pooled
        return np.asarray(
            places[np.searchsorted(cumulative, probabilities - 1e-12).clip(0, len(places) - 1)]
        )[()]

    def sample(self, n: int, *, seed: int = 0) -> Array:
        """Draw ``n`` initializations, ``(n, label)``: from the law, or with replacement from the rows at hand."""
        if self.law is not None:
            return self.law.sample(n, seed=seed, samples=self.samples)
        rows = np.random.default_rng(seed).integers(0, len(self._values), size=n)
        return np.asarray(self._values[rows])

    def to_dataframe(self) -> pd.DataFrame:
        """One row an initialization: its fractions by label, then ``max``, ``bias`` and ``ties`` where known."""
        table: pd.DataFrame = self.fractions.to_series().unstack("label")[self._columns]
        table["max"] = self._greatest
        if self.samples != 1:
            table["bias"] = self.bias.values
        if self.tie_fractions is not None:
            table["ties"] = self.tie_fractions
        return table

    def to_dict(self) -> dict[str, Any]:
        """Plain containers: what the guesses rest on, and their summary (no draws listed)."""
        summary = self._glance
        return {
            "source": self.source,
            "labels": self.labels,
            "label_names": list(self.label_names) if self.label_names is not None else None,
            "samples": self.samples,
            "draws": self.draws,
            "seed": self.seed,
            "law": None
            if self.law is None
            else {"gamma": self.law.gamma, "log_gamma": self.law.log_gamma, "regime": self.law.regime},
            "counts": None if self.counts is None else self.counts.tolist(),
            "columns": None if self.counts is None else [str(name) for name in self._columns],
            "ties": None if self.tie_fractions is None else self.tie_fractions.tolist(),
            "ranked": summary.value.tolist(),
            "ranked_stderr": summary.stderr.tolist(),
            "neutral_max": self.null.mean_max,
        }

    def parts(self) -> Parts:
        """Take apart for a file."""
        variables: dict[str, Variable] = {}
        for name, array in (("counts", self.counts), ("drawn", self.drawn)):
            if array is not None:
                variables[name] = Variable(("init", "column"), array)
        if self.tie_fractions is not None:
            variables["ties"] = variable("init", self.tie_fractions)
        if self.label_names is not None:
            variables["label_names"] = variable("label", list(self.label_names))
        if self.top is not None:
            variables.update({f"top_{name}": item for name, item in self.top.variables().items()})
        law = None if self.law is None else {"gamma": self.law.gamma, "log_gamma": self.law.log_gamma}
        return Parts(
            variables,
            attributes={
                "labels": self.labels,
                "samples": self.samples,
                "draws": self.draws,
                "seed": self.seed,
                "law": law,
            },
        )

    @classmethod
    def assemble(cls, parts: Parts) -> Guesses:
        """Rebuild from what ``parts`` gave."""
        arrays = {name: item.values for name, item in parts.variables.items()}
        plain: Mapping[str, Any] = parts.attributes
        top = {
            name.removeprefix("top_"): values for name, values in arrays.items() if name.startswith("top_")
        }
        return cls(
            plain["labels"],
            law=None if plain["law"] is None else GuessLaw(labels=plain["labels"], **plain["law"]),
            counts=arrays.get("counts"),
            drawn=arrays.get("drawn"),
            samples=plain["samples"],
            tie_fractions=arrays.get("ties"),
            top=LeadingLabels(**top) if top else None,
            label_names=_names(arrays["label_names"].tolist()) if "label_names" in arrays else None,
            draws=plain["draws"],
            seed=plain["seed"],
        )

    @cached_property
    def _values(self) -> Array:
        if self.law is not None:
            values = self.law.sample(self.draws, seed=self.seed, samples=self.samples)
        elif self.counts is not None:
            assert self.samples is not None
            values = self.counts / self.samples
        else:
            assert self.drawn is not None
            return self.drawn
        values.flags.writeable = False
        return values

    @property
    def _columns(self) -> list[str] | list[int]:
        names = self.label_names
        if self.top is None:
            return list(range(self.labels)) if names is None else list(names)
        kept = [int(label) for label in self.top.ids]
        return [*(str(label) if names is None else names[label] for label in kept), "other"]

    @cached_property
    def _greatest(self) -> Array:
        if self.top is not None:
            assert self.samples is not None
            return np.asarray(self.top.maximum / self.samples)
        return np.asarray(self._values.max(axis=1))

    @cached_property
    def _ranked(self) -> Estimate:
        if self.law is not None and self.samples is None and (self.labels == 2 or self.law.atoms):
            return self.law.ranked()
        if self.top is not None:
            return Estimate(self.top.ranked, self.top.ranked_stderr, self.draws)
        return average_ranks(self._values)

    @cached_property
    def _glance(self) -> Estimate:
        """Ranked fractions cheap enough for a repr: theory of many labels takes few draws."""
        if self.law is None or self.labels == 2 or self.law.atoms or "_values" in self.__dict__:
            return self._ranked
        count = max(100, min(self.draws, 200_000 // self.labels))
        return average_ranks(self.law.sample(count, seed=self.seed, samples=self.samples))

    @cached_property
    def _pooled(self) -> tuple[Array, Array]:
        """Distinct fractions of all initializations and labels, and the share at or below each."""
        if self.top is not None:
            assert self.samples is not None
            return cumulated(self.top.pooled_counts / self.samples, self.top.pooled_frequency)
        return cumulated(*np.unique(self._values, return_counts=True))

    def _by_init(self, values: Array, name: str) -> xr.DataArray:
        import xarray as xr

        return xr.DataArray(values, dims=("init",), name=name)

    def _by_rank(self, values: Array, name: str) -> xr.DataArray:
        import xarray as xr

        return xr.DataArray(values, dims=("rank",), coords={"rank": np.arange(len(values))}, name=name)

    def __repr__(self) -> str:
        from firstlight.results.display import guesses_text

        return guesses_text(self)

    def _repr_html_(self) -> str:
        from firstlight.results.display import guesses_html

        return guesses_html(self)


def _names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(str(name) for name in names)
