"""``compare``: does the measurement agree with the theory, given its own uncertainty?

Layers are matched by address. A difference is divided by the standard error over initializations; quantities
that span decades (``log_`` companions exist) keep their linear scale, because it is the ratio of averages
that theory predicts. The laws of the guesses are compared by the Kolmogorov–Smirnov distance; its null
distribution is drawn from the reference itself, because fractions counted on D points are discrete and the
textbook p-value assumes they are not.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from firstlight.errors import UsageError
from firstlight.results.comparison import Comparison
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import Variable, variable
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance
from firstlight.results.quantities import QUANTITIES

__all__ = ["compare", "guess_distance"]

Array = NDArray[np.float64]

_PARTS = ("center_variance", "data_variance")
_MOST_OUTPUTS = 50_000_000
"""Outputs drawn for a null law where guesses are not independent."""
_SIZES = {"gamma": 1.0}
"""Quantities that may be exactly zero, and with what next to them a rounding error of zero is small."""


def compare(reference: Profile, measured: Profile, *, seed: int = 0, draws: int = 2000) -> Comparison:
    """Set a measurement beside a reference.

    Args:
        reference: Usually theory; its own standard errors, if any, are added in quadrature.
        measured: A measurement with standard errors over initializations.
        seed: Seed of the draws for the p-value.
        draws: Number of data sets drawn from the reference for the p-value.

    Returns:
        z-scores by layer for every shared quantity, and the distance between the laws of the guesses with
        its p-value.
    """
    for name, profile in (("reference", reference), ("measured", measured)):
        if not isinstance(profile, Profile):
            raise UsageError(
                f"compare({name}): expected a Profile, got {type(profile).__name__}; predict or measure one first"
            )
    if (reference.provenance.engine, measured.provenance.engine) == ("measurement", "theory"):
        raise UsageError(
            "compare: the reference is a measurement, and what should be measured is theory, which has no standard "
            "errors; expected compare(theory, measurement); swap the two"
        )
    shared = [layer for layer in measured.layers if layer in set(reference.layers)]
    if not shared:
        raise UsageError(
            "compare: the two profiles share no layer address; "
            f"reference has {_few(reference.layers)}, measured has {_few(measured.layers)}; "
            "compare profiles of one model, or measure Blueprint.build() to get theory's names"
        )
    left = [reference.layers.index(layer) for layer in shared]
    right = [measured.layers.index(layer) for layer in shared]
    arrays: dict[str, Variable] = {}
    expectations = _expected_on_sample(reference, measured)
    sizes = _total(measured)[right]
    for name in QUANTITIES:
        if name in reference and name in measured:
            plain = (reference.variables[name].values, _stderr(reference, name, 0.0))
            value, spread = (part[left] for part in expectations.get(name, plain))
            got, stderr = measured.variables[name].values[right], _stderr(measured, name, math.nan)[right]
            size = sizes if name in _PARTS else _SIZES.get(name, 0.0)
            arrays.update(_scores(name, value, got, np.hypot(stderr, spread), size))
    distance, p_value, critical, compared = float("nan"), float("nan"), float("nan"), ""
    if reference.guesses is not None and measured.guesses is not None:
        distance, p_value, critical, compared = guess_distance(
            reference.guesses,
            measured.guesses,
            seed=seed,
            draws=draws,
            centred=_centred_batch(reference, measured),
        )
    unmatched = tuple(sorted(set(reference.layers) ^ set(measured.layers)))
    provenance = Provenance(
        engine="comparison",
        model=measured.provenance.model,
        data=measured.provenance.data,
        seed=seed,
        mode=measured.provenance.mode,
        settings={
            "reference": reference.provenance.to_dict(),
            "measured": measured.provenance.to_dict(),
            "draws": draws,
        },
        notes=_differences(reference, measured, shared),
    )
    coordinates = {"layer": variable("layer", shared)}
    return Comparison(
        arrays,
        coordinates,
        provenance,
        distance=distance,
        p_value=p_value,
        critical_distance=critical,
        compared=compared,
        unmatched=unmatched,
    )


def guess_distance(
    reference: Guesses, measured: Guesses, *, seed: int = 0, draws: int = 2000, centred: int | None = None
) -> tuple[float, float, float, str]:
    """Kolmogorov–Smirnov distance between a law of guesses and measured fractions, its null by simulation.

    Two labels: the fraction of label 0. More labels are exchangeable over initializations, so the largest
    fraction is compared. The reference's law is counted on as many data points as the measurement used, with
    the continuity that counting destroys restored on neither side: both are discrete alike. Where the outputs
    of every ``centred`` points have the mean zero, guesses are no longer independent, and that is counted so.
    """
    if reference.labels != measured.labels:
        raise UsageError(
            f"compare: the reference guesses among {reference.labels} labels, the measurement among {measured.labels}"
        )
    observed = _statistic(np.asarray(measured.fractions.values, dtype=float))
    compared = "fraction of label 0" if measured.labels == 2 else "largest fraction"
    count = len(observed)
    size = max(100_000 // max(1, measured.labels // 2), 20 * count)
    if centred is not None and reference.law is not None and measured.samples:
        points = measured.samples * measured.labels
        size = max(20 * count, min(size, _MOST_OUTPUTS // points))
        drawn = _centred_fractions(reference.law, size, measured.samples, centred, seed)
    else:
        drawn = _draw(reference, size, measured.samples, seed)
    pool = _statistic(drawn)
    pool.sort()
    generator = np.random.default_rng(np.random.SeedSequence([seed, 1]))
    distance = _distance(observed, pool)
    null = np.array([_distance(generator.choice(pool, size=count), pool) for _ in range(draws)])
    p_value = (1 + int((null >= distance - 1e-12).sum())) / (draws + 1)
    return distance, p_value, float(np.quantile(null, 0.99)), compared


def _draw(guesses: Guesses, count: int, samples: int | None, seed: int) -> Array:
    if guesses.law is not None:
        return np.asarray(guesses.law.sample(count, seed=seed, samples=samples), dtype=float)
    return np.asarray(guesses.fractions.values, dtype=float)


def _centred_fractions(law: GuessLaw, count: int, samples: int, batch: int, seed: int) -> Array:
    """Fractions (draw, label) where outputs are √γ ξ_c + g_nc with i.i.d. g, less its mean over every ``batch`` points.

    Counts of labels then scatter by 1 − 2/π (two labels) of what they would from independent guesses.
    """
    generator = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    fractions = np.empty((count, law.labels))
    for row in fractions:
        noise = generator.standard_normal((samples // batch, batch, law.labels), dtype=np.float32)
        noise -= noise.mean(1, keepdims=True)
        noise += np.sqrt(law.gamma) * generator.standard_normal(law.labels)
        row[:] = np.bincount(noise.argmax(2).ravel(), minlength=law.labels) / samples
    return fractions


def _centred_batch(reference: Profile, measured: Profile) -> int | None:
    """How many points batch norm standardizes together right before a linear output, in population theory."""
    settings = measured.provenance.settings
    sizes, samples = settings.get("batch_sizes") or [], settings.get("samples") or 0
    kinds = [entry.kind for entry in reference.coverage]
    if reference.provenance.settings.get("theory") != "population" or measured.provenance.mode != "train":
        return None
    if kinds[-2:] != ["batch", "dense"] or len(sizes) != 1 or samples % sizes[0]:
        return None
    return int(sizes[0])


def _statistic(fractions: Array) -> Array:
    return np.array(fractions[:, 0] if fractions.shape[1] == 2 else fractions.max(axis=1))


def _distance(observed: Array, pool: Array) -> float:
    """Sup |F_n − F| with F the distribution of the sorted pool.

    F_n is constant between neighbouring observations and F only grows there, so the largest difference is found at an
    observation or just before one.
    """
    points, counts = np.unique(observed, return_counts=True)
    here = np.cumsum(counts)
    at = here / len(observed) - np.searchsorted(pool, points, side="right") / len(pool)
    before = (here - counts) / len(observed) - np.searchsorted(pool, points, side="left") / len(pool)
    return float(max(np.abs(at).max(), np.abs(before).max()))


def _expected_on_sample(reference: Profile, measured: Profile) -> dict[str, tuple[Array, Array]]:
    """Value and standard deviation that population theory expects of a measurement on one draw of n points.

    The mean over n independent points still scatters by V/n. A measurement divides by n throughout, and
    finds this in C and misses it in V::

        C → C + V/n        V → V (1 − 1/n)        μ4 → μ4 (n − 1)/(n + 1) for a Gaussian

    All initializations see the same points, so their draw is an error that no number of initializations
    averages away: with d independent coordinates, √(2/d) of the scatter V/n, √(2/nd) of every mean square,
    and half as much of the mean absolute value, which goes with its root. Behind a batch norm in train mode
    the points are no longer independent: their standardization removes the scatter, and nothing is shifted
    there. Dataset theory speaks of the very points that were measured, and is left as it is.
    """
    samples = measured.provenance.settings.get("samples")
    settings = reference.provenance.settings
    if settings.get("theory") != "population" or not samples or samples < 2:
        return {}
    coordinates = settings.get("inputs") or math.inf
    behind = _behind_batch_norm(reference)
    share = np.where(behind & (measured.provenance.mode == "train"), 0.0, 1 / samples)
    mean_draw, square_draw = math.sqrt(2 / coordinates), math.sqrt(2 / (samples * coordinates))
    center, data, gamma = (
        reference.variables[name].values for name in ("center_variance", "data_variance", "gamma")
    )
    with np.errstate(invalid="ignore"):
        expected = {
            "center_variance": (center + share * data, share * data * mean_draw + center * square_draw),
            "data_variance": (data * (1 - share), data * square_draw),
            "mean_square": (center + data, (center + data) * square_draw),
            "gamma": ((gamma + share) / (1 - share), share * mean_draw + gamma * square_draw),
        }
    if "kurtosis" in reference:
        kurtosis = reference.variables["kurtosis"].values
        expected["kurtosis"] = (kurtosis * (1 - 2 * share / (1 + share)), np.zeros_like(kurtosis))
    if "mean_absolute" in reference:
        absolute = reference.variables["mean_absolute"].values
        expected["mean_absolute"] = (absolute, absolute * square_draw / 2)
    return expected


def _behind_batch_norm(reference: Profile) -> NDArray[np.bool_]:
    """Which layers run behind the first batch norm."""
    order = [entry.layer for entry in reference.coverage]
    first = next(
        (position for position, entry in enumerate(reference.coverage) if entry.kind == "batch"), len(order)
    )
    return np.array([layer in order and order.index(layer) > first for layer in reference.layers])


def _differences(reference: Profile, measured: Profile, shared: list[str]) -> tuple[str, ...]:
    """What the profiles say of themselves that speaks against comparing them."""
    notes = []
    there, here = (profile.provenance.model.partition("\n")[0] for profile in (reference, measured))
    if there != here and there.startswith("Blueprint") and here.startswith("Blueprint"):
        notes.append(f"the reference is of another network: {there}")
    order = [layer for layer in reference.layers if layer in set(shared)]
    if order != shared:
        moved = next(place for place in range(len(shared)) if order[place] != shared[place])
        notes.append(
            f"the layers run in another order: where {shared[moved]} was measured, the reference has {order[moved]}"
        )
    modes = reference.provenance.mode, measured.provenance.mode
    if None not in modes and modes[0] != modes[1]:
        notes.append(f"the reference is for {modes[0]} mode, the measurement was in {modes[1]} mode")
    return tuple(notes)


def _total(profile: Profile) -> Array:
    """C + V by layer, of which C and V are parts; 0 where it is not known."""
    names = ("mean_square",) if "mean_square" in profile else _PARTS
    if any(name not in profile for name in names):
        return np.zeros(len(profile.layers))
    return np.asarray(sum(profile.variables[name].values for name in names), dtype=float)


def _scores(
    name: str, expected: Array, got: Array, stderr: Array, size: Array | float
) -> dict[str, Variable]:
    """``size`` is what zero is measured against: what the quantity is a part of, or 0 if it has no natural size."""
    # rounding of float32, where nothing scatters
    close = np.isclose(got, expected, rtol=1e-6, atol=0) | (np.abs(got - expected) <= 1e-9 * size)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(close, 0.0, (got - expected) / stderr)
    return {
        f"{name}_reference": variable("layer", expected),
        f"{name}_measured": variable("layer", got),
        f"{name}_stderr": variable("layer", stderr),
        f"{name}_z": variable("layer", z),
    }


def _stderr(profile: Profile, name: str, absent: float) -> Array:
    if f"{name}_stderr" in profile.variables:
        return np.asarray(profile.variables[f"{name}_stderr"].values, dtype=float)
    return np.full(len(profile.layers), absent)


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")
