"""What ``repair`` was given: a module as it is, or a way to build one from the global generators.

Enters: a module, a factory or a ``Blueprint``. Leaves: a ``Source`` that draws modules by their own law, and makes the
factory of repaired ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from firstlight.errors import ModelError
from firstlight.measurement.initialization import law_of, takes_seed
from firstlight.measurement.seeding import random_state_preserved
from firstlight.remedies.courses import Course
from firstlight.remedies.duplicating import duplicate

__all__ = ["Redraw", "Source"]

Redraw = str | Callable[[nn.Module], object] | None
"""A law of the weights, as ``measure`` takes it."""


@dataclass(frozen=True)
class Source:
    """What was given: a module, or a way to build one from the global generators."""

    given: Any
    module: nn.Module | None
    factory: Callable[..., Any] | None
    name: str
    redraw: Redraw

    @classmethod
    def of(cls, model: Any, redraw: Redraw) -> Source:
        """Look at what was given."""
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
        return self.module if self.module is not None else self.built(torch.initial_seed())

    def built(self, seed: int) -> nn.Module:
        """What the factory builds now; ``seed`` is given to one that asks for it."""
        assert self.factory is not None
        module = self.factory(seed=seed) if takes_seed(self.factory) else self.factory()
        if not isinstance(module, nn.Module):
            raise ModelError(
                f"repair(model): the factory returned a {type(module).__name__}; expected an nn.Module"
            )
        return module

    def drawn(self, seed: int) -> nn.Module:
        """A module with weights drawn from the global generators, and nobody else's."""
        module = duplicate(self.module) if self.module is not None else duplicate(self.built(seed))
        if self.redraw != "keep" and (self.module is not None or self.redraw is not None):
            with torch.no_grad():
                law_of(module, self.redraw)[0](module)
        return module

    def again(self) -> nn.Module:
        """Another module, whose weights (or whose seed) the global generators give: for remedies that choose."""
        if self.redraw == "keep":
            raise ModelError("repair(redraw='keep'): the weights as they are leave nothing to choose from")
        return self.drawn(int(torch.randint(2**62, ())))

    def repaired(self, course: Course) -> Callable[..., nn.Module]:
        """A factory of repaired modules."""

        def build() -> nn.Module:
            return course.applied(self.drawn(torch.initial_seed()), "repair", in_place=True, draw=self.again)[
                0
            ]

        def build_by_seed(seed: int) -> nn.Module:
            with random_state_preserved():
                torch.manual_seed(seed)  # what a remedy draws follows from the seed too
                return course.applied(self.drawn(seed), "repair", in_place=True, draw=self.again)[0]

        named = self.factory is not None and takes_seed(self.factory)
        factory: Callable[..., nn.Module] = build_by_seed if named else build
        factory.__qualname__ = factory.__name__ = (
            f"{self.name} with {course.title}" if course.steps else self.name
        )
        return factory
