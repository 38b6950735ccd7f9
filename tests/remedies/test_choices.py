"""Seeds that are chosen and read-outs that know the prior, against the laws that theory gives them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm, truncnorm
from torch import nn

import firstlight as fl
from firstlight import models
from firstlight.errors import CouldNotError, DataError, ModelError, UsageError
from firstlight.remedies.output_bias import output_bias_to_prior
from firstlight.remedies.running import guess_fractions, setting_of
from firstlight.remedies.seed_choice import seed_choice

POINTS, WIDE = 400, 200
X = torch.randn(POINTS, WIDE, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0] * 240 + [1] * 100 + [2] * 60)


def make():
    return models.mlp(WIDE, depth=1, width=WIDE, classes=2)


BLUEPRINT = fl.Blueprint.mlp(inputs=WIDE, depth=1, width=WIDE, classes=2)


def guesses(model, data=X):
    return guess_fractions(model, setting_of(model, data, "train"), "train")


def draws_of(edits):
    [edit] = edits.made
    return int(edit.what.split(",")[1].split()[0])


# Seed choice


def test_the_number_of_draws_is_geometric(seed):
    """Its probability is that of dataset theory on these points."""
    torch.manual_seed(seed % 2**31)
    band, runs = 0.05, 120
    drawn = fl.predict(BLUEPRINT, data=X.numpy(), draws=20_000).guesses.fractions.values[:, 0]
    p = float((np.abs(drawn - 0.5) <= band + 1e-12).mean())
    counts = []
    for _ in range(runs):
        _, edits = seed_choice(make(), X, band=band)
        counts.append(draws_of(edits))
    assert abs(np.mean(counts) - 1 / p) < 4 * math.sqrt((1 - p) / p**2 / runs)


def test_gamma_afterwards_is_that_of_the_truncated_law():
    """Of two outputs the difference of the centres is cut off where |Φ(d/√2V) − ½| = band; their sum knows nothing."""
    band = 0.05
    before = fl.predict(BLUEPRINT, data=X.numpy(), draws=1)
    gamma = float(before.gamma[-1])
    reach = norm.ppf(0.5 + band) / math.sqrt(gamma)  # in units of √(2C)
    predicted = gamma / 2 * (1 + truncnorm(-reach, reach).var())
    _, change = fl.repair(make, X, ["seed_choice"], inits=150, band=band, progress=False)
    difference = change.difference()
    assert abs(difference.after - predicted) < 4 * difference.after_stderr
    assert abs(difference.before - gamma) < 4 * difference.before_stderr
    assert difference.verdict == change.difference("greatest fraction").verdict == "helped"
    assert float(change.after.guesses.max.max()) <= 0.5 + band
    assert "draws in all" in change.edits[0].what


def test_the_chosen_weights_are_a_draw_of_the_models_own_law(seed):
    torch.manual_seed(seed % 2**31)
    model = make()
    chosen, edits = seed_choice(model, X, band=0.02)
    assert float((guesses(chosen) - 0.5).abs().max()) <= 0.02
    count = draws_of(edits)
    torch.manual_seed(seed % 2**31)
    fresh = make()
    for _ in range(count - 1):
        for item in fresh.modules():
            if hasattr(item, "reset_parameters"):
                item.reset_parameters()
    for key, value in fresh.state_dict().items():
        assert torch.equal(value, chosen.state_dict()[key])


def test_weights_that_fit_are_kept(seed):
    torch.manual_seed(seed % 2**31)
    chosen, _ = seed_choice(make(), X, band=0.1)
    again, edits = seed_choice(chosen, X, band=0.1)
    assert draws_of(edits) == 1
    assert "as they are" in edits.made[0].what
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in chosen.state_dict().items())


def test_shares_may_be_those_of_the_labels(seed):
    torch.manual_seed(seed % 2**31)
    model = models.mlp(WIDE, depth=1, width=WIDE, classes=3)
    chosen, _ = seed_choice(model, (X, Y), shares="prior", band=0.1)
    assert float((guesses(chosen) - torch.tensor([0.6, 0.25, 0.15])).abs().max()) <= 0.1
    chosen, _ = seed_choice(model, X, shares=[0.2, 0.2, 0.6], band=0.1)
    assert float((guesses(chosen) - torch.tensor([0.2, 0.2, 0.6])).abs().max()) <= 0.1


def test_it_gives_up_and_tells_the_best():
    model = nn.Sequential(nn.Linear(WIDE, 2))
    with pytest.raises(
        CouldNotError,
        match=r"none of 5 draws guesses within 1e-06 of \(0.9, 0.1\); the best was draw \d, off by 0\.",
    ):
        seed_choice(model, X[:50], shares=[0.9, 0.1], band=1e-6, draws=5)
    with pytest.raises(UsageError, match=r"seed_choice\(band\): expected a number between 0 and 1, got 2"):
        seed_choice(model, X, band=2)
    with pytest.raises(UsageError, match="expected 'even', 'prior' or one number a label, got 'odd'"):
        seed_choice(model, X, shares="odd")
    with pytest.raises(DataError, match="expected a whole-number target for each sample, got none"):
        seed_choice(model, X, shares="prior")
    with pytest.raises(ModelError, match="leave nothing to choose"):
        fl.repair(model, X, ["seed_choice"], inits=1, redraw="keep", band=1e-9, progress=False)


def test_a_factory_draws_by_its_own_law():
    """A factory's law may be none that a module knows: here every weight is positive."""

    def positive():
        model = nn.Sequential(nn.Linear(WIDE, 20), nn.Tanh(), nn.Linear(20, 2))
        with torch.no_grad():
            for item in model.parameters():
                item.abs_()
        return model

    factory, _ = fl.repair(
        positive, X, ["norm_after_activation", "seed_choice"][1:], inits=2, band=0.1, progress=False
    )
    torch.manual_seed(1)
    chosen = factory()
    assert all(bool((item >= 0).all()) for item in chosen.parameters())
    assert float((guesses(chosen) - 0.5).abs().max()) <= 0.1


