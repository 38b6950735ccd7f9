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
from typing import Any

import torch
from torch import nn

from firstlight.diagnosis.diagnosing import diagnose
from firstlight.errors import ModelError, UsageError
from firstlight.measurement.batches import as_batches
from firstlight.measurement.measuring import measure
from firstlight.measurement.seeding import initialization_seed, random_state_preserved, seeded
from firstlight.remedies.courses import Course, Record
from firstlight.remedies.duplicating import followed_in_place
from firstlight.remedies.sources import Redraw, Source
from firstlight.remedies.suggesting import suggested
from firstlight.results.change import Change, Edits, Refusal
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance

__all__ = ["apply_", "repair"]

_REMEDY_STREAM = 3
"""Child of an initialization's seed from which a remedy draws on a model that is repaired as it is."""


def repair(
    model: nn.Module | Callable[..., nn.Module] | Any,
    data: Any,
    remedies: str | Iterable[str] = "suggest",
    *,
    inits: int = 64,
    seed: int = 0,
    mode: str = "train",
    dry_run: bool = False,
    in_place: bool = False,
    batch_size: int | None = None,
    max_samples: int | None = None,
    quantities: str | Iterable[str] | None = None,
    redraw: Redraw = None,
    before: Profile | None = None,
    progress: bool = True,
    **options: Any,
) -> tuple[Any, Change]:
    """Change a network by remedies, and measure it before and after.

    Args:
        model: An ``nn.Module`` (copied), a factory without required arguments, or a ``Blueprint``.
        data: Whatever ``measure`` takes.
        remedies: Names of ``REMEDIES``, applied in this order; or ``"suggest"``: those that the diagnosis of the
            network names, as far as they can be applied.
        inits: Initializations before and after.
        seed: Names them.
        mode: Which statistics batch norm uses, in measuring and in remedies that look at data.
        dry_run: Only list the edits: nothing is measured and the model comes back as it was.
        in_place: Change the module itself, and return it.
        batch_size: Samples in a batch, for measuring.
        max_samples: At most so many samples, for measuring and for remedies that look at data.
        quantities: What is measured, as for ``measure``; by default ``"standard"``, with the gradient where weights are
            initialized anew, and what a diagnosis looks at where remedies are suggested.
        redraw: Law of the weights, as for ``measure``.
        before: The network as it is, where it was measured already on these data with these settings.
        progress: Whether to show a bar on a terminal.
        **options: Options of the remedies; each goes to every remedy that has one of that name.

    Returns:
        The new module, its weights those of the one that was given (or a factory, where a factory or a ``Blueprint``
        was given), and the ``Change``.
    """
    source = Source.of(model, redraw)
    if in_place and source.module is None:
        raise UsageError(
            "repair(in_place): expected a module to change, got a factory; repair what it returns"
        )
    data = _readable_twice(data)
    looked_at = data
    if data is not None and max_samples is not None:  # the very samples that are measured
        looked_at = as_batches(data, seed=seed, max_samples=max_samples)
    course: Course | None = None
    if remedies != "suggest":
        course = Course.of(remedies, options, looked_at, mode)
    measured: dict[str, Any] = {
        "inits": inits,
        "seed": seed,
        "mode": mode,
        "batch_size": batch_size,
        "max_samples": max_samples,
        "progress": progress,
        "quantities": quantities or ("audit" if course is None else _looked_at(course)),
    }
    if before is not None:
        _check_before(before, inits, seed, mode)
    refused: list[Refusal] = []
    if course is None:
        before = before or measure(source.given, data, redraw=redraw, **measured)
        names, refused = suggested(
            before,
            lambda names: _edits_of_last(
                source, Course.of(names, options, looked_at, mode, strict=False), seed
            ),
        )
        course = Course.of(names, options, looked_at, mode, strict=False)
    rehearsed, record = _rehearsed(source, course, seed)
    if in_place and type(rehearsed) is not type(model):
        raise ModelError(
            f"repair(in_place): the model itself becomes a {type(rehearsed).__name__}, which cannot be done in place; "
            "leave in_place out and use the model that repair returns"
        )
    if dry_run:
        return model, _change(record, refused, source, None, None, course, seed, mode)
    if before is None:
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
                lambda working: course.applied(working, "repair", in_place=True, draw=source.again),
                "repair(in_place)",
            )
        result = source.module
    return result, _change(record, refused, source, before, after, course, seed, mode)


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
    course = Course.of([remedy], options, data, mode)
    with random_state_preserved():
        return followed_in_place(
            model,
            lambda working: _single(course.applied(working, f"apply_({remedy!r})", in_place=True)),
            f"apply_({remedy!r})",
        )


def _check_before(before: Profile, inits: int, seed: int, mode: str) -> None:
    """The interval of a difference is that of paired values."""
    stated = before.provenance
    for name, had, wanted in (
        ("inits", stated.settings.get("inits"), inits),
        ("seed", stated.seed, seed),
        ("mode", stated.mode, mode),
    ):
        if had is not None and had != wanted:
            raise UsageError(
                f"repair(before): expected a profile of the same initializations, got {name}={had!r} before and "
                f"{wanted!r} after; pass {name}={had!r}, or leave before out"
            )


def _single(applied: tuple[nn.Module, Record]) -> tuple[nn.Module, Edits]:
    module, record = applied
    return module, Edits(tuple(record.edits), tuple(record.left), tuple(record.notes))


def _rehearsed(source: Source, course: Course, seed: int) -> tuple[nn.Module, Record]:
    """The repaired copy of the module that was given, or of initialization 0."""
    stream = () if source.module is None else (_REMEDY_STREAM,)
    with seeded(initialization_seed(seed, 0, *stream)):
        return course.applied(source.first(), "repair", draw=source.again)


def _edits_of_last(source: Source, course: Course, seed: int) -> int:
    record = _rehearsed(source, course, seed)[1]
    return sum(edit.remedy == record.remedies[-1] for edit in record.edits)


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


def _looked_at(course: Course) -> tuple[str, ...]:
    """What is measured by default: an initialization that helps the signal may cost the gradient."""
    initializes = any(remedy.changes == "parameters" for remedy, _ in course.steps)
    return ("standard", "gradient_scale", "structure") if initializes else ("standard",)


def _new_findings(before: Profile | None, after: Profile | None) -> Iterator[str]:
    """What a diagnosis warns of after the remedies, and did not before."""
    if before is None or after is None:
        return
    known = {finding.id for finding in diagnose(before).found}
    for finding in diagnose(after).found:
        if finding.severity != "info" and finding.id not in known:
            where = f" at {finding.layer}" if finding.layer else ""
            yield (
                f"warning, new with the remedies: {finding.title}{where} ({finding.quantity} {finding.value:.3g} "
                f"[{finding.low:.3g}, {finding.high:.3g}], threshold {finding.threshold:g})"
            )


def _change(
    record: Record,
    refused: list[Refusal],
    source: Source,
    before: Profile | None,
    after: Profile | None,
    course: Course,
    seed: int,
    mode: str,
) -> Change:
    notes = [*record.notes, *_new_findings(before, after)]
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
        refused=tuple(refused),
        notes=tuple(notes),
        before=before,
        after=after,
    )
