"""Any data as batches: tensors, arrays, (x, y), dictionaries, a Dataset, a loader, any iterable, or a name.

Enters: what the user has. Leaves: ``Batches``, which yields the same batches at every pass, one pass for each
initialization.

- Data held in memory is cut by ``batch_size``. Where a batch matters (batch norm in train mode, a loss) and there are
  several, the samples are put in an order that follows from the seed, once, so that every initialization sees
  the same batches.
- A loader is iterated under random generators that start from the seed at every pass: shuffling and
  augmentation are the same for each initialization and leave the user's generators untouched. What it yields
  is kept if it is small, else it is read again.
- A one-shot iterator is kept if it is small, else refused: there is no second pass over it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from firstlight.errors import DataError, FirstlightError, UsageError
from firstlight.measurement.seeding import data_seed, seeded

__all__ = ["Batch", "Batches", "as_batches"]

_KEPT_BYTES = 64 * 2**20
"""A loader's batches are kept for later passes up to this size: fixed, so memory does not grow with the data."""
_TARGETS = ("labels", "label", "targets", "target")


@dataclass(frozen=True)
class Batch:
    """One call of the model.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        target: What came with the inputs, where something did.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    target: Any = None

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments."""
        return [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, Tensor)]

    @property
    def size(self) -> int:
        """Samples in it."""
        return len(self.tensors[0])

    def head(self, count: int) -> Batch:
        """Its first samples."""
        size = self.size

        def cut(value: Any) -> Any:
            return value[:count] if isinstance(value, Tensor) and value.ndim and len(value) == size else value

        return Batch(
            tuple(cut(value) for value in self.args),
            {name: cut(value) for name, value in self.kwargs.items()},
            cut(self.target),
        )

    def copied(self) -> Batch:
        """The same with tensors of its own: a model may write into what it is given."""

        def copy(value: Any) -> Any:
            return value.clone() if isinstance(value, Tensor) else value

        return Batch(
            tuple(copy(value) for value in self.args),
            {name: copy(value) for name, value in self.kwargs.items()},
            self.target,
        )

    def converted(self, dtype: torch.dtype, device: torch.device) -> Batch:
        """Floating tensors in the model's precision, everything on its device."""

        def convert(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if value.is_inference():  # such a tensor cannot be watched
                value = value.clone()
            return value.to(device, dtype) if value.is_floating_point() else value.to(device)

        return Batch(
            tuple(convert(value) for value in self.args),
            {name: convert(value) for name, value in self.kwargs.items()},
            convert(self.target),
        )


@dataclass
class Batches:
    """The same batches at every pass.

    Attributes:
        description: One line for provenance.
        passes: Begins a pass.
        samples: Number of samples, where it is known beforehand.
        largest: Most samples in one batch, where it is known beforehand.
        notes: Sentences for provenance.
        cut: Gives the same data in batches of another size, and in another order; ``None`` where batches come
            ready-made.
        close: Ends a pass that was left before its end, so that the user's generators go back to where they
            stood.
    """

    description: str
    passes: Callable[[], Iterator[Batch]]
    samples: int | None = None
    largest: int | None = None
    notes: list[str] = field(default_factory=list)
    cut: Callable[[int, bool], Batches] | None = None
    close: Callable[[], None] = lambda: None

    def __iter__(self) -> Iterator[Batch]:
        return self.passes()

    def first(self) -> Batch:
        """The first batch."""
        for batch in self:
            return batch
        raise DataError("measure(data): the data yields no batch; expected at least one sample")

    def copied(self) -> Batches:
        """The same with each batch a copy, at every pass."""
        return replace(self, passes=lambda: (batch.copied() for batch in self), cut=None)


def as_batches(
    data: Any, *, seed: int, batch_size: int | None = None, max_samples: int | None = None
) -> Batches:
    """Read whatever holds samples as batches; what is read already stays as it is."""
    for name, value in (("batch_size", batch_size), ("max_samples", max_samples)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise UsageError(f"measure({name}): expected a whole number of at least 1, got {value!r}")
    if isinstance(data, Batches):
        return data
    if isinstance(data, str):
        from firstlight.data import load

        data = load(data)
    held = _held(data)
    if held is not None:
        return _from_held(held, _described(data), seed, batch_size, max_samples)
    if isinstance(data, DataLoader):
        if batch_size not in (None, data.batch_size):
            raise UsageError(
                f"measure(batch_size): the DataLoader makes batches of {data.batch_size}, got batch_size={batch_size}; "
                "pass its dataset to have it cut anew"
            )
        return _from_loader(data, _described(data), seed, max_samples)
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        return _from_dataset(data, seed, batch_size, max_samples)
    if isinstance(data, Iterable):
        return _from_loader(data, _described(data), seed, max_samples)
    raise DataError(
        f"measure(data): cannot read a {type(data).__name__}; expected a tensor, an array, (x, y), "
        "a dictionary of tensors, a Dataset, a DataLoader, an iterable of batches, or the name of a data set"
    )


# Data in memory


@dataclass(frozen=True)
class _Held:
    """Tensors that share their first axis: positional, by keyword, and the target."""

    args: tuple[Tensor, ...]
    kwargs: dict[str, Tensor]
    target: Tensor | None

    def __len__(self) -> int:
        return len((*self.args, *self.kwargs.values())[0])

    def part(self, index: Any) -> Batch:
        return Batch(
            tuple(value[index] for value in self.args),
            {name: value[index] for name, value in self.kwargs.items()},
            None if self.target is None else self.target[index],
        )


def _held(data: Any) -> _Held | None:
    """Data whose samples are all in memory, or nothing."""
    if isinstance(data, Tensor | np.ndarray):
        tensor = _tensor(data)
        if tensor.ndim < 2 and not (tensor.ndim == 1 and not tensor.is_floating_point()):
            raise DataError(
                f"measure(data): expected samples along the first axis, got a tensor of shape {tuple(tensor.shape)}"
            )
        return _Held((tensor,), {}, None)
    if isinstance(data, Mapping):
        inputs, target = _separated(data)
        tensors = {name: _tensor(value) for name, value in inputs.items()}
        _same_length(tensors)
        return _Held((), tensors, None if target is None else _tensor(target))
    if _is_pair(data):
        tensors = {"x": _tensor(data[0]), "y": _tensor(data[1])}
        _same_length(tensors)
        return _Held((tensors["x"],), {}, tensors["y"])
    return None


def _is_pair(data: Any) -> bool:
    """(x, y); a list, which otherwise holds batches, where its second item is one whole number for each sample."""
    if not isinstance(data, list | tuple) or len(data) != 2:
        return False
    if not all(isinstance(part, Tensor | np.ndarray) for part in data):
        return False
    if isinstance(data, tuple):
        return True
    x, y = _tensor(data[0]), _tensor(data[1])
    return x.ndim > 1 and y.ndim == 1 and len(x) == len(y) and not y.is_floating_point()


def _same_length(tensors: Mapping[str, Tensor]) -> None:
    lengths = {name: len(value) for name, value in tensors.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"measure(data): expected tensors of the same number of samples, got {lengths}")


def _from_held(
    held: _Held, description: str, seed: int, batch_size: int | None, max_samples: int | None
) -> Batches:
    total = len(held)
    if not total:
        raise DataError("measure(data): the data is empty; expected at least one sample")
    order = np.random.default_rng(data_seed(seed)).permutation(total)
    notes = []
    if max_samples is not None and max_samples < total:
        chosen = np.sort(order[:max_samples])
        notes.append(f"{max_samples} of {total} samples, drawn by the seed")
        held = _only(held, chosen)
        total = max_samples
        order = np.random.default_rng(data_seed(seed)).permutation(total)

    def cut(size: int, shuffled: bool) -> Batches:
        def passes() -> Iterator[Batch]:
            for start in range(0, total, size):
                part = slice(start, min(start + size, total))
                yield held.part(torch.from_numpy(order[part]) if shuffled and size < total else part)

        return Batches(description, passes, total, min(size, total), notes)

    batches = cut(batch_size or total, False)
    batches.cut = cut
    return batches


def _only(held: _Held, chosen: np.ndarray[Any, Any]) -> _Held:
    batch = held.part(torch.from_numpy(chosen))
    return _Held(batch.args, dict(batch.kwargs), batch.target)


# Data that comes by itself


def _from_dataset(dataset: Any, seed: int, batch_size: int | None, max_samples: int | None) -> Batches:
    total = len(dataset)
    if not total:
        raise DataError(f"measure(data): {type(dataset).__name__} is empty; expected at least one sample")
    count = min(total, max_samples or total)
    chosen = np.random.default_rng(data_seed(seed)).permutation(total)[:count]
    description = f"{_described(dataset)}"
    notes = [] if count == total else [f"{count} of {total} samples, drawn by the seed"]

    def cut(size: int, shuffled: bool) -> Batches:
        order = chosen if shuffled and size < count else np.sort(chosen)
        loader: DataLoader[Any] = DataLoader(
            dataset, batch_size=size, sampler=[int(index) for index in order]
        )
        batches = _from_loader(loader, description, seed, None)
        batches.samples, batches.largest = count, min(size, count)
        batches.notes = [*notes, *batches.notes]
        return batches

    batches = cut(batch_size or min(count, 64), False)
    batches.cut = cut
    return batches


def _from_loader(source: Iterable[Any], description: str, seed: int, max_samples: int | None) -> Batches:
    one_shot = isinstance(source, Iterator)
    kept: list[Batch] = []
    state: dict[str, Any] = {
        "complete": False,
        "bytes": 0,
        "keeping": True,
        "started": False,
        "iterator": None,
    }

    def fresh() -> Iterator[Batch]:
        if one_shot and state["started"]:
            raise DataError(
                f"measure(data): the iterator ({description}) can be read once and holds more than "
                f"{_KEPT_BYTES // 2**20} MB; "
                "pass a list, a DataLoader or another iterable that can be read again, or max_samples="
            )
        state["started"] = True
        seen = 0
        with _same_draws(source, seed) as draws:
            with draws():
                iterator = iter(source)
            while max_samples is None or seen < max_samples:
                with draws():
                    item = _next(iterator, description)
                if item is _END:
                    return
                batch = _batch(item)
                if max_samples is not None and seen + batch.size > max_samples:
                    batch = batch.head(max_samples - seen)
                seen += batch.size
                yield batch

    def passes() -> Iterator[Batch]:
        if state["complete"]:
            yield from kept
            return
        if one_shot and state["started"] and state["keeping"]:
            yield from kept  # an earlier pass was left before its end
            iterator = state["iterator"]
        else:
            kept.clear()
            state.update(bytes=0, keeping=True)
            iterator = state["iterator"] = fresh()
        for batch in iterator:
            if state["keeping"]:
                state["bytes"] += sum(value.numel() * value.element_size() for value in batch.tensors)
                if state["bytes"] > _KEPT_BYTES:
                    kept.clear()
                    state["keeping"] = False
                else:
                    kept.append(batch)
            yield batch
        state["complete"] = bool(state["keeping"])

    def close() -> None:
        if state["iterator"] is not None:
            state["iterator"].close()

    return Batches(description, passes, None, close=close)


_END = object()


def _next(iterator: Iterator[Any], description: str) -> Any:
    try:
        return next(iterator, _END)
    except FirstlightError:
        raise
    except Exception as error:  # whatever the user's data set may raise
        ragged = "; give all samples one shape, or batch them by a collate_fn of your own"
        raise DataError(
            f"measure(data): {description} cannot be read: {type(error).__name__}: {str(error).strip()}"
            f"{ragged if 'collate' in str(error) or 'stack expects' in str(error) else ''}"
        ) from error


@contextmanager
def _same_draws(source: Any, seed: int) -> Iterator[Callable[[], Any]]:
    """Every pass draws the same: a loader's own generators go back to where they stood, global ones to the seed.

    What is yielded runs each step of the loader in the stream of the data, apart from what the model draws
    between steps.
    """
    generators = _generators(source)
    stood = [generator.get_state() for generator in generators]
    streams: dict[str, Any] = {}

    @contextmanager
    def draws() -> Iterator[None]:
        with seeded(data_seed(seed)):
            if streams:
                _set_global(streams)
            yield
            streams.update(_get_global())

    try:
        yield draws
    finally:
        for generator, state in zip(generators, stood, strict=True):
            generator.set_state(state)


def _generators(source: Any) -> list[torch.Generator]:
    found = [
        getattr(holder, "generator", None)
        for holder in (
            source,
            getattr(source, "sampler", None),
            getattr(source, "batch_sampler", None),
            getattr(getattr(source, "batch_sampler", None), "sampler", None),
        )
    ]
    unique: dict[int, torch.Generator] = {
        id(item): item for item in found if isinstance(item, torch.Generator)
    }
    return list(unique.values())


def _get_global() -> dict[str, Any]:
    import random

    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}  # noqa: NPY002


def _set_global(states: Mapping[str, Any]) -> None:
    import random

    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    torch.set_rng_state(states["torch"])


# Items


def _batch(item: Any) -> Batch:
    """What a loader yields, as a call: x, (x, y), ((x1, x2), y) or a dictionary of keyword arguments."""
    if isinstance(item, Mapping):
        inputs, target = _separated(item)
        batch = Batch((), {name: _loose(value) for name, value in inputs.items()}, _loose(target))
    elif isinstance(item, Sequence) and not isinstance(item, str):
        if not item:
            raise DataError("measure(data): a batch is an empty sequence; expected (x, y), x or a dictionary")
        inputs, target = item[0], item[1] if len(item) > 1 else None
        if isinstance(inputs, Mapping):
            batch = Batch((), {name: _loose(value) for name, value in inputs.items()}, _loose(target))
        elif isinstance(inputs, list | tuple):
            batch = Batch(tuple(_loose(value) for value in inputs), {}, _loose(target))
        else:
            batch = Batch((_loose(inputs),), {}, _loose(target))
    else:
        batch = Batch((_loose(item),))
    if not batch.tensors:
        raise DataError(
            f"measure(data): a batch holds no tensor, got {type(item).__name__}; "
            "expected a tensor, (x, y) or a dictionary of tensors"
        )
    if not batch.size:
        raise DataError("measure(data): a batch is empty; expected at least one sample in each")
    return batch


def _separated(item: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Inputs and target of a dictionary: a model would spend a loss on the target."""
    inputs = {str(name): value for name, value in item.items()}
    target = next((inputs.pop(name) for name in _TARGETS if name in inputs), None)
    if not inputs:
        raise DataError(f"measure(data): a dictionary without inputs, only {sorted(map(str, item))}")
    return inputs, target


def _strided(value: Tensor) -> Tensor:
    if value.layout != torch.strided:
        raise DataError(f"measure(data): expected dense tensors, got {value.layout}; pass x.to_dense()")
    return value


def _loose(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _strided(value)
    return torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype != object else value


def _tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return _strided(value.detach())
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise DataError(f"measure(data): expected numbers, got an array of {array.dtype}")
    return torch.from_numpy(np.ascontiguousarray(array))


def _described(data: Any) -> str:
    if isinstance(description := getattr(data, "description", None), str):
        return description
    if isinstance(data, Tensor | np.ndarray):
        return f"{type(data).__name__} {tuple(data.shape)}"
    if isinstance(data, tuple):
        return f"{_described(data[0])} with targets"
    if isinstance(data, Mapping):
        return ", ".join(
            f"{name} {tuple(value.shape)}" for name, value in data.items() if hasattr(value, "shape")
        )
    if isinstance(data, DataLoader):
        return f"DataLoader of {_described(data.dataset)}, batch size {data.batch_size}"
    if inspect.isgenerator(data):
        return f"generator {data.__name__}"
    length = f" of {len(data)}" if hasattr(data, "__len__") else ""
    return f"{type(data).__name__}{length}"
