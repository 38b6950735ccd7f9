"""``audit``: a model and data → Diagnosis, with theory beside the measurement wherever the model can be read.

Enters: what ``measure`` takes. Leaves: a ``Diagnosis`` that carries the profile, theory's, the other mode's and the
comparison. What theory could not say is told in the notes, with the reason; it never stops an audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import Norm, Unmodelled, walk
from firstlight.auditing.trying import tried
from firstlight.diagnosis.diagnosing import diagnose
from firstlight.diagnosis.policies import Policy, as_policy
from firstlight.errors import CouldNotError, DataError, ModelError
from firstlight.measurement.asking import AUDIT, WITHOUT_DERIVATIVES, WITHOUT_NOISE
from firstlight.measurement.batches import as_batches
from firstlight.measurement.initialization import drawing
from firstlight.measurement.kinds import batch_norms
from firstlight.measurement.measuring import measure
from firstlight.measurement.seeding import random_state_preserved
from firstlight.results.diagnosis import Diagnosis
from firstlight.results.profile import Profile
from firstlight.theory.predicting import predict

__all__ = ["audit"]

_LARGEST_GRAM = 2000
"""Points whose covariance theory carries: beyond, the population's theory stands in, and a note says so."""


def audit(
    model: nn.Module | Callable[..., nn.Module] | Any,
    data: Any,
    *,
    theory: bool = True,
    other_mode: bool = True,
    try_remedies: bool | Iterable[str] = False,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
    **measure_options: Any,
) -> Diagnosis:
    """Measure a network, predict what theory can, and judge both.

    Args:
        model: As for ``measure``: a module, a factory or a ``Blueprint``.
        data: As for ``measure``; targets, where they come along, give the initial loss.
        theory: Predict too, and compare, where the model can be read.
        other_mode: Measure networks with batch norm in the other mode as well.
        try_remedies: Try the remedies that the findings name (or those of these names) one by one over the same
            initializations, and rank them by what they do to γ of the output.
        policy: What fails and what warns; see ``diagnose``.
        **measure_options: Passed on to ``measure``: ``inits``, ``seed``, ``mode``, ``max_samples``, ``redraw`` …

    Returns:
        The diagnosis, with everything that it rests on.
    """
    chosen = as_policy(policy)  # a mistake in it is told before an hour is spent
    if isinstance(data, str):
        from firstlight.data import load

        data = load(data)
    options = dict(measure_options)
    if isinstance(data, Iterator):  # it can be read once, and is needed for both modes
        sizes = {name: options.pop(name, None) for name in ("batch_size", "max_samples")}
        data = as_batches(data, seed=options.get("seed", 0), **sizes)
    notes: list[str] = []
    profile = _measured(model, data, options, notes)
    with random_state_preserved():
        module = drawing(model, seed=options.get("seed", 0), redraw=options.get("redraw")).module_of(0)
    other = _other_mode(module, model, data, profile, options) if other_mode else None
    reference = _theory(model, module, data, profile, notes) if theory else None
    diagnosis = diagnose(profile, theory=reference, other_mode=other, policy=chosen)
    if try_remedies:
        diagnosis = replace(diagnosis, trials=tried(model, data, diagnosis, try_remedies, options))
        if not diagnosis.trials:
            notes.append("no remedy was tried: no finding names one")
    provenance = diagnosis.provenance
    return replace(diagnosis, provenance=replace(provenance, notes=(*provenance.notes, *notes)))


def _measured(model: Any, data: Any, options: Mapping[str, Any], notes: list[str]) -> Profile:
    """All that the checks look at; less, and a note, where the network has no derivative of some kind."""
    if "quantities" in options:
        return measure(model, data, **options)
    for asked in (AUDIT, WITHOUT_NOISE):
        try:
            return measure(model, data, quantities=asked, **options)
        except CouldNotError as reason:
            notes.append(f"measurement: {reason}")
    return measure(model, data, quantities=WITHOUT_DERIVATIVES, **options)


def _other_mode(
    module: nn.Module, model: Any, data: Any, profile: Profile, options: Mapping[str, Any]
) -> Profile | None:
    """The same initializations with the other batch statistics, where there are any."""
    if not batch_norms(module):
        return None
    mode = "eval" if profile.provenance.mode == "train" else "train"
    inits = profile.provenance.settings["inits"]
    return measure(
        model,
        data,
        **{**options, "mode": mode, "inits": inits, "precision": None, "quantities": ("standard", "logits")},
    )


def _theory(model: Any, module: nn.Module, data: Any, profile: Profile, notes: list[str]) -> Profile | None:
    """Dataset theory on these points where they are at hand and few, the population's else; or a note why not."""
    points = _points(data)
    try:
        blueprint = (
            model
            if isinstance(model, Blueprint)
            else Blueprint.read(module, example=None if points is None else points[:2])
        )
        return _predicted(blueprint, data, points, profile, notes)
    except (ModelError, CouldNotError, DataError) as reason:
        notes.append(f"theory: {reason}")
        return None


def _predicted(
    blueprint: Blueprint, data: Any, points: torch.Tensor | None, profile: Profile, notes: list[str]
) -> Profile:
    layers = list(walk(blueprint.layers))
    coupled = any(isinstance(layer, Norm) and layer.kind == "batch" for layer in layers)
    if coupled and profile.provenance.mode == "eval":
        raise CouldNotError("it speaks of batch norm in train mode, and this is eval mode")
    missing = [layer for layer in layers if isinstance(layer, Unmodelled)]
    if missing:
        notes.append(f"theory: {len(missing)} layers have no rule, the first is {missing[0].address!r}")
    count, sizes = profile.provenance.settings["samples"], profile.provenance.settings["batch_sizes"]
    batch_size = sizes[-1] if coupled and sizes[-1] < count else None
    exact = points is not None and len(points) == count and count <= _LARGEST_GRAM and batch_size is None
    if exact:
        return predict(blueprint, data=data)
    notes.append(
        "theory: of Gaussian inputs in general, because the points are many, not at hand, or cut into batches"
    )
    return predict(blueprint, batch_size=batch_size)


def _points(data: Any) -> torch.Tensor | None:
    """The inputs, where they are all in memory."""
    inputs = getattr(data, "inputs", data[0] if isinstance(data, tuple) and len(data) == 2 else data)
    tensor = torch.as_tensor(inputs) if hasattr(inputs, "__array__") else None
    return tensor if tensor is not None and tensor.ndim > 1 and tensor.is_floating_point() else None
