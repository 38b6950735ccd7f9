"""Labelled samples in memory: what every loader returns and every engine reads.

Enters: stored values (``uint8`` pixels or ``float32``) with labels. Leaves: ``float32`` inputs on request.

A method returns a new ``Samples`` that shares the stored values; standardizing and shifting change only the affine map
between them and the inputs (``affine.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from firstlight.data.affine import AffineMap
from firstlight.data.batching import Batches, chosen
from firstlight.data.relabelling import class_indices, relabel
from firstlight.data.standardization import (
    Constants,
    by_channel,
    channel_statistics,
    constants_of_papers,
    coordinate_statistics,
)
from firstlight.errors import DataError, UsageError, one_of

__all__ = ["Samples"]

Indices = slice | Sequence[int] | NDArray[np.integer] | Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Dataset[tuple[Tensor, Tensor]]):
    """Inputs with labels; a torch ``Dataset`` of pairs (input, label).

    Attributes:
        stored: Values as they were read, (sample, …): ``uint8`` pixels or ``float32``.
        labels: ``int64``, (sample,), or (sample, height, width) where every pixel has a label.
        label_names: Names of the labels 0, 1, ….
        name: Name of the data set (``"cifar10"``), which finds the papers' constants.
        title: Which data these are, in words.
        steps: What was done to them, in order.
        map: From stored values to inputs.

    >>> pixels = torch.tensor([[0, 255], [51, 102]], dtype=torch.uint8)
    >>> samples = Samples.from_tensors(pixels, torch.tensor([0, 1]), label_names=("dark", "light"))
    >>> samples.inputs
    tensor([[0.0000, 1.0000],
            [0.2000, 0.4000]])
    >>> samples.select(["light"])
    <Samples: data; classes light: 1 sample of shape (2,), 1 label>
    """

    stored: Tensor
    labels: Tensor
    label_names: tuple[str, ...]
    name: str = "data"
    title: str = "data"
    steps: tuple[str, ...] = ()
    map: AffineMap = field(default_factory=lambda: AffineMap.starting_at(1.0))

    def __post_init__(self) -> None:
        if len(self.stored) != len(self.labels):
            raise DataError(
                f"{self.title}: expected one label (map) for each of {len(self.stored)} samples, "
                f"got {len(self.labels)}; pass inputs and labels of the same length"
            )
        if len(self.labels) == 0:
            history = "; ".join([self.title, *self.steps])
            raise DataError(f"{self.name}: expected at least one sample, got none ({history}); choose others")
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= len(self.label_names):
            raise DataError(
                f"{self.name}: expected labels from 0 to {len(self.label_names) - 1}, got {low} to {high}; "
                "give one name for every label"
            )

    @classmethod
    def from_tensors(
        cls,
        inputs: Tensor,
        labels: Tensor,
        *,
        label_names: Sequence[str] | None = None,
        name: str = "data",
        title: str | None = None,
        steps: tuple[str, ...] = (),
    ) -> Self:
        """Wrap tensors of yours.

        Args:
            inputs: (sample, …); ``uint8`` is read as pixels and scaled to [0, 1], all else becomes ``float32``.
            labels: Integers, (sample,) or a map for each sample.
            label_names: Defaults to the numbers.
            name: Short name, without spaces.
            title: What the description begins with.
            steps: What was done to them already.
        """
        pixels = inputs.dtype == torch.uint8
        stored = inputs if pixels else inputs.to(torch.float32)
        if not pixels and not bool(torch.isfinite(stored).all()):
            raise DataError(
                f"{name}: expected finite inputs, got NaN or infinite values; clean or leave out those samples"
            )
        if label_names is None:
            label_names = [str(label) for label in range(int(labels.max()) + 1)] if len(labels) else []
        start = AffineMap.starting_at(1 / 255 if pixels else 1.0)
        return cls(stored, labels.to(torch.int64), tuple(label_names), name, title or name, steps, start)

    # What is in it

    @cached_property
    def inputs(self) -> Tensor:
        """All inputs as one ``float32`` tensor, (sample, …), made at the first access and kept."""
        return self.map(self.stored)

    @property
    def description(self) -> str:
        """One line for provenance: which data, all that was done to them, and how many there are."""
        count, labels = len(self), len(self.label_names)
        history = "; ".join([self.title, *self.steps])
        return (
            f"{history}: {count} {'sample' if count == 1 else 'samples'} of shape {self.shape}, "
            f"{labels} {'label' if labels == 1 else 'labels'}"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.stored.shape[1:])

    @property
    def label_counts(self) -> dict[str, int]:
        """How many samples (or pixels) carry each label."""
        counts = torch.bincount(self.labels.flatten(), minlength=len(self.label_names))
        return dict(zip(self.label_names, counts.tolist(), strict=True))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the stored values, the labels with their names, and the affine map.

        Equal fingerprints mean equal inputs and labels in the same order.
        """
        digest = hashlib.sha256(repr(self.label_names).encode())
        for tensor in (self.stored, self.labels, self.map.scale, self.map.offset):
            digest.update(f";{tensor.dtype} {tuple(tensor.shape)};".encode())
            digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, index: int | Indices) -> tuple[Tensor, Tensor]:
        """(input, label) of one sample, or those of several stacked, as in torch's ``TensorDataset``."""
        return self.map(self.stored[index]), self.labels[index]

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, Tensor]]:
        """One conversion for a whole batch; a ``DataLoader`` calls this where it exists."""
        inputs, labels = self[torch.as_tensor(indices)]
        return list(zip(inputs, labels, strict=True))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"<Samples: {self.description}>"

    # Which samples

    def take(self, indices: Indices, *, note: str | None = None) -> Self:
        """The samples at these indices, in this order; ``note`` is what the description says of it."""
        stored = self.stored[indices]
        return self._with(note or f"{len(stored)} of {len(self)}", stored=stored, labels=self.labels[indices])

    def first(self, count: int) -> Self:
        """The first ``count`` samples."""
        if not 1 <= count <= len(self):
            raise UsageError(f"{self.name}: first: expected between 1 and {len(self)} samples, got {count}")
        return self.take(slice(count), note=f"first {count} of {len(self)}")

    def subset(self, count: int, *, seed: int = 0) -> Self:
        """``count`` samples drawn without replacement; ``subset(m)`` begins ``subset(n)`` for m < n."""
        indices = chosen(len(self), count, seed=seed, where=f"{self.name}: subset")
        return self.take(indices, note=f"{count} of {len(self)} drawn with seed {seed}")

    def select(self, classes: Iterable[str | int]) -> Self:
        """Keep the samples of these classes and number the classes anew in this order."""
        listed = self._names_of(classes)
        if len(set(listed)) < len(listed):
            raise UsageError(f"{self.name}: select: a class is listed twice in {', '.join(listed)}")
        return self._relabelled({name: [name] for name in listed})

    def merge(self, groups: Mapping[str, str | int | Iterable[str | int]]) -> Self:
        """Merge classes into new ones, numbered in the order of ``groups``; classes in no group are left out.

        Args:
            groups: New label name → the classes it is made of, by name or number.
        """
        return self._relabelled(
            {
                name: self._names_of([classes] if isinstance(classes, str | int) else classes)
                for name, classes in groups.items()
            }
        )

    # What the inputs are

    def standardize(
        self,
        how: Literal["papers", "per-channel", "batch"] | Constants | None,
        *,
        constant: Literal["refuse", "zero"] = "refuse",
    ) -> Self:
        """Subtract a mean and divide by a standard deviation.

        Args:
            how: One of

                - ``"papers"``: the constants of the papers' programs (CIFAR-10, MNIST; Gaussian data stay as they are);
                - ``"per-channel"``: statistics of each channel over these samples and all positions, as in Labatie's
                  convolutional nets;
                - ``"batch"``: statistics of each coordinate over these samples, as in Labatie's fully-connected nets,
                  where the picture is flattened into channels;
                - a pair (mean, std) of numbers, or of one number a channel;
                - ``None``: nothing.
            constant: What becomes of coordinates that never change, for which ``"batch"`` is 0/0 (the borders of
                MNIST). Flattened samples drop them. Pictures cannot: ``"refuse"`` raises, ``"zero"`` sets them to 0.
        """
        if how is None:
            return self
        if not isinstance(how, str):
            return self._standardized(*how, f"standardized with mean {how[0]} and deviation {how[1]}")
        if how == "papers":
            constants = constants_of_papers(self.name)
            if constants is None:
                return self._with("not standardized, as in the papers")
            return self._standardized(*constants, "standardized with the papers' constants")
        if how == "per-channel":
            statistics = channel_statistics(self.name, self.stored, self.map)
            return self._standardized(*statistics, "standardized per channel")
        if how == "batch":
            return self._standardized_by_coordinate(constant)
        raise one_of("standardize", how, ["papers", "per-channel", "batch"])

    def shift(self, amount: float, *, inside: bool = True) -> Self:
        """Shift all coordinates by a constant: the papers' knob for tuning the bias.

        Args:
            amount: s, in units of the data as they come ([0, 1] for pixels) when ``inside``, else in units of the
                standardized data.
            inside: The image programs put the shift into the normalization, as mean + s::

                    (x − (mean + s)) / std        inside=True: standardized pixels are lowered by s/std
                    (x − mean) / std + s          inside=False: they are raised by s

                With ``inside`` it is the same before and after ``standardize("papers")``. Statistics that are taken
                from the samples afterwards (``"per-channel"``, ``"batch"``) would remove it, so shift last.
        """
        if amount == 0:
            return self
        if inside:
            return self._with(
                f"shifted by {amount:g} inside the standardization", map=self.map.lowered(amount)
            )
        return self._with(f"shifted by {amount:g} after the standardization", map=self.map.raised(amount))

    def flatten(self) -> Self:
        """Make each sample one vector, channel by channel."""
        if len(self.shape) == 1:
            return self
        return self._with("flattened", stored=self.stored.flatten(1), map=self.map.flattened(self.shape))

    def batches(self, batch_size: int, *, seed: int | None = None, drop_last: bool = False) -> Batches:
        """Mini-batches, the same at every pass; in stored order without a seed, else shuffled by it."""
        return Batches(self, batch_size, seed, drop_last)

    # Inside

    def _with(self, note: str, **changes: Any) -> Self:
        return replace(self, steps=(*self.steps, note), **changes)

    def _names_of(self, classes: Iterable[str | int]) -> list[str]:
        return [self.label_names[index] for index in class_indices(self.name, self.label_names, classes)]

    def _relabelled(self, groups: Mapping[str, list[str]]) -> Self:
        if self.labels.ndim != 1:
            raise UsageError(
                f"{self.name}: expected one label for each sample to choose by class, got a label for every pixel; "
                "use the maps as they are"
            )
        kept, labels = relabel(self.name, self.labels, self.label_names, groups)
        listed = ", ".join(
            name if members == [name] else f"{name} ({', '.join(members)})"
            for name, members in groups.items()
        )
        return self._with(
            f"classes {listed}", stored=self.stored[kept], labels=labels, label_names=tuple(groups)
        )

    def _standardized(self, mean: object, deviation: object, note: str) -> Self:
        center, spread = (by_channel(self.name, value, self.shape) for value in (mean, deviation))
        if not bool((torch.isfinite(spread) & (spread > 0)).all()):
            raise UsageError(
                f"{self.name}: standardize: expected positive standard deviations, got {deviation}"
            )
        return self._with(note, map=self.map.standardized(center, spread))

    def _standardized_by_coordinate(self, constant: str) -> Self:
        if constant not in ("refuse", "zero"):
            raise one_of("standardize(constant)", constant, ["refuse", "zero"])
        mean, variance = coordinate_statistics(self.stored, self.map)
        alive = variance > 0
        total, dead = alive.numel(), int((~alive).sum())
        if dead == total:
            raise DataError(
                f"{self.name}: expected coordinates that vary, got {total} constant ones over {len(self)} samples; "
                "take more samples"
            )
        note = "standardized per coordinate"
        fresh = self.map.standardized(mean, torch.where(alive, variance, 1.0).sqrt())
        if not dead:
            return self._with(note, map=fresh)
        if len(self.shape) == 1:
            note = f"{note}, {dead} constant ones dropped"
            return self._with(note, stored=self.stored[:, alive], map=fresh.only(alive))
        if constant == "zero":
            zeroed = replace(
                fresh,
                scale=torch.where(alive, fresh.scale, 0.0),
                offset=torch.where(alive, fresh.offset, 0.0),
            )
            return self._with(f"{note}, {dead} constant ones set to 0", map=zeroed)
        raise DataError(
            f"{self.name}: standardize('batch'): expected coordinates that vary, got {dead} of {total} constant over "
            "these samples (0/0); flatten() first to have them dropped, or pass constant='zero'"
        )
