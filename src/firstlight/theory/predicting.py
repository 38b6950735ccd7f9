"""``predict``: Blueprint → Profile, by theory.

Enters: a Blueprint, or a module that can be read as one. Leaves: γ, C, V, mean square, noise, χ with its
increments and gradient scale behind every dense layer and residual sum, and the law of the guesses. Nothing is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.architecture.activations import ActivationFunction, activation
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import Dense, Norm, Residual, walk
from firstlight.architecture.perceptron import whole_number
from firstlight.errors import UsageError, one_of
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import variable
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance
from firstlight.theory.finite_width import log_mean_square_variance
from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.kernel import Kernel, kernel_of
from firstlight.theory.kernels.max_pool import MaxPoolKernel
from firstlight.theory.kernels.remembered import ManyLayersKernel, RememberedKernel
from firstlight.theory.minibatch import MinibatchLaw
from firstlight.theory.population import Population, population_of_inputs
from firstlight.theory.propagation import Kernels, Step, backward, propagate, steps_in_order
from firstlight.theory.rows import INCREMENTS, coverage_of, increments_of

if TYPE_CHECKING:
    from torch import nn

__all__ = ["METHODS", "NO_LABELS", "kernels_by", "predict"]

METHODS = ("auto", "closed_form", "hermite", "quadrature")

NO_LABELS = "one output: there are no labels to choose between, so no guesses are predicted"


def predict(
    blueprint: Blueprint | nn.Module,
    *,
    data: Any = None,
    method: str = "auto",
    batch_size: int | None = None,
    batch_law: str = "exact",
    samples: int | None = None,
    **on_data: Any,
) -> Profile:
    """Predict what an infinitely wide network does to i.i.d. data, or to your own, and how it guesses.

    Args:
        blueprint: The network; an ``nn.Module`` is read by ``Blueprint.read``.
        data: Inputs (n, …), a pair (inputs, labels) or a sample set: the data's own covariance is propagated
            (``predict_on``). Without it, coordinates are i.i.d. with the blueprint's input mean and variance.
        method: How Gaussian averages are taken: ``"closed_form"``, ``"hermite"``, ``"quadrature"``, or
            ``"auto"`` for the best there is (with tables, right to 1e-9, where a deep network never settles).
        batch_size: Batch norm sees mini-batches of this size; without it, all the data at once.
        batch_law: ``"exact"`` for the batch norm that frameworks run, ``"leave_one_out"`` for the
            approximation of Francazi et al. 2026.
        samples: Number of data points that the guesses are counted on; without it, infinitely many. With data: use
            the first so many.
        on_data: ``draws``, ``seed``, ``keep_covariance``, ``width``, ``inits``, ``landmarks``, ``positions``,
            ``memory`` as in ``predict_on``; with data only.

    Returns:
        A Profile with one row for each dense layer and residual sum, in running order, the output last.
        Layers without a rule are NaN with a reason in ``profile.coverage``.

    >>> from firstlight.architecture.blueprint import Blueprint
    >>> profile = predict(Blueprint.mlp(depth=1))
    >>> abs(float(profile.gamma[-1]) - 1 / (math.pi - 1)) < 1e-12
    True
    """
    blueprint = _blueprint(blueprint)
    if data is not None:
        from firstlight.theory.predicting_data import predict_on

        return predict_on(
            blueprint,
            data,
            method=method,
            batch_size=batch_size,
            batch_law=batch_law,
            samples=samples,
            **on_data,
        )
    if on_data:
        raise UsageError(
            f"predict({', '.join(sorted(on_data))}): expected data to go with it, got none; "
            "pass data=X, or drop it: population theory draws nothing"
        )
    if method not in METHODS:
        raise one_of("predict(method)", method, METHODS)
    if samples is not None:
        samples = whole_number("predict(samples)", samples)
    law = _law(blueprint, batch_size, batch_law)
    kernels = kernels_by(method)
    inputs = population_of_inputs(blueprint.input_mean, blueprint.input_variance)
    steps = propagate(blueprint.layers, inputs, kernels, law)
    rows = [step for step in steps_in_order(steps) if isinstance(step.layer, Dense | Residual)]
    quantities = _quantities(rows, steps, blueprint)
    spread = log_mean_square_variance(steps, kernels)
    notes = _notes(blueprint, law)
    provenance = Provenance(
        engine="theory",
        model=blueprint.describe(),
        data=f"i.i.d. inputs, mean {blueprint.input_mean:g}, variance {blueprint.input_variance:g}",
        mode="train" if _has_batch_norm(blueprint) else None,
        settings={
            "theory": "population",
            "inputs": blueprint.inputs,
            "method": method,
            "batch_size": batch_size,
            "batch_law": batch_law if batch_size else None,
        },
        notes=notes,
    )
    log_gamma = float(quantities["log_gamma"][-1]) if rows else math.nan
    last = steps[-1].layer if steps else None
    known = isinstance(last, Dense) and not math.isnan(log_gamma)
    guesses = None
    if known and blueprint.classes is not None and blueprint.classes > 1:
        guesses = Guesses.from_law(
            GuessLaw(gamma=_saturating(log_gamma), labels=blueprint.classes, log_gamma=log_gamma),
            samples=samples,
        )
    return Profile.from_layers(
        [step.layer.address for step in rows],
        quantities,
        provenance=provenance,
        coverage=coverage_of(steps),
        guesses=guesses,
        kinds=["residual" if isinstance(step.layer, Residual) else "dense" for step in rows],
        extra={
            "log_mean_square_deviation": variable(
                "layer", [math.sqrt(spread.get(id(step), math.nan)) for step in rows]
            )
        },
    )


def kernels_by(method: str) -> Kernels:
    """Kernels by activation and pooling, each made once."""

    @cache
    def kernels(function: ActivationFunction | None, pooled: int) -> Kernel:
        function = activation("linear") if function is None else function
        if pooled > 1:
            return RememberedKernel(MaxPoolKernel(function, pooled))
        kernel = kernel_of(function, method=method)
        if isinstance(kernel, AutomaticKernel):
            return ManyLayersKernel(kernel)
        # a piecewise linear activation is averaged faster than it is remembered
        return kernel if function.slopes is not None else RememberedKernel(kernel)

    return kernels


def _blueprint(blueprint: Any) -> Blueprint:
    if isinstance(blueprint, Blueprint):
        return blueprint
    if hasattr(blueprint, "named_modules"):
        return Blueprint.read(blueprint)
    raise UsageError(
        f"predict(blueprint): expected a Blueprint or an nn.Module, got {type(blueprint).__name__}; "
        "describe a network with Blueprint.mlp(depth=…) or read one with Blueprint.read(module)"
    )


def _law(blueprint: Blueprint, batch_size: int | None, batch_law: str) -> MinibatchLaw | None:
    if batch_law not in ("exact", "leave_one_out"):
        raise one_of("predict(batch_law)", batch_law, ("exact", "leave_one_out"))
    if batch_size is None:
        return None
    return MinibatchLaw(batch_size, batch_law)


def _quantities(
    rows: Sequence[Step[Population]], steps: Sequence[Step[Population]], blueprint: Blueprint
) -> dict[str, Any]:
    """Arrays over the rows, in logarithms where the value may outgrow float64."""
    center = np.array([step.state.log_center for step in rows], dtype=float)
    data = np.array([step.state.log_data for step in rows], dtype=float)
    total = np.array([step.state.log_total for step in rows], dtype=float)
    noise = np.array([step.state.log_noise for step in rows], dtype=float)
    gradients = backward(steps)
    with np.errstate(invalid="ignore", divide="ignore"):
        log_gamma = np.where(np.isneginf(center) & np.isneginf(data), np.nan, center - data)
        log_sensitivity = 0.5 * (noise - data + np.log(blueprint.input_variance))
    increments = increments_of(steps)
    with np.errstate(over="ignore"):
        absolute = np.sqrt(2 / np.pi) * np.exp(0.5 * total)
    return {
        "log_gamma": log_gamma,
        "log_center_variance": center,
        "log_data_variance": data,
        "log_mean_square": total,
        "kurtosis": np.where(np.isnan(total), np.nan, 3.0),
        "mean_absolute": absolute,
        "log_noise_variance": noise,
        "log_sensitivity": log_sensitivity,
        **{name: np.array([increments[id(step)][name] for step in rows]) for name in INCREMENTS},
        "log_gradient_scale": np.array([gradients[id(step)] for step in rows], dtype=float),
    }


def _notes(blueprint: Blueprint, law: MinibatchLaw | None) -> tuple[str, ...]:
    notes = ["infinite width; the norms' ε is taken as 0"]
    if law is not None and not _has_batch_norm(blueprint):
        notes.append(f"no layer is a batch norm, so the batch size of {law.batch_size} changes nothing")
    elif law is not None:
        notes.append(f"batch norm over mini-batches of {law.batch_size}, {law.variant.replace('_', ' ')} law")
    if blueprint.classes == 1:
        notes.append(NO_LABELS)
    if blueprint.input_variance == 0:
        notes.append(
            "input variance 0: all data points are one, so γ is infinite and the sensitivity undefined"
        )
    return tuple(notes)


def _has_batch_norm(blueprint: Blueprint) -> bool:
    return any(isinstance(layer, Norm) and layer.kind == "batch" for layer in walk(blueprint.layers))


def _saturating(log_value: float) -> float:
    return math.exp(log_value) if log_value < 709.0 else math.inf
