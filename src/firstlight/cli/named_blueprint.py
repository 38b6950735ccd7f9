"""The Blueprint of whatever model the command line names: a description as it is, code as its first draw is read.

Enters: a ``NamedModel``, and data where there are any. Leaves: what theory takes.
"""

from __future__ import annotations

from typing import Any

from firstlight.architecture.blueprint import Blueprint
from firstlight.cli.named_models import NamedModel

__all__ = ["blueprint_of"]


def blueprint_of(
    named: NamedModel, given: Any = None, *, seed: int = 0, redraw: str | None = None
) -> Blueprint:
    """The Blueprint of initialization 0.

    Args:
        named: The model.
        given: Data, of which two samples serve as the example that a module is read with.
        seed: Names the initializations.
        redraw: Law that draws the weights of a built module anew.
    """
    from firstlight.measurement.initialization import drawing
    from firstlight.measurement.seeding import random_state_preserved

    if named.blueprint is not None:
        return named.blueprint
    with random_state_preserved():
        module = drawing(named.model, seed=seed, redraw=redraw).module_of(0)
        return Blueprint.read(module, example=given.inputs[:2] if hasattr(given, "inputs") else None)
