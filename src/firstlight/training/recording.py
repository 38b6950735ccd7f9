"""Records of some runs: tallies by step and split, and what was asked for besides; at the end a Trajectory.

Enters: tallies as they are counted. Leaves: a ``Trajectory``, a dictionary for loggers, or plain tensors to be saved
and read back. A record whose loss is not finite is blank: guesses among NaN logits mean nothing.

A run has diverged at the first record whose loss is NaN or infinite, or has grown since its first record by more than

    −ln(smallest positive float32) = 103.3,

so that the true labels have become less likely, on geometric average, by a factor that float32 cannot hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstlight.errors import CouldNotError, UsageError
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory
from firstlight.training.counting import Tally, joined

__all__ = ["Records", "side_by_side"]

_LOST = float(-np.log(np.finfo(np.float32).smallest_subnormal))


class Records:
    """What was recorded so far of ``count`` runs."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[int, str], Tally] = {}
        self.extra: dict[tuple[int, str], Tensor] = {}

    def __bool__(self) -> bool:
        return bool(self.tallies)

    def add(self, step: int, split: str, found: Tally) -> None:
        """Take in a tally; those of one step and split add up."""
        known = next(iter(self.tallies.values()), found).guesses.shape[1]
        got = found.guesses.shape[1]
        if got != known:
            raise UsageError(
                f"step {step} of {split!r}: expected logits of {known} labels, as before, got {got}; "
                "follow each model with a tracker of its own"
            )
        before = self.tallies.get((step, split))
        self.tallies[step, split] = found if before is None else before + found

    def note(self, step: int, name: str, values: Tensor) -> None:
        """Keep a further quantity of this step, (init, …)."""
        self.extra[step, name] = values.detach().cpu().double()

    def log(self, step: int, split: str) -> dict[str, float]:
        """The record of the first run for a logger; keys in the style ``class_bias/max_fraction``."""
        found = self.tallies[step, split].to_cpu()
        guesses, right, totals = (item[0].double() for item in (found.guesses, found.right, found.totals))
        return {
            "class_bias/max_fraction": float(guesses.max() / guesses.sum()),
            "class_bias/loss": float(found.mean_losses()[0]),
            "class_bias/accuracy": float(right.sum() / totals.sum()),
            **{
                f"class_bias/fraction/{label}": float(value) for label, value in _few(guesses / guesses.sum())
            },
            **{f"class_bias/recall/{label}": float(value) for label, value in _few(right / totals)},
        }

    def add_up(self) -> None:
        """Sum the tallies over all processes, which must have recorded the same steps."""
        for place, found in self.tallies.items():
            summed = {item.name: getattr(found, item.name).clone() for item in fields(found)}
            for value in summed.values():
                torch.distributed.all_reduce(value)
            self.tallies[place] = Tally(**summed)

    def state_dict(self) -> dict[str, Tensor]:
        """Flat tensors, which ``torch.load(weights_only=True)`` reads."""
        flat = {f"extra|{step}|{name}": values for (step, name), values in self.extra.items()}
        for (step, split), found in self.tallies.items():
            for item in fields(found):
                flat[f"tally|{step}|{split}|{item.name}"] = getattr(found, item.name).cpu()
        return flat

    @classmethod
    def from_state_dict(cls, flat: Mapping[str, Tensor]) -> Records:
        """Read what ``state_dict`` gave."""
        records = cls()
        parts: dict[tuple[int, str], dict[str, Tensor]] = {}
        for key, value in flat.items():
            kind, step, rest = key.split("|", 2)
            if kind == "extra":
                records.extra[int(step), rest] = value
            else:
                split, _, name = rest.rpartition("|")
                parts.setdefault((int(step), split), {})[name] = value
        records.tallies = {place: Tally(**part) for place, part in parts.items()}
        return records

    def trajectory(
        self,
        *,
        provenance: Provenance,
        inits: Sequence[int] | None = None,
        label_names: Sequence[str] | None = None,
        layers: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
        initial_fractions: NDArray[np.float64] | None = None,
    ) -> Trajectory:
        """All runs as one noun."""
        if not self.tallies:
            raise CouldNotError(
                "tracker.trajectory: nothing was recorded yet; call update or evaluate at a scheduled step"
            )
        steps = sorted({step for step, _ in self.tallies})
        known = dict.fromkeys(split for _, split in self.tallies)
        names = [name for name in (splits or ()) if name in known] + [
            name for name in known if name not in (splits or ())
        ]
        runs, labels = next(iter(self.tallies.values())).guesses.shape
        counts = {
            name: np.zeros((runs, len(steps), len(names), labels), dtype=np.int64)
            for name in ("guesses", "right", "totals")
        }
        ties = np.zeros((runs, len(steps), len(names)), dtype=np.int64)
        losses = np.full((runs, len(steps), len(names)), np.nan)
        recorded = np.zeros(losses.shape, dtype=bool)
        for (step, split), found in self.tallies.items():
            place = (slice(None), steps.index(step), names.index(split))
            on_cpu = found.to_cpu()
            mean = on_cpu.mean_losses().numpy()
            losses[place] = mean
            recorded[place] = on_cpu.samples.numpy() > 0
            fine = np.isfinite(mean)
            for name, array in counts.items():
                array[place] = np.where(fine[:, None], getattr(on_cpu, name).numpy(), 0)
            ties[place] = np.where(fine, on_cpu.ties.numpy(), 0)
        return Trajectory.from_counts(
            steps=steps,
            splits=names,
            ties=ties,
            losses=losses,
            inits=inits,
            label_names=label_names,
            diverged_step=_diverged_steps(steps, losses, recorded),
            initial_fractions=initial_fractions,
            extra=self._extra(steps, runs),
            layers=layers,
            provenance=provenance,
            **counts,
        )

    def _extra(self, steps: Sequence[int], runs: int) -> dict[str, NDArray[np.float64]]:
        found: dict[str, NDArray[np.float64]] = {}
        for (step, name), values in self.extra.items():
            if name not in found:
                found[name] = np.full((runs, len(steps), *values.shape[1:]), np.nan)
            if step in steps:
                found[name][:, steps.index(step)] = values.numpy()
        return found


