"""Diagnosis as a whole: deterministic, complete, archived as it is, with a prognosis that follows from the findings."""

from __future__ import annotations

import numpy as np
import pytest

import firstlight as fl
from firstlight.diagnosis.checks.every import every_subject
from firstlight.errors import UsageError

SPREAD = np.exp(0.02 * np.linspace(-1, 1, 40)[:, None])


def answers(diagnosis):
    return {item.id: item.answer for item in diagnosis.prognoses}


def test_every_subject_once_and_the_same_again(synthetic):
    first, second = fl.diagnose(synthetic()), fl.diagnose(synthetic())
    assert sorted(item.id for item in first) == sorted(every_subject())
    assert first.findings == second.findings
    assert first.passed


def test_it_is_archived_whole(synthetic, tmp_path):
    diagnosis = fl.diagnose(
        synthetic(), other_mode=synthetic(mode="eval"), policy={"fail_on": ["neutral-start"]}
    )
    again = fl.load(diagnosis.save(tmp_path / "diagnosis.nc"))
    for mine, read in zip(diagnosis.findings, again.findings, strict=True):
        assert repr(mine) == repr(read)
        assert mine.details == read.details
    assert [item.to_dict() for item in again.prognoses] == [
        item.to_dict() for item in diagnosis.prognoses
    ] or any(np.isnan(item.value) for item in diagnosis.prognoses)
    assert again.provenance.settings["policy"]["fail_on"] == ["neutral-start"]
    assert not again.passed


def test_a_higher_level_decides_less(synthetic):
    wide = np.exp(0.8 * np.random.default_rng(8).standard_normal((40, 1)))
    profile = synthetic({"center_variance": 1.7 * wide, "data_variance": 1.0})
    assert fl.diagnose(profile, level=0.9)["deep-prejudice"].status == "found"
    assert fl.diagnose(profile, level=0.999999)["deep-prejudice"].status == "undecided"
    assert fl.diagnose(profile, policy={"level": 0.999999})["deep-prejudice"].status == "undecided"


@pytest.mark.parametrize(
    ("gamma", "expected"),
    [
        (1e-3, ("neutral", "nothing to fade", "none expected", "yes")),
        (0.3, ("weak prejudice", "yes, early", "some classes start behind", "with care")),
        (9.0, ("deep prejudice", "yes, early", "most classes start near zero", "no")),
        (1.002, ("prejudiced", "yes, early", "some classes start behind", "with care")),
    ],
)
def test_what_follows_for_training(synthetic, gamma, expected):
    found = answers(fl.diagnose(synthetic({"center_variance": gamma * SPREAD, "data_variance": 1.0})))
    assert (
        tuple(found[name] for name in ("guessing", "bias-fades", "minority-delay", "early-validation"))
        == expected
    )


def test_a_bias_behind_norms_may_persist_and_one_without_gradients_is_slow(synthetic):
    prejudiced = {"center_variance": 0.5 * SPREAD, "data_variance": 1.0}
    normed = synthetic(prejudiced, coordinates={"kind": ["dense", "norm"] * 6 + ["dense"]})
    assert answers(fl.diagnose(normed))["bias-fades"] == "it may persist"
    depth = np.arange(13)
    for rate, phase, fades in ((1.0, "ordered", "slowly"), (-1.0, "chaotic", "cannot tell")):
        logs = rate * depth + 0.01 * np.random.default_rng(9).standard_normal((40, 13))
        found = fl.diagnose(synthetic({**prejudiced, "log_gradient_scale": logs}))
        assert (answers(found)["phase"], answers(found)["bias-fades"]) == (phase, fades)
        slope = next(item for item in found.prognoses if item.id == "phase")
        assert slope.low <= np.exp(-rate) <= slope.high


