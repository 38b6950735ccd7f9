"""``measure`` against brute force, and what its numbers may and may not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import firstlight as fl
from firstlight.measurement import ensembles

QUANTITIES = ("center_variance", "data_variance", "gamma", "mean_square", "kurtosis", "mean_absolute")


def inputs(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def perceptron(norm=None):
    layers = [nn.Linear(12, 20)]
    if norm is not None:
        layers.append(norm(20))
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(20, 3))


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.norm = nn.BatchNorm2d(5)
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def same(first, second, rtol=0.0):
    assert first.layers == second.layers
    assert first.variables.keys() == second.variables.keys()
    for name, item in first.variables.items():
        if rtol and name.startswith("log_"):
            continue  # the logarithm of a centre that is 0 up to rounding is rounding
        np.testing.assert_allclose(
            second.variables[name].values, item.values, rtol=rtol, atol=1e-12 if rtol else 0, err_msg=name
        )
    assert (first.guesses.counts == second.guesses.counts).all()


def test_agrees_with_brute_force():
    """Weights of initialization i, drawn by hand from child i of the seed, give the same numbers in plain numpy."""
    x, inits = inputs(50, 12), 4
    profile = fl.measure(perceptron, x, inits=inits, seed=7)
    children = np.random.SeedSequence(7).spawn(inits)
    centers, variances, counts = [], [], []
    for child in children:
        torch.manual_seed(int(child.generate_state(1, np.uint64)[0]) >> 1)
        model = perceptron()
        with torch.no_grad():
            hidden = model[0](x).double().numpy()
            output = model(x).double().numpy()
        centers.append([(layer.mean(0) ** 2).mean() for layer in (hidden, output)])
        variances.append([layer.var(0).mean() for layer in (hidden, output)])
        counts.append(np.bincount(output.argmax(1), minlength=3))
    centers, variances = np.array(centers), np.array(variances)
    assert profile.layers == ["0", "2"]
    np.testing.assert_allclose(profile.center_variance, centers.mean(0), rtol=1e-5)
    np.testing.assert_allclose(profile.data_variance, variances.mean(0), rtol=1e-5)
    np.testing.assert_allclose(profile.gamma, centers.mean(0) / variances.mean(0), rtol=1e-5)
    np.testing.assert_allclose(profile["gamma_median"], np.median(centers / variances, axis=0), rtol=1e-5)
    np.testing.assert_allclose(profile["gamma_init"], centers / variances, rtol=1e-5)
    np.testing.assert_allclose(profile["mean_std_ratio_init"], np.sqrt(centers / variances), rtol=1e-5)
    np.testing.assert_allclose(profile["mean_std_ratio"], np.sqrt(centers / variances).mean(0), rtol=1e-5)
    assert (profile.guesses.counts == np.array(counts)).all()


def test_positions_count_as_samples():
    x = inputs(6, 3, 9, 9)
    model = Convolutional()
    profile = fl.measure(model, x, inits=1, redraw="keep", mode="eval")
    with torch.no_grad():
        values = model.conv(x).double().permute(0, 2, 3, 1).reshape(-1, 5).numpy()
    assert float(profile.center_variance[0]) == pytest.approx((values.mean(0) ** 2).mean(), rel=1e-5)
    assert float(profile.data_variance[0]) == pytest.approx(values.var(0).mean(), rel=1e-5)


@pytest.mark.parametrize("factory", [perceptron, Convolutional])
def test_run_twice_is_exactly_the_same(factory):
    x = inputs(20, 12) if factory is perceptron else inputs(20, 3, 9, 9)
    torch.manual_seed(1)
    first = fl.measure(factory, x, inits=3, quantities="all")
    torch.manual_seed(2)
    same(first, fl.measure(factory, x, inits=3, quantities="all"))


@pytest.mark.parametrize("batch_size", [1, 7, 40])
def test_batching_changes_rounding_only(batch_size):
    """In float64, so that rounding is far below what a dependence on the batches would do."""
    x = inputs(40, 12)

    def factory():
        return perceptron(nn.LayerNorm).double()

    whole = fl.measure(factory, x, inits=2, quantities="all", batch_size=40)
    parts = fl.measure(factory, x, inits=2, quantities="all", batch_size=batch_size)
    same(whole, parts, rtol=1e-8)


def test_fewer_initializations_are_the_first_of_more():
    x = inputs(30, 12)
    few, more = (fl.measure(lambda: perceptron().double(), x, inits=inits) for inits in (2, 5))
    np.testing.assert_allclose(more["gamma_init"].values[:2], few["gamma_init"].values, rtol=1e-10)


@pytest.mark.parametrize("norm", [None, nn.LayerNorm, nn.BatchNorm1d])
@pytest.mark.parametrize("batch_size", [10, 40])
def test_members_together_are_members_alone(norm, batch_size, monkeypatch):
    x = inputs(40, 12)

    def factory():
        return perceptron(norm).double()

    used = []
    chosen = ensembles.members_at_once
    monkeypatch.setattr(
        ensembles, "members_at_once", lambda setting: used.append(chosen(setting)) or used[-1]
    )
    together = fl.measure(factory, x, inits=5, batch_size=batch_size)
    assert used == [32]
    monkeypatch.setattr(ensembles, "members_at_once", lambda setting: 1)
    same(fl.measure(factory, x, inits=5, batch_size=batch_size), together, rtol=1e-10)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.last = nn.GRUCell(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.last(self.cell(x))


def test_what_has_no_rule_for_members_together_runs_alone(monkeypatch):
    """Torch would only warn; warnings are errors here."""
    found = fl.measure(Recurrent, inputs(20, 6), inits=5)
    monkeypatch.setattr(ensembles, "members_at_once", lambda setting: 1)
    same(fl.measure(Recurrent, inputs(20, 6), inits=5), found)


class Restless(nn.Module):
    """Draws noise on its way, whatever its mode."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x + torch.randn_like(x))))