def test_the_samples_that_are_measured_are_those_that_are_looked_at():
    _, change = fl.repair(
        make, X, ["seed_choice"], inits=12, seed=3, max_samples=60, band=0.05, progress=False
    )
    assert change.after.guesses.samples == 60
    assert float(change.after.guesses.max.max()) <= 0.55


# The read-out's bias


def test_the_loss_at_birth_is_the_entropy_of_the_labels():
    model = models.mlp(WIDE, depth=1, width=WIDE, classes=3)
    with torch.no_grad():
        model.output.weight.zero_()  # logits that say nothing yet
    after, edits = output_bias_to_prior(model, (X, Y))
    p = np.array([0.6, 0.25, 0.15])
    assert nn.functional.cross_entropy(after(X), Y).item() == pytest.approx(-(p * np.log(p)).sum(), abs=1e-6)
    assert [edit.address for edit in edits] == ["output.bias"]
    assert edits.made[0].after == "(-0.511, -1.39, -1.9)"


def test_gamma_is_what_theory_makes_of_that_bias():
    """The read-out has σ_b² = ⟨(log p)²⟩ now."""
    blueprint = fl.Blueprint.mlp(inputs=WIDE, depth=1, width=WIDE, classes=3)
    factory, change = fl.repair(blueprint, (X, Y), ["output_bias_to_prior"], inits=80, progress=False)
    read = fl.Blueprint.read(factory(seed=0))
    assert read.layers[-1].bias_variance == pytest.approx(np.mean(np.log([0.6, 0.25, 0.15]) ** 2), rel=1e-6)
    plain = float(fl.predict(blueprint, data=X.numpy(), draws=1).gamma[-1])
    spread = float(fl.predict(blueprint, data=X.numpy(), draws=1).data_variance[-1])
    predicted = plain + read.layers[-1].bias_variance / spread
    difference = change.difference()
    assert abs(difference.after - predicted) < 4 * difference.after_stderr
    assert abs(difference.before - plain) < 4 * difference.before_stderr


class Headed(nn.Module):
    """A body, and a head behind which comes what ``end`` does."""

    def __init__(self, end, bias=True):
        super().__init__()
        self.body, self.head, self.end = nn.Linear(6, 5), nn.Linear(5, 3, bias=bias), end

    def forward(self, x):
        return self.end(self.head(torch.relu(self.body(x))))


SMALL = (torch.randn(12, 6, generator=torch.Generator().manual_seed(1)), torch.arange(12) % 3)


@pytest.mark.parametrize("end", [nn.Identity(), nn.LogSoftmax(-1), nn.Dropout(0.1), nn.Flatten()])
def test_the_head_is_found(end):
    _, edits = output_bias_to_prior(Headed(end), SMALL)
    assert [edit.address for edit in edits] == ["head.bias"]


def test_heads_of_other_networks():
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[8], depths=[1], num_labels=3)
    pictures = (torch.randn(6, 3, 32, 32), torch.arange(6) % 3)
    model = transformers.ResNetForImageClassification(config)
    assert [edit.address for edit in output_bias_to_prior(model, pictures)[1]] == ["classifier.1.bias"]
    _, edits = output_bias_to_prior(models.resnet9(width=2), pictures, added=1)
    assert [edit.address.rpartition(".")[2] for edit in edits] == ["bias"]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.head = nn.Linear(6, 6), nn.Linear(6, 6)
        self.head.bias = self.one.bias

    def forward(self, x):
        return self.head(torch.relu(self.one(x)))


REFUSED = {
    "no bias": (lambda: Headed(nn.Identity(), bias=False), r"head \(Linear\) has no bias to set"),
    "activation": (lambda: Headed(nn.ReLU()), r"cannot find the read-out: the output comes from end \(activation\)"),
    "norm": (lambda: Headed(nn.LayerNorm(3)), r"the output comes from end \(norm\)"),
    "tied": (Tied, r"the bias of head \(Linear\) is shared with one"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_head_is_refused(name):
    make_model, reason = REFUSED[name]
    with pytest.raises(ModelError, match=reason):
        output_bias_to_prior(make_model(), SMALL)


def test_labels_without_a_share():
    model = nn.Sequential(nn.Linear(6, 5))
    with pytest.raises(DataError, match=r"2 of 5 labels have no share \(3, 4\).*pass added=1"):
        output_bias_to_prior(model, SMALL)
    after, _ = output_bias_to_prior(model, SMALL, added=1)
    torch.testing.assert_close(after[0].bias.exp(), torch.tensor([5.0, 5.0, 5.0, 1.0, 1.0]) / 17)
    with pytest.raises(DataError, match="expected targets from 0 to 1"):
        output_bias_to_prior(nn.Sequential(nn.Linear(6, 2)), SMALL)
    with pytest.raises(UsageError, match=r"expected 5 numbers, one a label, that sum to 1"):
        output_bias_to_prior(model, SMALL, prior=[1.0])
    with pytest.raises(UsageError, match="has no module 'tail'"):
        output_bias_to_prior(model, SMALL, head="tail")