def test_signal_is_well_behaved_or_its_pathology_is_named(synthetic):
    assert answers(fl.diagnose(synthetic()))["signal"] == "well-behaved"
    assert answers(fl.diagnose(synthetic()))["phase"] == "critical"
    line = synthetic({"effective_rank": 1.01 + 1e-3 * SPREAD})
    assert answers(fl.diagnose(line))["signal"] == "one-dimensional"


def test_the_least_guessed_label_is_where_the_last_class_starts(synthetic):
    counts = np.tile([910, *[10] * 9], (40, 1))
    [delay] = [
        item for item in fl.diagnose(synthetic(counts=counts)).prognoses if item.id == "minority-delay"
    ]
    assert delay.value == pytest.approx(0.01)


def test_theory_alone_is_judged_without_intervals():
    blueprint = fl.Blueprint.mlp(inputs=100, depth=20, width=100, classes=2)
    diagnosis = fl.diagnose(fl.predict(blueprint))
    deep = diagnosis["deep-prejudice"]
    assert deep.found
    assert deep.value == deep.low == deep.high == pytest.approx(18.39, abs=0.01)
    assert deep.layer == "linear2"
    assert diagnosis["prejudice-grows-with-depth"].found
    assert diagnosis["exploding-gradients"].status == "absent"
    assert diagnosis["few-initializations"].status == "unknown"


def test_batch_norm_explodes_in_theory_from_the_depth_that_the_threshold_says():
    """1.2112^(L/2) > 4 from L = 14.5 on; the increments before the fixed point are a little smaller or larger."""
    for depth, status in ((8, "absent"), (30, "found")):
        blueprint = fl.Blueprint.mlp(inputs=100, depth=depth, width=100, norm="batch", placement="before")
        diagnosis = fl.diagnose(fl.predict(blueprint))
        assert diagnosis["exploding-sensitivity"].status == status
        assert diagnosis["exploding-gradients"].status == status


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"theory": 3}, r"diagnose\(theory\): expected a Profile, got int"),
        ({"level": 2.0}, r"diagnose\(level\): expected a number between 0 and 1, got 2.0"),
    ],
)
def test_mistakes_are_told(synthetic, options, text):
    with pytest.raises(UsageError, match=text):
        fl.diagnose(synthetic(), **options)
    with pytest.raises(UsageError, match=r"diagnose\(profile\): expected a Profile, got NoneType"):
        fl.diagnose(None)


@pytest.mark.parametrize(
    ("norms", "behind", "normed", "center", "missing"),
    [
        (None, "", "", 1.0, set()),  # never asked
        (0, "", "", 1.0, {"norm_after_activation"}),
        (1, "2", "", 1.0, set()),
        (1, "", "0", 1.0, {"norm_after_activation"}),
        (2, "", "0", 1.0, set()),  # nobody knows where the other one stands
        (1, "2", "", 0.0, {"data_centering"}),
        (0, "", "", 0.0, {"norm_after_activation", "data_centering"}),
    ],
)
def test_remedies_with_nothing_to_change_are_left_out(synthetic, norms, behind, normed, center, missing):
    profile = synthetic(
        {"center_variance": 9.0 * SPREAD},
        {"logit_center_variance": 9.0 * SPREAD[:, 0]},
        coordinates={
            "kind": ["norm" if norms else "dense", *["dense"] * 12],
            "activation_behind": [behind, *[""] * 12],
            "activation_normed": [normed, *[""] * 12],
        },
        scalars={
            **({} if norms is None else {"norms": norms}),
            "input_center_variance": center,
            "input_data_variance": 1.0,
        },
    )
    finding = fl.diagnose(profile)["deep-prejudice"]
    assert finding.found
    every = {"norm_after_activation", "activation_shift", "data_centering", "seed_choice"}
    assert set(finding.remedies) == every - missing


def test_remedies_of_what_theory_predicts():
    for norm, there in ((None, False), ("layer", True)):
        found = fl.diagnose(fl.predict(fl.Blueprint.mlp(depth=20, norm=norm)))["deep-prejudice"]
        assert found.found
        assert ("norm_after_activation" in found.remedies) == there
