"""Profiles made of nothing but numbers, so that each check can be shown both sides of its threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from firstlight.diagnosis.evidence import Evidence
from firstlight.diagnosis.thresholds import thresholds
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import variable
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance

LAYERS = 12
"""Hidden layers of a synthetic network; its output is the thirteenth layer."""


def synthetic(
    tables: Mapping[str, Any] | None = None,
    whole: Mapping[str, Any] | None = None,
    *,
    inits: int = 40,
    samples: int = 1000,
    counts: Any = None,
    ties: Any = None,
    coordinates: Mapping[str, Any] | None = None,
    scalars: Mapping[str, float] | None = None,
    mode: str = "train",
) -> Profile:
    """A measured profile of a quiet network, with the given tables and numbers (init,) in place of its own.

    A table (init, layer) may be a scalar, a row (layer,), a column (init, 1) or whole.
    """
    shape = (inits, LAYERS + 1)
    wobble = np.random.default_rng(0).normal(0.0, 0.01, shape)  # so that intervals have a width
    quiet = {
        "center_variance": 0.01 * np.exp(wobble),
        "data_variance": np.exp(wobble[::-1]),
        "effective_rank": 12 + wobble,
        "log_sensitivity": wobble,
        "log_gradient_scale": wobble,
        "dead_units": 0.02 + 0.1 * np.abs(wobble),
    }
    quiet |= {
        name: np.broadcast_to(np.asarray(values, float), shape) for name, values in (tables or {}).items()
    }
    quiet.setdefault("mean_square", quiet["center_variance"] + quiet["data_variance"])
    numbers = {
        "logit_center_variance": quiet["center_variance"][:, -1],
        "logit_data_variance": quiet["data_variance"][:, -1],
        "even_loss": np.log(10) + 0.5 + wobble[:, 0],
        "initial_loss": np.log(10) + 0.5 + wobble[:, 1],
        "label_distance": 0.8 + wobble[:, 2],
        "non_finite_share": np.zeros(inits),
        "probability_share": np.zeros(inits),
        **(whole or {}),
    }
    kinds = ["dense"] * (LAYERS + 1)
    given = counts if counts is not None else np.full((inits, 10), samples // 10)
    names = {"activation_behind": [""] * (LAYERS + 1), "activation_normed": [""] * (LAYERS + 1)}
    structure = {
        **names,
        "units": [64] * LAYERS + [10],
        "positions": [1] * (LAYERS + 1),
        **(coordinates or {}),
    }
    kinds = structure.pop("kind", kinds)
    arrays = {f"{name}_init": values for name, values in quiet.items()}
    extra = {
        f"{name}_init": variable("init", np.broadcast_to(values, (inits,)))
        for name, values in numbers.items()
    }
    extra |= {name: variable((), value) for name, value in (scalars or {}).items()}
    return Profile.from_layers(
        [f"layer{number}" for number in range(1, LAYERS + 1)] + ["output"],
        arrays,
        provenance=Provenance(
            engine="measurement",
            model="synthetic",
            data="none",
            seed=0,
            mode=mode,
            settings={"inits": inits, "samples": samples, "dtype": "float32"},
        ),
        guesses=Guesses.from_counts(given, ties=np.zeros(inits) if ties is None else ties),
        kinds=kinds,
        extra=extra,
        coordinates={name: variable("layer", values) for name, values in structure.items()},
    )


@pytest.fixture(name="synthetic")
def _synthetic() -> Callable[..., Profile]:
    return synthetic


@pytest.fixture
def evidence() -> Callable[..., Evidence]:
    """The evidence of a synthetic profile."""

    def make(*args: Any, level: float = 0.95, other: Profile | None = None, **options: Any) -> Evidence:
        return Evidence(synthetic(*args, **options), thresholds(), level, other_mode=other)

    return make
