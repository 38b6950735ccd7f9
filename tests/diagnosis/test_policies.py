"""Policies change severities and thresholds and nothing else; a word that is not known gets its neighbours."""

from __future__ import annotations

import pytest

import firstlight as fl
from firstlight.diagnosis.checks.every import every_subject
from firstlight.diagnosis.policies import Policy, as_policy
from firstlight.diagnosis.thresholds import thresholds
from firstlight.errors import UsageError


def test_the_default_fails_broken_networks_only():
    policy = Policy()
    failing = {name for name in every_subject() if policy.severity(name) == "fail"}
    assert failing == {"non-finite-output", "constant-output"}


def test_words_set_severities():
    policy = Policy(
        fail_on=("deep-prejudice",), warn_on="modes-differ, weak-prejudice", ignore=("constant-output",)
    )
    expected = {
        "deep-prejudice": "fail",
        "modes-differ": "warn",
        "weak-prejudice": "warn",
        "constant-output": "info",
        "non-finite-output": "fail",
    }
    assert {name: policy.severity(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fail_on": ["deep-prejudise"]}, "fail_on: expected one of .*did you mean 'deep-prejudice'"),
        ({"thresholds": {"deep-gama": 2.0}}, "threshold: expected one of .*did you mean 'deep-gamma'"),
        ({"thresholds": {"deep-gamma": float("nan")}}, "expected a finite number, got nan"),
        (
            {"fail_on": ["dead-units"], "warn_on": ["dead-units"]},
            "dead-units stands in fail_on and in warn_on",
        ),
        ({"level": 95}, "level: expected a number between 0 and 1, got 95"),
    ],
)
def test_mistakes_are_told(options, text):
    with pytest.raises(UsageError, match=text):
        Policy(**options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.firstlight.audit]\nfail_on = ["deep-prejudice"]\nlevel = 0.9\n'),
        ("own.toml", '[audit]\nfail_on = ["deep-prejudice"]\nlevel = 0.9\n'),
        ("bare.toml", 'fail_on = ["deep-prejudice"]\nlevel = 0.9\n'),
    ],
)
def test_files_are_read(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert as_policy(path) == Policy(fail_on=("deep-prejudice",), level=0.9)
    assert Policy.from_dict(as_policy(str(path)).to_dict()) == as_policy(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pyproject.toml", "[project]\nname = 'x'\n", "no table \\[tool.firstlight.audit\\]"),
        ("own.toml", "fial_on = []\n", "did you mean 'fail_on'"),
        ("own.toml", "fail_on = [\n", "not TOML"),
    ],
)
def test_files_that_cannot_be_read_say_why(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        as_policy(path)
    with pytest.raises(UsageError, match="there is no such file"):
        as_policy(tmp_path / "nowhere.toml")


def test_what_is_no_policy_is_refused():
    with pytest.raises(UsageError, match=r"expected a Policy, a mapping .* got int"):
        as_policy(3)


def test_thresholds_are_replaced_and_say_so(evidence):
    profile = evidence({"center_variance": 2.0, "data_variance": 1.0}).profile
    assert fl.diagnose(profile)["deep-prejudice"].found
    relaxed = fl.diagnose(profile, policy={"thresholds": {"deep-gamma": 3.0}})
    finding = relaxed["deep-prejudice"]
    assert (finding.status, finding.threshold) == ("absent", 3.0)
    assert finding.derivation.startswith("set by the policy in place of 1 (")
    assert thresholds()["deep-gamma"].value == 1.0


def test_every_threshold_has_a_reason():
    for threshold in thresholds().values():
        assert len(threshold.derivation) > 40
