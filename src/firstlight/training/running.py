"""``train``: a model, data and a recipe → Trajectory, over many initializations.

Enters: a module, factory or Blueprint, training data, and data to test on. Leaves: a ``Trajectory`` with a run for
each initialization. Run i has the weights of initialization i, as ``measure`` names them, and an order of the data of
its own; both follow from the seed. Runs that are small share their calls; that changes no number beyond rounding.

With ``resume``, snapshots are written as it goes. A training that was killed goes on from the last one and ends with
the same numbers, bit for bit.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from firstlight.errors import DataError, UsageError
from firstlight.measurement.initialization import Draw, drawing
from firstlight.measurement.kinds import batch_norms
from firstlight.measurement.seeding import random_state_preserved
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory
from firstlight.training.ensembles import Together, members_at_once
from firstlight.training.examples import Examples, examples
from firstlight.training.looking import Loss, Probe, mode_of_split, probe
from firstlight.training.loops import Alone
from firstlight.training.recipes import Recipe
from firstlight.training.recording import Records, side_by_side
from firstlight.training.schedules import Schedule, schedule_named
from firstlight.training.signals import layer_variances
from firstlight.training.snapshots import Snapshots

__all__ = ["train"]

_BETWEEN = 20.0
"""Seconds of work between two snapshots; a snapshot costs milliseconds."""


def train(
    model: nn.Module | Callable[..., nn.Module] | Any,
    data: Any,
    *,
    recipe: Recipe | None = None,
    test: Any = None,
    runs: int | Sequence[int] = 20,
    seed: int = 0,
    schedule: Schedule | int | Sequence[int] | Callable[[int], bool] | None = None,
    modes: Mapping[str, str] | None = None,
    evaluation_batch: int | None = None,
    evaluation_samples: int | None = None,
    class_gradients: bool = False,
    layers: Any = None,
    loss: Loss | None = None,
    redraw: str | Callable[[nn.Module], object] | None = None,
    device: str | torch.device | None = None,
    together: bool | None = None,
    resume: str | Path | None = None,
    progress: bool = True,
) -> Trajectory:
    """Train a model from many initializations and record how its guesses evolve.

    Args:
        model: An ``nn.Module`` (copied and re-drawn), a factory without required arguments, or a ``Blueprint``.
        data: Samples with labels: (x, y), ``Samples``, a ``Dataset`` or the name of a data set.
        recipe: How to train; the papers' shallow perceptron by default.
        test: Further samples to look at, in the same forms.
        runs: How many runs, or which initializations of the seed.
        seed: Names the initializations: number ``i`` of a seed is the same for ever, and the same as in ``measure``.
        schedule: Which steps to record, as for ``track``; by default log-spaced up to the last update.
        modes: Mode in which each split is looked at; ``{"train": "train", "test": "eval"}`` by default, as in the
            papers.
        evaluation_batch: Samples in a batch when looking; all at once where memory bears it. Matters to the numbers
            only for batch norm in train mode.
        evaluation_samples: Look at so many samples of each split, drawn by the seed.
        class_gradients: Record the norm of the gradient of each class on the training data.
        layers: Record γ at these layers, as for ``measure``.
        loss: A function of (logits, targets) that gives the mean loss; cross-entropy by default. Runs then go one by
            one.
        redraw: How weights are drawn, as for ``measure``.
        device: Where to run; by default where the model is.
        together: Whether runs share their calls; by default where that is faster.
        resume: A folder for snapshots. Where it holds those of the same training, that is gone on with.
        progress: Whether to show a bar on a terminal.

    Returns:
        One run for each initialization; ``diverged`` marks those that were lost. Your model and the random generators
        are as they were.
    """
    chosen = _runs(runs)
    recipe = recipe or Recipe()
    given = examples(data)
    total = recipe.total(given.count)
    watched = schedule_named(schedule, total)
    with random_state_preserved():
        draw = drawing(model, seed=seed, redraw=redraw)
        first = copy.deepcopy(draw.module_of(chosen[0]))
        if device is not None:
            first = first.to(device)
        _check_batches(first, given, recipe)
        probes = _probes(first, given, test, seed, modes or {}, evaluation_batch, evaluation_samples)
        members = _members(together, first, probes, recipe, given, loss, device)
        plan = _Plan(draw, given, recipe, seed, probes, watched, class_gradients, layers, loss, device)
        blocks = [chosen[start : start + members] for start in range(0, len(chosen), members)]
        provenance = plan.provenance(len(chosen), members)
        snapshots = None
        if resume is not None:
            snapshots = Snapshots(resume, {**plan.identity(), "runs": list(chosen), "together": members})
        with _Bar(len(chosen) * (total + 1), progress) as bar:
            records = [
                _block(plan, block, members > 1, snapshots, f"block-{number:04d}", bar)
                for number, block in enumerate(blocks)
            ]
    return side_by_side(records).trajectory(
        provenance=provenance,
        inits=chosen,
        label_names=given.label_names,
        layers=plan.layer_names,
        splits=list(probes),
    )


@dataclass
class _Plan:
    """What all blocks of runs share."""

    draw: Draw
    data: Examples
    recipe: Recipe
    seed: int
    probes: dict[str, Probe]
    schedule: Schedule
    class_gradients: bool
    layers: Any
    loss: Loss | None
    device: str | torch.device | None
    layer_names: list[str] | None = None

    @property
    def total(self) -> int:
        """Updates of a run."""
        return self.recipe.total(self.data.count)

    def engine(self, runs: Sequence[int], together: bool) -> Alone | Together:
        """Fresh members with the weights of their initializations."""
        modules = [copy.deepcopy(self.draw.module_of(run)) for run in runs]
        if together:
            return Together(modules, runs, recipe=self.recipe, data=self.data, seed=self.seed)
        return Alone(
            modules[0],
            runs[0],
            recipe=self.recipe,
            data=self.data,
            seed=self.seed,
            label_axis=next(iter(self.probes.values())).label_axis,
            loss=self.loss,
            device=self.device,
        )

    def record(self, engine: Alone | Together, step: int, records: Records) -> None:
        """Look at all splits."""
        for split, seen in self.probes.items():
            records.add(step, split, engine.look(seen))
        seen = self.probes["train"]
        if self.class_gradients:
            records.note(step, "gradient_norm", engine.class_gradient_norms(seen))
        if self.layers is not None:
            found: dict[str, list[torch.Tensor]] = {}
            for module in engine.modules():
                self.layer_names, values = layer_variances(
                    module, self.data.source, self.layers, seen.mode, seen.batches.largest
                )
                for name, value in values.items():
                    found.setdefault(name, []).append(value)
            for name, values_of in found.items():
                records.note(step, name, torch.stack(values_of))

    def provenance(self, runs: int, members: int) -> Provenance:
        """Where the trajectory comes from."""
        notes = dict.fromkeys(
            (
                *self.draw.notes,
                *(f"{split}: {note}" for split, item in self.probes.items() for note in item.notes),
            )
        )
        return Provenance(
            engine="measurement",
            model=self.draw.description,
            data=self.data.description,
            seed=self.seed,
            mode=self.probes["train"].mode,
            settings={
                "runs": runs,
                "recipe": self.recipe.to_dict(),
                "updates": self.total,
                "schedule": self.schedule.description,
                "redraw": self.draw.method,
                "modes": {split: item.mode for split, item in self.probes.items()},
                "members_at_once": members,
            },
            notes=tuple(notes),
        )

    def identity(self) -> dict[str, Any]:
        """What a snapshot must agree with."""
        some = torch.linspace(0, self.data.count - 1, min(64, self.data.count)).long()
        with random_state_preserved():  # a data set of the user's may draw from the global generators
            torch.manual_seed(self.seed)
            inputs, labels = self.data.fetch(some)
        weights = self.draw.module_of(0).parameters()
        return {
            "model": self.draw.description,
            "redraw": self.draw.method,
            "data": self.data.description,
            "samples": self.data.count,
            "inputs": float(inputs.double().sum()),
            "labels": float(labels.double().sum()),
            "weights": float(sum(item.detach().double().sum() for item in weights)),
            "splits": {split: [item.mode, item.batches.description] for split, item in self.probes.items()},
            "recipe": self.recipe.to_dict(),
            "seed": self.seed,
            "recorded steps": self.schedule.upto(self.total),
            "class_gradients": self.class_gradients,
            "layers": repr(self.layers)
            if isinstance(self.layers, str | list | tuple | None)
            else "a function",
            "loss": None
            if self.loss is None
            else getattr(self.loss, "__qualname__", type(self.loss).__name__),
            "torch": torch.__version__,
        }


def _block(
    plan: _Plan, runs: Sequence[int], together: bool, snapshots: Snapshots | None, name: str, bar: _Bar
) -> Records:
    """All steps of some runs, from the last snapshot on."""
    state = None if snapshots is None else snapshots.load(name)
    records = Records() if state is None else Records.from_state_dict(state["records"])
    if state is not None and state["layers"] is not None:
        plan.layer_names = list(state["layers"])
    begin = 0 if state is None else int(state["step"])
    bar.advance(begin * len(runs))
    if begin > plan.total:
        return records
    engine = plan.engine(runs, together)
    if state is not None:
        engine.load_state_dict(state["engine"])

    def keep(step: int, *, finished: bool = False) -> None:
        if snapshots is not None:
            held = {} if finished else engine.state_dict()
            snapshots.save(
                name,
                {"step": step, "records": records.state_dict(), "layers": plan.layer_names, "engine": held},
            )

    saved = time.monotonic()
    step = begin
    while step <= plan.total:
        if plan.schedule(step):
            plan.record(engine, step, records)
            if _all_lost(records, step):
                bar.advance((plan.total + 1 - step) * len(runs))
                break
        if step < plan.total:
            engine.step(step)
        step += 1
        bar.advance(len(runs))
        if time.monotonic() - saved > _BETWEEN:
            keep(step)
            saved = time.monotonic()
    keep(plan.total + 1, finished=True)
    return records


def _all_lost(records: Records, step: int) -> bool:
    """Whether every run has met NaN or infinity; no update leads back from there."""
    return not bool(torch.isfinite(records.tallies[step, "train"].mean_losses()).any())


def _runs(runs: int | Sequence[int]) -> list[int]:
    chosen = list(range(runs)) if isinstance(runs, int | np.integer) else [int(run) for run in runs]
    if not chosen or min(chosen) < 0 or len(set(chosen)) < len(chosen):
        raise UsageError(
            f"train(runs): expected a number of at least 1, or different initializations, none negative, got {runs!r}"
        )
    return chosen


def _check_batches(module: nn.Module, given: Examples, recipe: Recipe) -> None:
    """Refuse a batch of one sample where batch norm would see it."""
    batches, rest = divmod(given.count, recipe.batch_size)
    alone = recipe.batch_size == 1 or rest == 1
    if (
        alone
        and batch_norms(module)
        and recipe.total(given.count) > (0 if recipe.batch_size == 1 else batches)
    ):
        raise DataError(
            f"train(batch_size): {given.count} samples in batches of {recipe.batch_size} leave a batch of "
            "1 sample, which has no batch statistics; choose another batch_size"
        )


def _probes(
    module: nn.Module,
    given: Examples,
    test: Any,
    seed: int,
    modes: Mapping[str, str],
    batch_size: int | None,
    max_samples: int | None,
) -> dict[str, Probe]:
    sources = {"train": given.source}
    if test is not None:
        sources["test"] = examples(test).source
    unknown = sorted(set(modes) - set(sources))
    if unknown:
        raise UsageError(f"train(modes): expected modes of {', '.join(sources)}, got one of {unknown[0]!r}")
    return {
        split: probe(
            module,
            source,
            mode=modes.get(split, mode_of_split(split)),
            seed=seed,
            batch_size=batch_size,
            max_samples=max_samples,
        )
        for split, source in sources.items()
    }


def _members(
    together: bool | None,
    module: nn.Module,
    probes: Mapping[str, Probe],
    recipe: Recipe,
    data: Examples,
    loss: Loss | None,
    device: str | torch.device | None,
) -> int:
    """Runs of one call."""
    on_cpu = next(module.parameters()).device.type == "cpu" and device in (None, "cpu", torch.device("cpu"))
    possible = loss is None and on_cpu
    if together is False or not possible:
        if together:
            raise UsageError("train(together): runs share calls on a CPU and with the cross-entropy only")
        return 1
    work = 0 if together else probes["train"].work
    members = members_at_once(module, work, recipe, data)
    if together and members == 1:
        raise UsageError(
            f"train(together): {type(module).__name__} holds layers that cannot run stacked; leave together out"
        )
    return members


class _Bar:
    """Progress over the updates of all runs, on a terminal."""

    def __init__(self, total: int, shown: bool) -> None:
        from tqdm import tqdm

        # disable=None hides the bar where stderr is no terminal
        self._bar = tqdm(
            total=total,
            desc="updates",
            unit="step",
            leave=False,
            smoothing=0.1,
            disable=None if shown else True,
        )

    def advance(self, steps: int) -> None:
        """So many more."""
        self._bar.update(steps)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()
