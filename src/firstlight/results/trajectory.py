"""Trajectory: how the guesses of several training runs evolve, from birth until the bias is gone.

Enters: what was counted at each recorded step of each run. Leaves: one noun with axes ``init`` (a run), ``step`` (the
number of updates before the record), ``split`` (``"train"``, ``"test"``), ``label``, and ``layer`` where γ was asked.

Labels are exchangeable over initializations, so an average by label hides the bias. ``order`` sorts the labels of each
run by how often it guessed them at birth, and "ordered" values are by that ``rank``: class 0 is the class that the run
preferred before it learned (Francazi et al. 2026, figure 2). A run whose loss was lost to overflow is marked
``diverged`` and left out of averages, which say how many runs are behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.errors import CouldNotError, UsageError, one_of
from firstlight.results.labelled import Labelled, Variable, variable
from firstlight.results.provenance import Provenance
from firstlight.results.run_averages import mean_and_stderr, ratio_and_stderr
from firstlight.results.run_times import area_over_steps, settling_steps

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["RUN_QUANTITIES", "Trajectory"]

Array = NDArray[np.float64]

RUN_QUANTITIES: dict[str, tuple[tuple[str, ...], str]] = {
    "loss": (("init", "step", "split"), "mean loss over the samples of the record"),
    "accuracy": (("init", "step", "split"), "share of the samples whose guess is right"),
    "max_guess": (("init", "step", "split"), "max_c G_c, the share of the label guessed most"),
    "tie_fraction": (("init", "step", "split"), "share of the samples with more than one largest logit"),
    "guess_fractions": (("init", "step", "split", "label"), "G_c, the share of the samples guessed as c"),
    "recall": (("init", "step", "split", "label"), "share of the samples of class c guessed as c"),
    "gradient_norm": (("init", "step", "label"), "norm of the gradient of the mean loss of class c"),
    "center_variance": (("init", "step", "layer"), "C of this run's weights"),
    "data_variance": (("init", "step", "layer"), "V of this run's weights"),
    "gamma": (("init", "step", "layer"), "γ = C/V of this run's weights"),
}
"""Axes and meaning of what may be averaged over runs."""

_INTERVAL = 0.01
"""Chance with which counting noise alone lifts a neutral network's max_c G_c out of its band."""


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Labelled):
    """Training runs side by side; see the module's docstring for the axes and ``RUN_QUANTITIES`` for the variables.

    Beside them: ``samples`` and ``label_fractions`` of what was evaluated, ``initial_fractions`` (init, label),
    ``order`` (init, rank), ``diverged`` and ``diverged_step`` (init; −1 where a run did not).
    """

    kind: ClassVar[str] = "trajectory"

    def __post_init__(self) -> None:
        super().__post_init__()
        for axis in ("init", "step", "split", "label"):
            if axis not in self.coordinates:
                raise UsageError(
                    f"Trajectory: expected a coordinate {axis!r}, got {sorted(self.coordinates)}"
                )

    @classmethod
    def from_counts(
        cls,
        *,
        steps: Sequence[int],
        splits: Sequence[str],
        guesses: ArrayLike,
        right: ArrayLike,
        totals: ArrayLike,
        losses: ArrayLike,
        ties: ArrayLike | None = None,
        inits: Sequence[int] | None = None,
        label_names: Sequence[str] | None = None,
        diverged_step: Sequence[int] | None = None,
        initial_fractions: ArrayLike | None = None,
        extra: Mapping[str, ArrayLike] | None = None,
        layers: Sequence[str] | None = None,
        provenance: Provenance,
    ) -> Self:
        """Build a trajectory from what was counted.

        Args:
            steps: Recorded steps, ascending; a step is the number of updates before the record.
            splits: Names of the evaluated data.
            guesses: Samples guessed as each label, ``(init, step, split, label)``; all zero where nothing was recorded.
            right: Samples of each label that were guessed right, same axes.
            totals: Samples of each label, same axes.
            losses: Mean losses, ``(init, step, split)``; NaN where nothing was recorded.
            ties: Samples with more than one largest logit, ``(init, step, split)``.
            inits: Names of the runs; their numbers by default.
            label_names: Names of the labels.
            diverged_step: First recorded step at which each run had diverged, −1 where it had not.
            initial_fractions: Guess fractions at birth, ``(init, label)``; by default those of the first record of the
                first split.
            extra: Further variables of ``RUN_QUANTITIES``.
            layers: Names of the layers, where ``extra`` speaks of layers.
            provenance: What produced the numbers.
        """
        counted, correct, present = (np.asarray(item, dtype=np.float64) for item in (guesses, right, totals))
        runs, _, _, labels = _checked_shape(counted, correct, present, steps, splits)
        with np.errstate(invalid="ignore", divide="ignore"):
            samples = counted.sum(-1)
            fractions = counted / samples[..., None]
            tied = np.zeros_like(samples) if ties is None else np.asarray(ties, dtype=np.float64)
            everything = present.sum((0, 1))
            arrays: dict[str, ArrayLike] = {
                "loss": losses,
                "accuracy": correct.sum(-1) / present.sum(-1),
                "max_guess": fractions.max(-1),
                "tie_fraction": tied / samples,
                "guess_fractions": fractions,
                "recall": correct / present,
                **(extra or {}),
            }
            shares = everything / everything.sum(-1, keepdims=True)
        initial = _birth(fractions) if initial_fractions is None else np.asarray(initial_fractions)
        lost = np.full(runs, -1) if diverged_step is None else np.asarray(diverged_step, dtype=np.int64)
        variables = {name: variable(RUN_QUANTITIES[name][0], values) for name, values in arrays.items()}
        variables |= {
            "samples": variable(("init", "step", "split"), samples.astype(np.int64)),
            "label_fractions": variable(("split", "label"), shares),
            "initial_fractions": variable(("init", "label"), initial),
            # stable: of two labels guessed alike, the first is the dominant one
            "order": variable(("init", "rank"), np.argsort(-initial, axis=1, kind="stable")),
            "diverged": variable("init", lost >= 0),
            "diverged_step": variable("init", lost),
        }
        names = [str(label) for label in range(labels)] if label_names is None else list(label_names)
        coordinates = {
            "init": variable("init", list(range(runs)) if inits is None else list(inits)),
            "step": variable("step", list(steps)),
            "split": variable("split", list(splits)),
            "label": variable("label", names),
            "rank": variable("rank", np.arange(labels)),
        }
        if layers is not None:
            coordinates["layer"] = variable("layer", list(layers))
        return cls(variables, coordinates, provenance)

    # What is in it

    @property
    def runs(self) -> int:
        """Number of runs, diverged ones included."""
        return len(self.coordinates["init"].values)

    @property
    def steps(self) -> NDArray[np.int64]:
        """Recorded steps."""
        return self.coordinates["step"].values

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the evaluated data, the one trained on first."""
        return tuple(str(name) for name in self.coordinates["split"].values)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels."""
        return tuple(str(name) for name in self.coordinates["label"].values)

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """Which runs diverged, ``(init,)``."""
        return self.variables["diverged"].values

    @property
    def initial_gap(self) -> xr.DataArray:
        """Greatest minus smallest guess fraction at birth, ``(init,)``; for two labels ``|f_0 − f_1|``."""
        values = self.variables["initial_fractions"].values
        return self._by_init(values.max(1) - values.min(1), "initial_gap")

    def quantity(self, name: str, *, split: str | None = None, ordered: bool = False) -> xr.DataArray:
        """One variable of all runs, at one split.

        Args:
            name: A key of ``RUN_QUANTITIES``, or ``"class_gap"``.
            split: Which data; the first split by default.
            ordered: Replace ``label`` by ``rank``: rank 0 is the label that the run preferred at birth.
        """
        import xarray as xr

        dims, values = self._values(name, split, ordered=ordered)
        coordinates = {
            axis: (axis, self.coordinates[axis].values) for axis in dims if axis in self.coordinates
        }
        return xr.DataArray(values, dims=dims, coords=coordinates, name=name)

    def mean(self, name: str, *, split: str | None = None, ordered: bool = False) -> xr.Dataset:
        """Average over the runs that did not diverge.

        Args:
            name: A key of ``RUN_QUANTITIES``, or ``"class_gap"``. γ is averaged as the papers define it: the ratio of
                the runs' average C to their average V.
            split: Which data; the first split by default.
            ordered: Sort the labels of each run by its initial preference before averaging.

        Returns:
            ``value``, ``stderr`` (over runs; NaN for fewer than two) and ``count`` (runs behind each point).
        """
        import xarray as xr

        dims, values = self._values(name, split, ordered=ordered)
        kept = ~self.diverged
        if name == "gamma" and {"center_variance", "data_variance"} <= set(self.variables):
            centers, spreads = (self.variables[f"{part}_variance"].values for part in ("center", "data"))
            average = ratio_and_stderr(centers[kept], spreads[kept])
        else:
            average = mean_and_stderr(values[kept])
        coordinates = {axis: self.coordinates[axis].values for axis in dims[1:] if axis in self.coordinates}
        named = zip(("value", "stderr", "count"), average, strict=True)
        return xr.Dataset({key: (dims[1:], found) for key, found in named}, coords=coordinates)

    # What became of the bias

    def convergence_time(
        self, level: float = 0.6, *, split: str | None = None, interpolate: bool = False
    ) -> xr.DataArray:
        """τ_level: the first step from which the accuracy of a run stays at ``level`` or above, ``(init,)``.

        The paper uses τ_0.6 without a formula (its figure G.11). A curve may touch the level by chance and leave
        it again, so the last crossing counts, not the first. NaN: it was not reached, or the run diverged.

        Args:
            level: An accuracy between 0 and 1.
            split: Which data; the first split by default.
            interpolate: Put the crossing between two records, where the line through them in log(1 + step) meets the
                level, instead of at the later record. Matters on log-spaced steps, which lie far apart.
        """
        if not 0 < level <= 1:
            raise UsageError(
                f"convergence_time(level): expected an accuracy above 0 and at most 1, got {level!r}"
            )
        _, values = self._values("accuracy", split)
        return self._by_init(
            self._lasting(settling_steps(self.steps, values, level, interpolate=interpolate)), f"tau_{level}"
        )

    def absorption_time(
        self, level: float | None = None, *, split: str | None = None, interpolate: bool = False
    ) -> xr.DataArray:
        """The first step from which max_c G_c of a run stays at ``level`` or below, ``(init,)``.

        Args:
            level: A share of the samples; by default ``neutral_level``, what counting noise explains.
            split: Which data; the first split by default.
            interpolate: As for ``convergence_time``.
        """
        bound = self.neutral_level(split=split) if level is None else level
        if not 0 < bound <= 1:
            raise UsageError(f"absorption_time(level): expected a share above 0 and at most 1, got {level!r}")
        _, values = self._values("max_guess", split)
        found = settling_steps(self.steps, -values, -bound, interpolate=interpolate)
        return self._by_init(self._lasting(found), "absorption_time")

    def neutral_level(self, *, split: str | None = None) -> float:
        """max_c G_c that a network without preference exceeds once in a hundred times, counted on as many samples.

        With even classes that is the quantile of the multinomial null; with uneven ones, the share p of the largest
        class plus the normal quantile of its counting noise √(p(1 − p)/D).
        """
        from scipy.special import ndtri

        from firstlight.results.guess_null import null

        place = self._place(split)
        samples = int(self.variables["samples"].values[:, :, place].max())
        if not samples:
            raise CouldNotError(f"trajectory.neutral_level: nothing was recorded of {self.splits[place]!r}")
        even = float(null(len(self.labels), samples).max_quantile(1 - _INTERVAL))
        share = float(self.variables["label_fractions"].values[place].max())
        noise = float(ndtri(1 - _INTERVAL / 2) * np.sqrt(share * (1 - share) / samples))
        return min(1.0, max(even, share + noise))

    def class_gap_area(self, *, split: str | None = None) -> xr.DataArray:
        """∫ (recall of the initially dominant class − mean recall of the others) over the steps, ``(init,)``.

        In steps: how many steps' worth of one-sided recall the initial preference cost; by the trapezoid rule over the
        records. Zero on average without a preference; negative where the preference turns around.
        """
        _, gap = self._values("class_gap", split)
        return self._by_init(self._lasting(area_over_steps(self.steps, gap)), "class_gap_area")

    # Which runs

    def select(self, runs: ArrayLike) -> Self:
        """The runs at these positions, or where a mask over runs is true."""
        chosen = np.asarray(runs)
        if chosen.dtype == bool and chosen.shape != (self.runs,):
            raise UsageError(
                f"trajectory.select: expected a mask of {self.runs} runs, got shape {chosen.shape}"
            )
        if not chosen.size or (chosen.dtype == bool and not chosen.any()):
            raise CouldNotError(
                f"trajectory.select: no run of the {self.runs} is chosen; loosen the condition"
            )

        def cut(item: Variable) -> Variable:
            return variable(item.dims, item.values[chosen]) if "init" in item.dims else item

        return type(self)(
            {name: cut(item) for name, item in self.variables.items()},
            {name: cut(item) for name, item in self.coordinates.items()},
            self.provenance,
            self.coverage,
        )

    def neutral(self, below: float = 0.1) -> Self:
        """The runs born with an ``initial_gap`` below that."""
        return self.select(self.initial_gap.values < below)

    def prejudiced(self, above: float = 0.9) -> Self:
        """The runs born with an ``initial_gap`` above that."""
        return self.select(self.initial_gap.values > above)

    @classmethod
    def merge(cls, trajectories: Iterable[Trajectory]) -> Trajectory:
        """Put the runs of several trajectories side by side; what one of them did not record is missing there."""
        from firstlight.results.run_merging import merged

        return merged(list(trajectories))

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each (init, step, split); labels in columns such as ``recall[label]``."""
        flat = ("init", "step", "split")
        plain = [name for name, item in self.variables.items() if item.dims == flat]
        table = self.dataset[plain].to_dataframe(dim_order=list(flat))
        for name in ("guess_fractions", "recall"):
            values = self.variables[name].values
            for place, label in enumerate(self.labels):
                table[f"{name}[{label}]"] = values[..., place].ravel()
        return table

    def _values(
        self, name: str, split: str | None, *, ordered: bool = False
    ) -> tuple[tuple[str, ...], Array]:
        """Axes and values, the split taken out."""
        if name == "class_gap":
            dims, recall = self._values("recall", split, ordered=True)
            return dims[:-1], recall[..., 0] - mean_and_stderr(np.moveaxis(recall[..., 1:], -1, 0))[0]
        if name not in self.variables or name not in RUN_QUANTITIES:
            known = [key for key in RUN_QUANTITIES if key in self.variables]
            raise one_of("trajectory: quantity", name, [*known, "class_gap"])
        item = self.variables[name]
        dims, values = item.dims, item.values
        if "split" in dims:
            axis = dims.index("split")
            dims, values = dims[:axis] + dims[axis + 1 :], values.take(self._place(split), axis)
        if ordered:
            if dims[-1] != "label":
                raise UsageError(
                    f"trajectory: {name!r} has no labels to order; its axes are {', '.join(dims)}"
                )
            order = self.variables["order"].values.reshape(self.runs, *[1] * (values.ndim - 2), -1)
            dims, values = (*dims[:-1], "rank"), np.take_along_axis(values, order, -1)
        return dims, values

    def _place(self, split: str | None) -> int:
        if split is None:
            return 0
        if split not in self.splits:
            raise one_of("trajectory: split", split, self.splits)
        return self.splits.index(split)

    def _lasting(self, values: Array) -> Array:
        """NaN for the runs that diverged."""
        return np.where(self.diverged, np.nan, values)

    def _by_init(self, values: Array, name: str) -> xr.DataArray:
        import xarray as xr

        runs = ("init", self.coordinates["init"].values)
        return xr.DataArray(values, dims=("init",), coords={"init": runs}, name=name)

    def __repr__(self) -> str:
        from firstlight.results.run_display import trajectory_text

        return trajectory_text(self)

    def _repr_html_(self) -> str:
        from firstlight.results.run_display import trajectory_html

        return trajectory_html(self)


def _checked_shape(
    guesses: Array, right: Array, totals: Array, steps: Sequence[int], splits: Sequence[str]
) -> tuple[int, int, int, int]:
    shape = guesses.shape
    if len(shape) != 4 or shape[1:3] != (len(steps), len(splits)) or not shape[0]:
        raise UsageError(
            f"Trajectory.from_counts(guesses): expected (init, step, split, label) with {len(steps)} steps and "
            f"{len(splits)} splits, got shape {shape}"
        )
    for name, item in (("right", right), ("totals", totals)):
        if item.shape != shape:
            raise UsageError(
                f"Trajectory.from_counts({name}): expected the shape of guesses {shape}, got {item.shape}"
            )
    if any(late <= early for early, late in pairwise(steps)):
        raise UsageError(
            f"Trajectory.from_counts(steps): expected steps in ascending order, got {list(steps)}"
        )
    return shape


def _birth(fractions: Array) -> Array:
    """Fractions of the first record of the first split that each run has."""
    first = fractions[:, :, 0]  # (init, step, label)
    known = ~np.isnan(first[..., 0])
    found = np.take_along_axis(first, known.argmax(1)[:, None, None], 1)[:, 0]
    return np.nan_to_num(found, nan=1 / first.shape[-1])  # a run without a record prefers nothing
