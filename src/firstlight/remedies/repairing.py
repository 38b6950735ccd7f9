"""``repair``: model and data → new model and the Change, measured before and after over the same initializations.

Enters: a module, a factory or a Blueprint, data, and the names of remedies. Leaves: a new module (or a factory of
repaired modules), and a ``Change``.

The network after is measured as a law, like the network before: initialization ``i`` is drawn from child ``i`` of the
seed by the model's own law, and the remedies are then applied to it. So both profiles speak of the same weights, and
a remedy that looks at data or draws by itself is part of what is measured. Remedies of the structure alone are applied
once and their result re-drawn, which gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from firstlight.errors import ModelError, UsageError
from firstlight.measurement.initialization import law_of, takes_seed
from firstlight.measurement.measuring import measure
from firstlight.measurement.seeding import initialization_seed, random_state_preserved, seeded
from firstlight.remedies.duplicating import duplicate, followed_in_place
from firstlight.remedies.registry import REMEDIES, Remedy, remedy_named
from firstlight.results.change import Change, Edit, Edits, Left, Refusal
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance

__all__ = ["apply_", "repair"]

_REMEDY_STREAM = 3
"""Child of an initialization's seed from which a remedy draws on a model that is repaired as it is."""

Redraw = str | Callable[[nn.Module], object] | None


def repair(
    model: nn.Module | Callable[..., nn.Module] | Any,
    data: Any,
    remedies: str | Iterable[str],
    *,
    inits: int = 64,
    seed: int = 0,
    mode: str = "train",
    dry_run: bool = False,
    in_place: bool = False,
    batch_size: int | None = None,
    max_samples: int | None = None,
    redraw: Redraw = None,
    progress: bool = True,
    **options: Any,
) -> tuple[Any, Change]:
    """Change a network by remedies, and measure it before and after.

    Args:
        model: An ``nn.Module`` (copied), a factory without required arguments, or a ``Blueprint``.
        data: Whatever ``measure`` takes.
        remedies: Names of ``REMEDIES``, applied in this order.
        inits: Initializations before and after.
        seed: Names them.
        mode: Which statistics batch norm uses, in measuring and in remedies that look at data.
        dry_run: Only list the edits: nothing is measured and the model comes back as it was.
        in_place: Change the module itself, and return it.
        batch_size: Samples in a batch, for measuring.
        max_samples: At most so many samples, for measuring.
        redraw: Law of the weights, as for ``measure``.
        progress: Whether to show a bar on a terminal.
        **options: Options of the remedies; each goes to every remedy that has one of that name.

    Returns:
        The new module, its weights those of the one that was given (or a factory, where a factory or a ``Blueprint``
        was given), and the ``Change``.
    """
    source = _Source.of(model, redraw)
    if in_place and source.module is None:
        raise UsageError(
            "repair(in_place): expected a module to change, got a factory; repair what it returns"
        )
    data = _readable_twice(data)
    measured: dict[str, Any] = {
        "inits": inits,
        "seed": seed,
        "mode": mode,
        "batch_size": batch_size,
        "max_samples": max_samples,
        "progress": progress,
    }
    course = _Course.of(remedies, options, data, mode, tolerant=False)
    with seeded(initialization_seed(seed, 0, *(() if source.module is None else (_REMEDY_STREAM,)))):
        rehearsed, record = course.applied(source.first(), "repair")
    if dry_run:
        return model, _change(record, source, None, None, course, seed, mode)
    before = measure(source.given, data, redraw=redraw, **measured)
    once = source.module is not None and course.is_structural and _keeps_its_law(source.module, rehearsed)
    if once:
        after = measure(rehearsed, data, redraw=redraw, **measured)
    else:
        after = measure(source.repaired(course), data, **measured)
    result: Any = rehearsed
    if source.module is None:
        result = source.repaired(course)
    elif in_place:
        with seeded(initialization_seed(seed, 0, _REMEDY_STREAM)):
            followed_in_place(
                source.module,
                lambda working: course.applied(working, "repair", in_place=True),
                "repair(in_place)",
            )
        result = source.module
    return result, _change(record, source, before, after, course, seed, mode)