@pytest.mark.parametrize("quantities", ["standard", "all"])
def test_what_a_model_draws_on_its_way_follows_from_the_seed(quantities):
    found = []
    for number in (1, 2):
        torch.manual_seed(number)
        found.append(fl.measure(Restless, inputs(30, 12), inits=3, quantities=quantities))
    same(*found)
    assert len(set(found[0]["gamma_init"].values[:, 0])) == 3


def test_weights_that_wait_for_the_first_batch_follow_from_the_seed():
    def factory():
        return nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(3))

    found = []
    for number in (1, 2):
        torch.manual_seed(number)
        found.append(fl.measure(factory, inputs(30, 12), inits=3))
    same(*found)
    assert len(set(found[0]["gamma_init"].values[:, 0])) == 3


class HoldsDraws(nn.Module):
    """What it draws at construction and does not register."""

    def __init__(self, held):
        super().__init__()
        self.held = held()
        self.body, self.head = nn.Linear(12, 20), nn.Linear(20, 3)

    def forward(self, x):
        held = self.held["gain"] if isinstance(self.held, dict) else self.held
        return self.head(torch.relu(self.body(x * torch.as_tensor(held, dtype=x.dtype))))


@pytest.mark.parametrize(
    "held",
    [
        lambda: torch.randn(12),
        lambda: float(torch.rand(())),
        lambda: {"gain": torch.rand(()).numpy()},
    ],
)
def test_members_that_differ_in_more_than_parameters_run_alone(held, monkeypatch):
    x = inputs(20, 12)
    found = fl.measure(lambda: HoldsDraws(held), x, inits=3)
    monkeypatch.setattr(ensembles, "members_at_once", lambda setting: 1)
    same(fl.measure(lambda: HoldsDraws(held), x, inits=3), found)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_batch_norm_without_running_statistics_sees_batches_of_a_stated_size(mode):
    net = nn.Sequential(nn.Linear(12, 20), nn.BatchNorm1d(20, track_running_stats=False), nn.Linear(20, 3))
    profile = fl.measure(net, inputs(50, 12), inits=1, mode=mode)
    assert "batch norm saw all 50 samples as one batch" in profile.provenance.notes


def test_convolutional_members_together(monkeypatch):
    x = inputs(12, 3, 9, 9)
    together = fl.measure(lambda: Convolutional().double(), x, inits=3)
    monkeypatch.setattr(ensembles, "members_at_once", lambda setting: 1)
    same(fl.measure(lambda: Convolutional().double(), x, inits=3), together, rtol=1e-9)


def test_global_generators_do_not_matter_with_mini_batches_of_batch_norm():
    x = inputs(41, 12)
    torch.manual_seed(3)
    first = fl.measure(lambda: perceptron(nn.BatchNorm1d), x, inits=2, batch_size=8, max_samples=40)
    np.random.default_rng(0)
    torch.manual_seed(4)
    same(first, fl.measure(lambda: perceptron(nn.BatchNorm1d), x, inits=2, batch_size=8, max_samples=40))
    other = fl.measure(lambda: perceptron(nn.BatchNorm1d), x, inits=2, batch_size=8, max_samples=40, seed=1)
    assert (other["gamma_init"].values != first["gamma_init"].values).all()


def test_train_and_eval_mode_are_two_networks():
    x = 5 * inputs(64, 12) + 3
    train, evaluation = (
        fl.measure(lambda: perceptron(nn.BatchNorm1d), x, inits=3, mode=mode) for mode in ("train", "eval")
    )
    norm = train.layers.index("1")
    assert float(train.data_variance[norm]) == pytest.approx(1, abs=1e-3)
    assert float(evaluation.data_variance[norm]) > 2
    assert (train.provenance.mode, evaluation.provenance.mode) == ("train", "eval")


def test_dropout_is_off_in_both_modes():
    x = inputs(30, 12)
    plain = fl.measure(perceptron, x, inits=2)
    dropping = fl.measure(
        lambda: nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Dropout(0.5), nn.Linear(20, 3)), x, inits=2
    )
    assert (plain.gamma.values == dropping.gamma.values).all()
    assert dropping.provenance.settings["dropout"] == "off"


