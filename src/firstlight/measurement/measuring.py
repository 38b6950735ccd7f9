"""``measure``: nn.Module (or factory, or Blueprint) and data → Profile, over an ensemble of initializations.

Enters: a model and data of any kind. Leaves: a ``Profile`` whose numbers depend on (model, data, seed) and on
nothing else, to rounding. The user's model, its hooks and all random generators are as they were, whatever
happens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from firstlight.errors import UsageError, one_of
from firstlight.measurement.asking import asked_for
from firstlight.measurement.batches import as_batches
from firstlight.measurement.ensembles import observations
from firstlight.measurement.gathering import Gathered
from firstlight.measurement.initialization import Draw, drawing
from firstlight.measurement.input_statistics import input_statistics
from firstlight.measurement.kinds import batch_norms
from firstlight.measurement.observing import OUTPUT, Seen, Setting, layer_keys
from firstlight.measurement.reading_activations import activations_behind, normed_by
from firstlight.measurement.scouting import settle
from firstlight.measurement.seeding import random_state_preserved
from firstlight.measurement.summarizing import ratio_of_averages, summarize
from firstlight.measurement.taps import Layers
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import Variable, variable
from firstlight.results.profile import Profile
from firstlight.results.provenance import Coverage, CoverageEntry, Provenance

__all__ = ["measure"]

_MANY, _TOP = 1000, 256
"""With more labels than ``_MANY`` (a vocabulary) only the ``_TOP`` most guessed keep columns of their own."""
_STOP_EVERY = 8
"""Initializations between two looks at the interval: fixed, so that where it stops does not depend on timing."""


def measure(
    model: nn.Module | Callable[..., nn.Module] | Any,
    data: Any,
    *,
    inits: int = 64,
    seed: int = 0,
    quantities: str | Iterable[str] = "standard",
    layers: Layers = None,
    mode: str = "train",
    batch_size: int | None = None,
    max_samples: int | None = None,
    precision: float | None = None,
    device: str | torch.device | None = None,
    progress: bool = True,
    redraw: str | Callable[[nn.Module], object] | None = None,
    loss: Callable[[Any, Any], Tensor] | None = None,
) -> Profile:
    """Measure what an untrained network does to data, over many initializations.

    Args:
        model: An ``nn.Module`` (copied and re-drawn), a factory without required arguments, or a
            ``Blueprint``.
        data: A tensor or array of samples, (x, y), a dictionary of tensors, a ``Dataset``, a ``DataLoader``,
            any iterable of batches, or the name of a data set.
        inits: How many initializations; with ``precision``, at most.
        seed: Names the initializations: number ``i`` of a seed is the same for ever.
        quantities: ``"standard"`` (guesses and what one pass gives), ``"all"``, ``"audit"`` (what ``diagnose``
            looks at), or names.
        layers: Names, fnmatch patterns, ``re:`` expressions, ``~`` exclusions, or a predicate of (name,
            module); ``"standard"`` is every dense, convolutional and norm output, ``"output"`` the output
            alone. The output is always there, last.
        mode: ``"train"``: batch norms use the statistics of their batch; ``"eval"``: their running ones.
            Everything else (dropout) is as in evaluation in both.
        batch_size: Samples in a batch, where the data is ours to cut. Matters to the numbers only for batch
            norm in train mode, and for a ``loss``.
        max_samples: At most so many samples, drawn by the seed where the data has a length.
        precision: Stop as soon as the 95 % interval of the output's γ is within this fraction of it.
        device: Where to run; by default where the model is.
        progress: Whether to show a bar on a terminal.
        redraw: ``None`` for the model's own law, ``"keep"`` (with ``inits=1``) for the weights as they are,
            ``"kaiming_normal"`` or another named law, or a callable that draws the parameters of the module
            it is given.
        loss: A function of (output, target) whose gradient is measured instead of that of a random linear
            read-out. It is taken of each batch by itself, as in training: a mean over twice the samples has half the
            gradient.

    Returns:
        A profile by layer, with guesses, coverage and provenance, and with γ the variables
        ``mean_std_ratio`` and ``mean_std_ratio_init`` of Luther & Seung, √γ of each initialization.
        Pressing Ctrl-C keeps the initializations that are complete.
    """
    _check(inits, seed, mode, precision, redraw)
    asked = asked_for(quantities)
    if precision is not None:
        asked = asked_for([*asked.names, "gamma"])
    notes: list[str] = []
    batch_size, max_samples = _whole(batch_size), _whole(max_samples)
    batches = as_batches(data, seed=seed, batch_size=batch_size, max_samples=max_samples)
    # In inference mode, in which a caller may be, no tensor can be watched.
    with (
        random_state_preserved(),
        _plain_attention_layers(),
        torch.inference_mode(False),
        ExitStack() as stack,
    ):
        try:
            draw = drawing(model, seed=seed, redraw=redraw)
            stack.enter_context(_uncompiled())
            prepare = _preparation(mode, device)
            if not asked.order and asked.names == {"guesses"}:
                layers = "output"
            setting, found = settle(
                prepare(draw.module_of(0)),
                batches,
                asked,
                layers=layers,
                seed=seed,
                batch_size=batch_size,
                loss=loss,
            )
            notes += [*draw.notes, *found]
            seen = _ensemble(draw, prepare, setting, inits, precision, progress, notes)
            notes += _lost(seen, setting)
            data = input_statistics(setting.batches) if "inputs" in asked else {}
        finally:
            batches.close()
    return _profile(seen, setting, draw, mode, precision, notes, data)


def _check(inits: int, seed: int, mode: str, precision: float | None, redraw: object) -> None:
    if isinstance(inits, bool) or not isinstance(inits, int | np.integer) or inits < 1:
        raise UsageError(f"measure(inits): expected a whole number of at least 1, got {inits!r}")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"measure(seed): expected a whole number, 0 or larger, got {seed!r}")
    if mode not in ("train", "eval"):
        raise one_of("measure(mode)", mode, ["train", "eval"])
    if precision is not None and not 0 < precision < 1:
        raise UsageError(f"measure(precision): expected a fraction between 0 and 1, got {precision!r}")
    if isinstance(redraw, str) and redraw == "keep" and inits != 1:
        raise UsageError(
            f"measure(redraw='keep'): the weights as they are make one initialization, got inits={inits}; pass inits=1"
        )


def _whole(value: int | None) -> int | None:
    """A whole number of numpy's as one of python's."""
    return int(value) if isinstance(value, np.integer) else value


def _preparation(mode: str, device: str | torch.device | None) -> Callable[[nn.Module], nn.Module]:
    def prepare(module: nn.Module) -> nn.Module:
        module.eval()
        if mode == "train":
            for item in batch_norms(module):
                item.train()
        return module if device is None else _moved(module, device)

    return prepare


def _moved(module: nn.Module, device: str | torch.device) -> nn.Module:
    try:
        return module.to(device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"measure(device): the model cannot go to {str(device)!r}: {str(error).splitlines()[0]}"
        ) from error


class _plain_attention_layers:  # noqa: N801 - reads as the context it is
    """Transformer layers call their modules instead of one fused kernel that hides them."""

    def __enter__(self) -> None:
        self.enabled = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)

    def __exit__(self, *exception: object) -> None:
        torch.backends.mha.set_fastpath_enabled(self.enabled)


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Parts that ``torch.compile`` wraps run as they were written: hooks inside would be compiled along."""
    if "torch._dynamo" not in sys.modules:  # it comes with the first torch.compile, and takes seconds
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def _ensemble(
    draw: Draw,
    prepare: Callable[[nn.Module], nn.Module],
    setting: Setting,
    inits: int,
    precision: float | None,
    progress: bool,
    notes: list[str],
) -> Gathered:
    """All initializations, or those that were complete when the user or the precision stopped it."""
    seen = Gathered()
    try:
        for found in _counted(observations(draw, prepare, setting, inits), inits, progress):
            seen.add(found)
            if precision is not None and len(seen) % _STOP_EVERY == 0 and _precise(seen, precision):
                notes.append(
                    f"stopped after {len(seen)} initializations: γ of the output is known within ±{precision:.0%}"
                )
                break
        else:
            if precision is not None and not _precise(seen, precision):
                notes.append(
                    f"γ of the output is not known within ±{precision:.0%} after {inits} initializations"
                )
    except KeyboardInterrupt:
        if not seen:
            raise
        notes.append(f"interrupted: {len(seen)} of {inits} initializations are complete")
    return seen


