r"""From one number for each initialization to averages, medians and standard errors over them.

Enters: tables (init, layer). Leaves: quantities by layer with their ``_stderr``, ``_median`` and
``_init`` companions.

γ is the ratio of averages, with the standard error of a ratio,

.. math:: \hat γ = \frac{\sum_i C_i}{\sum_i V_i}, \qquad
          s^2 = \frac{\sum_i (C_i - \hat γ V_i)^2}{n (n-1)\, \bar V^2},

while ``gamma_median`` and ``gamma_init`` are of the per-initialization ratios C_i / V_i; √γ_i is Luther &
Seung's mean-std ratio. Everything else is a mean over initializations; noise, sensitivity and gradient are
averaged in log scale, so that nothing overflows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from firstlight.measurement.asking import Asked

__all__ = ["ratio_of_averages", "summarize"]

Array = NDArray[np.float64]

_LOGARITHMIC = ("gamma", "center_variance", "data_variance", "mean_square")


def summarize(tables: Mapping[str, Array], asked: Asked) -> dict[str, Array]:
    """Quantities of shape (layer,) and their companions, ``_init`` of shape (init, layer), for what was asked."""
    arrays: dict[str, Array] = {}
    names = [name for name in tables if name.removeprefix("log_") in asked]
    with np.errstate(all="ignore"):
        for name in names:
            values = tables[name]
            if name.startswith("log_"):
                arrays.update(_of_logarithms(name, values))
                continue
            arrays[name] = values.mean(0)
            arrays[f"{name}_stderr"] = _stderr(values)
            if name == "gamma":
                arrays["gamma"], arrays["gamma_stderr"] = ratio_of_averages(
                    tables["center_variance"], tables["data_variance"]
                )
            arrays[f"{name}_median"] = _median(values)
            arrays[f"{name}_init"] = values
            if name in _LOGARITHMIC:
                arrays[f"log_{name}"] = np.log(arrays[name])
    return arrays


def ratio_of_averages(centers: Array, variances: Array) -> tuple[Array, Array]:
    """γ and its standard error over the first axis.

    >>> value, error = ratio_of_averages(np.array([[1.0], [3.0]]), np.array([[2.0], [2.0]]))
    >>> value.item(), error.item()
    (1.0, 0.5)
    """
    count = len(centers)
    with np.errstate(all="ignore"):
        gamma = centers.sum(0) / variances.sum(0)
        if count < 2:
            return gamma, np.full_like(gamma, np.nan)
        residual = ((centers - gamma * variances) ** 2).sum(0)
        return gamma, np.sqrt(residual / (count * (count - 1))) / variances.mean(0)


def _of_logarithms(name: str, values: Array) -> dict[str, Array]:
    """Mean, standard error and median of exp(values), kept as logarithms; linear forms where float64 holds them."""
    count = len(values)
    peak = np.where(np.isfinite(values).any(0), np.where(np.isfinite(values), values, -np.inf).max(0), 0.0)
    scaled = np.exp(values - peak)
    mean = scaled.mean(0)
    linear = name.removeprefix("log_")
    log_mean = np.log(mean) + peak
    relative = _stderr(scaled) / mean
    return {
        name: log_mean,
        f"{name}_stderr": relative,
        f"{name}_median": _median(values),
        f"{name}_init": values,
        linear: np.exp(log_mean),
        f"{linear}_stderr": np.exp(log_mean) * relative if count > 1 else np.full_like(mean, np.nan),
        f"{linear}_median": np.exp(_median(values)),
        f"{linear}_init": np.exp(values),
    }


def _stderr(values: Array) -> Array:
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    return np.asarray(values.std(0, ddof=1) / np.sqrt(len(values)))


def _median(values: Array) -> Array:
    return np.asarray(np.median(values, axis=0))
