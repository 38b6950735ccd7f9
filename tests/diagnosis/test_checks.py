"""Each check alone, on profiles made of numbers: found, absent, undecided, unknown, and at the right layer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firstlight.diagnosis.checks import (
    amplification,
    collapse,
    dead_units,
    ensemble,
    growth,
    guessing,
    inputs,
    labels,
    logits,
    modes,
    norms,
)
from firstlight.diagnosis.checks.every import CHECKS, every_subject
from firstlight.diagnosis.thresholds import thresholds
from firstlight.results.profile import Profile

LAYERS = 12
"""Hidden layers of the synthetic network."""
DEPTH = np.arange(1, LAYERS + 2)
NOISE = np.random.default_rng(1).standard_normal((40, 1))


def of(findings, identifier):
    [found] = [finding for finding in findings if finding.id == identifier]
    return found


# guessing


@pytest.mark.parametrize(
    ("gamma", "statuses"),
    [
        (0.001, ("found", "absent", "absent")),
        (0.3, ("absent", "found", "absent")),
        (8.0, ("absent", "absent", "found")),
        (1.001, ("absent", "undecided", "undecided")),
        (0.0261, ("undecided", "undecided", "absent")),  # 0.0251 and the scatter of 1,000 points
    ],
)
def test_the_regimes(evidence, gamma, statuses):
    centers = gamma * np.exp(0.05 * NOISE)
    found = guessing.judge(evidence({"center_variance": centers, "data_variance": 1.0}))
    assert tuple(item.status for item in found) == statuses
    assert [item.id for item in found] == ["neutral-start", "weak-prejudice", "deep-prejudice"]


def test_a_shift_common_to_all_logits_is_no_prejudice(evidence):
    tables = {"center_variance": 50.0, "data_variance": 1.0}
    whole = {"logit_center_variance": 1e-3, "logit_data_variance": 1.0}
    assert of(guessing.judge(evidence(tables, whole)), "neutral-start").status == "found"


def test_the_scatter_of_few_points_is_no_prejudice(evidence):
    tables = {"center_variance": (1 / 20) * np.exp(0.05 * NOISE), "data_variance": 1 - 1 / 20}
    few = evidence(tables, samples=20, counts=np.full((40, 10), 2))
    assert of(guessing.judge(few), "neutral-start").status == "found"
    many = evidence(tables, samples=1000)
    assert of(guessing.judge(many), "weak-prejudice").status == "found"


def test_the_layer_that_creates_the_prejudice(evidence):
    rising = np.where(DEPTH < 5, 1e-4, 0.5) * np.exp(0.05 * NOISE)
    assert (
        of(
            guessing.judge(evidence({"center_variance": rising, "data_variance": 1.0})), "weak-prejudice"
        ).layer
        == "layer5"
    )


def test_the_favourite_is_told_beside_the_null(evidence):
    counts = np.zeros((40, 10), int)
    counts[:, 0], counts[:, 1] = 900, 100
    details = guessing.judge(evidence(counts=counts))[0].details
    assert details["favourite_share"] == pytest.approx(0.9)
    assert 0.1 < details["favourite_share_neutral"] < 0.15


def test_output_that_never_varies_has_no_regime(evidence):
    found = guessing.judge(evidence({"center_variance": 0.0, "data_variance": 0.0}))
    assert {item.status for item in found} == {"unknown"}
    assert "never varies" in found[0].because


# amplification


@pytest.mark.parametrize(("rate", "status"), [(0.2, "found"), (0.0, "absent"), (-0.2, "absent")])
def test_depth_amplifies(evidence, rate, status):
    centers = 0.5 * np.exp(rate * DEPTH + 0.05 * np.random.default_rng(2).standard_normal((40, LAYERS + 1)))
    found = of(
        amplification.judge(evidence({"center_variance": centers, "data_variance": 1.0})),
        "prejudice-grows-with-depth",
    )
    assert found.status == status
    assert found.value == pytest.approx(math.exp(rate * (LAYERS - 1)), rel=0.1)


def test_a_prejudice_of_the_output_alone_is_not_amplified(evidence):
    centers = np.where(DEPTH == LAYERS + 1, 2.0, 1e-4) * np.exp(0.05 * NOISE)
    [found] = amplification.judge(evidence({"center_variance": centers, "data_variance": 1.0}))
    assert found.status == "unknown"
    assert "no hidden layer is left" in found.because


def test_a_neutral_network_has_nothing_to_amplify(evidence):
    [found] = amplification.judge(evidence({"center_variance": 1e-4, "data_variance": 1.0}))
    assert (found.status, found.because) == ("absent", "there is nothing to amplify")


# collapse


@pytest.mark.parametrize(("gamma", "status"), [(1e4, "found"), (1.0, "absent"), (99.0, "undecided")])
def test_a_signal_that_ends_in_a_point(evidence, gamma, status):
    wobble = np.exp(0.2 * np.random.default_rng(3).standard_normal((40, LAYERS + 1)))
    centers = np.where(DEPTH >= LAYERS, gamma, 0.1) * wobble
    found = of(
        collapse.judge(evidence({"center_variance": centers, "data_variance": 1.0})),
        "zero-dimensional-signal",
    )
    assert found.status == status
    assert found.layer in ("layer12", "output")


@pytest.mark.parametrize(("rank", "status"), [(1.01, "found"), (3.0, "absent"), (1.1, "undecided")])
def test_a_signal_that_ends_in_a_line(evidence, rank, status):
    ranks = np.where(DEPTH == 7, rank, 9.0) + 0.02 * NOISE
    found = of(collapse.judge(evidence({"effective_rank": ranks})), "one-dimensional-signal")
    assert (found.status, found.layer) == (status, "layer7")


def test_narrow_layers_are_lines_by_themselves(evidence):
    narrow = evidence({"effective_rank": 1.0}, coordinates={"units": [4] * (LAYERS + 1)})
    assert of(collapse.judge(narrow), "one-dimensional-signal").status == "unknown"


@pytest.mark.parametrize(("variance", "status"), [(0.0, "found"), (1e-14, "found"), (1e-6, "absent")])
def test_an_output_that_does_not_vary(evidence, variance, status):
    found = of(
        collapse.judge(evidence({"mean_square": 1.0}, {"logit_data_variance": variance})), "constant-output"
    )
    assert found.status == status


def test_half_of_the_initializations_constant_is_undecided(evidence):
    half = np.where(np.arange(40) % 2, 0.0, 1.0)
    assert (
        of(collapse.judge(evidence(whole={"logit_data_variance": half})), "constant-output").status
        == "undecided"
    )


def test_a_head_of_zeros_is_not_broken_but_dead_units_before_it_are(evidence):
    silent = {"mean_square": np.where(DEPTH == LAYERS + 1, 0.0, 1.0)}
    nothing = {"logit_data_variance": 0.0, "logit_center_variance": 0.0}
    spared = of(collapse.judge(evidence(silent, nothing)), "constant-output")
    assert spared.status == "absent"
    assert "head" in spared.because
    dead = {**silent, "dead_units": np.where(DEPTH == 3, 1.0, 0.0)}
    assert of(collapse.judge(evidence(dead, nothing)), "constant-output").status == "found"


# growth


@pytest.mark.parametrize(
    ("name", "up", "down"),
    [
        ("sensitivity", "exploding-sensitivity", "vanishing-sensitivity"),
        ("gradient_scale", "vanishing-gradients", "exploding-gradients"),
        ("mean_square", "exploding-signal", "vanishing-signal"),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_exponential_growth_is_found_both_ways(evidence, name, up, down, sign):
    logs = sign * 0.8 * DEPTH + 0.05 * np.random.default_rng(4).standard_normal((40, LAYERS + 1))
    table = {name: np.exp(logs)} if name == "mean_square" else {f"log_{name}": logs}
    found = growth.judge(evidence(table))
    wanted = 0.8 * (LAYERS / 2) * (1.0 if name == "sensitivity" else 0.5)  # squares grow twice as fast
    assert of(found, up if sign > 0 else down).status == "found"
    assert of(found, down if sign > 0 else up).status == "absent"
    assert of(found, up if sign > 0 else down).value == pytest.approx(math.exp(wanted), rel=0.1)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.7, -1.0])
def test_a_power_law_is_no_explosion(evidence, power):
    logs = power * np.log(DEPTH) + 0.02 * np.random.default_rng(5).standard_normal((40, LAYERS + 1))
    found = growth.judge(evidence({"log_sensitivity": logs}))
    assert {of(found, f"{word}-sensitivity").status for word in ("exploding", "vanishing")} == {"absent"}


def test_growth_near_its_threshold_is_undecided(evidence):
    rates = (math.log(4) / 6) * (1 + 0.2 * np.random.default_rng(6).standard_normal((40, 1)))
    assert (
        of(growth.judge(evidence({"log_sensitivity": rates * DEPTH})), "exploding-sensitivity").status
        == "undecided"
    )


def test_gradients_are_compared_as_norms(evidence):
    """Twice the units share the same norm: half the mean square each."""
    units = 2 ** np.arange(LAYERS + 1)
    logs = -np.log(units) + 0.01 * NOISE
    found = growth.judge(evidence({"log_gradient_scale": logs}, coordinates={"units": units.tolist()}))
    assert of(found, "exploding-gradients").value == pytest.approx(1.0, abs=1e-6)


def test_what_is_zero_has_vanished_and_what_was_not_measured_is_unknown(evidence):
    logs = np.where(DEPTH > 8, -np.inf, 0.0)
    assert of(growth.judge(evidence({"log_gradient_scale": logs})), "exploding-gradients").status == "found"
    assert (
        of(growth.judge(evidence({"mean_square": np.where(DEPTH > 8, 0.0, 1.0)})), "vanishing-signal").status
        == "found"
    )
    gone = growth.judge(evidence({"log_sensitivity": np.nan}))
    assert of(gone, "exploding-sensitivity").status == "unknown"
    assert "not finite" in of(gone, "exploding-sensitivity").because


# dead units


@pytest.mark.parametrize(("share", "status"), [(0.6, "found"), (0.1, "absent"), (0.25, "undecided")])
def test_dead_units_of_the_worst_layer(evidence, share, status):
    table = np.where(DEPTH == 4, share, 0.01) + 0.05 * NOISE * (DEPTH == 4)
    [found] = dead_units.judge(evidence({"dead_units": table}))
    assert (found.status, found.layer) == (status, "layer4")


def test_activations_out_of_sight(evidence):
    [found] = dead_units.judge(evidence({"dead_units": np.nan}))
    assert found.status == "unknown"
    assert "called as functions" in found.because


# logits


@pytest.mark.parametrize(("scale", "status"), [(20.0, "found"), (1.0, "absent"), (4.07, "undecided")])
def test_the_scale_of_the_logits(evidence, scale, status):
    whole = {"logit_center_variance": 0.0, "logit_data_variance": (scale * np.exp(0.1 * NOISE[:, 0])) ** 2}
    assert of(logits.judge(evidence(whole=whole)), "large-logits").status == status


@pytest.mark.parametrize(
    ("loss", "status"), [(9.0, "found"), (2.4, "absent"), (2 * math.log(10), "undecided")]
)
def test_the_initial_loss(evidence, loss, status):
    losses = loss * np.exp(0.1 * NOISE[:, 0])
    found = of(logits.judge(evidence(whole={"initial_loss": losses})), "high-initial-loss")
    assert (found.status, found.quantity) == (status, "initial_loss")
    even = of(
        logits.judge(evidence(whole={"initial_loss": np.nan, "even_loss": losses})), "high-initial-loss"
    )
    assert (even.status, even.quantity, even.value) == (status, "even_loss", found.value)


def test_one_initialization_that_is_not_finite_is_enough(evidence):
    shares = np.zeros(40)
    assert (
        of(logits.judge(evidence(whole={"non_finite_share": shares})), "non-finite-output").status == "absent"
    )
    shares[7] = 0.01
    table = np.where((DEPTH >= 6) & (np.arange(40)[:, None] == 7), np.nan, 1.0)
    found = of(
        logits.judge(evidence({"mean_square": table}, {"non_finite_share": shares})), "non-finite-output"
    )
    assert (found.status, found.layer, found.severity) == ("found", "layer6", "fail")


@pytest.mark.parametrize(("share", "status"), [(1.0, "found"), (0.0, "absent")])
def test_probabilities(evidence, share, status):
    found = of(logits.judge(evidence(whole={"probability_share": share})), "probabilities-as-logits")
    assert found.status == status


# labels


def turns(inits: int, labels_: int, favourite: int | None = None) -> np.ndarray:
    """Each initialization gives 970 of 1,000 points to one label: the favourite, or whoever's turn it is."""
    counts = np.full((inits, labels_), 30 // (labels_ - 1) if labels_ > 2 else 30)
    winners = np.arange(inits) % labels_ if favourite is None else np.full(inits, favourite)
    counts[np.arange(inits), winners] = 0
    counts[np.arange(inits), winners] = 1000 - counts.sum(1)
    return counts


@pytest.mark.parametrize("count", [2, 10])
def test_a_label_that_always_leads(evidence, count):
    found = of(labels.judge(evidence(counts=turns(40, count, 1))), "one-label-preferred")
    assert (found.status, found.details["label"], found.details["p_value"]) == ("found", 1.0, 0.0)
    fair = of(labels.judge(evidence(counts=turns(40, count))), "one-label-preferred")
    assert fair.status == "absent"
    assert fair.details["p_value"] > 0.5


def test_two_labels_of_few_deep_draws_are_undecided(evidence):
    found = of(labels.judge(evidence(inits=6, counts=turns(6, 2))), "one-label-preferred")
    assert found.status == "undecided"


@pytest.mark.parametrize(("distance", "status"), [(0.0, "found"), (0.5, "absent")])
def test_labels_that_cannot_be_told_apart(evidence, distance, status):
    whole = {"label_distance": distance, "nearest_label": 2.0, "nearest_other": 4.0}
    found = of(labels.judge(evidence(whole=whole)), "labels-guessed-alike")
    assert (found.status, found.details) == (status, {"nearest_label": 2.0, "nearest_other": 4.0})


@pytest.mark.parametrize(("share", "status"), [(0.8, "found"), (0.0, "absent"), (0.05, "undecided")])
def test_ties(evidence, share, status):
    ties = np.clip(share * (1 + 0.3 * NOISE[:, 0]), 0, 1)
    assert of(labels.judge(evidence(ties=ties)), "tied-guesses").status == status


# modes, inputs, norms, ensemble


@pytest.mark.parametrize(
    ("factor", "status"), [(10.0, "found"), (0.1, "found"), (1.0, "absent"), (2.0, "undecided")]
)
def test_modes_that_differ(evidence, synthetic, factor, status):
    scale = factor * np.exp(0.2 * NOISE[:, 0])
    other = synthetic(whole={"logit_center_variance": 0.01 * scale, "logit_data_variance": 1.0}, mode="eval")
    [found] = modes.judge(
        evidence(whole={"logit_center_variance": 0.01, "logit_data_variance": 1.0}, other=other)
    )
    assert (found.status, found.quantity) == (status, "gamma")
    assert found.value >= 1


def test_without_the_other_mode_it_is_unknown(evidence):
    [found] = modes.judge(evidence())
    assert found.status == "unknown"


@pytest.mark.parametrize(("center", "status"), [(4.0, "found"), (0.01, "absent")])
def test_data_off_centre(evidence, center, status):
    scalars = {"input_center_variance": center, "input_data_variance": 1.0}
    [found] = inputs.judge(evidence(scalars=scalars))
    assert found.status == status
    assert found.value == pytest.approx(center * 0.999 - 0.001)
    [tokens] = inputs.judge(evidence())
    assert tokens.status == "unknown"


def test_constant_data_are_off_centre_without_end(evidence):
    [found] = inputs.judge(evidence(scalars={"input_center_variance": 1.0, "input_data_variance": 0.0}))
    assert (found.status, found.value) == ("found", math.inf)


def test_norms_before_activations_matter_where_there_is_prejudice(evidence):
    names = {
        "kind": ["dense", "norm"] * (LAYERS // 2) + ["dense"],
        "activation_behind": ["", "ReLU"] * (LAYERS // 2) + [""],
    }
    prejudiced = {"center_variance": 0.5 * np.exp(0.01 * NOISE), "data_variance": 1.0}
    [found] = norms.judge(evidence(prejudiced, coordinates=names))
    assert (found.status, found.value, found.details["before"]) == ("found", 1.0, 6.0)
    [neutral] = norms.judge(evidence({"center_variance": 1e-4, "data_variance": 1.0}, coordinates=names))
    assert neutral.status == "absent"
    behind = {
        **names,
        "activation_behind": [""] * (LAYERS + 1),
        "activation_normed": names["activation_behind"],
    }
    [after] = norms.judge(evidence(prejudiced, coordinates=behind))
    assert (after.status, after.value) == ("absent", 0.0)
    [none] = norms.judge(evidence(prejudiced))
    assert none.status == "unknown"


@pytest.mark.parametrize(("inits", "status"), [(19, "found"), (20, "absent")])
def test_few_initializations(evidence, inits, status):
    [found] = ensemble.judge(evidence(inits=inits))
    assert found.status == status


# all of them


def test_every_subject_is_told_whatever_was_measured(evidence):
    profile = evidence().profile
    bare = Profile({}, {"layer": profile.coordinates["layer"]}, profile.provenance)
    for given in (evidence(), type(evidence())(bare, thresholds())):
        for check in CHECKS:
            assert {item.id for item in check.judge(given)} == {subject.id for subject in check.subjects}


def test_every_threshold_is_used_and_every_finding_explains_itself(evidence):
    findings = [finding for check in CHECKS for finding in check.judge(evidence())]
    derivations = {item.derivation for item in findings if item.derivation}
    assert derivations == {threshold.derivation for threshold in thresholds().values()}
    assert len(every_subject()) == len(findings)
    for finding in findings:
        assert finding.title
        assert finding.because


def test_one_initialization_decides_nothing_that_varies_between_them(evidence):
    varying = [
        finding for check in CHECKS for finding in check.judge(evidence(inits=1)) if check.name != "ensemble"
    ]
    found = {item.id for item in varying if item.status == "found"}
    assert found == set()