def _lost(seen: Gathered, setting: Setting) -> list[str]:
    """Say where signal or perturbation did not arrive: their numbers there speak of precision, or of the wiring."""
    notes, keys = [], layer_keys(setting.plan)
    tables, precision = seen.tables, str(setting.dtype).removeprefix("torch.")
    if "mean_square" in tables:
        squares = tables["mean_square"]  # (init, layer)
        faint = ((squares > 0) & (squares < torch.finfo(setting.dtype).tiny ** 2)).any(0)
        if faint.any():
            notes.append(
                f"the signal is below the normal range of {precision} at {faint.sum()} of {len(keys)} layers "
                f"(first: {keys[faint.argmax()]}): rounding decides its numbers there, and model.double() has more"
            )
    for name, what in (("log_noise_variance", "noise"), ("log_gradient_scale", "gradient")):
        if name not in tables:
            continue
        known = np.isfinite(tables[name])  # (init, layer)
        lost = [key for place, key in enumerate(keys) if not known[:, place].all()]
        if lost:
            notes.append(
                f"the {what} is 0 or unknown at {len(lost)} of {len(keys)} layers (first: {lost[0]}): none gets there, "
                f"or it left the range of {precision}, and model.double() has more"
            )
    return notes


def _counted(found: Iterator[Seen], inits: int, progress: bool) -> Iterator[Seen]:
    from tqdm import tqdm

    # disable=None hides the bar where stderr is no terminal; without smoothing the estimate is the plain average.
    yield from tqdm(
        found,
        total=inits,
        desc="initializations",
        unit="init",
        smoothing=0,
        leave=False,
        disable=None if progress else True,
    )