def side_by_side(parts: Sequence[Records]) -> Records:
    """Records of different runs as records of all of them; a step that one of them lacks is blank there."""
    whole = Records()
    sizes = [len(next(iter(part.tallies.values())).guesses) for part in parts]
    for place in dict.fromkeys(place for part in parts for place in part.tallies):
        template = next(part.tallies[place] for part in parts if place in part.tallies)
        whole.tallies[place] = joined(
            [
                part.tallies.get(place) or _blank(template, size)
                for part, size in zip(parts, sizes, strict=True)
            ]
        )
    for key in dict.fromkeys(key for part in parts for key in part.extra):
        shape = next(part.extra[key].shape[1:] for part in parts if key in part.extra)
        whole.extra[key] = torch.cat(
            [
                part.extra[key] if key in part.extra else torch.full((size, *shape), torch.nan).double()
                for part, size in zip(parts, sizes, strict=True)
            ]
        )
    return whole


def _blank(template: Tally, size: int) -> Tally:
    """A record that was not made: its mean loss is 0/0."""
    return Tally(
        *(
            torch.zeros((size, *value.shape[1:]), dtype=value.dtype)
            for value in (getattr(template, item.name) for item in fields(template))
        )
    )


def _diverged_steps(
    steps: Sequence[int], losses: NDArray[np.float64], recorded: NDArray[np.bool_]
) -> list[int]:
    """First recorded step at which each run had diverged; −1 where it had not."""
    found = []
    for run, known in zip(losses, recorded, strict=True):  # (step, split)
        first = next((value for value in run[known] if np.isfinite(value)), 0.0)
        with np.errstate(invalid="ignore"):
            lost = known & ~(run <= first + _LOST)
        found.append(int(steps[int(lost.any(1).argmax())]) if lost.any() else -1)
    return found


def _few(values: Any) -> list[tuple[int, Any]]:
    """Labels worth a curve each in a logger."""
    return list(enumerate(values.tolist())) if len(values) <= 20 else []
