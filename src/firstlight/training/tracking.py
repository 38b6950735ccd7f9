"""``track``: follow the guesses of a training run in any loop.

Enters: logits that your loop has anyway (``update``), or a model and data to look at (``evaluate``), at the steps of a
schedule. Leaves: a ``Trajectory`` of one run; ``Trajectory.merge`` puts runs side by side. Nothing is written to the
model: its mode, buffers, gradients and the random generators are as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from firstlight.errors import UsageError
from firstlight.measurement.layouts import rows_of
from firstlight.measurement.outputs import answer, label_axis
from firstlight.results.provenance import Provenance
from firstlight.results.trajectory import Trajectory
from firstlight.training.counting import tally
from firstlight.training.looking import Loss, Probe, class_gradient_norms, look, mode_of_split, probe
from firstlight.training.recording import Records
from firstlight.training.schedules import Schedule, schedule_named
from firstlight.training.signals import layer_variances

__all__ = ["LogFunction", "Tracker", "track"]

LogFunction = Callable[[dict[str, float], int], object]


def track(
    *,
    schedule: Schedule | int | Sequence[int] | Callable[[int], bool] | None = None,
    total: int | None = None,
    label_names: Sequence[str] | None = None,
    description: str = "a training run",
    data: str = "batches of the loop",
    run: int = 0,
    loss: Loss | None = None,
    class_gradients: bool = False,
    layers: Any = None,
    log: LogFunction | None = None,
) -> Tracker:
    """Follow one training run.

    Args:
        schedule: Which steps to record: a number n (every n-th), the steps themselves, a function of the step, or a
            ``Schedule``; by default log-spaced.
        total: Updates of the whole run, where it is known; a default schedule then ends with the last one.
        label_names: Names of the labels.
        description: One line on the model, for provenance.
        data: One line on the data, for provenance.
        run: The name of this run on the axis ``init``.
        loss: A function of (logits, targets) that gives the mean loss; cross-entropy by default.
        class_gradients: Whether ``evaluate`` takes the norm of the gradient of each class, too, on the first split that
            it is asked for.
        layers: Layers whose γ ``evaluate`` takes there, as for ``measure`` (``"output"``, ``"standard"``, patterns).
        log: A function of (dictionary, step) that each record is handed to; keys in the style
            ``class_bias/max_fraction``, with ``class_bias/test/…`` for other splits than ``"train"``.

    Returns:
        A tracker: call ``tracker.update(step, logits, targets)`` or ``tracker.evaluate(step, model, data)`` at every
        step, with the number of updates made so far, and ``tracker.trajectory()`` at any time.

    >>> tracker = track(schedule=2)
    >>> for step in range(4):
    ...     tracker.update(step, torch.tensor([[1.0, 0.0], [3.0, 2.0]]), torch.tensor([0, 1]))
    >>> tracker.trajectory()["max_guess"].values.ravel().tolist()
    [1.0, 1.0]
    """
    return Tracker(
        schedule_named(schedule, total),
        label_names=label_names,
        description=description,
        data=data,
        run=run,
        loss=loss,
        class_gradients=class_gradients,
        layers=layers,
        log=log,
    )


class Tracker:
    """What ``track`` returns; one run."""

    def __init__(
        self,
        schedule: Schedule,
        *,
        label_names: Sequence[str] | None = None,
        description: str = "a training run",
        data: str = "batches of the loop",
        run: int = 0,
        loss: Loss | None = None,
        class_gradients: bool = False,
        layers: Any = None,
        log: LogFunction | None = None,
    ) -> None:
        self.schedule = schedule
        self.run = run
        self._records = Records()
        self._labels, self._description, self._data = label_names, description, data
        self._loss, self._class_gradients, self._layers, self._log = loss, class_gradients, layers, log
        self._probes: dict[tuple[int, str, str], tuple[Any, Probe]] = {}
        self._layer_names: list[str] | None = None
        self._unlogged: tuple[int, str] | None = None
        self._modes: dict[str, str] = {}
        self._signal_split: str | None = None

    def due(self, step: int) -> bool:
        """Whether the schedule asks for this step."""
        return self.schedule(step)

    def update(self, step: int, logits: Any, targets: Tensor, *, split: str = "train") -> None:
        """Count a batch whose logits are there anyway; several batches of one step add up.

        Args:
            step: Updates made before these logits.
            logits: What the model returned: (sample, label), (sample, position, label), maps (sample, label, height,
                width), or an output that holds such a tensor.
            targets: Labels of the same samples and positions; −100 is left out.
            split: What the data are called.
        """
        if not self.schedule(step):
            return
        if self._unlogged not in (None, (step, split)):
            self.flush()
        tensor = answer(logits)[0].detach()
        rows = rows_of(tensor, label_axis(tensor, len(targets)))
        flat = torch.as_tensor(targets).flatten()
        if len(flat) != len(rows):
            raise UsageError(
                f"tracker.update(targets): expected one for each of the {len(rows)} rows of logits, got {len(flat)}"
            )
        losses = None if self._loss is None else self._loss(rows, flat)[None]
        self._records.add(step, split, tally(rows[None], flat.to(rows.device), losses))
        self._unlogged = (step, split)

    def evaluate(
        self,
        step: int,
        model: nn.Module,
        data: Any,
        *,
        split: str = "train",
        mode: str | None = None,
        batch_size: int | None = None,
        max_samples: int | None = None,
    ) -> None:
        """Look at a model on data, without a trace.

        Args:
            step: Updates made before this look.
            model: The model in training, also inside ``torch.compile`` or DistributedDataParallel.
            data: Samples with labels, in any form that ``measure`` takes; pass the same object at every step.
            split: What the data are called.
            mode: ``"train"`` (batch norms use the batch's statistics) or ``"eval"`` (running statistics); by default
                train for the split ``"train"`` and eval for others, as in the papers.
            batch_size: Samples in a batch; all at once where memory bears it.
            max_samples: At most so many samples, the same at every step.
        """
        if not self.schedule(step):
            return
        self.flush()
        chosen = mode_of_split(split) if mode is None else mode
        key = (id(data), split, chosen)
        if key not in self._probes:  # holding the data keeps its id from being given away
            made = probe(
                model, data, mode=chosen, seed=self.run, batch_size=batch_size, max_samples=max_samples
            )
            self._probes[key] = (data, made)
            self._modes[split] = chosen
        seen = self._probes[key][1]
        self._records.tallies.pop((step, split), None)  # a look is complete; a second one replaces the first
        self._records.add(step, split, look(model, seen, loss=self._loss))
        self._signal_split = self._signal_split or split
        if split == self._signal_split:
            if self._class_gradients:
                self._records.note(step, "gradient_norm", class_gradient_norms(model, seen, loss=self._loss))
            if self._layers is not None:
                self._layer_names, found = layer_variances(model, data, self._layers, chosen, batch_size)
                for name, values in found.items():
                    self._records.note(step, name, values[None])
        self._unlogged = (step, split)
        self.flush()

    def flush(self) -> None:
        """Hand the last record to the logger, if it has not been."""
        if self._unlogged is None:
            return
        step, split = self._unlogged
        self._unlogged = None
        if self._log is not None:
            self._log(self.latest(step, split), step)

    def latest(self, step: int, split: str = "train") -> dict[str, float]:
        """The record of a step as loggers take it."""
        prefix = "class_bias/" if split == "train" else f"class_bias/{split}/"
        found = self._records.log(step, split)
        return {key.replace("class_bias/", prefix, 1): value for key, value in found.items()}

    def trajectory(self) -> Trajectory:
        """What was recorded so far."""
        self.flush()
        return self._records.trajectory(
            provenance=Provenance(
                "measurement",
                self._description,
                self._data,
                settings={"runs": 1, "schedule": self.schedule.description, "modes": dict(self._modes)},
            ),
            inits=[self.run],
            label_names=self._labels,
            layers=self._layer_names,
            splits=["train"],  # first, whichever was seen first
        )

    def synchronize(self) -> None:
        """Add up what all processes of ``torch.distributed`` have counted; call it once, on every process."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self._records.add_up()

    def state_dict(self) -> dict[str, Any]:
        """Tensors and strings, to be saved with a checkpoint."""
        return {
            "records": self._records.state_dict(),
            "layers": self._layer_names,
            "modes": dict(self._modes),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` gave."""
        self._records = Records.from_state_dict(state["records"])
        self._layer_names = state["layers"]
        self._modes = dict(state["modes"])

    def __repr__(self) -> str:
        records = len({step for step, _ in self._records.tallies})
        return f"<Tracker of run {self.run}: {records} steps recorded; {self.schedule.description}>"
