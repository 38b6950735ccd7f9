"""Training runs → Trajectory: how the guesses move from the first prejudice to what the data say.

Enters: a loop of yours that a ``Tracker`` looks at, or a model, data and a ``Recipe`` that ``train`` runs for many
initializations. Leaves: a ``Trajectory``. Read ``tracking.py`` (the verb), then ``running.py``; a run is stepped by
``loops.py`` (one at a time, any module) or ``ensembles.py`` (many small ones at once). A new experiment is a function
in ``experiments.py``; an adapter for another trainer is one file in ``integrations/``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firstlight.training.experiments import best_rate as best_rate
    from firstlight.training.experiments import compare_groups as compare_groups
    from firstlight.training.experiments import learning_rate_grid as learning_rate_grid
    from firstlight.training.filtering import filter_initializations as filter_initializations
    from firstlight.training.recipes import Recipe as Recipe
    from firstlight.training.running import train as train
    from firstlight.training.schedules import Schedule as Schedule
    from firstlight.training.schedules import at as at
    from firstlight.training.schedules import every as every
    from firstlight.training.schedules import log_spaced as log_spaced
    from firstlight.training.tracking import Tracker as Tracker
    from firstlight.training.tracking import track as track

_HOMES = {
    "Recipe": "recipes",
    "Schedule": "schedules",
    "Tracker": "tracking",
    "at": "schedules",
    "best_rate": "experiments",
    "compare_groups": "experiments",
    "every": "schedules",
    "filter_initializations": "filtering",
    "learning_rate_grid": "experiments",
    "log_spaced": "schedules",
    "track": "tracking",
    "train": "running",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(
            f"module 'firstlight.training' has no attribute {name!r}; it offers {', '.join(__all__)}"
        )
    value = getattr(import_module(f"firstlight.training.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