def apply_(model: nn.Module, remedy: str, data: Any = None, *, mode: str = "train", **options: Any) -> Edits:
    """Apply one remedy to the module itself, wholly or not at all.

    Parameters that are still there stay the same tensors, so that an optimizer goes on with them.

    Args:
        model: The module to change.
        remedy: A name of ``REMEDIES``.
        data: Whatever ``measure`` takes, where the remedy looks at data.
        mode: Which statistics batch norm uses, where the remedy looks at data.
        **options: Options of the remedy.

    >>> net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU())
    >>> [edit.address for edit in apply_(net, "norm_after_activation")], type(net[2]).__name__
    (['1'], 'LayerNorm')
    """
    course = _Course.of([remedy], options, data, mode, tolerant=False)
    with random_state_preserved():
        return followed_in_place(
            model,
            lambda working: _single(course.applied(working, f"apply_({remedy!r})", in_place=True)),
            f"apply_({remedy!r})",
        )


def _single(applied: tuple[nn.Module, _Record]) -> tuple[nn.Module, Edits]:
    module, record = applied
    return module, Edits(tuple(record.edits), tuple(record.left), tuple(record.notes))


@dataclass
class _Record:
    """What a course of remedies did to one module."""

    remedies: list[str] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Course:
    """Remedies in order, with their options and the data they look at."""

    steps: tuple[tuple[Remedy, dict[str, Any]], ...]
    data: Any
    mode: str
    tolerant: bool

    @classmethod
    def of(
        cls, names: str | Iterable[str], options: dict[str, Any], data: Any, mode: str, *, tolerant: bool
    ) -> _Course:
        chosen = [remedy_named(name) for name in ([names] if isinstance(names, str) else names)]
        if not chosen and not tolerant:
            raise UsageError(f"repair(remedies): expected one or more of {', '.join(REMEDIES)}, got none")
        known = {name for remedy in chosen for name in remedy.options}
        for name in options:
            if name not in known and not tolerant:
                raise UsageError(
                    f"repair({name}): no option of {', '.join(item.name for item in chosen)}; "
                    f"they take {', '.join(sorted(known)) or 'none'}"
                )
        steps = [
            (remedy, {name: value for name, value in options.items() if name in remedy.options})
            for remedy in chosen
        ]
        for remedy in chosen:
            if remedy.needs_data and data is None:
                raise UsageError(f"{remedy.name}: looks at data, got none; pass data")
        return cls(tuple(steps), data, mode, tolerant)

    @property
    def is_structural(self) -> bool:
        return all(remedy.changes == "structure" for remedy, _ in self.steps)

    def applied(self, module: nn.Module, where: str, *, in_place: bool = False) -> tuple[nn.Module, _Record]:
        """The repaired module (a copy, unless ``in_place``), and what was done."""
        record = _Record()
        if not in_place:
            module = duplicate(module, where)
        for remedy, options in self.steps:
            given = (self.data,) if remedy.needs_data else ()
            stated: dict[str, Any] = {"mode": self.mode} if remedy.needs_data else {}
            if self.data is not None and "example" in remedy.options and "example" not in options:
                stated["example"] = self.data
            try:
                module, edits = remedy.function(module, *given, **stated, **options, in_place=True)
            except ModelError as error:
                if not self.tolerant:
                    raise
                record.refused.append(Refusal(remedy.name, str(error)))
                continue
            record.remedies.append(remedy.name)
            record.edits += [replace(edit, remedy=remedy.name) for edit in edits]
            record.left += [replace(item, remedy=remedy.name) for item in edits.left]
            record.notes += [note for note in edits.notes if note not in record.notes]
        return module, record


