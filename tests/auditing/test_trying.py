"""Remedies that an audit tries: ranked by what they did, over the same initializations, in every form of the report."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight import models
from firstlight.errors import UsageError
from firstlight.results.trial import Trial

DATA = (torch.randn(150, 30, generator=torch.Generator().manual_seed(0)), torch.arange(150) % 2)


def make():
    return models.mlp(30, depth=5, width=40, classes=2, norm="layer")


@pytest.fixture(scope="module")
def diagnosis():
    return fl.audit(make, DATA, inits=30, seed=4, theory=False, try_remedies=True, progress=False)


def test_what_the_findings_name_is_tried(diagnosis):
    named = {name for finding in diagnosis.found for name in finding.remedies}
    assert {trial.remedy for trial in diagnosis.trials} == named
    assert {"norm_after_activation", "activation_shift"} <= named


def test_the_best_stands_first_and_the_refused_last(diagnosis):
    values = [trial.gamma.value for trial in diagnosis.trials if trial.gamma is not None]
    assert values == sorted(values)
    kinds = [trial.gamma is None for trial in diagnosis.trials]
    assert kinds == sorted(kinds)
    refused = {trial.remedy: trial.refused for trial in diagnosis.trials if trial.gamma is None}
    assert refused["convert_norm"].startswith("there is nothing for it to change: it is a layer norm already")


def test_a_trial_is_what_repair_finds_over_these_initializations(diagnosis):
    [trial] = [item for item in diagnosis.trials if item.remedy == "norm_after_activation"]
    _, change = fl.repair(make, DATA, ["norm_after_activation"], inits=30, seed=4, progress=False)
    wanted = change.difference()
    for name in ("before", "before_stderr", "after", "after_stderr", "value", "stderr", "low", "high"):
        assert getattr(trial.gamma, name) == pytest.approx(getattr(wanted, name), rel=1e-4)
    assert trial.verdict == "helped"
    assert "norm-before-activation" in trial.gone
    assert (len(trial.differences), trial.edits) == (2, 5)


def test_trials_are_kept_and_told(diagnosis, tmp_path):
    loaded = fl.load(diagnosis.save(tmp_path / "diagnosis.nc"))
    assert [item.to_dict() for item in loaded.trials] == [item.to_dict() for item in diagnosis.trials]
    best = diagnosis.trials[0].remedy
    for form in ("report.html", "report.md", "report.txt"):
        fl.report(diagnosis, tmp_path / form)
        text = (tmp_path / form).read_text()
        assert "What the remedies did" in text
        assert best in text
    fl.report(diagnosis, tmp_path / "report.json")
    plain = json.loads((tmp_path / "report.json").read_text())
    found = json.dumps(plain)
    assert "greatest fraction" in found
    assert best in found


def test_remedies_may_be_named_and_nothing_is_no_list():
    chosen = fl.audit(
        make, DATA, inits=6, theory=False, try_remedies=["output_bias_to_prior"], progress=False
    )
    assert [trial.remedy for trial in chosen.trials] == ["output_bias_to_prior"]
    with pytest.raises(UsageError, match="did you mean 'seed_choice'"):
        fl.audit(make, DATA, inits=2, theory=False, try_remedies=["seed_choices"], progress=False)
    assert fl.audit(make, DATA, inits=2, theory=False, progress=False).trials == ()


def test_a_network_without_findings_has_nothing_to_try():
    quiet = fl.audit(
        nn.Linear(30, 2), DATA[0] - DATA[0].mean(0), inits=60, theory=False, try_remedies=True, progress=False
    )
    named = {name for finding in quiet.found for name in finding.remedies}
    assert {trial.remedy for trial in quiet.trials} == named
    assert bool(named) != any("no remedy was tried" in note for note in quiet.provenance.notes)


def test_a_refused_trial_says_so():
    trial = Trial("seed_choice", refused="none of 100 draws")
    assert trial.verdict == "refused"
    assert Trial.from_dict(trial.to_dict()) == trial


def test_a_profile_of_other_initializations_is_refused(diagnosis):
    with pytest.raises(UsageError, match=r"repair\(before\): .* inits=30 before and 8 after"):
        fl.repair(make, DATA, ["norm_after_activation"], before=diagnosis.profile, inits=8, seed=4)
