"""Remedies in their order, with their options and the data that they look at, applied to one module.

Enters: names and options. Leaves: a ``Course``, which repairs a module and records what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from firstlight.errors import UsageError
from firstlight.remedies.duplicating import duplicate
from firstlight.remedies.registry import REMEDIES, Remedy, remedy_named
from firstlight.results.change import Edit, Left

__all__ = ["Course", "Record"]


@dataclass
class Record:
    """What a course of remedies did to one module.

    Attributes:
        remedies: Names, in order.
        edits: What they changed.
        left: What they left as it was.
        notes: Sentences that a reader should see.
    """

    remedies: list[str] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Course:
    """Remedies in order; see the module.

    Attributes:
        steps: Each remedy with its own options.
        data: What remedies that look at data are given.
        mode: Which statistics batch norm uses then.
        settled: Options that a remedy worked out when it was applied first, by its place: they hold from then on, so
            that every initialization gets the same.
    """

    steps: tuple[tuple[Remedy, dict[str, Any]], ...]
    data: Any
    mode: str
    settled: dict[int, dict[str, Any]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls, names: str | Iterable[str], options: dict[str, Any], data: Any, mode: str, *, strict: bool = True
    ) -> Course:
        """Look the names up and share the options out.

        Args:
            names: Names of remedies.
            options: Options by name; each goes to every remedy that has one of that name.
            data: What remedies that look at data are given.
            mode: Which statistics batch norm uses then.
            strict: Whether there must be a remedy, and one for every option.
        """
        chosen = [remedy_named(name) for name in ([names] if isinstance(names, str) else names)]
        if not chosen and strict:
            raise UsageError(f"repair(remedies): expected one or more of {', '.join(REMEDIES)}, got none")
        known = {name for remedy in chosen for name in remedy.options}
        for name in options:
            if name not in known and strict:
                raise UsageError(
                    f"repair({name}): no option of {', '.join(item.name for item in chosen)}; "
                    f"they take {', '.join(sorted(known)) or 'none'}"
                )
        for remedy in chosen:
            if remedy.needs_data and data is None:
                raise UsageError(f"{remedy.name}: looks at data, got none; pass data")
        steps = [
            (remedy, {name: value for name, value in options.items() if name in remedy.options})
            for remedy in chosen
        ]
        return cls(tuple(steps), data, mode)

    @property
    def is_structural(self) -> bool:
        """Whether nothing looks at data or at weights."""
        return all(remedy.changes == "structure" and not remedy.needs_data for remedy, _ in self.steps)

    @property
    def title(self) -> str:
        """The names, in order."""
        return " + ".join(remedy.name for remedy, _ in self.steps)

    def applied(
        self,
        module: nn.Module,
        where: str,
        *,
        in_place: bool = False,
        draw: Callable[[], nn.Module] | None = None,
    ) -> tuple[nn.Module, Record]:
        """The repaired module (a copy, unless ``in_place``), and what was done.

        Args:
            module: The module.
            where: Who asks, for messages.
            in_place: Work on the module itself.
            draw: Draws such a module with other weights from the global generators, for remedies that choose.
        """
        record = Record()
        if not in_place:
            module = duplicate(module, where)
        for place, (remedy, options) in enumerate(self.steps):
            given = (self.data,) if remedy.needs_data else ()
            stated: dict[str, Any] = {"mode": self.mode} if remedy.needs_data else {}
            if self.data is not None and "example" in remedy.options:
                stated["example"] = self.data
            if draw is not None and "drawn" in remedy.options:
                stated["drawn"] = self._until(place, where, draw)
            stated.update(options)
            stated.update(self.settled.get(place, {}))
            module, edits = remedy.function(module, *given, **stated, in_place=True)
            if edits.settled:
                self.settled.setdefault(place, dict(edits.settled))
            record.remedies.append(remedy.name)
            record.edits += [replace(edit, remedy=remedy.name) for edit in edits]
            record.left += [replace(item, remedy=remedy.name) for item in edits.left]
            record.notes += [note for note in edits.notes if note not in record.notes]
        return module, record

    def _until(self, place: int, where: str, draw: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        """Draws modules with the remedies before that place applied."""
        earlier = replace(self, steps=self.steps[:place])

        def drawn() -> nn.Module:
            return earlier.applied(draw(), where, in_place=True, draw=draw)[0]

        return drawn