@dataclass(frozen=True)
class _Source:
    """What was given: a module, or a way to build one from the global generators."""

    given: Any
    module: nn.Module | None
    factory: Callable[..., Any] | None
    name: str
    redraw: Redraw

    @classmethod
    def of(cls, model: Any, redraw: Redraw) -> _Source:
        if isinstance(model, nn.Module):
            return cls(model, model, None, type(model).__name__, redraw)
        build = getattr(model, "build", None)
        factory = build if not isinstance(model, type) and callable(build) else model
        if not callable(factory):
            raise ModelError(
                "repair(model): expected an nn.Module, a factory that returns one, or a Blueprint, "
                f"got {type(model).__name__}"
            )
        name = str(model) if factory is build else getattr(model, "__qualname__", type(model).__name__)
        return cls(model, None, factory, name, redraw)

    def first(self) -> nn.Module:
        """The module that was given, or initialization 0 under the seed that is set."""
        return self.module if self.module is not None else self._built(torch.initial_seed())

    def _built(self, seed: int) -> nn.Module:
        assert self.factory is not None
        module = self.factory(seed=seed) if takes_seed(self.factory) else self.factory()
        if not isinstance(module, nn.Module):
            raise ModelError(
                f"repair(model): the factory returned a {type(module).__name__}; expected an nn.Module"
            )
        return module

    def drawn(self, seed: int) -> nn.Module:
        """A module with weights drawn from the global generators, and nobody else's."""
        module = duplicate(self.module) if self.module is not None else duplicate(self._built(seed))
        if self.redraw != "keep" and (self.module is not None or self.redraw is not None):
            with torch.no_grad():
                law_of(module, self.redraw)[0](module)
        return module

    def repaired(self, course: _Course) -> Callable[..., nn.Module]:
        """A factory of repaired modules."""

        def build() -> nn.Module:
            return course.applied(self.drawn(torch.initial_seed()), "repair", in_place=True)[0]

        def build_by_seed(seed: int) -> nn.Module:
            with random_state_preserved():
                torch.manual_seed(seed)  # what a remedy draws follows from the seed too
                return course.applied(self.drawn(seed), "repair", in_place=True)[0]

        named = self.factory is not None and takes_seed(self.factory)
        factory: Callable[..., nn.Module] = build_by_seed if named else build
        done = " + ".join(remedy.name for remedy, _ in course.steps)
        factory.__qualname__ = factory.__name__ = f"{self.name} with {done}" if done else self.name
        return factory


def _keeps_its_law(old: nn.Module, new: nn.Module) -> bool:
    """Whether re-drawing the new module is re-drawing the old one: no class that may own a law is gone."""
    if type(old) is not type(new):
        return False
    return not any(isinstance(item, torch.fx.GraphModule) for item in new.modules())


def _readable_twice(data: Any) -> Any:
    """Data that can be read before and after: names are loaded once, one-shot iterators are kept."""
    if isinstance(data, str):
        from firstlight.data import load

        return load(data)
    return list(data) if isinstance(data, Iterator) else data


def _change(
    record: _Record,
    source: _Source,
    before: Profile | None,
    after: Profile | None,
    course: _Course,
    seed: int,
    mode: str,
) -> Change:
    notes = list(record.notes)
    if before is not None and after is not None and not record.edits:
        notes.append("nothing was changed: both profiles are of the same network")
    provenance = Provenance(
        engine="repair",
        model=source.name,
        data=before.provenance.data if before is not None else "not looked at (dry run)",
        seed=seed,
        mode=mode,
        settings={
            "inits": before.provenance.settings["inits"] if before is not None else 0,
            "remedies": [
                {"name": remedy.name, "options": {name: repr(value) for name, value in options.items()}}
                for remedy, options in course.steps
            ],
            "dry_run": before is None,
        },
    )
    return Change(
        {},
        {},
        provenance,
        remedies=tuple(record.remedies),
        edits=tuple(record.edits),
        left=tuple(record.left),
        refused=tuple(record.refused),
        notes=tuple(notes),
        before=before,
        after=after,
    )