def test_precision_stops_when_gamma_is_known():
    x = inputs(200, 12)
    loose = fl.measure(perceptron, x, inits=1000, precision=0.5, quantities="gamma", layers="output")
    used = loose.provenance.settings["inits"]
    assert used < 1000
    assert used % 8 == 0
    assert 1.96 * float(loose["gamma_stderr"][-1]) <= 0.5 * float(loose.gamma[-1])
    assert any("known within ±50%" in note for note in loose.provenance.notes)
    short = fl.measure(perceptron, x, inits=9, precision=0.001, quantities="gamma")
    assert any("not known within" in note for note in short.provenance.notes)


def test_interruption_keeps_what_is_complete(monkeypatch):
    complete = ensembles.observe

    def interrupted(module, setting, index):
        if index == 3:
            raise KeyboardInterrupt
        return complete(module, setting, index)

    monkeypatch.setattr(ensembles, "observe", interrupted)
    monkeypatch.setattr(ensembles, "members_at_once", lambda setting: 1)
    profile = fl.measure(perceptron, inputs(20, 12), inits=10)
    assert profile["gamma_init"].shape == (3, 2)
    assert profile.provenance.settings["inits"] == 3
    assert "interrupted: 3 of 10 initializations are complete" in profile.provenance.notes


def test_interruption_before_the_first_is_passed_on(monkeypatch):
    def interrupted(module, setting, index):
        raise KeyboardInterrupt

    monkeypatch.setattr(ensembles, "observe", interrupted)
    monkeypatch.setattr(ensembles, "members_at_once", lambda setting: 1)
    with pytest.raises(KeyboardInterrupt):
        fl.measure(perceptron, inputs(20, 12), inits=10)


def test_standard_errors_are_over_initializations():
    profile = fl.measure(perceptron, inputs(30, 12), inits=30)
    for name in ("center_variance", "kurtosis"):
        values = profile[f"{name}_init"].values
        np.testing.assert_allclose(profile[f"{name}_stderr"], values.std(0, ddof=1) / np.sqrt(30))
    alone = fl.measure(perceptron, inputs(30, 12), inits=1)
    assert np.isnan(alone["gamma_stderr"]).all()


def test_only_the_output_and_only_guesses():
    profile = fl.measure(perceptron, inputs(20, 12), inits=2, quantities="guesses")
    assert profile.layers == ["2"]
    assert set(profile.variables) == set()
    assert profile.guesses.counts.sum(1).tolist() == [20, 20]
    chosen = fl.measure(perceptron, inputs(20, 12), inits=2, layers="output")
    assert chosen.layers == ["2"]


def test_a_blueprint_is_measured_under_the_names_of_its_prediction():
    blueprint = fl.Blueprint.mlp(inputs=30, depth=2, width=50, norm="layer", placement="before")
    profile = fl.measure(blueprint, inputs(100, 30), inits=3)
    assert set(fl.predict(blueprint).layers) <= set(profile.layers)
    assert profile.layers[-1] == "output"
    assert profile.provenance.settings["redraw"] == "Blueprint"


def test_gamma_of_wide_networks_is_population_theory():
    blueprint = fl.Blueprint.mlp(inputs=400, depth=2, width=400)
    profile = fl.measure(blueprint, inputs(2000, 400), inits=30, quantities="gamma")
    theory = fl.predict(blueprint)
    for layer in theory.layers[1:]:
        got, error = (float(profile[name].sel(layer=layer)) for name in ("gamma", "gamma_stderr"))
        expected = float(theory.gamma.sel(layer=layer))
        # Over 2,000 samples γ is larger by (1 + γ)/2000; width 400 leaves relative corrections of order 5/400.
        allowed = 4 * error + (1 + expected) / 2000 + expected * 2 * 5 / 800
        assert got == pytest.approx(expected, abs=allowed)


def test_progress_goes_to_a_terminal_only(capsys):
    fl.measure(perceptron, inputs(20, 12), inits=2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_ranks_of_wide_layers_keep_fewer_rows_where_their_products_would_cost_more_than_the_network(seed):
    """1,100 units: one multiplication a pixel and unit in the network, and one for each pair of rows in the rank."""
    x = torch.randn(64, 1, 16, 16, generator=torch.Generator().manual_seed(seed))
    wide = nn.Sequential(
        nn.Conv2d(1, 1100, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1100, 2)
    )
    profile = fl.measure(wide, x, inits=1, quantities=["effective_rank"], layers=["0"])
    assert any("over at most 256 rows" in note for note in profile.provenance.notes)
    few = fl.measure(wide, x[:, :, :2, :2], inits=1, quantities=["effective_rank"], layers=["0"])
    assert not any("evenly spaced" in note for note in few.provenance.notes)
    # one input channel: every unit is a line through the same pixels
    assert float(profile.effective_rank[0]) == pytest.approx(1, abs=1e-3)
