"""What it costs to train many networks at once, and to follow one; ratios within one run.

The ordinary loop is the one that anyone would write: ``torch.optim`` as it comes, one network after the other. Both
sides take the same updates of the same data, in turns, so that a busy moment hits both; medians of the ratios are
reported.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F  # noqa: N812
from row import Row

import firstlight as fl
from firstlight.data import gaussian_blobs
from firstlight.measurement.initialization import drawing
from firstlight.training import Recipe, track
from firstlight.training.ensembles import Together, members_at_once
from firstlight.training.examples import examples, order_of
from firstlight.training.looking import probe
from firstlight.training.loops import Alone

REPEATS = 9
MEMBERS = 20
DATA = gaussian_blobs(samples=4096)


def measure() -> Iterator[Row]:
    """Ensembles against loops, then trackers."""
    for norm in (None, "layer", "batch"):
        yield from _perceptrons(20, 32, norm, target=1 / 2.5 if norm is None else None)
    yield from _perceptrons(1, 32, None, target=1.0)
    yield from _perceptrons(20, 512, None, target=1.0)
    yield from _perceptrons(1, 512, None, target=1.0)
    yield from _perceptrons(1, 512, "batch", target=1.0)
    yield from _tracker("SHLP", 1)
    yield from _tracker("MHLP", 20)


def _perceptrons(depth: int, batch: int, norm: str | None, *, target: float | None) -> Iterator[Row]:
    """The way that ``train`` chooses, over the ordinary loop and over its own, for each member and update."""
    network = fl.Blueprint.mlp(inputs=1000, depth=depth, width=100, norm=norm)
    recipe, data = Recipe(batch_size=batch, rate=1e-5), examples(DATA)
    draw = drawing(network, seed=0)
    work = probe(draw.module_of(0), DATA, mode="train").work
    members = members_at_once(draw.module_of(0), work, recipe, data)
    updates = 4 if batch < 512 else 2
    ordinary = Ordinary(draw.module_of(0), recipe)
    alone = Alone(draw.module_of(0), 0, recipe=recipe, data=data, seed=0, label_axis=-1)
    chosen = alone
    if members > 1:
        modules = [draw.module_of(run) for run in range(MEMBERS)]
        chosen = Together(modules, range(MEMBERS), recipe=recipe, data=data, seed=0)
    share = updates * len(chosen.runs)
    times = _in_turns(
        [(ordinary.step, 4 * updates), (alone.step, 4 * updates), (chosen.step, updates)],
        [4 * updates, 4 * updates, share],
    )
    name = f"{depth} × 100{'' if norm is None else f', {norm} norm'}, batch {batch}, Adam"
    way = f"{MEMBERS} runs together" if members > 1 else "one by one"
    yield Row(f"{name}: {way} over the ordinary loop", _ratio(times, 2, 0), "×", target)
    if members > 1:
        yield Row(f"{name}: {way} over one by one with a fused optimizer", _ratio(times, 2, 1), "×", 1.0)


class Ordinary:
    """``torch.optim.Adam`` as it comes."""

    def __init__(self, module: torch.nn.Module, recipe: Recipe) -> None:
        self.module, self.recipe = module.train(), recipe
        self.optimizer = torch.optim.Adam(module.parameters(), lr=recipe.rate)

    def step(self, number: int) -> None:
        numbers = order_of(0, 0, number, len(DATA), self.recipe.batch_size)
        self.optimizer.zero_grad()
        F.cross_entropy(self.module(DATA.inputs[numbers]), DATA.labels[numbers]).backward()
        self.optimizer.step()


def _tracker(name: str, depth: int) -> Iterator[Row]:
    """Time in the tracker as a share of all else in the first epoch of 20,000 points: the one with most records."""
    model = fl.Blueprint.mlp(inputs=1000, depth=depth, width=100).build(seed=0)
    data = gaussian_blobs()
    recipe = Recipe()
    ordinary = torch.optim.Adam(model.parameters(), lr=1e-5)
    some = data.first(1024)
    updating, looking = [], []
    for _ in range(3):
        tracker, watcher = track(), track()
        spent, looked, began = 0.0, 0.0, time.perf_counter()
        for step in range(recipe.batches(len(data))):
            numbers = order_of(0, 0, step, len(data), recipe.batch_size)
            inputs, targets = data.inputs[numbers], data.labels[numbers]
            now = time.perf_counter()
            watcher.evaluate(step, model, some)
            looked += time.perf_counter() - now
            ordinary.zero_grad()
            logits = model(inputs)
            now = time.perf_counter()
            tracker.update(step, logits, targets)
            spent += time.perf_counter() - now
            F.cross_entropy(logits, targets).backward()
            ordinary.step()
        rest = time.perf_counter() - began - spent - looked
        updating.append(spent / rest)
        looking.append(looked / rest)
    records = len(tracker.trajectory().steps)
    head = f"{name}, first epoch of 20,000 points, {records} records"
    yield Row(f"{head}: tracker.update", 100 * statistics.median(updating), "%", 3.0)
    yield Row(f"{head}: tracker.evaluate on 1,024 samples", 100 * statistics.median(looking), "%")


def _in_turns(works: list[tuple[Callable[[int], None], int]], shares: list[int]) -> list[tuple[float, ...]]:
    """Seconds for each member and update of every work, again and again."""
    rounds = []
    for number in range(REPEATS + 1):
        seconds = []
        for (step, updates), share in zip(works, shares, strict=True):
            began = time.perf_counter()
            for update in range(number * updates, (number + 1) * updates):
                step(update)
            seconds.append((time.perf_counter() - began) / share)
        rounds.append(tuple(seconds))
    return rounds[1:]


def _ratio(times: list[tuple[float, ...]], first: int, second: int) -> float:
    return statistics.median(item[first] / item[second] for item in times)