def _precise(seen: Gathered, precision: float) -> bool:
    if len(seen) < 2:
        return False
    centers, variances = (seen.tables[name][:, -1:] for name in ("center_variance", "data_variance"))
    gamma, error = ratio_of_averages(centers, variances)
    return bool(1.96 * error[0] <= precision * gamma[0])


def _profile(
    seen: Gathered,
    setting: Setting,
    draw: Draw,
    mode: str,
    precision: float | None,
    notes: list[str],
    data: dict[str, float],
) -> Profile:
    plan, keys = setting.plan, layer_keys(setting.plan)
    kinds = [tap.kind for tap in plan.taps] + ([OUTPUT] if plan.output is None else [])
    entries = [CoverageEntry(tap.key, tap.module, "measured") for tap in plan.taps]
    if plan.output is None:
        entries.append(CoverageEntry(OUTPUT, OUTPUT, "measured"))
    provenance = Provenance(
        engine="measurement",
        model=draw.description,
        data=setting.batches.description,
        seed=setting.seed,
        mode=mode,
        settings={
            "inits": len(seen),
            "samples": seen.samples,
            "batch_sizes": sorted(seen.batch_sizes),
            "redraw": draw.method,
            "quantities": sorted(setting.asked.names),
            "precision": precision,
            "dtype": str(setting.dtype).removeprefix("torch."),
            "device": str(setting.device),
            "dropout": "off",
            "variance": "over the data at hand (1/n)",
        },
        notes=tuple(dict.fromkeys(notes)),
    )
    return Profile.from_layers(
        keys,
        summarize(seen.tables, setting.asked),
        provenance=provenance,
        coverage=Coverage((*entries, *plan.unseen)),
        guesses=_guesses(seen),
        extra={
            **(_mean_std_ratio(seen) if "gamma" in setting.asked else {}),
            **{f"{name}_init": variable("init", values) for name, values in seen.whole.items()},
            **{name: variable((), value) for name, value in data.items()},
            **({"norms": variable((), float(_norms(setting)))} if "structure" in setting.asked else {}),
        },
        kinds=["norm" if kind == "channel norm" else kind for kind in kinds],
        coordinates=_structure(setting) if "structure" in setting.asked else None,
    )


def _norms(setting: Setting) -> int:
    """Calls of norms in one pass, observed or not."""
    return sum(tap.kind in ("norm", "channel norm") for tap in setting.plan.ran)


def _structure(setting: Setting) -> dict[str, Variable]:
    """Units and positions of each layer, the activation that reads it, and the one that it normalizes; "" for none."""
    plan, keys = setting.plan, layer_keys(setting.plan)
    taps = {tap.key: tap for tap in plan.taps}
    behind, normed = activations_behind(plan), normed_by(plan)
    return {
        "units": variable("layer", [taps[key].units if key in taps else 0 for key in keys]),
        "positions": variable("layer", [taps[key].positions if key in taps else 0 for key in keys]),
        "activation_behind": variable("layer", [behind.get(key, "") for key in keys]),
        "activation_normed": variable("layer", [normed.get(key, "") for key in keys]),
    }


def _mean_std_ratio(seen: Gathered) -> dict[str, Variable]:
    """Luther & Seung's √(Σ⟨u⟩²/Σ Var u) of each initialization, and its mean over them."""
    with np.errstate(invalid="ignore"):
        ratios = np.sqrt(seen.tables["gamma"])
    return {
        "mean_std_ratio": variable("layer", ratios.mean(0)),
        "mean_std_ratio_init": variable(("init", "layer"), ratios),
    }


def _guesses(seen: Gathered) -> Guesses | None:
    if seen.guesses is None:
        return None
    counts, ties = seen.guesses
    return Guesses.from_counts(counts, ties=ties, top=_TOP if counts.shape[1] > _MANY else None)
