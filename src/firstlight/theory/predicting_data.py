"""Dataset theory: Blueprint and data → Profile, by carrying the data's own covariance through the layers.

Enters: a Blueprint and n inputs. Leaves: γ, C, V, mean square, kurtosis, mean absolute value, effective rank,
correlations, noise, χ with its increments and gradient scale behind every dense layer and residual sum, and draws
of the joint law of the guesses on these very points.

The data are fixed and the averages over them are plain: C = ⟨(mean over the n points)²⟩ = mean(K) and V =
tr(HKH)/n, without n/(n − 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firstlight.architecture.activations import ActivationFunction, activation
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import (
    Activation,
    AdaptivePool,
    Convolution,
    Dense,
    Layer,
    Norm,
    Pass,
    Pool,
    PositionPool,
    Residual,
    walk,
)
from firstlight.architecture.perceptron import number, whole_number
from firstlight.errors import CouldNotError, DataError, UsageError, one_of
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import Variable, variable
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance
from firstlight.theory.dataset.composed_gram import ComposedGram
from firstlight.theory.dataset.gram import Gram, Statistics, log_mean_exp
from firstlight.theory.dataset.image_gram import ImageGram
from firstlight.theory.dataset.image_inputs import (
    MEMORY,
    Held,
    gram_of_images,
    held_positions,
    images_of,
    statistics_of_images,
)
from firstlight.theory.dataset.inputs import gram_of_inputs
from firstlight.theory.dataset.landmark_gram import LandmarkGram, landmark_gram_of_inputs
from firstlight.theory.dataset.landmark_readout import GuessCheck, outputs_of_landmarks
from firstlight.theory.dataset.landmarks import Landmarks, choose_landmarks
from firstlight.theory.dataset.leading_width import LARGEST_SPREAD, WidthTerms, width_terms
from firstlight.theory.finite_width import log_mean_square_variance
from firstlight.theory.kernels.kernel import Kernel, kernel_of
from firstlight.theory.kernels.max_pool import MaxPoolKernel
from firstlight.theory.predicting import METHODS, NO_LABELS
from firstlight.theory.propagation import Kernels, Step, backward, propagate, steps_in_order
from firstlight.theory.readout import read_out, read_out_of_factor
from firstlight.theory.rows import INCREMENTS, coverage_of, increments_of

__all__ = ["covariance_of_outputs", "points_of", "predict_on"]

Array = NDArray[np.float64]

WIDTHS = ("infinite", "leading", "finite")
POSITIONS = ("auto", "pairs", "same")
OWN_DEVIATION = "each unit by its own deviation (by the mean variance over units behind another norm)"
MEAN_VARIANCE = "by the mean variance over channels"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_DEPTH_OF_NOTE = 200
"""Beyond it a word on finite width would cost more than the prediction."""


def predict_on(
    blueprint: Blueprint,
    data: Any,
    *,
    method: str = "auto",
    batch_size: int | None = None,
    batch_law: str = "exact",
    draws: int | None = None,
    seed: int = 0,
    keep_covariance: bool = False,
    samples: int | None = None,
    width: str = "infinite",
    inits: int = 200,
    landmarks: int | str | None = "auto",
    positions: str = "auto",
    memory: float = MEMORY,
) -> Profile:
    """Predict what a wide network does to these data, and how it guesses on them.

    Args:
        blueprint: The network.
        data: Inputs (n, …) as an array or tensor, a pair (inputs, labels), or a sample set with ``inputs``.
        method: How Gaussian averages are taken; see ``predict``.
        batch_size: Batch norm takes consecutive batches of this size; all the points at once without it.
        batch_law: ``"exact"`` only: the data set is known point by point.
        draws: Initializations that the guesses are drawn from; 10,000 by default, fewer where draws · labels ·
            points would
            exceed 10⁹.
        seed: Names the draws.
        keep_covariance: Keep K of every row, ``profile.covariance`` (layer, sample, sample).
        samples: Use the first so many points.
        width: ``"infinite"``; ``"leading"`` for C, V, γ, covariances and guesses with their leading 1/width terms
            at the blueprint's own widths (dense layers with ReLU and the like, and a norm behind all of them or
            none); ``"finite"`` to draw ``inits`` networks of those widths, exactly in law.
        inits: Number of networks drawn for ``width="finite"``.
        landmarks: Beyond 5,000 points (``"auto"``), or where a number is given, carry the covariance of all points
            with so many of them and a quarter more, instead of the whole; C, V and γ then have standard errors.
            None carries the whole whatever its size.
        positions: What is held of pictures: covariances between all ``"pairs"`` of positions, or at the
            ``"same"`` position only, which is all that flattening reads; ``"auto"`` holds all pairs where
            they fit or something reads them.
        memory: Gigabytes that covariances over positions may take.

    Returns:
        A Profile with one row for each dense layer, convolution and residual sum; layers without a rule are NaN with
        a reason.

    >>> points = np.random.default_rng(0).standard_normal((64, 20))
    >>> profile = predict_on(Blueprint.mlp(inputs=20, depth=1, norm="batch"), points, draws=100)
    >>> 0.4 < float(profile.gamma[-1]) < 0.55  # 1/(π−1) for independent inputs
    True
    """
    if method not in METHODS:
        raise one_of("predict(method)", method, METHODS)
    if batch_law != "exact":
        raise UsageError(
            f"predict(batch_law): expected 'exact' with data, got {batch_law!r}; a data set is known point by point, "
            "and batch norm includes each of them"
        )
    if width not in WIDTHS:
        raise one_of("predict(width)", width, WIDTHS)
    if positions not in POSITIONS:
        raise one_of("predict(positions)", positions, POSITIONS)
    seed = whole_number("predict(seed)", seed, least=0)
    inits = whole_number("predict(inits)", inits, least=2)
    memory = number("predict(memory)", memory, above=0.0)
    if samples is not None:
        samples = whole_number("predict(samples)", samples, least=2)
    if draws is not None:
        draws = whole_number("predict(draws)", draws)
    if batch_size is not None:
        batch_size = whole_number(
            "predict(batch_size)",
            batch_size,
            least=2,
            hint="batch norm of one point is 0 whatever the point, because it is its own mean",
        )
    points = points_of(data, blueprint, samples)
    images = images_of(_array_of(data)[:samples], blueprint.layers)
    if width == "finite":
        from firstlight.theory.dataset.finite_networks import profile_of_networks

        return profile_of_networks(blueprint, points, inits=inits, batch_size=batch_size, seed=seed)
    terms = width_terms(blueprint.layers) if width == "leading" else None
    held = None
    if images is not None:
        shape = images.shape[2:]
        held = held_positions(blueprint.layers, len(points), shape, positions=positions, memory=memory)
    fold = _Fold(
        _kernels_by(method),
        keep_covariance=keep_covariance,
        refusal=held.refusal if held is not None else "",
        terms=terms,
    )
    if images is not None and isinstance(landmarks, int):
        raise UsageError(
            "predict(landmarks): expected a network without convolutions, which mix positions, got one with them; "
            "leave landmarks out and pass fewer pictures"
        )
    chosen = choose_landmarks(len(points), landmarks, seed=seed) if images is None else None
    if chosen is not None and terms is not None:
        raise UsageError(
            "predict(width='leading'): expected the whole covariance to be carried, got landmarks; "
            "pass landmarks=None, or fewer points"
        )
    if chosen is not None and keep_covariance:
        raise UsageError(
            "predict(keep_covariance): expected the whole covariance to be carried, got landmarks; "
            "pass landmarks=None, or fewer points"
        )
    state: Gram
    if images is not None and held is not None and not held.refusal:
        state = gram_of_images(images, everything=held.everything, batch_size=batch_size, seed=seed)
    elif chosen is None:
        state = gram_of_inputs(points, batch_size=batch_size, seed=seed)
    else:
        state = landmark_gram_of_inputs(points, chosen, batch_size=batch_size, seed=seed)
    inputs = fold.statistics(state) if images is None else statistics_of_images(images)
    nothing = int(state.zero_points.sum())
    angles = state.angles if isinstance(state, ComposedGram) else None
    steps, state = fold.through(blueprint.layers, state)
    last = next((step.layer for step in reversed(steps) if not isinstance(step.layer, Pass)), None)
    rows = [
        step
        for step in steps_in_order(steps)
        if isinstance(step.layer, Dense | Convolution | Residual)
        or (step.layer is last and _pools(step))  # the output, by the name that measurement gives it
    ]
    quantities = _quantities(rows, steps, inputs, fold.corrected)
    extra: dict[str, Variable] = {}
    check: GuessCheck | None = None
    coordinates = {"sample": variable("sample", np.arange(len(points)))}
    guesses = None
    known = isinstance(last, Dense) and not math.isnan(state.log_scale)
    labels = blueprint.classes
    if (
        isinstance(state, ImageGram) and state.gaussian and state.positions == 1
    ):  # pooled to one number a channel
        known, labels = not math.isnan(state.log_scale), state.channels
    if known and labels is not None and labels > 1:
        if draws is None:
            draws = max(100, min(10_000, 1_000_000_000 // (labels * len(points))))
        found = None
        if isinstance(state, LandmarkGram):
            if state.own.any():
                outputs = outputs_of_landmarks(state)
                check = outputs.check(state, labels)
                found = read_out_of_factor(outputs.half, labels, alone=outputs.alone, draws=draws, seed=seed)
        else:
            matrix = fold.last_matrix if fold.last_matrix is not None else state.matrix()
            if np.any(matrix):
                shared = None if terms is None or angles is None else terms.shared_units(angles)
                found = read_out(matrix, labels, draws=draws, seed=seed, shared=shared)
        if found is not None:
            guesses = Guesses.from_draws(found.fractions, samples=len(points), seed=seed)
            extra["favoured_label"] = variable("sample", found.favoured)
    if rows:
        quantiles = np.array([fold.correlations.get(id(step), [math.nan] * len(QUANTILES)) for step in rows])
        extra["correlation"] = variable(("layer", "quantile"), quantiles)
        coordinates["quantile"] = variable("quantile", list(QUANTILES))
        spread = log_mean_square_variance(steps, fold.kernels)
        deviation = [math.sqrt(spread.get(id(step), math.nan)) for step in rows]
        extra["log_mean_square_deviation"] = variable("layer", deviation)
        if keep_covariance:
            extra["covariance"] = variable(
                ("layer", "sample", "sample2"),
                np.stack([fold.kept.get(id(step), np.full((len(points),) * 2, math.nan)) for step in rows]),
            )
            coordinates["sample2"] = variable("sample2", np.arange(len(points)))
    normalized = any(isinstance(layer, Norm) and layer.kind == "batch" for layer in walk(blueprint.layers))
    return Profile.from_layers(
        ["output" if _pools(step) else step.layer.address for step in rows],
        quantities,
        provenance=Provenance(
            engine="theory",
            model=blueprint.describe(),
            data=_described(data, points if images is None else images),
            seed=seed,
            mode="train" if normalized else None,
            settings={
                "theory": "dataset",
                "method": method,
                "batch_size": batch_size,
                "draws": draws,
                "landmarks": chosen.number if chosen is not None else None,
                "width": width,
            },
            notes=(
                *_notes(
                    rows,
                    nothing,
                    batch_size,
                    normalized,
                    OWN_DEVIATION if images is None else MEAN_VARIANCE,
                    terms,
                ),
                *(_width_notes(blueprint, state, last) if terms is None and isinstance(last, Dense) else ()),
                *((NO_LABELS,) if labels == 1 else ()),
                *(_landmark_notes(chosen, len(points), check) if chosen is not None else ()),
                *(_picture_notes(rows, held, batch_size) if held is not None else ()),
            ),
        ),
        coverage=coverage_of(steps),
        guesses=guesses,
        kinds=["output" if _pools(step) else type(step.layer).__name__.lower() for step in rows],
        extra=extra,
        coordinates=coordinates,
    )


def covariance_of_outputs(
    blueprint: Blueprint, data: ArrayLike, *, method: str = "auto", batch_size: int | None = None
) -> Array:
    """K (n, n) of one output on the points, and nothing else: what a Gaussian-process kernel function returns.

    >>> covariance_of_outputs(Blueprint.mlp(inputs=2, depth=1, activation="linear"), np.eye(2)).round(12)
    array([[2., 0.],
           [0., 2.]])
    """
    points = points_of(data, blueprint, None)
    images = images_of(_array_of(data), blueprint.layers)
    state: Gram
    if images is None:
        state = gram_of_inputs(points, batch_size=batch_size)
    else:
        held = held_positions(blueprint.layers, len(points), images.shape[2:])
        if held.refusal:
            raise UsageError(f"covariance_of_outputs: {held.refusal}")
        state = gram_of_images(images, everything=held.everything, batch_size=batch_size)
    kernels = _kernels_by(method)
    for chunk in _chunks(blueprint.layers):
        steps = propagate(chunk, state, kernels)
        broken = next((step for step in steps if step.reason), None)
        if broken is not None:
            raise UsageError(f"{broken.layer.address}: {broken.reason}")
        state = steps[-1].state
        del steps
    matrix = state.matrix()
    matrix *= math.exp(state.log_scale)
    return matrix


def points_of(data: Any, blueprint: Blueprint, samples: int | None) -> Array:
    """Inputs as (n, d), from whatever holds them."""
    points = _array_of(data)
    points = points.reshape(len(points), -1)[:samples]
    if blueprint.inputs is not None and points.shape[1] != blueprint.inputs:
        raise DataError(
            f"predict(data): expected {blueprint.inputs} coordinates a point, as the network reads, "
            f"got {points.shape[1]}"
        )
    return points


def _pools(step: Step[Any]) -> bool:
    """Whether a step pools over positions."""
    return isinstance(step.layer, PositionPool | AdaptivePool)


def _array_of(data: Any) -> Array:
    held = data
    for name in ("inputs", "images"):
        if hasattr(held, name):
            held = getattr(held, name)
            break
    if isinstance(held, tuple | list) and len(held) == 2 and hasattr(held[0], "shape"):
        held = held[0]
    if hasattr(held, "detach"):
        held = held.detach().cpu()
        held = (held.double() if held.is_floating_point() else held).numpy()
    if not hasattr(held, "__array__") and not isinstance(held, list | tuple):
        raise UsageError(
            f"predict(data): expected an array or tensor (n, …), a pair (inputs, labels) or a sample set, "
            f"got {type(data).__name__}; draw one batch from a loader first"
        )
    if np.ma.isMaskedArray(held):
        raise DataError(
            "predict(data): expected every coordinate of every point, got a masked array; "
            "leave the masked points out, or fill them"
        )
    try:
        points = np.asarray(held)
        if points.dtype.kind == "c":
            raise TypeError("complex numbers")
        points = points.astype(np.float64)
    except (TypeError, ValueError) as error:
        kind = np.asarray(held, dtype=object if isinstance(held, list | tuple) else None).dtype
        raise DataError(f"predict(data): expected real numbers, got {kind} ({error})") from None
    if points.ndim < 2 or len(points) < 2:
        raise DataError(f"predict(data): expected two points or more, (n, …), got shape {points.shape}")
    return points


@dataclass(eq=False)
class _Fold:
    """Goes through the layers one at a time, keeps what a Profile needs and lets each matrix go."""

    kernels: Kernels
    keep_covariance: bool = False
    refusal: str = ""
    terms: WidthTerms | None = None

    def __post_init__(self) -> None:
        self.corrected: dict[int, tuple[float, float]] = {}
        self.correlations: dict[int, list[float]] = {}
        self.kept: dict[int, Array] = {}
        self.last_matrix: Array | None = None
        self._direction: Array | None = None
        self._known: WeakKeyDictionary[Gram, Statistics] = WeakKeyDictionary()

    def through(self, layers: Sequence[Layer], state: Gram) -> tuple[list[Step[Any]], Gram]:
        light: list[Step[Any]] = []
        lost = ""
        for chunk in _chunks(layers):
            steps = propagate(chunk, state, self.kernels, lost=lost)
            light.extend(self._lightened(step) for step in steps)
            state = steps[-1].state
            broken = next((step for step in steps_in_order(steps) if step.reason), None)
            lost = lost or (broken.layer.address if broken is not None else "")
            del steps, broken  # else the state before this layer would live through the next
        return light, state

    def statistics(self, state: Gram) -> Statistics:
        if state not in self._known:
            self._known[state] = state.statistics()[0]
        return self._known[state]

    def _lightened(self, step: Step[Gram]) -> Step[Any]:
        body = tuple(self._lightened(inner) for inner in step.body)
        shortcut = tuple(self._lightened(inner) for inner in step.shortcut)
        row = isinstance(step.layer, Dense | Convolution | Residual | PositionPool | AdaptivePool)
        row = row and not math.isnan(step.state.log_scale)
        matrix = step.state.among() if row else None
        if matrix is None:
            after = self.statistics(step.state)
        else:
            after, self._direction = step.state.statistics(matrix=matrix, start=self._direction)
            self._known[step.state] = after
        before, reason = self.statistics(step.before), step.reason
        if self.refusal and reason and isinstance(step.layer, Convolution | PositionPool | AdaptivePool):
            reason, self.refusal = self.refusal, ""
        light = Step[Any](step.layer, before, after, step.log_gain, reason, body, shortcut, step.spread)
        if matrix is not None and self.terms is not None and isinstance(step.layer, Dense):
            corrected = self.terms.corrected(step.state, step.layer.address)
            if corrected is not step.state:
                with np.errstate(divide="ignore"):
                    center, data = np.log(corrected.center_and_data()) + corrected.log_scale
                self.corrected[id(light)] = float(center), float(data)
                matrix = corrected.among()
        if matrix is not None:
            self.correlations[id(light)] = _correlations(matrix)
            if self.keep_covariance:
                if isinstance(step.state, ImageGram):
                    matrix = step.state.matrix()
                self.kept[id(light)] = matrix * math.exp(min(step.state.log_scale, 700.0))
        self.last_matrix = matrix
        return light


def _kernels_by(method: str) -> Kernels:
    """Kernels by activation and pooling, each made once."""

    @cache
    def kernels(function: ActivationFunction | None, pooled: int) -> Kernel:
        function = activation("linear") if function is None else function
        return MaxPoolKernel(function, pooled) if pooled > 1 else kernel_of(function, method=method)

    return kernels


def _chunks(layers: Sequence[Layer]) -> list[Sequence[Layer]]:
    """One layer at a time, an activation together with the max-pool that reads it."""
    found: list[Sequence[Layer]] = []
    position = 0
    while position < len(layers):
        end = position + 1
        if isinstance(layers[position], Activation):
            behind = end
            while behind < len(layers) and isinstance(layers[behind], Pass):
                behind += 1
            pool = layers[behind] if behind < len(layers) else None
            if isinstance(pool, Pool) and pool.kind == "max":
                end = behind + 1
        found.append(layers[position:end])
        position = end
    return found


def _quantities(
    rows: Sequence[Step[Any]],
    steps: Sequence[Step[Any]],
    inputs: Statistics,
    corrected: Mapping[int, tuple[float, float]],
) -> dict[str, Any]:
    def column(name: str) -> Array:
        return np.array([getattr(step.state, name) for step in rows], dtype=float)

    center, data, noise = column("log_center"), column("log_data"), column("log_noise")
    with np.errstate(invalid="ignore"):
        log_sensitivity = 0.5 * (noise - data - (inputs.log_noise - inputs.log_data))
    for place, step in enumerate(rows):
        if id(step) in corrected:
            center[place], data[place] = corrected[id(step)]
    gradients = backward(steps)
    increments = increments_of(steps)
    with np.errstate(invalid="ignore"):
        log_gamma = np.where(np.isneginf(center) & np.isneginf(data), np.nan, center - data)
    return {
        **_stderrs(column("error"), column("log_error"), center, data),
        "log_gamma": log_gamma,
        "log_center_variance": center,
        "log_data_variance": data,
        "log_mean_square": column("log_total"),
        "kurtosis": column("kurtosis"),
        "mean_absolute": np.exp(np.minimum(column("log_mean_absolute"), 709.0)),
        "effective_rank": column("effective_rank"),
        "log_noise_variance": noise,
        "log_sensitivity": log_sensitivity,
        **{
            name: np.array([increments.get(id(step), {}).get(name, math.nan) for step in rows])
            for name in INCREMENTS
        },
        "log_gradient_scale": np.array([_mean_log(gradients[id(step)]) for step in rows]),
    }


def _stderrs(carried: Array, own: Array, center: Array, data: Array) -> dict[str, Array]:
    """Standard errors of C, V and γ from landmarks; C + V is known, so one errs as much as the other."""
    if not np.any(own > -math.inf):
        return {}
    with np.errstate(over="ignore"):
        own, of_center, of_data = np.exp(own), np.exp(center), np.exp(data)
    with np.errstate(invalid="ignore", divide="ignore"):
        gamma = of_center / of_data
        return {
            "center_variance_stderr": np.hypot(carried * of_center, own),
            "data_variance_stderr": np.hypot(carried * of_data, own),
            "gamma_stderr": np.hypot(carried * gamma, own / of_data * (1 + gamma)),
        }


def _described(data: Any, inputs: Array) -> str:
    """How many points, and of what they are where they say so."""
    many = " × ".join(map(str, inputs.shape[1:]))
    words = (
        f"{len(inputs)} points of {many} coordinates"
        if inputs.ndim == 2
        else f"{len(inputs)} pictures of {many}"
    )
    description = getattr(data, "description", None)
    return f"{words}: {description}" if isinstance(description, str) else words


def _mean_log(value: Any) -> float:
    """One number a point, averaged; a point that is nothing has none, unless no point has one."""
    values = np.atleast_1d(np.asarray(value, dtype=float))
    if np.isnan(values).any():
        return math.nan
    endless = np.isposinf(values)
    return math.inf if endless.all() else log_mean_exp(values[~endless])


def _correlations(matrix: Array) -> list[float]:
    """Quantiles of the correlations between different points; of an even subset of 1,000 where there are more."""
    some = np.unique(np.linspace(0, len(matrix) - 1, min(len(matrix), 1000)).astype(int))
    matrix = matrix[np.ix_(some, some)]
    deviation = np.sqrt(matrix.diagonal())
    pairs = np.triu_indices(len(matrix), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        c = matrix[pairs] / (deviation[pairs[0]] * deviation[pairs[1]])
    c = np.clip(c[np.isfinite(c)], -1.0, 1.0)
    return [float(q) for q in np.quantile(c, QUANTILES)] if c.size else [math.nan] * len(QUANTILES)


def _landmark_notes(chosen: Landmarks, size: int, check: GuessCheck | None) -> tuple[str, ...]:
    notes = [
        f"the covariance of {size:,} points is carried for {chosen.number:,} landmarks and {chosen.checks:,} checks "
        "among them; standard errors are of the averages over all pairs that are estimated from those"
    ]
    if check is not None:
        notes.append(
            f"guesses on what the landmarks span: the fraction of one label deviates by "
            f"{check.deviation + check.error:.4f}, by exact pairs {check.deviation:.4f} ± {check.stderr:.4f}, "
            f"on the same pairs {check.error:+.1e}"
        )
    return tuple(notes)


def _picture_notes(rows: Sequence[Step[Any]], held: Held, batch_size: int | None) -> tuple[str, ...]:
    notes = ["positions count as samples: C and V of a convolution are over points and positions"]
    notes += [held.note] if held.note and not held.refusal else []
    last = rows[-1].state if rows else None
    if last is not None and math.isnan(last.log_noise) and not math.isnan(last.log_total):
        notes.append(
            "noise behind a pool over positions is not given: it would need the noise's own covariance"
        )
    return tuple(notes)


def _width_notes(blueprint: Blueprint, state: Gram, last: Dense) -> tuple[str, ...]:
    """A word where the widths given move γ of the output from its limit by more than a tenth."""
    if blueprint.depth > _DEPTH_OF_NOTE or not isinstance(state, ComposedGram):
        return ()
    try:
        terms = width_terms(blueprint.layers)
    except CouldNotError:  # not of the form whose terms are known
        return ()
    limit, moved = (
        center / data if data > 0 else math.inf
        for center, data in (
            state.center_and_data(),
            terms.corrected(state, last.address).center_and_data(),
        )
    )
    if not (math.isfinite(limit) and math.isfinite(moved)) or abs(moved - limit) <= 0.1 * limit:
        return ()
    return (
        f"at the widths given, leading 1/width terms make γ of the output {moved:.3g} instead of {limit:.3g}: "
        "width='leading' adds them",
    )


def _notes(
    rows: Sequence[Step[Any]],
    nothing: int,
    batch_size: int | None,
    normalized: bool,
    behind: str,
    terms: WidthTerms | None,
) -> tuple[str, ...]:
    notes = [
        "infinite width; the norms' ε is taken as 0"
        if terms is None
        else "C, V, γ, covariances and guesses have their leading 1/width terms, all else is the limit of wide layers; "
        "the norms' ε is taken as 0",
        "averages over these points are plain: C = mean(K), V = tr(HKH)/n",
    ]
    if nothing:
        notes.append(
            f"{nothing} points are 0 in every coordinate: they have no correlation, and no norm divides them"
        )
    if normalized:
        notes.append(
            f"batch norm over consecutive batches of {batch_size}"
            if batch_size
            else "batch norm over all the points"
        )
        notes.append(f"batch norm behind an activation divides {behind}")
    if terms is not None and terms.spread > LARGEST_SPREAD:
        notes.append(
            f"at these widths and depth correlations vary by {terms.spread:.2f} between networks: terms beyond the "
            "leading ones matter; width='finite' draws networks"
        )
    error = max((step.state.error for step in rows), default=0.0)
    if error:
        notes.append(f"relative standard error of V that layers behind batch norm leave: {error:.1e}")
    if any(math.isinf(step.state.log_data) for step in rows):
        notes.append("V below 1e-13 of C + V is rounding and shown as 0")
    return tuple(notes)
