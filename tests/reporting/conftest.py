"""Diagnoses to tell: of a measured network, and one by hand with every status and with names that mean harm."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import firstlight as fl
from firstlight.results.finding import Finding, Prognosis
from firstlight.results.provenance import Coverage, CoverageEntry, Provenance

HOSTILE = "</script><script>alert(1)</script>|`*_<b>&\"'\x07"
"""A name with everything that markup, tables, JSON in scripts and XML trip over."""


@pytest.fixture(scope="session")
def diagnosis() -> fl.Diagnosis:
    """A small batch-norm network, really measured, with theory and the other mode."""
    blueprint = fl.Blueprint.mlp(inputs=20, depth=3, width=24, classes=3, norm="batch", placement="before")
    data = torch.randn(60, 20, generator=torch.Generator().manual_seed(0))
    return fl.audit(
        blueprint, data, inits=12, progress=False, policy={"fail_on": ["neutral-start", "weak-prejudice"]}
    )


@pytest.fixture(scope="session")
def measured(diagnosis) -> fl.Profile:
    return diagnosis.profile


@pytest.fixture
def hostile() -> str:
    return HOSTILE


@pytest.fixture
def make_profile():
    return profile_of


def profile_of(layers: list[str], *, labels: int = 3, inits: int = 8, seed: int = 0) -> fl.Profile:
    """A profile by hand, with what is infinite, undefined and beyond float64."""
    generator = np.random.default_rng(seed)
    count = len(layers)
    gamma = np.exp(np.linspace(-12, 6, count))
    gamma[::5] = math.nan
    log_sensitivity = np.linspace(0, 900, count)
    quantities = {
        "gamma": gamma,
        "gamma_stderr": 0.05 * gamma,
        "log_sensitivity": log_sensitivity,
        "effective_rank": np.full(count, 1.5),
        "log_gradient_scale": -log_sensitivity,
    }
    counts = generator.multinomial(200, np.full(labels, 1 / labels), size=inits)
    names = [f"{HOSTILE} {label}" for label in range(labels)]
    settings = {"inits": inits, "samples": 200, "redraw": "reset_parameters"}
    return fl.Profile.from_layers(
        layers,
        quantities,
        provenance=Provenance("measurement", HOSTILE, f"data {HOSTILE}", 0, "train", settings, (HOSTILE,)),
        coverage=Coverage((CoverageEntry(HOSTILE, "LSTM", "unseen", HOSTILE),)),
        guesses=fl.Guesses.from_counts(counts, label_names=names),
        kinds=["dense", "norm", "activation"] * (count // 3) + ["dense"] * (count % 3),
    )


@pytest.fixture
def planted() -> fl.Diagnosis:
    """Every status and severity, by hand, over a profile that is hard to tell."""
    profile = profile_of([f"{HOSTILE}.{index}" for index in range(7)])
    layer = profile.layers[-1]
    findings = (
        Finding("deep-prejudice", "deep prejudice", "found", "fail", "gamma", layer, 18.39, 16.21, 20.83, 1.0,
                "the law is uniform there", "the centres lie far apart", "Francazi 2024", ("norm_after_activation",)),
        Finding("tied-guesses", "ties", "found", "warn", "ties", "", 0.0712, 0.0633, 0.0801, 0.05, HOSTILE, HOSTILE,
                HOSTILE),
        Finding("dead-units", "dead units", "undecided", "warn", "dead_units", layer, 0.24, 0.2, 0.28, 0.25, "half"),
        Finding("exploding-sensitivity", "explodes", "absent", "warn", "sensitivity", layer, 1.21, 1.19, 1.23, 4.0,
                "Labatie"),
        Finding("modes-differ", "modes", "unknown", "info", because="the other mode was not measured"),
        Finding("my-own-check", HOSTILE, "found", "info", "steps", "", 1e300, 1e299, math.inf, math.nan, "", HOSTILE),
    )  # fmt: skip
    prognoses = (Prognosis("bias-fades", "yes", 312.0, 200.0, 480.0, "it is transient", "Bassi 2026"),)
    typed = {"typed": {"model": "nets.py:make", "data": "my data", "name": "mine"}}
    return fl.Diagnosis(findings, prognoses, profile, profile.provenance, extra=typed)
