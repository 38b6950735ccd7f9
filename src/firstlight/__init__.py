"""firstlight: what a neural network believes before it learns.

Names resolve lazily, so that ``firstlight --help`` and reading an archive import neither torch nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firstlight.architecture.blueprint import Blueprint as Blueprint
    from firstlight.auditing.asserting import assert_born_well as assert_born_well
    from firstlight.auditing.auditing import audit as audit
    from firstlight.diagnosis.comparing import compare as compare
    from firstlight.diagnosis.diagnosing import diagnose as diagnose
    from firstlight.diagnosis.policies import Policy as Policy
    from firstlight.measurement.measuring import measure as measure
    from firstlight.papers.reproducing import reproduce as reproduce
    from firstlight.remedies.repairing import apply_ as apply_
    from firstlight.remedies.repairing import repair as repair
    from firstlight.reporting.reporting import report as report
    from firstlight.results.archive import load as load
    from firstlight.results.change import Change as Change
    from firstlight.results.comparison import Comparison as Comparison
    from firstlight.results.diagnosis import Diagnosis as Diagnosis
    from firstlight.results.finding import Finding as Finding
    from firstlight.results.guesses import Guesses as Guesses
    from firstlight.results.phase_diagram import PhaseDiagram as PhaseDiagram
    from firstlight.results.profile import Profile as Profile
    from firstlight.results.reproduction import Reproduction as Reproduction
    from firstlight.results.trajectory import Trajectory as Trajectory
    from firstlight.theory.phases import phases as phases
    from firstlight.theory.predicting import predict as predict
    from firstlight.training.tracking import track as track

__version__ = "0.1.0"

_HOMES = {
    "Blueprint": "firstlight.architecture.blueprint",
    "Change": "firstlight.results.change",
    "Comparison": "firstlight.results.comparison",
    "Diagnosis": "firstlight.results.diagnosis",
    "Finding": "firstlight.results.finding",
    "Guesses": "firstlight.results.guesses",
    "PhaseDiagram": "firstlight.results.phase_diagram",
    "Policy": "firstlight.diagnosis.policies",
    "Profile": "firstlight.results.profile",
    "Trajectory": "firstlight.results.trajectory",
    "Reproduction": "firstlight.results.reproduction",
    "apply_": "firstlight.remedies.repairing",
    "assert_born_well": "firstlight.auditing.asserting",
    "audit": "firstlight.auditing.auditing",
    "compare": "firstlight.diagnosis.comparing",
    "diagnose": "firstlight.diagnosis.diagnosing",
    "load": "firstlight.results.archive",
    "measure": "firstlight.measurement.measuring",
    "phases": "firstlight.theory.phases",
    "predict": "firstlight.theory.predicting",
    "track": "firstlight.training.tracking",
    "repair": "firstlight.remedies.repairing",
    "report": "firstlight.reporting.reporting",
    "reproduce": "firstlight.papers.reproducing",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'firstlight' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
